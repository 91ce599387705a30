"""SQL of models and aliases. The caller commits."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from service.storage.tables import ALIAS_CHANGES, ALIASES, MODELS

MAX_LISTED_CHANGES = 20


def all_models(connection: Connection, collection_id: int) -> Sequence[Row[Any]]:
    """Return the models of a collection, oldest first."""
    wanted = select(MODELS).where(MODELS.c.collection_id == collection_id)
    return connection.execute(wanted.order_by(MODELS.c.version)).all()


def find_model(connection: Connection, collection_id: int, version: int) -> Row[Any] | None:
    """Return the row of a model, or None."""
    wanted = select(MODELS).where(MODELS.c.collection_id == collection_id, MODELS.c.version == version)
    return connection.execute(wanted).one_or_none()


def aliases(connection: Connection, collection_id: int) -> dict[str, int]:
    """Return alias -> version."""
    found = connection.execute(
        select(ALIASES.c.name, ALIASES.c.version).where(ALIASES.c.collection_id == collection_id)
    )
    return {row.name: row.version for row in found}


def newest_alias_changes(connection: Connection, collection_id: int) -> Sequence[Row[Any]]:
    """Return the last MAX_LISTED_CHANGES changes of aliases, newest first."""
    wanted = select(ALIAS_CHANGES).where(ALIAS_CHANGES.c.collection_id == collection_id)
    return connection.execute(wanted.order_by(ALIAS_CHANGES.c.id.desc()).limit(MAX_LISTED_CHANGES)).all()


def has_been_champion(connection: Connection, collection_id: int, version: int) -> bool:
    """Return whether a version is or was the champion, according to the changes of the alias."""
    changes = select(ALIAS_CHANGES.c.id).where(
        ALIAS_CHANGES.c.collection_id == collection_id, ALIAS_CHANGES.c.name == "champion"
    )
    own = changes.where((ALIAS_CHANGES.c.from_version == version) | (ALIAS_CHANGES.c.to_version == version))
    return connection.execute(own).first() is not None


def champion_before(connection: Connection, collection_id: int) -> int | None:
    """Return the champion to which a rollback goes, or None: each rollback takes back one more promotion."""
    columns = (ALIAS_CHANGES.c.from_version, ALIAS_CHANGES.c.to_version, ALIAS_CHANGES.c.rollback)
    changes = select(*columns).where(
        ALIAS_CHANGES.c.collection_id == collection_id,
        ALIAS_CHANGES.c.name == "champion",
        ALIAS_CHANGES.c.from_version.is_not(None),
        ALIAS_CHANGES.c.from_version != ALIAS_CHANGES.c.to_version,
    )
    before: list[int] = []
    for change in connection.execute(changes.order_by(ALIAS_CHANGES.c.id)):
        if not change.rollback:
            before.append(change.from_version)
        elif change.to_version in before:
            while before.pop() != change.to_version:
                pass
    return before[-1] if before else None
