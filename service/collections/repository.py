"""SQL of collection settings and counts. The caller commits."""

from typing import Any

from sqlalchemy import Connection, RowMapping, func, or_, select

from index.records import KeyKind
from service.storage.checked_rows import update_row
from service.storage.tables import COLLECTIONS, DOCUMENTS, EVENTS, JUDGMENTS, KEYS, MODELS, PENDING_DOCUMENTS


def find_collection(connection: Connection, collection_id: int) -> RowMapping | None:
    """Return the row of a collection, or None."""
    wanted = select(COLLECTIONS).where(COLLECTIONS.c.id == collection_id)
    return connection.execute(wanted).mappings().one_or_none()


def update_settings(connection: Connection, collection_id: int, settings: dict[str, Any]) -> None:
    """Replace the settings of a collection."""
    update_row(connection, "collections", {"id": collection_id}, {"settings": settings})


def has_documents(connection: Connection, collection_id: int) -> bool:
    """Return whether a collection has documents, searchable or pending."""
    tables = (DOCUMENTS, PENDING_DOCUMENTS)
    wanted = (select(table.c.id).where(table.c.collection_id == collection_id).limit(1) for table in tables)
    return any(connection.execute(one).first() for one in wanted)


def counts(connection: Connection, collection_id: int) -> dict[str, Any]:
    """Return the counts of documents, keys by kind, feedback and models."""

    def count(table: Any) -> int:
        wanted = select(func.count()).select_from(table).where(table.c.collection_id == collection_id)
        return int(connection.execute(wanted).scalar_one())

    is_used = or_(KEYS.c.kind != KeyKind.QUERY, KEYS.c.weight != 0)  # without ratings of 0
    mine = (KEYS.c.collection_id == collection_id, is_used, KEYS.c.kind.in_(list(KeyKind)))  # others are damaged
    kinds = select(KEYS.c.kind, func.count()).where(*mine).group_by(KEYS.c.kind)
    stored = {KeyKind(kind).label: number for kind, number in connection.execute(kinds)}
    return {
        "documents": count(DOCUMENTS),
        "pending": count(PENDING_DOCUMENTS),
        "keys": {kind.label: 0 for kind in KeyKind} | stored,
        "events": count(EVENTS),
        "judgments": count(JUDGMENTS),
        "models": count(MODELS),
    }
