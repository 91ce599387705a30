"""`erase`: removes everything that one client, user or session left, and writes the receipt."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import connect
from service.cli.failures import USAGE, Failure
from service.cli.following import follow
from service.cli.options import DataOption, JsonOption, UrlOption


def erase(
    client: Annotated[str | None, typer.Option(help="The client_id of searches and events.")] = None,
    user: Annotated[str | None, typer.Option(help="The user_id of events, and the rater of judgments.")] = None,
    session: Annotated[str | None, typer.Option(help="The session_id of searches and events.")] = None,
    collection: Annotated[str | None, typer.Option(help="The collection; by default all.")] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Erase the searches, events, judgments and memory of one client, user or session from all files."""
    named = {name: value for name, value in (("client", client), ("user", user), ("session", session)) if value}
    if len(named) != 1:
        raise Failure(USAGE, "give one of --client, --user and --session")
    with connect(data, url) as service:
        task = service.call("POST", "/v1/erasures", named | ({"collection": collection} if collection else {}))
        receipt = follow(service, f"/v1/tasks/{task['id']}", "erasing")["result"]
    if json_out:
        show.data(receipt)
    else:
        write_receipt(receipt)


def write_receipt(receipt: Mapping[str, Any]) -> None:
    """Write a receipt for people."""
    erased = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in receipt["erased"].items())
    models = ", ".join(f"{one['collection']} {one['version']}" for one in receipt["models"])
    facts = {
        "receipt": receipt["id"],
        "finished": receipt["finished_at"],
        "collections": ", ".join(receipt["collections"]),
        "erased": erased,
        "canceled training runs": ", ".join(receipt["canceled_training_runs"]) or "none",
        "models that may have seen it": models or "none",
        "snapshots that may hold it": ", ".join(one["file"] for one in receipt["snapshots"]) or "none",
        "set aside before, and may hold it": ", ".join(one["file"] for one in receipt.get("set_aside", ())) or "none",
        "sha256": receipt["sha256"],
    }
    show.table(("fact", "value"), list(facts.items()))
