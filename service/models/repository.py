"""SQL of models and aliases. The caller commits."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from service.storage.tables import Alias, AliasChange, Model

MAX_LISTED_CHANGES = 20


def all_models(connection: Connection, collection_id: int) -> Sequence[Row[Any]]:
    """Return the models of a collection, oldest first."""
    wanted = select(Model.__table__).where(Model.collection_id == collection_id)
    return connection.execute(wanted.order_by(Model.version)).all()


def find_model(connection: Connection, collection_id: int, version: int) -> Row[Any] | None:
    """Return the row of a model, or None."""
    wanted = select(Model.__table__).where(Model.collection_id == collection_id, Model.version == version)
    return connection.execute(wanted).one_or_none()


def aliases(connection: Connection, collection_id: int) -> dict[str, int]:
    """Return alias -> version."""
    found = connection.execute(select(Alias.name, Alias.version).where(Alias.collection_id == collection_id))
    return {row.name: row.version for row in found}


def newest_alias_changes(connection: Connection, collection_id: int) -> Sequence[Row[Any]]:
    """Return the last MAX_LISTED_CHANGES changes of aliases, newest first."""
    wanted = select(AliasChange.__table__).where(AliasChange.collection_id == collection_id)
    return connection.execute(wanted.order_by(AliasChange.id.desc()).limit(MAX_LISTED_CHANGES)).all()


def has_been_champion(connection: Connection, collection_id: int, version: int) -> bool:
    """Return whether a version is or was the champion, according to the changes of the alias."""
    changes = select(AliasChange.id).where(AliasChange.collection_id == collection_id, AliasChange.name == "champion")
    own = changes.where((AliasChange.from_version == version) | (AliasChange.to_version == version))
    return connection.execute(own).first() is not None


def champion_before(connection: Connection, collection_id: int, current: int) -> int | None:
    """Return the champion before the version `current`, or None. Rollbacks do not count."""
    changes = select(AliasChange.from_version).where(
        AliasChange.collection_id == collection_id,
        AliasChange.name == "champion",
        AliasChange.to_version == current,
        AliasChange.rollback.is_(False),
        AliasChange.from_version != current,
    )
    return connection.execute(changes.order_by(AliasChange.id.desc())).scalars().first()
