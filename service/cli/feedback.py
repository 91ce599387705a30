"""`events import` and `judgments import`: what people did, and what raters said."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, Service, collection_path, connect
from service.cli.failures import PARTLY, Refused
from service.cli.options import CollectionOption, DataOption, FileArgument, JsonOption, QueriesOption, UrlOption
from service.cli.readers import (
    Fault,
    Found,
    JudgmentFormat,
    Record,
    find_queries,
    guess_judgment_format,
    read_judgments,
    read_objects,
    read_queries,
    unit_of,
)

BATCH_RECORDS = 1_000
BATCH_BYTES = 4 * 1024 * 1024
"""Half of what a request may hold."""

events = typer.Typer(help="What people did with the hits.", no_args_is_help=True)
judgments = typer.Typer(help="Grades that raters gave.", no_args_is_help=True)


@dataclass
class Tally:
    """What became of the records of a file."""

    unit: str
    """What the file is counted in: "line" or "item"."""
    accepted: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)

    def reject(self, place: int, code: str, detail: str) -> None:
        """Note a record that was not taken."""
        self.rejected.append({self.unit: place, "code": code, "detail": detail})

    def end(self, what: str, json_out: bool) -> None:
        """Show the outcome; raises Exit PARTLY where something was rejected."""
        if json_out:
            show.data({"accepted": self.accepted, "rejected": self.rejected})
        else:
            show.line(f"{self.accepted} of {self.accepted + len(self.rejected)} {what} accepted")
        show.faults(self.unit, self.rejected, len(self.rejected))
        if self.rejected:
            raise typer.Exit(PARTLY)


@events.command("import")
def import_events(
    path: FileArgument,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Import events in the UBI 1.3.0 schema, from lines of JSON or a JSON array."""
    tally = Tally(unit_of(path))
    with connect(data, url) as service:
        send(service, collection_path(collection, "events"), read_objects(path), tally, "[%s]")
    tally.end("events", json_out)


@judgments.command("import")
def import_judgments(
    path: FileArgument,
    kind: Annotated[
        JudgmentFormat | None,
        typer.Option("--format", help="TREC qrels, BEIR's tsv, or JSON as the API takes it; guessed where not given."),
    ] = None,
    queries: QueriesOption = None,
    rater: Annotated[str, typer.Option(help="Who gave the grades, where the file does not say.")] = "import",
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Import grades, 0 to 4, of documents for queries. The same query, document and rater again replaces a grade."""
    found, unit = open_judgments(path, kind, queries)
    tally = Tally(unit)
    rated = (Record(one.place, {"rater": rater} | one.value) if isinstance(one, Record) else one for one in found)
    with connect(data, url) as service:
        send(service, collection_path(collection, "judgments"), rated, tally, '{"judgments":[%s]}')
    tally.end("judgments", json_out)


def open_judgments(path: Path, kind: JudgmentFormat | None, queries: Path | None) -> tuple[Found, str]:
    """Return the judgments of a file, and what it is counted in; lines of queries that are no good are told."""
    kind = kind or guess_judgment_format(path)
    if not kind.names_queries_by_id:
        return read_judgments(path, kind, {}), unit_of(path)
    source = find_queries(path, queries)
    texts, faults = read_queries(source)
    show.faults(
        "line",
        [{"line": f"{one.place} of {source.name}", "code": one.code, "detail": one.detail} for one in faults],
        len(faults),
    )
    return read_judgments(path, kind, texts), "line"


def send(service: Service, path: str, found: Found, tally: Tally, envelope: str) -> None:
    """Post the records in batches, inside the envelope, and tally what became of each.

    Raises Refused where a whole batch is refused, with what was accepted until then.
    """
    with show.progress("importing") as bar:
        for batch in batches(found, tally):
            body = (envelope % ",".join(text for _, text in batch)).encode()
            try:
                answer = service.call("POST", path, raw=body)
            except Refused as refused:
                refused.lines.append(f"from {tally.unit} {batch[0][0]} on; {tally.accepted} were accepted before")
                raise
            tally.accepted += answer["accepted"]
            for one in answer["rejected"]:
                tally.reject(batch[one["index"]][0], one["code"], one["detail"])
            bar.show("importing", tally.accepted + len(tally.rejected), None)
    tally.rejected.sort(key=lambda one: int(one[tally.unit]))


def batches(found: Found, tally: Tally) -> Iterator[list[tuple[int, str]]]:
    """Yield (place, JSON) of the records, BATCH_RECORDS and BATCH_BYTES at most; faults go to the tally."""
    batch: list[tuple[int, str]] = []
    size_bytes = 0
    for one in found:
        if isinstance(one, Fault):
            tally.reject(one.place, one.code, one.detail)
            continue
        text = orjson.dumps(one.value)
        if batch and (len(batch) == BATCH_RECORDS or size_bytes + len(text) > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append((one.place, text.decode()))
        size_bytes += len(text)
    if batch:
        yield batch
