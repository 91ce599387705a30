"""`train` fits a challenger, measures it against the champion, and promotes it if it passes the gate.
`training-runs` lists the runs and tells what is missing for the next run by schedule.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli import drawing, heatmaps, reports, show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect, server_address, settings_from
from service.cli.drawing import HeatmapOption
from service.cli.failures import ERROR, USAGE, Failure, Refused
from service.cli.following import follow
from service.cli.options import CollectionOption, DataOption, JsonOption, UrlOption

if TYPE_CHECKING:
    from service.cli.client import Service


class Promote(StrEnum):
    """Whether the gate may promote the model."""

    AUTO = "auto"
    NEVER = "never"


class Objective(StrEnum):
    """What a run maximises."""

    LISTWISE = "listwise"
    REINFORCE = "reinforce"


class ClickInterpretation(StrEnum):
    """Interpretations of clicks as training examples."""

    AUTO = "auto"
    GRADED = "graded"
    DEBIASED = "debiased"
    NAIVE = "naive"


def train(
    seed: Annotated[int, typer.Option(min=0, help="Random seed. The same feedback and seed give the same model.")] = 0,
    promote: Annotated[
        Promote, typer.Option(help="auto: promote the model if it passes the gate. never: report only.")
    ] = Promote.AUTO,
    budget: Annotated[
        int,
        typer.Option(
            min=1, max=3600, metavar="SECONDS", help="Cost budget of the trials in nominal seconds; not a time limit."
        ),
    ] = 45,
    click_reading: Annotated[
        ClickInterpretation,
        typer.Option(help="Interpretation of clicks. auto: the mean of a graded and a debiased head."),
    ] = ClickInterpretation.AUTO,
    from_documents: Annotated[
        bool,
        typer.Option("--from-documents", help="Make initial weights from the documents alone, without feedback."),
    ] = False,
    objective: Annotated[
        Objective,
        typer.Option(help="listwise: learn from all feedback. reinforce: learn from the lists of explored searches."),
    ] = Objective.LISTWISE,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the run has ended.")] = True,
    heatmap: HeatmapOption = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Fit a model to the feedback, measure it on held-out queries, and promote it if it passes the gate.

    With --from-documents, make a model from the documents alone, and promote it if it passes the guard.
    """
    if not wait and server_address(settings_from(data=data), data, url) is None:
        raise Failure(USAGE, "--no-wait needs a server: without it the run ends with this command")
    if not wait and heatmap:
        raise Failure(USAGE, "--heatmap and --no-wait exclude each other: the attention after the run is drawn")
    drawing.require_image_name(heatmap)
    with connect(data, url) as service:
        runs = collection_path(collection, "training-runs")
        body = {"seed": seed, "promote": promote, "budget_seconds": budget, "click_reading": click_reading}
        if from_documents:
            body["learn_from"] = "documents"
        if objective is not Objective.LISTWISE:
            body["objective"] = objective
        run = started(service, runs, body)
        if wait:
            run = followed(service, f"{runs}/{run['id']}")
        drawn = attention(service, f"{runs}/{run['id']}") if heatmap else []
    if json_out:
        show.data(run)
    elif wait:
        show_run(run)
    else:
        show.line(f"training run {run['id']}")
    if heatmap:
        if not drawn:
            raise Failure(ERROR, "--heatmap: the run has no held-out query, so that there is nothing to draw")
        drawing.write(heatmap, drawn, beside=True)


def training_runs(
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """List the training runs, newest first, and what is missing for the next run by schedule."""
    with connect(data, url) as service:
        answer = service.call("GET", collection_path(collection, "training-runs"))
    if json_out:
        show.data(answer)
        return
    rows = []
    for run in answer["training_runs"]:
        promoted = "yes" if (run.get("decision") or {}).get("promoted") else "no"
        status = f"{run['status']}, {run['error']['code']}" if run.get("error") else run["status"]
        rows.append((run["id"], run["created_at"], origin(run), status, run["model_version"], promoted))
    show.table(("run", "began", "started by", "status", "model", "promoted"), rows)
    show.line(plan(answer["schedule"]))


def origin(run: Mapping[str, Any]) -> str:
    """Return who started a run: `request`, `documents`, or `schedule` with the number of queries that triggered it."""
    trigger = run.get("trigger")
    return f"schedule, {trigger['new_queries']} new queries" if trigger else str(run.get("started_by", "request"))


def plan(schedule: Mapping[str, Any] | None) -> str:
    """Return what the schedule of a collection says about the next run."""
    if schedule is None:
        return "no schedule: runs start on request only (collections set --train-every-hours)"
    interval = f"every {schedule['every_hours']:g} hours from {schedule['min_new_queries']} new queries on"
    missing = schedule["missing"] or "The next run starts within half a minute, if the server runs."
    return f"{interval}: {schedule['new_queries']} new queries. {missing}"


def started(service: "Service", runs: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Start a run and return it.

    In a directory opened by this process, an unfinished run of a killed command is resumed and returned instead.
    """
    while True:
        try:
            run: dict[str, Any] = service.call("POST", runs, body)
            return run
        except Refused as refused:
            if not service.local or refused.code != "training_already_running":
                raise
        for run in service.call("GET", runs)["training_runs"]:
            if run["status"] == "processing":
                show.notice(f"resuming the interrupted run {run['id']} ({parameters(run)})")
                return run


def parameters(run: Mapping[str, Any]) -> str:
    """Return the parameters of a training run as text."""
    text = f"seed {run['seed']}, promote {run['promote']}, budget {run['budget_seconds']} s"
    objective = ", objective reinforce" if run.get("objective") == "reinforce" else ""
    return f"{text}, click interpretation {run['click_reading']}{objective}"


def followed(service: "Service", path: str) -> dict[str, Any]:
    """Return a run when it has ended. Ctrl-C cancels a run of this process; a run of a server continues."""
    try:
        return follow(service, path, "training")
    except KeyboardInterrupt:
        if service.local:
            service.call("POST", f"{path}/cancel")
        raise


def attention(service: "Service", run_path: str) -> list[heatmaps.Heatmap]:
    """Return the heatmaps of held-out queries by the champion before a run and by its model; none without a query."""
    answer = service.call("GET", f"{run_path}/attention")
    return heatmaps.of_run(answer)


def show_run(run: Mapping[str, Any]) -> None:
    """Write the results of a training run."""
    decision, report = run.get("decision") or {}, run.get("report") or {}
    reports.fit(report)
    reports.decision(decision)
    verdict = "is the new champion" if decision.get("promoted") else "is not the champion"
    show.line(f"model {run.get('model_version')} {verdict}")
