"""SQL of aliases of collections. The caller commits."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from service.storage.database import now
from service.storage.tables import CollectionAlias


def find_alias(connection: Connection, name: str) -> Row[Any] | None:
    """Return the row of an alias, or None."""
    wanted = select(CollectionAlias.__table__).where(CollectionAlias.name == name)
    return connection.execute(wanted).one_or_none()


def all_aliases(connection: Connection) -> Sequence[Row[Any]]:
    """Return the rows of all aliases, by name."""
    return connection.execute(select(CollectionAlias.__table__).order_by(CollectionAlias.name)).all()


def replace_alias(connection: Connection, name: str, collection: str) -> None:
    """Point an alias at a collection."""
    delete_alias(connection, name)
    connection.execute(insert(CollectionAlias).values(name=name, collection=collection, created_at=now()))


def delete_alias(connection: Connection, name: str) -> None:
    """Delete an alias."""
    connection.execute(delete(CollectionAlias).where(CollectionAlias.name == name))
