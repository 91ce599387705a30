"""`train`, `models` and `evaluate`: a challenger is fitted, measured against the champion, and may replace it."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, Service, collection_path, connect
from service.cli.failures import PARTLY, USAGE, Failure, Refused
from service.cli.feedback import open_judgments
from service.cli.following import follow
from service.cli.options import CollectionOption, DataOption, JsonOption, QueriesOption, UrlOption, comma_separated
from service.cli.readers import Fault

models = typer.Typer(help="Trained attention heads: immutable, numbered, one of them champion.", no_args_is_help=True)


class Promote(StrEnum):
    """Whether the gate may move the champion."""

    AUTO = "auto"
    NEVER = "never"


class ClickReading(StrEnum):
    """How clicks are read."""

    AUTO = "auto"
    GRADED = "graded"
    DEBIASED = "debiased"
    NAIVE = "naive"


def train(
    seed: Annotated[int, typer.Option(min=0, help="Same feedback, same seed, same model.")] = 0,
    promote: Annotated[Promote, typer.Option(help="Whether the gate may make the new model champion.")] = Promote.AUTO,
    budget: Annotated[
        int, typer.Option(min=1, max=3600, metavar="SECONDS", help="What trials may cost; more are made with more.")
    ] = 45,
    click_reading: Annotated[
        ClickReading, typer.Option(help="How clicks are read; auto tries all and validation chooses.")
    ] = ClickReading.AUTO,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the run has ended.")] = True,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Fit a model to the feedback, measure it on queries held out, and make it champion where the gate allows."""
    if not wait and url is None:
        raise Failure(USAGE, "--no-wait needs --url: without a server the run would end with this command")
    with connect(data, url) as service:
        runs = collection_path(collection, "training-runs")
        asked = {"seed": seed, "promote": promote, "budget_seconds": budget, "click_reading": click_reading}
        run = started(service, runs, asked)
        if wait:
            run = followed(service, f"{runs}/{run['id']}")
    if json_out:
        show.data(run)
    elif wait:
        show_run(run)
    else:
        show.line(f"training run {run['id']}")


def started(service: Service, runs: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run that was started; in a directory opened here, the one that a killed command left goes on first."""
    while True:
        try:
            run: dict[str, Any] = service.call("POST", runs, body)
            return run
        except Refused as refused:
            if not service.local or refused.code != "training_already_running":
                raise
        for run in service.call("GET", runs)["training_runs"]:
            if run["status"] == "processing":
                show.notice(f"a run of before was interrupted and goes on: {run['id']} ({asked_of(run)})")
                return run


def asked_of(run: Mapping[str, Any]) -> str:
    """Return what a training run was asked for."""
    asked = f"seed {run['seed']}, promote {run['promote']}, budget {run['budget_seconds']} s"
    return f"{asked}, click reading {run['click_reading']}"


def followed(service: Service, path: str) -> dict[str, Any]:
    """Return a run that has ended. Ctrl-C cancels it where the service is this process: nobody else is waiting."""
    try:
        return follow(service, path, "training")
    except KeyboardInterrupt:
        if service.local:
            service.call("POST", f"{path}/cancel")
        raise


def show_run(run: Mapping[str, Any]) -> None:
    """Write what a training run came to."""
    decision, report = run.get("decision") or {}, run.get("report") or {}
    for told in show.recipe(report):
        show.line(told)
    show_held_out(report, "champion", "challenger")
    show_decision(decision)
    verdict = "is the new champion" if decision.get("promoted") else "is not the champion"
    show.line(f"model {run.get('model_version')} {verdict}")


def show_held_out(report: Mapping[str, Any], a: str, b: str) -> None:
    """Write the comparisons that a fit's report has, measured on queries held out."""
    if held_out := report.get("held_out"):
        show.comparisons([{"measure": name} | one for name, one in held_out.items()], a, b)


def show_decision(decision: Mapping[str, Any]) -> None:
    """Write what the gate found, with every reason."""
    checks = decision.get("checks") or []
    for check in checks:
        show.line(f"{'passed' if check['passed'] else 'failed'}: {check['reason']}")
    told = [check["reason"] for check in checks]
    for reason in decision.get("reasons") or []:
        if reason not in told:
            show.line(reason)


@models.command("list")
def list_models(
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """List the models of a collection."""
    with connect(data, url) as service:
        answer = service.call("GET", collection_path(collection, "models"))
    if json_out:
        show.data(answer)
        return
    aliases = answer["aliases"]
    rows = [
        (
            one["version"],
            ", ".join(name for name, version in aliases.items() if version == one["version"]),
            (one.get("lineage") or {}).get("kind"),
            held_out(one, "nDCG@10"),
            one["created_at"],
        )
        for one in answer["models"]
    ]
    show.table(("version", "aliases", "kind", "held-out nDCG@10", "created"), rows)


def held_out(model: Mapping[str, Any], measure: str) -> str | None:
    """Return what a model reached on held-out queries, and its difference to the champion of then."""
    one = ((model.get("report") or {}).get("held_out") or {}).get(measure)
    return f"{one['b']:.4f} ({one['difference']:+.4f})" if one else None


@models.command("show")
def show_model(
    version: Annotated[int, typer.Argument(min=0, help="Which model; 0 is the untrained one.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Show a model: where it came from, what it reached, and what the gate said."""
    with connect(data, url) as service:
        model = service.call("GET", collection_path(collection, "models", str(version)))
    if json_out:
        show.data(model)
        return
    show.line(f"model {model['version']}  {', '.join(model['aliases'])}  {model['created_at']}")
    report = model.get("report") or {}
    show.table(("fact", "value"), ((model.get("lineage") or {}) | scalars(report)).items())
    for told in show.recipe(report):
        show.line(told)
    show_held_out(report, "champion", "challenger")
    show_decision(model.get("decision") or {})


@models.command("compare")
def compare_models(
    a: Annotated[int, typer.Argument(min=0, help="One model.")],
    b: Annotated[int, typer.Argument(min=0, help="The other.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Show two models side by side, each as it was reported; `evaluate --models` measures both on the same queries."""
    with connect(data, url) as service:
        answer = service.call("GET", collection_path(collection, "models", "compare"), params={"a": a, "b": b})
    if json_out:
        show.data(answer)
        return
    sides = [side_by_side(answer[name]) for name in ("a", "b")]
    names = [*sides[0], *(name for name in sides[1] if name not in sides[0])]
    show.table(("fact", f"model {a}", f"model {b}"), [(name, *(side.get(name) for side in sides)) for name in names])


def side_by_side(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a model that are worth comparing."""
    report, lineage = model.get("report") or {}, model.get("lineage") or {}
    facts = {name: lineage.get(name) for name in ("kind", "parent", "seed")} | {"created": model["created_at"]}
    facts |= {f"held-out {name}": one["b"] for name, one in (report.get("held_out") or {}).items()}
    return facts | scalars(report)


def scalars(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scalars of a reported head, a name for each: the weight of every part of the evidence by itself."""
    found: dict[str, Any] = {}
    for name, value in (report.get("head") or {}).items():
        found |= {f"{name} {part}": one for part, one in value.items()} if isinstance(value, dict) else {name: value}
    return found


@models.command("promote")
def promote_model(
    version: Annotated[int, typer.Argument(min=0, help="The model that is to serve.")],
    reason: Annotated[str | None, typer.Option(help="Why; kept with the change.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Even where the gate says no.")] = False,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Make a model champion."""
    body = {"version": version, "force": force} | ({"reason": reason} if reason is not None else {})
    with connect(data, url) as service:
        answer = service.call("PUT", collection_path(collection, "models", "aliases", "champion"), body)
    show_champion(answer, json_out)


@models.command("rollback")
def roll_back(
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Make the champion before this one champion again."""
    with connect(data, url) as service:
        answer = service.call("POST", collection_path(collection, "models", "aliases", "champion", "rollback"))
    show_champion(answer, json_out)


def show_champion(answer: Mapping[str, Any], json_out: bool) -> None:
    """Write which model serves now."""
    if json_out:
        show.data(answer)
    else:
        show.line(f"champion: model {answer['version']}")


def evaluate(
    versions: Annotated[str | None, typer.Option("--models", help="Versions to compare: 1,2.")] = None,
    measures: Annotated[str | None, typer.Option(help="Measures: nDCG@10,R@100.")] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(help="Judgments to measure by, instead of the stored ones.", exists=True, dir_okay=False),
    ] = None,
    queries: QueriesOption = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Measure models on judgments, each against the one named before it."""
    given = {"models": version_numbers(versions), "measures": comma_separated(measures)}
    body: dict[str, Any] = {name: value for name, value in given.items() if value}
    faults: list[dict[str, Any]] = []
    if qrels is not None:
        body["qrels"], faults = read_qrels(qrels, queries)
    with connect(data, url) as service:
        task = service.call("POST", collection_path(collection, "evaluations"), body)
        result = follow(service, f"/v1/tasks/{task['id']}", "evaluating")["result"]
    if json_out:
        show.data(result)
    else:
        show_evaluation(result)
    show.faults("line", faults, len(faults))
    if faults:
        raise typer.Exit(PARTLY)


def version_numbers(versions: str | None) -> list[int]:
    """Return the versions of `1,2`; none for None. Raises Failure USAGE."""
    parts = comma_separated(versions)
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise Failure(USAGE, "--models: version numbers such as 1,2 are wanted")
    return [int(part) for part in parts]


def read_qrels(path: Path, queries: Path | None) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return query text -> document -> grade, and the places of the file that hold no judgment."""
    qrels: dict[str, dict[str, Any]] = {}
    faults = []
    found, unit = open_judgments(path, None, queries)
    for one in found:
        if isinstance(one, Fault):
            faults.append({unit: one.place, "code": one.code, "detail": one.detail})
        else:
            query, document, grade = (one.value.get(name) for name in ("query", "document_id", "rating"))
            qrels.setdefault(str(query), {})[str(document)] = grade
    return qrels, faults


def show_evaluation(result: Mapping[str, Any]) -> None:
    """Write the measures of each model, then the paired comparisons."""
    show.line(f"{result['queries']} queries: {result['judgments']}")
    rows = [
        (model["version"], name, one["mean"], f"[{one['low']:.4f}, {one['high']:.4f}]")
        for model in result["models"]
        for name, one in model["measures"].items()
    ]
    show.table(("model", "measure", "mean", "95% interval"), rows)
    pairs = {tuple(one["models"]) for one in result["comparisons"]}
    for a, b in sorted(pairs):
        paired = [one for one in result["comparisons"] if one["models"] == [a, b]]
        show.comparisons(paired, f"model {a}", f"model {b}")
