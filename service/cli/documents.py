"""`documents`: shows, lists and deletes documents."""

from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.failures import USAGE, Failure
from service.cli.feedback import Tally, send
from service.cli.options import CollectionOption, DataOption, FileArgument, JsonOption, UrlOption
from service.cli.records import read_objects, unit_of

documents = typer.Typer(help="The documents of a collection.", no_args_is_help=True)


@documents.command("get")
def get_document(
    id: Annotated[str, typer.Argument(help="The id of the document.", metavar="ID")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Show a document."""
    with connect(data, url) as service:
        document = service.call("GET", collection_path(collection, "documents", id))
    if json_out:
        show.data(document)
        return
    facts = {name: document[name] for name in ("id", "title", "url") if document[name] is not None}
    show.table(("field", "value"), [*facts.items(), *document["metadata"].items()])
    show.paragraphs(document["text"])


@documents.command("list")
def list_documents(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of documents.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the next page, from the page before.")] = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """List documents in the order of their arrival."""
    params: dict[str, Any] = {"limit": limit} | ({"cursor": cursor} if cursor else {})
    with connect(data, url) as service:
        page = service.call("GET", collection_path(collection, "documents"), params=params)
    if json_out:
        show.data(page)
        return
    rows = [(one["id"], one["title"], one["text"][: show.PREVIEW_CHARACTERS]) for one in page["documents"]]
    show.table(("id", "title", "text"), rows)
    if page["cursor"]:
        show.notice(f"more with --cursor {page['cursor']}")


@documents.command("patch")
def patch_documents(
    path: FileArgument,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Change fields of documents: lines of JSON, or an array, such as {"id": "doc-7", "metadata": {"sold": 412}}."""
    tally = Tally(unit_of(path))
    with connect(data, url) as service:
        address = collection_path(collection, "documents")
        send(service, address, read_objects(path), tally, '{"documents":[%s]}', "PATCH")
    tally.end("changes", json_out)


@documents.command("delete")
def delete_documents(
    ids: Annotated[list[str] | None, typer.Argument(help="The ids of documents.", metavar="ID...")] = None,
    condition: Annotated[
        str | None, typer.Option("--filter", help='Delete all documents that match, such as: lang = "en".')
    ] = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Delete documents by id or by filter, with their memory."""
    if bool(ids) == (condition is not None):
        raise Failure(USAGE, "give either ids or --filter")
    body = {"ids": ids} if ids else {"filter": condition}
    with connect(data, url) as service:
        task = service.call("POST", collection_path(collection, "documents", "delete"), body)
    if json_out:
        show.data(task["result"])
    else:
        show.line(f"deleted: {task['result']['deleted']} documents")
