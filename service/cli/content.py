"""`ingest` imports documents; `search` shows hits."""

from array import array
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, Service, collection_path, connect
from service.cli.document_files import DocumentFormat, guess_document_format, read_documents
from service.cli.failures import PARTLY, USAGE, Failure
from service.cli.following import follow
from service.cli.options import CollectionOption, DataOption, JsonOption, UrlOption, comma_separated
from service.cli.records import Fault, Found

BLOCK_BYTES = 65_536
MAX_FAULTS = 1_000
"""Faults that are kept with their reasons; further faults are only counted."""


def ingest(
    path: Annotated[Path, typer.Argument(help="A file, or a folder in BEIR's layout.", exists=True, readable=True)],
    kind: Annotated[
        DocumentFormat | None,
        typer.Option("--format", help="The format of the file; by default the file name decides."),
    ] = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    filterable: Annotated[str | None, typer.Option(help="Metadata fields that filters may use: lang,year.")] = None,
    keys: Annotated[str | None, typer.Option(help="Kinds of keys of documents: title,passage,sentence.")] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Import documents into a collection. The collection is created if needed; existing ids are replaced."""
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
    """The NDJSON to send, the number of each sent line in the file, and the faults of the file."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self.numbers = array("Q")
        self.faults: list[dict[str, Any]] = []
        self.fault_count = 0

    def __iter__(self) -> Iterator[bytes]:
        for found in self._found:
            if isinstance(found, Fault):
                self.fault_count += 1
                if len(self.faults) < MAX_FAULTS:
                    self.faults.append({"line": found.number, "code": found.code, "detail": found.detail})
            else:
                self.numbers.append(found.number)
                yield orjson.dumps(found.value, option=orjson.OPT_APPEND_NEWLINE)


def send_documents(service: Service, collection: str, lines: DocumentLines) -> dict[str, Any]:
    """Import the documents; return the outcome, with the faults found by the reader and by the service, by line."""
    result: dict[str, Any] = {"items_total": 0, "succeeded": 0, "failed": 0, "errors": []}
    task_id = None
    with show.progress("sending") as bar:
        blocks = in_blocks(lines)
        first = next(blocks, None)
        if first is not None:
            task_id = service.upload(collection_path(collection, "documents", "import"), chain([first], blocks))["id"]
            bar.show("sending", len(lines.numbers), len(lines.numbers))
    if task_id:
        result = follow(service, f"/v1/tasks/{task_id}", "indexing")["result"]
    errors = [{**error, "line": lines.numbers[error["index"]]} for error in result["errors"]]
    return {
        "collection": collection,
        "task": task_id,
        "items_total": result["items_total"] + lines.fault_count,
        "succeeded": result["succeeded"],
        "failed": result["failed"] + lines.fault_count,
        "errors": sorted(lines.faults + errors, key=lambda error: error["line"]),
    }


def in_blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines joined into blocks of at least BLOCK_BYTES, so that each write is large."""
    block = bytearray()
    for line in lines:
        block += line
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


class SearchMode(StrEnum):
    """What finds the candidates of a search."""

    HYBRID = "hybrid"
    DENSE = "dense"
    WORDS = "words"


def version_or_alias(model: str | None) -> int | str | None:
    """Return the version or the alias of a model. Raises Failure USAGE for other text."""
    if model is None or model in ("champion", "challenger"):
        return model
    if not (model.isascii() and model.isdigit()):
        raise Failure(USAGE, "--model: expected champion, challenger or a version number")
    return int(model)


def search(
    query: Annotated[str, typer.Argument(help="The query.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of hits.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="Number of hits to skip.")] = 0,
    condition: Annotated[
        str | None, typer.Option("--filter", help='A filter, such as: lang = "en" AND year >= 2020.')
    ] = None,
    mode: Annotated[SearchMode | None, typer.Option(help="What finds candidates.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of the logit of each hit.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="champion|challenger|VERSION", help="The version or alias of the model; by default the champion."
        ),
    ] = None,
    predict: Annotated[
        list[str] | None, typer.Option(help="Predict the value of this metadata field; repeatable.")
    ] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Search a collection."""
    given: dict[str, Any] = {"q": query, "limit": limit, "offset": offset, "filter": condition, "mode": mode}
    given["model"] = version_or_alias(model)
    given["predict"] = predict or None
    body = {name: value for name, value in given.items() if value is not None} | {"explain": explain}
    with connect(data, url) as service:
        answer = service.call("POST", collection_path(collection, "search"), body)
    if json_out:
        show.data(answer)
    else:
        show.hits(answer)
