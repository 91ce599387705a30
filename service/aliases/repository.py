"""SQL of aliases of collections. The caller commits."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from service.storage.database import now
from service.storage.tables import COLLECTION_ALIASES


def find_alias(connection: Connection, name: str) -> Row[Any] | None:
    """Return the row of an alias, or None."""
    wanted = select(COLLECTION_ALIASES).where(COLLECTION_ALIASES.c.name == name)
    return connection.execute(wanted).one_or_none()


def all_aliases(connection: Connection) -> Sequence[Row[Any]]:
    """Return the rows of all aliases, by name."""
    return connection.execute(select(COLLECTION_ALIASES).order_by(COLLECTION_ALIASES.c.name)).all()


def replace_alias(connection: Connection, name: str, collection: str) -> None:
    """Point an alias at a collection."""
    delete_alias(connection, name)
    connection.execute(insert(COLLECTION_ALIASES).values(name=name, collection=collection, created_at=now()))


def delete_alias(connection: Connection, name: str) -> None:
    """Delete an alias."""
    connection.execute(delete(COLLECTION_ALIASES).where(COLLECTION_ALIASES.c.name == name))
