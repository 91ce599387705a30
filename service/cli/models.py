"""`models`: lists, shows, compares, promotes and rolls back models."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli import reports, show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.options import CollectionOption, DataOption, JsonOption, UrlOption

models = typer.Typer(help="Trained attention heads, immutable and numbered. The champion serves.", no_args_is_help=True)


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
            model["version"],
            ", ".join(name for name, version in aliases.items() if version == model["version"]),
            reports.shown_name((model.get("lineage") or {}).get("kind")),
            held_out(model, "nDCG@10"),
            model["created_at"],
        )
        for model in answer["models"]
    ]
    show.table(("version", "aliases", "kind", "held-out nDCG@10", "created"), rows)


def held_out(model: Mapping[str, Any], measure: str) -> str | None:
    """Return a model's measure on held-out queries, and its difference to the champion at that time, None without."""
    found = _measured(model).get(measure)
    return f"{found['b']:.4f} ({found['difference']:+.4f})" if found else None


def _measured(model: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the comparisons on held-out queries by measure, none where no query was measured."""
    held_out = (model.get("report") or {}).get("held_out") or {}
    return {measure: found for measure, found in held_out.items() if found["queries"]}


@models.command("show")
def show_model(
    version: Annotated[int, typer.Argument(min=0, help="The version of the model; 0 is the untrained model.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Show a model: its origin, its measures, and the decision of the gate."""
    with connect(data, url) as service:
        model = service.call("GET", collection_path(collection, "models", str(version)))
    if json_out:
        show.data(model)
        return
    show.line(f"model {model['version']}  {', '.join(model['aliases'])}  {model['created_at']}")
    report, lineage = model.get("report") or {}, model.get("lineage") or {}
    kind = {"kind": reports.shown_name(lineage["kind"])} if "kind" in lineage else {}
    show.table(("fact", "value"), (lineage | kind | reports.scalars(report)).items())
    reports.fit(report)
    reports.decision(model.get("decision") or {})


@models.command("compare")
def compare_models(
    a: Annotated[int, typer.Argument(min=0, help="Version of the first model.")],
    b: Annotated[int, typer.Argument(min=0, help="Version of the second model.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Show the reports of two models side by side. `evaluate --models` measures both on the same queries."""
    with connect(data, url) as service:
        answer = service.call("GET", collection_path(collection, "models", "compare"), params={"a": a, "b": b})
    if json_out:
        show.data(answer)
        return
    sides = [side_by_side(answer[name]) for name in ("a", "b")]
    names = [*sides[0], *(name for name in sides[1] if name not in sides[0])]
    show.table(("fact", f"model {a}", f"model {b}"), [(name, *(side.get(name) for side in sides)) for name in names])
    show_estimates(answer.get("off_policy") or {}, a, b)


def show_estimates(found: Mapping[str, Any], a: int, b: int) -> None:
    """Write the clicks per search of both models, estimated from explored searches, or why there are none."""
    if found.get("a") is None:
        show.line(f"clicks per search: {found.get('reason') or 'no estimate'}")
        return
    show.line(f"clicks per search in the first ten, from {found['impressions']} explored searches:")
    rows = [
        (show.plain(name.replace("_", " ")), *(_interval(found[side][name]) for side in ("a", "b", "difference")))
        for name in found["a"]
    ]
    sizes = ["effective sample size"]
    sizes += [f"{found[side]['ips']['effective_sample_size']:.1f}" for side in ("a", "b", "difference")]
    names = (f"model {a}", f"model {b}", "difference")
    show.table(("estimator", *names), [*rows, tuple(sizes)])
    for name, side in zip(names, ("a", "b", "difference"), strict=True):
        if reason := found[side]["ips"].get("reason"):
            show.line(f"no interval for {name}: {reason}")


def _interval(found: Mapping[str, Any]) -> str:
    """Return an estimate and its interval, where it has one."""
    if found["low"] is None:
        return f"{found['mean']:.3f} (no interval)"
    return f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def side_by_side(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a model that are compared."""
    report, lineage = model.get("report") or {}, model.get("lineage") or {}
    facts = {"kind": reports.shown_name(lineage.get("kind")), "parent": lineage.get("parent")}
    facts |= {"seed": lineage.get("seed"), "created": model["created_at"]}
    facts |= {f"held-out {name}": found["b"] for name, found in _measured(model).items()}
    return facts | reports.scalars(report)


@models.command("promote")
def promote_model(
    version: Annotated[int, typer.Argument(min=0, help="The version of the model to promote.")],
    reason: Annotated[str | None, typer.Option(help="The reason; stored with the change.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Promote the model even if it failed the gate.")] = False,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Make a model the champion."""
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
    """Make the previous champion the champion again."""
    with connect(data, url) as service:
        answer = service.call("POST", collection_path(collection, "models", "aliases", "champion", "rollback"))
    show_champion(answer, json_out)


def show_champion(answer: Mapping[str, Any], json_out: bool) -> None:
    """Write the version of the champion."""
    if json_out:
        show.data(answer)
    else:
        show.line(f"champion: model {answer['version']}")
