"""SQL that writes rules, and reads one. The caller commits."""

from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from service.storage.database import now
from service.storage.tables import RULES


def find_rule(connection: Connection, collection_id: int, id: str) -> Row[Any] | None:
    """Return the row of a rule, or None."""
    wanted = select(RULES).where(RULES.c.collection_id == collection_id, RULES.c.id == id)
    return connection.execute(wanted).one_or_none()


def store_rule(connection: Connection, collection_id: int, id: str, body: dict[str, Any], vector: bytes | None) -> None:
    """Store a rule in place of the rule with the same id."""
    mine = (RULES.c.collection_id == collection_id, RULES.c.id == id)
    created_at = connection.execute(select(RULES.c.created_at).where(*mine)).scalar() or now()
    delete_rule(connection, collection_id, id)
    values = {"collection_id": collection_id, "id": id, "body": body, "vector": vector, "created_at": created_at}
    connection.execute(insert(RULES).values(values))


def delete_rule(connection: Connection, collection_id: int, id: str) -> bool:
    """Delete a rule. Return whether it existed."""
    deleted = connection.execute(delete(RULES).where(RULES.c.collection_id == collection_id, RULES.c.id == id))
    return deleted.rowcount > 0
