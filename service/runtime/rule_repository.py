"""SQL that reads the rules of a collection. `service.rules.repository` writes them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from service.runtime.rules import Rule
from service.storage.tables import RULES
from service.storage.vector_codec import as_vector


def rule_rows(connection: Connection, collection_id: int) -> Sequence[Row[Any]]:
    """Return the rows of all rules of a collection, by id."""
    wanted = select(RULES).where(RULES.c.collection_id == collection_id)
    return connection.execute(wanted.order_by(RULES.c.id)).all()


def rules(connection: Connection, collection_id: int) -> list[Rule]:
    """Return all rules of a collection, by id."""
    return [as_rule(row.id, row.body, row.vector) for row in rule_rows(connection, collection_id)]


def as_rule(id: str, body: dict[str, Any], vector: bytes | None) -> Rule:
    """Return the rule of a stored body, which has the form of a request."""
    query = body["query"]
    condition = next(name for name in ("exact", "contains", "near") if query.get(name) is not None)
    pins = sorted(((pin["id"], pin["position"]) for pin in body["pin"]), key=lambda pin: pin[1])
    return Rule(
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
