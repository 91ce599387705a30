"""`evaluate`: measures models on judgments."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli import reports, show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.failures import PARTLY, USAGE, Failure
from service.cli.feedback import open_judgments
from service.cli.following import follow
from service.cli.options import CollectionOption, DataOption, JsonOption, QueriesOption, UrlOption, comma_separated
from service.cli.records import Fault


def evaluate(
    versions: Annotated[str | None, typer.Option("--models", help="Versions to compare: 1,2.")] = None,
    measures: Annotated[str | None, typer.Option(help="Measures: nDCG@10,R@100.")] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(help="Judgments to use instead of the stored judgments.", exists=True, dir_okay=False),
    ] = None,
    queries: QueriesOption = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Measure models on judgments, and compare each model with the model before it in the list."""
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
    """Return the versions of `1,2`; [] for None. Raises Failure USAGE."""
    parts = comma_separated(versions)
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise Failure(USAGE, "--models: expected version numbers such as 1,2")
    return [int(part) for part in parts]


def read_qrels(path: Path, queries: Path | None) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return query text -> document id -> grade, and the lines or items of the file that are not judgments.

    The grade of several raters is the mean of the last rating of each, rounded; of a positive mean it is at least 1.
    """
    ratings: dict[str, dict[str, dict[Any, Any]]] = {}
    faults = []
    notes: list[str] = []
    found, unit = open_judgments(path, None, queries, None, notes)
    for note in notes:
        show.notice(note)
    for record in found:
        if isinstance(record, Fault):
            faults.append({unit: record.number, "code": record.code, "detail": record.detail})
        else:
            query, document, grade = (record.value.get(name) for name in ("query", "document_id", "rating"))
            ratings.setdefault(str(query), {}).setdefault(str(document), {})[record.value.get("rater", "")] = grade
    qrels = {
        query: {document: _mean(list(by_rater.values())) for document, by_rater in documents.items()}
        for query, documents in ratings.items()
    }
    without = sum(not any(isinstance(grade, int) and grade > 0 for grade in of.values()) for of in qrels.values())
    if without:
        show.notice(f"queries without a relevant document, which are not measured: {without}")
    return qrels, faults


def _mean(ratings: Sequence[Any]) -> Any:
    """Return the mean of ratings as a grade; of a single rating, and of values that are no numbers, the last."""
    if len(ratings) == 1 or not all(isinstance(one, int | float) for one in ratings):
        return ratings[-1]
    mean = sum(ratings) / len(ratings)
    return max(1, round(mean)) if mean > 0 else 0


def show_evaluation(result: Mapping[str, Any]) -> None:
    """Write the measures of each model, then the paired comparisons."""
    show.line(f"{result['queries']} queries: {result['judgments']}")
    if unknown := result.get("unknown_documents"):
        show.notice(f"documents of the judgments that the collection does not have, which no model finds: {unknown}")
    rows = [
        (model["version"], name, value["mean"], f"[{value['low']:.4f}, {value['high']:.4f}]")
        for model in result["models"]
        for name, value in model["measures"].items()
    ]
    show.table(("model", "measure", "mean", "95% interval"), rows)
    for a, b in sorted({tuple(pair["models"]) for pair in result["comparisons"]}):
        paired = [pair for pair in result["comparisons"] if pair["models"] == [a, b]]
        reports.comparisons(paired, f"model {a}", f"model {b}")
