"""`keys`: makes, lists, rotates and deletes API keys. `audit`: lists acts of administration."""

from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import connect, path_of
from service.cli.options import DataOption, JsonOption, UrlOption, names_of, values_of

keys = typer.Typer(help="API keys: who may do what.", no_args_is_help=True)
KeyArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the key.")]


@keys.command("create")
def create_key(
    scopes: Annotated[
        list[str], typer.Option("--scopes", "--scope", help="What the key may do: search, events, write, train, admin.")
    ],
    name: Annotated[str, typer.Option(help="What the key is for.")] = "command line",
    collections: Annotated[
        list[str] | None, typer.Option("--collections", "--collection", help="The collections; by default all.")
    ] = None,
    filter: Annotated[str | None, typer.Option(help='A filter that every use is restricted to: tenant = "a".')] = None,
    origins: Annotated[
        list[str] | None, typer.Option("--origins", "--origin", help="The origins of the web pages that may use it.")
    ] = None,
    expires_at: Annotated[str | None, typer.Option(help="The time from which the key is not valid.")] = None,
    rate_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Requests a minute; without it, any number.")
    ] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Make a key and show it, this once. The first key needs the scope admin. Lists: by comma, or repeated options."""
    body: dict[str, Any] = {
        "name": name,
        "filter": filter,
        "expires_at": expires_at,
        "rate_per_minute": rate_per_minute,
    }
    body |= {"scopes": values_of(scopes), "collections": names_of(collections), "origins": values_of(origins)}
    with connect(data, url, creates=True) as service:
        show_new(service.call("POST", "/v1/keys", body), json_out)


@keys.command("list")
def list_keys(data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False) -> None:
    """List the keys, without their texts."""
    with connect(data, url) as service:
        answer = service.call("GET", "/v1/keys")
    if json_out:
        show.data(answer)
        return
    rows = [
        (
            key["id"],
            key["name"],
            ", ".join(key["scopes"]),
            "all" if key["collections"] is None else ", ".join(key["collections"]),
            key["filter"],
            ", ".join(key["origins"]),
            key["rate_per_minute"],
            key["expires_at"],
            key["last_used_at"],
        )
        for key in answer["keys"]
    ]
    show.table(("id", "name", "scopes", "collections", "filter", "origins", "a minute", "expires", "last use"), rows)


@keys.command("rotate")
def rotate_key(
    key_id: KeyArgument,
    grace_seconds: Annotated[
        int, typer.Option(min=0, help="Seconds for which the old key stays valid beside the new.")
    ] = 0,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Give a key a new text with the same rights, and show it, this once."""
    with connect(data, url) as service:
        show_new(service.call("POST", f"{key_path(key_id)}/rotate", {"grace_seconds": grace_seconds}), json_out)


@keys.command("delete")
def delete_key(
    key_id: KeyArgument, data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False
) -> None:
    """Delete a key. The last valid key with the scope admin stays."""
    with connect(data, url) as service:
        service.call("DELETE", key_path(key_id))
    if json_out:
        show.data({"deleted": key_id})
    else:
        show.line(f"key {key_id} is deleted")


def audit(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of acts.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="The cursor of a page.")] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """List acts of administration, the newest first."""
    params = {"limit": limit, **({"cursor": cursor} if cursor else {})}
    with connect(data, url) as service:
        answer = service.call("GET", "/v1/audit", params=params)
    if json_out:
        show.data(answer)
        return
    rows = [(one["at"], one["key_id"], one["act"], one["target"], one["outcome"]) for one in answer["acts"]]
    show.table(("time", "key", "act", "target", "outcome"), rows)
    if answer["cursor"]:
        show.notice(f"more: --cursor {answer['cursor']}")


def show_new(key: dict[str, Any], json_out: bool) -> None:
    """Write a key with its text to stdout, and its id to stderr."""
    if json_out:
        show.data(key)
        return
    show.notice(f"key {key['id']}; its text is shown this once:")
    show.line(key["key"])


def key_path(key_id: str) -> str:
    """Return the path of a key."""
    return path_of("keys", key_id)
