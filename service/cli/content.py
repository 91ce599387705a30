"""`ingest` and `search`: documents in, hits out."""

from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, Service, collection_path, connect
from service.cli.failures import PARTLY
from service.cli.following import follow
from service.cli.options import CollectionOption, DataOption, JsonOption, UrlOption, comma_separated
from service.cli.readers import DocumentFormat, Fault, Found, guess_document_format, read_documents

BLOCK_BYTES = 65_536
MOST_KEPT = 1_000
"""Faults kept with their reasons; beyond that they are counted."""


def ingest(
    path: Annotated[Path, typer.Argument(help="A file, or a folder in BEIR's layout.", exists=True, readable=True)],
    kind: Annotated[
        DocumentFormat | None,
        typer.Option("--format", help="How it is written; guessed from the name where not given."),
    ] = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    filterable: Annotated[str | None, typer.Option(help="Metadata fields that a filter may name: lang,year.")] = None,
    keys: Annotated[str | None, typer.Option(help="Kinds of keys that documents get: title,passage,sentence.")] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Put documents into a collection, which is made if need be. A document whose id is there already is replaced."""
    lines = DocumentLines(read_documents(path, kind or guess_document_format(path)))
    given = {"filterable": comma_separated(filterable), "keys": comma_separated(keys)}
    settings = {name: value for name, value in given.items() if value}
    with connect(data, url) as service:
        if settings or collection != DEFAULT_COLLECTION:
            service.call("PUT", collection_path(collection), settings)
        outcome = send_documents(service, collection, lines)
    if json_out:
        show.data(outcome)
    else:
        show.line(f"{outcome['succeeded']} of {outcome['items_total']} documents are in {collection}")
    show.faults("line", outcome["errors"], outcome["failed"])
    if outcome["failed"]:
        raise typer.Exit(PARTLY)


class DocumentLines:
    """The NDJSON to send, with what has to be known afterwards: each line's place in the file, and the faults."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self.places = array("Q")
        self.faults: list[dict[str, Any]] = []
        self.fault_count = 0

    def __iter__(self) -> Iterator[bytes]:
        for one in self._found:
            if isinstance(one, Fault):
                self.fault_count += 1
                if len(self.faults) < MOST_KEPT:
                    self.faults.append({"line": one.place, "code": one.code, "detail": one.detail})
            else:
                self.places.append(one.place)
                yield orjson.dumps(one.value, option=orjson.OPT_APPEND_NEWLINE)


def send_documents(service: Service, collection: str, lines: DocumentLines) -> dict[str, Any]:
    """Import the documents and return the outcome; faults of the file and of the service together, by line."""
    result: dict[str, Any] = {"items_total": 0, "succeeded": 0, "failed": 0, "errors": []}
    task_id = None
    with show.progress("sending") as bar:
        blocks = in_blocks(lines)
        first = next(blocks, None)
        if first is not None:
            task_id = service.upload(collection_path(collection, "documents", "import"), chain([first], blocks))["id"]
            bar.show("sending", len(lines.places), len(lines.places))
    if task_id:
        result = follow(service, f"/v1/tasks/{task_id}", "indexing")["result"]
    errors = [{**one, "line": lines.places[one["index"]]} for one in result["errors"]]
    return {
        "collection": collection,
        "task": task_id,
        "items_total": result["items_total"] + lines.fault_count,
        "succeeded": result["succeeded"],
        "failed": result["failed"] + lines.fault_count,
        "errors": sorted(lines.faults + errors, key=lambda one: one["line"]),
    }


def in_blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines joined into blocks of BLOCK_BYTES or a little more: one write each."""
    block = bytearray()
    for line in lines:
        block += line
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Hits at most.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="Hits to pass over.")] = 0,
    condition: Annotated[str | None, typer.Option("--filter", help='Such as: lang = "en" AND year >= 2020.')] = None,
    mode: Annotated[str | None, typer.Option(help="hybrid, dense or words.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of every hit's logit.")] = False,
    model: Annotated[str | None, typer.Option(help="The version or alias that ranks; the champion.")] = None,
    predict: Annotated[
        list[str] | None, typer.Option(help="A metadata field whose values the hits are to answer with; repeatable.")
    ] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Search a collection."""
    asked: dict[str, Any] = {"q": query, "limit": limit, "offset": offset, "filter": condition, "mode": mode}
    asked["model"] = int(model) if model and model.isascii() and model.isdigit() else model
    asked["predict"] = predict or None
    body = {name: value for name, value in asked.items() if value is not None} | {"explain": explain}
    with connect(data, url) as service:
        answer = service.call("POST", collection_path(collection, "search"), body)
    if json_out:
        show.data(answer)
    else:
        show.hits(answer)
