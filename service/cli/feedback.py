"""`events import` and `judgments import`."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import orjson
import typer

from service.cli import event_tables, show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.event_files import read_events, read_log
from service.cli.failures import PARTLY, USAGE, Failure, Refused
from service.cli.judgment_files import (
    JudgmentFormat,
    find_queries,
    guess_judgment_format,
    read_judgments,
    read_queries,
)
from service.cli.options import CollectionOption, DataOption, FileArgument, JsonOption, QueriesOption, UrlOption
from service.cli.records import Fault, Found, Record, is_table, unit_of
from service.cli.srw_judgments import load_export, read_export, scale_of
from service.feedback.grades import GRADES

if TYPE_CHECKING:
    from service.cli.client import Service

BATCH_RECORDS = 1_000
BATCH_BYTES = 4 * 1024 * 1024
"""Half of the size limit of a request."""

OUTCOME = {"POST": ("accepted", "rejected"), "PATCH": ("succeeded", "errors")}
"""Method -> the members of an answer with the number of accepted records, and with the rejected ones."""
MAX_ACTIONS = 100
"""Names of actions that are shown, the most frequent first."""

events = typer.Typer(help="Events: actions of users on the hits.", no_args_is_help=True)
judgments = typer.Typer(help="Judgments: grades by raters.", no_args_is_help=True)


@dataclass
class Tally:
    """The outcome of importing a file."""

    unit: str
    """The unit in which the file is counted: "line" or "item"."""
    accepted: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    """Name of an action -> number of accepted events."""
    notes: list[str] = field(default_factory=list)
    """What the import did beyond storing the records as they are."""

    def reject(self, number: int, code: str, detail: str) -> None:
        """Add a rejected record."""
        self.rejected.append({self.unit: number, "code": code, "detail": detail})

    def end(self, name: str, json_out: bool) -> None:
        """Show the outcome. Raises Exit PARTLY if a record was rejected."""
        if json_out:
            more = {"actions": dict(self.actions.most_common(MAX_ACTIONS)), "notes": self.notes}
            found = {"accepted": self.accepted, "rejected": self.rejected}
            show.data(found | {name: value for name, value in more.items() if value})
        else:
            show.line(f"{self.accepted} of {self.accepted + len(self.rejected)} {name} accepted")
            for action, count in self.actions.most_common(MAX_ACTIONS):
                show.line(f"{action} {count}" + ("" if action in GRADES else "  stored, not learned from"))
        for note in self.notes:
            show.notice(note)
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
    """Import events: UBI 1.3.0, also as OpenSearch exports it, or a table of actions, clicks or ratings."""
    with connect(data, url) as service:
        events, ratings = (collection_path(collection, name) for name in ("events", "judgments"))
        if is_table(path):
            tally = Tally("line")
            layout = event_tables.layout_of(path)
            send(service, events, event_tables.read_events(path, layout, tally.notes), tally, "[%s]")
            taken = tally.accepted
            send(service, ratings, event_tables.read_ratings(path, layout), tally, '{"judgments":[%s]}')
            tally.rejected = list({(one["line"], one["code"]): one for one in tally.rejected}.values())
            if tally.accepted > taken:
                tally.notes.append(f"{tally.accepted - taken} ratings were stored as judgments")
        else:
            tally = Tally(unit_of(path))
            log = read_log(path)
            send(service, events, read_events(path, log), tally, "[%s]")
            tally.notes = log.notes()
    tally.end("events", json_out)


@judgments.command("import")
def import_judgments(
    path: FileArgument,
    kind: Annotated[
        JudgmentFormat | None,
        typer.Option(
            "--format", help="TREC qrels, BEIR tsv, or JSON in the form of the API; by default the first line decides."
        ),
    ] = None,
    queries: QueriesOption = None,
    rater: Annotated[str, typer.Option(help="The rater of grades without a rater in the file.")] = "import",
    scale: Annotated[
        float | None, typer.Option(min=0.001, help="The highest rating of a Search Relevance Workbench file.")
    ] = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Import grades (0 to 4) of documents for queries. A grade with the same query, document and rater is replaced."""
    notes: list[str] = []
    found, unit = open_judgments(path, kind, queries, scale, notes)
    tally = Tally(unit, notes=notes)
    rated = (Record(one.number, {"rater": rater} | one.value) if isinstance(one, Record) else one for one in found)
    with connect(data, url) as service:
        send(service, collection_path(collection, "judgments"), rated, tally, '{"judgments":[%s]}')
    tally.end("judgments", json_out)


def open_judgments(
    path: Path, kind: JudgmentFormat | None, queries: Path | None, scale: float | None, notes: list[str]
) -> tuple[Found, str]:
    """Return the judgments of a file and its unit. Invalid lines of the file of queries are written to stderr.

    scale: the highest rating of a file of the Search Relevance Workbench. notes: gets the scale that was used.
    """
    export = load_export(path) if kind in (None, JudgmentFormat.SRW) else None
    if export is not None:
        highest = scale or scale_of(export)
        notes.append(f"ratings from 0 to {highest:g} became grades from 0 to 4; --scale sets another scale")
        return read_export(export, highest), "item"
    if kind is JudgmentFormat.SRW:
        raise Failure(USAGE, f"{path.name}: no judgmentRatings in this file")
    kind = kind or guess_judgment_format(path)
    if not kind.names_queries_by_id or not any(read_judgments(path, kind, {})):  # an empty file names no query
        return read_judgments(path, kind, {}), unit_of(path)
    file = find_queries(path, queries)
    texts, faults = read_queries(file)
    show.faults(
        "line",
        [{"line": f"{fault.number} of {file.name}", "code": fault.code, "detail": fault.detail} for fault in faults],
        len(faults),
    )
    return read_judgments(path, kind, texts), "line"


def send(service: "Service", path: str, found: Found, tally: Tally, envelope: str, method: str = "POST") -> None:
    """Send the records in batches and tally the outcomes. envelope: a %-format for the JSON of a batch.

    method: PATCH for changes of documents. Raises Refused if the service refuses a batch; the message has the number of
    records accepted before.
    """
    with show.progress("importing") as bar:
        for batch in batches(found, tally):
            body = (envelope % ",".join(one.text for one in batch)).encode()
            try:
                answer = service.call(method, path, raw=body)
            except Refused as refused:
                refused.lines.append(
                    f"refused from {tally.unit} {batch[0].number} on; {tally.accepted} were accepted before"
                )
                raise
            accepted, rejected = OUTCOME[method]
            tally.accepted += answer[accepted]
            refused_at = set()
            for rejection in answer[rejected]:
                refused_at.add(rejection["index"])
                tally.reject(batch[rejection["index"]].number, rejection["code"], rejection["detail"])
            tally.actions.update(one.action for at, one in enumerate(batch) if one.action and at not in refused_at)
            bar.show("importing", tally.accepted + len(tally.rejected), None)
    tally.rejected.sort(key=lambda rejection: int(rejection[tally.unit]))


class Sent(NamedTuple):
    """A record that is sent: its number in the file, its JSON, and its action if it is an event."""

    number: int
    text: str
    action: str | None


def batches(found: Found, tally: Tally) -> Iterator[list[Sent]]:
    """Yield batches with at most BATCH_RECORDS and BATCH_BYTES. Faults go to the tally."""
    batch: list[Sent] = []
    size_bytes = 0
    for record in found:
        if isinstance(record, Fault):
            tally.reject(record.number, record.code, record.detail)
            continue
        text = orjson.dumps(record.value)
        if batch and (len(batch) == BATCH_RECORDS or size_bytes + len(text) > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        action = record.value.get("action_name")
        batch.append(Sent(record.number, text.decode(), action if isinstance(action, str) else None))
        size_bytes += len(text)
    if batch:
        yield batch
