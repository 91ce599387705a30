"""SQL that reads the rules of a collection. `service.rules.repository` writes them."""

from typing import Any

from sqlalchemy import Connection, Row, select

from service.runtime.rules import Rule, Rulebook
from service.storage.tables import RULES
from service.storage.unreadable_rows import UnreadableRow, readable_rows
from service.storage.vector_codec import as_vector


def rule_rows(connection: Connection, collection_id: int) -> tuple[list[Row[Any]], list[str]]:
    """Return the rows of the rules of a collection, by id, and the ids of the rows that cannot be read."""
    wanted = select(RULES).where(RULES.c.collection_id == collection_id).order_by(RULES.c.id)
    rows, unreadable = readable_rows(connection, wanted, RULES.c.id)
    return rows, [id for (id,) in unreadable]


def rulebook(connection: Connection, collection_id: int, dim: int) -> Rulebook:
    """Return the rules of a collection without those that cannot be read, which it names. dim: width of its vectors."""
    rows, unreadable = rule_rows(connection, collection_id)
    found: list[Rule] = []
    for row in rows:
        try:
            found.append(as_rule(row.id, row.body, row.vector, dim))
        except UnreadableRow:
            unreadable.append(row.id)
    return Rulebook(found, unreadable)


def as_rule(id: str, body: dict[str, Any], vector: bytes | None, dim: int) -> Rule:
    """Return the rule of a stored body, which has the form of a request. Raises UnreadableRow for another form."""
    try:
        query = body["query"]
        condition = next(name for name in ("exact", "contains", "near") if query.get(name) is not None)
        pins = sorted(((pin["id"], pin["position"]) for pin in body["pin"]), key=lambda pin: pin[1])
        rule = Rule(
            id=id,
            condition=condition,  # type: ignore[arg-type]
            text=query[condition],
            cosine=query.get("cosine") or Rule.cosine,
            vector=None if vector is None else as_vector(vector),
            pins=tuple(pins),
            hides=tuple(body["hide"]),
            begins=body["from"],
            ends=body["until"],
        )
    except (AttributeError, LookupError, StopIteration, TypeError) as error:
        raise UnreadableRow("rules") from error
    if condition == "near" and (rule.vector is None or len(rule.vector) != dim):
        raise UnreadableRow("rules")
    return rule
