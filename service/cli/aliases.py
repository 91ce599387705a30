"""`aliases`: lists, sets and deletes further names of collections, and swaps the names of two collections."""

from typing import Annotated

import typer

from service.cli import show
from service.cli.connection import collection_path, connect, path_of
from service.cli.options import DataOption, JsonOption, UrlOption

aliases = typer.Typer(help="Further names of collections.", no_args_is_help=True)
AliasArgument = Annotated[str, typer.Argument(help="The alias.", metavar="ALIAS")]
NameArgument = Annotated[str, typer.Argument(help="The name of a collection.", metavar="NAME")]


@aliases.command("list")
def list_aliases(data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False) -> None:
    """List the aliases with their collections."""
    with connect(data, url) as service:
        answer = service.call("GET", "/v1/aliases")
    if json_out:
        show.data(answer)
        return
    rows = [(one["alias"], one["collection"], one["created_at"]) for one in answer["aliases"]]
    show.table(("alias", "collection", "since"), rows)


@aliases.command("set")
def set_alias(
    alias: AliasArgument,
    collection: NameArgument,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Create an alias of a collection, or point it at another collection."""
    with connect(data, url) as service:
        found = service.call("PUT", alias_path(alias), {"collection": collection})
    if json_out:
        show.data(found)
    else:
        show.line(f"alias {found['alias']} names {found['collection']}")


@aliases.command("swap")
def swap_collections(
    a: NameArgument,
    b: NameArgument,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Exchange the names of two collections at once, with their documents, feedback, models and settings."""
    with connect(data, url) as service:
        answer = service.call("POST", collection_path("swap"), {"a": a, "b": b})
    if json_out:
        show.data(answer)
    else:
        show.line(f"swapped: {' and '.join(one['name'] for one in answer['collections'])}")


@aliases.command("delete")
def delete_alias(
    alias: AliasArgument, data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False
) -> None:
    """Delete an alias. Its collection stays."""
    with connect(data, url) as service:
        service.call("DELETE", alias_path(alias))
    if json_out:
        show.data({"deleted": alias})
    else:
        show.line(f"alias {alias} is deleted")


def alias_path(alias: str) -> str:
    """Return the path of an alias."""
    return path_of("aliases", alias)
