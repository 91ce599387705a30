"""`rules`: lists, shows, sets and deletes the documents that the owner of a collection pins and hides."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import DEFAULT_COLLECTION, collection_path, connect
from service.cli.failures import USAGE, Failure
from service.cli.options import CollectionOption, DataOption, JsonOption, UrlOption

rules = typer.Typer(help="Documents that are pinned or hidden for some queries.", no_args_is_help=True)
RuleArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the rule.")]
FACTS = ("rule", "query", "pinned", "hidden", "from", "until")


@rules.command("list")
def list_rules(
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """List the rules of a collection."""
    with connect(data, url) as service:
        answer = service.call("GET", collection_path(collection, "rules"))
    if json_out:
        show.data(answer)
        return
    show.table(FACTS, map(facts, answer["rules"]))


@rules.command("get")
def get_rule(
    rule_id: RuleArgument,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Show a rule."""
    with connect(data, url) as service:
        rule = service.call("GET", collection_path(collection, "rules", rule_id))
    if json_out:
        show.data(rule)
    else:
        show.table(("field", "value"), zip(FACTS, facts(rule), strict=True))


def facts(rule: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the FACTS of a rule."""
    return (
        rule["id"],
        " ".join(f"{name} {value}" for name, value in rule["query"].items()),
        ", ".join(f"{pin['id']}:{pin['position']}" for pin in rule["pin"]),
        ", ".join(rule["hide"]),
        rule["from"],
        rule["until"],
    )


@rules.command("set")
def set_rule(
    rule_id: RuleArgument,
    exact: Annotated[str | None, typer.Option(help="The query is this text, in any case and spacing.")] = None,
    contains: Annotated[str | None, typer.Option(help="The query contains these words in this order.")] = None,
    near: Annotated[str | None, typer.Option(help="The query is near this text.")] = None,
    cosine: Annotated[
        float | None, typer.Option(min=0, max=1, help="The least cosine of --near; by default 0.8.")
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DOCUMENT[:POSITION]", help="Pin a document; by default at the next position; repeatable."
        ),
    ] = None,
    hide: Annotated[list[str] | None, typer.Option(metavar="DOCUMENT", help="Hide a document; repeatable.")] = None,
    begins: Annotated[str | None, typer.Option("--from", help="The time from which the rule applies.")] = None,
    ends: Annotated[str | None, typer.Option("--until", help="The time at which the rule ends.")] = None,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Store a rule, in place of the rule with this id. Times are RFC 3339, such as 2026-12-24T00:00:00Z."""
    conditions = {"exact": exact, "contains": contains, "near": near, "cosine": cosine}
    query = {name: value for name, value in conditions.items() if value is not None}
    if len(query.keys() - {"cosine"}) != 1:
        raise Failure(USAGE, "a rule needs one of --exact, --contains and --near")
    body = {"query": query, "pin": pins(pin or []), "hide": hide or [], "from": begins, "until": ends}
    with connect(data, url) as service:
        rule = service.call("PUT", collection_path(collection, "rules", rule_id), body)
    if json_out:
        show.data(rule)
    else:
        show.line(f"rule {rule['id']} pins {len(rule['pin'])} and hides {len(rule['hide'])} documents")


def pins(given: list[str]) -> list[dict[str, Any]]:
    """Return the pins of `id:position`; a pin without a position follows the previous pin directly."""
    found: list[dict[str, Any]] = []
    for text in given:
        id, colon, position = text.rpartition(":")
        if colon and id and position.isascii() and position.isdigit():
            found.append({"id": id, "position": int(position)})
        else:
            found.append({"id": text, "position": found[-1]["position"] + 1 if found else 1})
    return found


@rules.command("delete")
def delete_rule(
    rule_id: RuleArgument,
    collection: CollectionOption = DEFAULT_COLLECTION,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Delete a rule."""
    with connect(data, url) as service:
        service.call("DELETE", collection_path(collection, "rules", rule_id))
    if json_out:
        show.data({"deleted": rule_id})
    else:
        show.line(f"rule {rule_id} is deleted")
