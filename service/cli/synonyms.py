"""`synonyms`: lists, shows, sets, imports and deletes the words of a collection that mean the same."""

from typing import Annotated

import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.failures import Refused
from service.cli.options import CollectionOption, DataOption, FileArgument, JsonOption, UrlOption, comma_separated
from service.cli.synonym_files import read_synonyms

synonyms = typer.Typer(help="Words and short phrases that mean the same.", no_args_is_help=True)
SynonymsArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the entry.")]


@synonyms.command("list")
def list_synonyms(
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """List the entries of synonyms of a collection."""
    with connect(data, url) as service:
        answer = service.call("GET", collection_path(collection, "synonyms"))
    if json_out:
        show.data(answer)
        return
    rows = [(entry["id"], ", ".join(entry["words"]), entry["from"]) for entry in answer["synonyms"]]
    show.table(("synonyms", "words", "from"), rows)


@synonyms.command("get")
def get_synonyms(
    synonyms_id: SynonymsArgument,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Show an entry of synonyms."""
    with connect(data, url) as service:
        entry = service.call("GET", collection_path(collection, "synonyms", synonyms_id))
    if json_out:
        show.data(entry)
    else:
        facts = {"synonyms": entry["id"], "words": ", ".join(entry["words"]), "from": entry["from"]}
        show.table(("field", "value"), facts.items())


@synonyms.command("set")
def set_synonyms(
    synonyms_id: SynonymsArgument,
    words: Annotated[
        list[str], typer.Option(help="The words or short phrases: tv,television; by comma, or the option is repeated.")
    ],
    source: Annotated[
        str | None, typer.Option("--from", help="One way: a query with this word also finds the words.")
    ] = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Store an entry of synonyms, in place of the entry with this id. Without --from each word finds the others."""
    body = {"words": [word for one in words for word in comma_separated(one)], "from": source}
    with connect(data, url) as service:
        entry = service.call("PUT", collection_path(collection, "synonyms", synonyms_id), body)
    if json_out:
        show.data(entry)
        return
    found = ", ".join(entry["words"])
    meaning = f"{found} find each other" if entry["from"] is None else f"{entry['from']} also finds {found}"
    show.line(f"synonyms {entry['id']}: {meaning}")


@synonyms.command("import")
def import_synonyms(
    path: FileArgument,
    replace_all: Annotated[
        bool, typer.Option("--replace-all", help="Delete all entries that are not in the file.")
    ] = False,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Store the synonyms of a file in one change, all or none: Solr's text format, or JSON as `list --json` prints."""
    found = read_synonyms(path)
    body = {"synonyms": found.entries, "replace_all": replace_all}
    with connect(data, url) as service:
        try:
            answer = service.call("POST", collection_path(collection, "synonyms"), body)
        except Refused as refused:
            raise found.placed(refused) from refused
    if json_out:
        show.data(answer)
    else:
        show.line(f"{answer['stored']} stored, {answer['deleted']} deleted, {answer['entries']} in {collection}")


@synonyms.command("delete")
def delete_synonyms(
    synonyms_id: SynonymsArgument,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Delete an entry of synonyms."""
    with connect(data, url) as service:
        service.call("DELETE", collection_path(collection, "synonyms", synonyms_id))
    if json_out:
        show.data({"deleted": synonyms_id})
    else:
        show.line(f"synonyms {synonyms_id} are deleted")
