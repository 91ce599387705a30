"""`ingest` imports documents from files, folders and stdin."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect, settings_from
from service.cli.failures import PARTLY, USAGE, Failure
from service.cli.following import follow
from service.cli.ingestion import Ingestion
from service.cli.mirroring import delete_missing_documents
from service.cli.options import CollectionOption, DataOption, JsonOption, UrlOption, comma_separated
from service.cli.sources.formats import SourceFormat
from service.cli.sources.reader import STDIN, Source
from service.documents.mapping import FieldMapping

if TYPE_CHECKING:
    from service.cli.client import Service

BLOCK_BYTES = 65_536
TextFields = Annotated[
    list[str] | None,
    typer.Option("--text-field", help="The field of the text; several, by comma or repeated, are joined."),
]


def ingest(
    path: Annotated[Path, typer.Argument(help="A file, a folder, or - for stdin.")],
    kind: Annotated[
        SourceFormat, typer.Option("--format", help="The format; auto: the file name or the first bytes decide.")
    ] = SourceFormat.AUTO,
    collection: CollectionOption = DEFAULT_COLLECTION,
    mapping: Annotated[
        Literal["lenient", "strict"], typer.Option(help="lenient: records as they are; strict: in the form of the API.")
    ] = "lenient",
    id_field: Annotated[str | None, typer.Option(help="The field that is the id.")] = None,
    title_field: Annotated[str | None, typer.Option(help="The field that is the title.")] = None,
    text_field: TextFields = None,
    url_field: Annotated[str | None, typer.Option(help="The field that is the address.")] = None,
    number_field: Annotated[
        list[str] | None, typer.Option(help="Metadata fields whose texts are numbers: price,stock; repeatable.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="The address to which the path of a text file is added.")] = None,
    glob: Annotated[list[str] | None, typer.Option(help="Files of a folder to read: **/*.md; repeatable.")] = None,
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Delete the documents that the source does not have.")
    ] = False,
    rejects: Annotated[Path | None, typer.Option(help="Write refused records to this file, as NDJSON.")] = None,
    filterable: Annotated[str | None, typer.Option(help="Metadata fields that filters may use: lang,year.")] = None,
    keys: Annotated[str | None, typer.Option(help="Kinds of keys of documents: title,passage,sentence.")] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Import documents into a collection. The collection is created if needed; existing ids are replaced."""
    if str(path) != STDIN and not path.exists():
        raise Failure(USAGE, f"{path} does not exist")
    texts = tuple(field for part in text_field or [] for field in comma_separated(part))
    numbers = tuple(field for part in number_field or [] for field in comma_separated(part))
    fields = FieldMapping(mapping, id_field, title_field, texts, url_field, numbers)
    excluded = [settings_from(data=data).data, *([rejects] if rejects else [])]
    source = Source(path, kind, fields, glob or [], base_url, excluded)
    given = {"filterable": comma_separated(filterable), "keys": comma_separated(keys)}
    settings = {name: value for name, value in given.items() if value}
    with ExitStack() as stack:
        ingestion = Ingestion(source.items(), stack.enter_context(written(rejects)))
        service = stack.enter_context(connect(data, url, creates=True))
        if settings or collection != DEFAULT_COLLECTION:
            service.call("PUT", collection_path(collection), settings)
        source.filterable = lambda: service.call("GET", collection_path(collection))["settings"]["filterable"]
        outcome = send_documents(service, collection, ingestion)
        if delete_missing:
            outcome["deleted"] = delete_missing_documents(service, collection, ingestion)
    report(outcome, ingestion, source, json_out)


@contextmanager
def written(path: Path | None) -> Iterator[Any]:
    """Yield the opened file for refused records, None without a path. Raises Failure USAGE."""
    if path is None:
        yield None
        return
    try:
        file = path.open("wb")
    except OSError as error:
        raise Failure(USAGE, f"--rejects: {path}: {error.strerror}") from error
    with file:
        yield file


def send_documents(service: "Service", collection: str, ingestion: Ingestion) -> dict[str, Any]:
    """Import the documents; return the outcome, with the records refused here and by the service."""
    result: dict[str, Any] = {"items_total": 0, "succeeded": 0, "failed": 0, "unchanged": 0, "errors": []}
    task_id = None
    with show.progress("reading") as bar:
        blocks = in_blocks(ingestion.lines(bar))
        first = next(blocks, None)
        if first is not None:
            path = collection_path(collection, "documents", "import")
            task_id = service.upload(path, chain([first], blocks))["id"]
    if task_id:
        result = follow(service, f"/v1/tasks/{task_id}", "indexing")["result"]
    ingestion.refuse_later(result["errors"], result["failed"])
    return {
        "collection": collection,
        "task": task_id,
        "items_total": result["succeeded"] + ingestion.fault_count,
        "succeeded": result["succeeded"],
        "failed": ingestion.fault_count,
        "unchanged": result.get("unchanged", 0),
        "notes": dict(ingestion.notes),
        "errors": ingestion.sorted_faults(),
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


def report(outcome: dict[str, Any], ingestion: Ingestion, source: Source, json_out: bool) -> None:
    """Show the outcome. Raises Exit PARTLY if a record or file was refused."""
    outcome["skipped_files"] = dict(source.skipped)
    if json_out:
        show.data(outcome)
    else:
        same = f", {outcome['unchanged']} of them unchanged" if outcome["unchanged"] else ""
        deleted = f"; {outcome['deleted']} deleted" if outcome.get("deleted") is not None else ""
        count = f"{outcome['succeeded']} of {outcome['items_total']} documents are in {outcome['collection']}"
        show.line(f"{count}{same}{deleted}")
    for note, count in outcome["notes"].items():
        show.notice(f"{count} × {note}")
    if source.skipped:
        types = ", ".join(f"{suffix} {count}" for suffix, count in source.skipped.most_common(5))
        show.notice(f"{source.skipped.total()} files of other types are skipped: {types}")
    show.located_faults(outcome["errors"], outcome["failed"])
    if outcome["failed"]:
        raise typer.Exit(PARTLY)
