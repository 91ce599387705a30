"""SQL of searches: stored fields of hits, filters, models, past queries, metadata and impressions.

`stored_fields` and `rows_of` are on the path of a search and use a statement without SQLAlchemy, see
`DatabaseReader.fetch`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Row, Select, Text, bindparam, cast, select, text

from index.filters.conditions import FilterNode
from index.records import Ints
from service.storage.database import DatabaseReader
from service.storage.dialects import is_one_of, numbered
from service.storage.filter_sql import to_sql
from service.storage.tables import ALIASES, COLLECTIONS, DOCUMENTS, EVENTS, JUDGMENTS, KEYS, MODELS, QUERIES

STORED_FIELDS = 'SELECT "row", id, title, text, url, CAST(metadata AS TEXT) FROM documents WHERE "row" IN'
ROWS_OF_IDS = 'SELECT id, "row" FROM documents WHERE collection_id = ? AND id IN'


def _feedback() -> Select[*tuple[Any, ...]]:
    memory = (
        select(KEYS.c.id, KEYS.c.event_id, KEYS.c.judgment_id)
        .with_hint(KEYS, "INDEXED BY ix_keys_memory", "sqlite")  # without it, SQLite scans all memory
        .where(KEYS.c.collection_id == bindparam("collection"), text("kind = 3"))
        .where(KEYS.c.query_key == bindparam("source"), KEYS.c.document_row == bindparam("row"))
        .order_by(KEYS.c.id.desc())
        .limit(bindparam("limit"))
        .subquery()
    )
    return (
        select(EVENTS.c.query_id, EVENTS.c.action_name, EVENTS.c.timestamp, JUDGMENTS.c.rating, JUDGMENTS.c.created_at)
        .select_from(memory)
        .join(EVENTS, EVENTS.c.id == memory.c.event_id, isouter=True)
        .join(JUDGMENTS, JUDGMENTS.c.id == memory.c.judgment_id, isouter=True)
        .order_by(memory.c.id.desc())
    )


FEEDBACK = _feedback()
"""Built once, because an explanation runs it for every past query of a hit."""


def stored_fields(database: DatabaseReader, rows: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """Return row -> (row, id, title, text, url, metadata as JSON text) of the documents that are still stored."""
    if not rows:
        return {}
    found = database.fetch(f"{STORED_FIELDS} ({','.join('?' * len(rows))})", rows)
    return {fields[0]: fields for fields in found}


def rows_of(database: DatabaseReader, collection_id: int, ids: Sequence[str]) -> dict[str, int]:
    """Return id -> row of the documents among these ids that are still stored."""
    if not ids:
        return {}
    return dict(database.fetch(f"{ROWS_OF_IDS} ({','.join('?' * len(ids))})", [collection_id, *ids]))


def passing_rows_of(
    database: DatabaseReader, collection_id: int, ids: Sequence[str], node: FilterNode
) -> dict[str, int]:
    """Return id -> row of the stored documents among these ids that match a filter."""
    with database.read() as connection:
        condition = to_sql(connection, node, DOCUMENTS.c.metadata)
        mine = (DOCUMENTS.c.collection_id == collection_id, DOCUMENTS.c.id.in_(ids), condition)
        return {row.id: row.row for row in connection.execute(select(DOCUMENTS.c.id, DOCUMENTS.c.row).where(*mine))}


def _between(collection_id: int, after: int, until: int, count: int) -> ColumnElement[bool]:
    """Return the condition that a document of a collection, of about `count`, has a row after another, until a third.

    Where there are fewer rows between than documents, whatever collection they are of, they are read by their numbers.
    """
    return numbered(DOCUMENTS, DOCUMENTS.c.row, collection_id, after, until, by_number=until - after < count)


def matching_rows(
    connection: Connection, collection_id: int, node: FilterNode, after: int, until: int, count: int
) -> Ints:
    """Return the rows (n,) of the documents that match a filter, after a row, until another. count: as above."""
    condition = to_sql(connection, node, DOCUMENTS.c.metadata)
    wanted = select(DOCUMENTS.c.row).where(_between(collection_id, after, until, count), condition)
    return np.fromiter(connection.execute(wanted).scalars(), np.int64)


def metadata(connection: Connection, rows: list[int]) -> dict[int, dict[str, Any]]:
    """Return row -> metadata of the documents that are still stored."""
    table = DOCUMENTS.c
    wanted = select(table.row, table.metadata).where(is_one_of(connection, table.row, rows))
    return {row.row: row.metadata for row in connection.execute(wanted)}


def metadata_after(
    connection: Connection, collection_id: int, row: int, until: int, count: int
) -> Iterator[tuple[int, str]]:
    """Yield the row and the metadata, as JSON text, of the searchable documents after `row`, in row order.

    until: the last row. count: about how many documents the collection has.
    """
    table = DOCUMENTS.c
    stored = cast(table.metadata, Text)  # not decoded here
    wanted = select(table.row, stored).where(_between(collection_id, row, until, count))
    for found in connection.execute(wanted.order_by(table.row)):
        yield found[0], found[1]


def challenger_version(connection: Connection, collection_id: int) -> int | None:
    """Return the version of the challenger, or None."""
    mine = (ALIASES.c.collection_id == collection_id, ALIASES.c.name == "challenger")
    version: int | None = connection.execute(select(ALIASES.c.version).where(*mine)).scalar()
    return version


def fits_vectors(connection: Connection, collection_id: int, version: int | None) -> bool | None:
    """Return whether a model is for the vectors that the collection has; None: there is no model of this version."""
    wanted = select(MODELS.c.lineage["encoder"].as_string(), COLLECTIONS.c.fingerprint).join(
        COLLECTIONS, COLLECTIONS.c.id == MODELS.c.collection_id
    )
    row = connection.execute(wanted.where(MODELS.c.collection_id == collection_id, MODELS.c.version == version)).first()
    return None if row is None else row[0] in (None, row[1])


def feedback(
    connection: Connection, collection_id: int, query_key: str, row: int, limit: int
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return the newest feedback that a past query gave to a document, newest first.

    A row has the fields of an event (query_id, action_name, timestamp) or of a judgment (rating, created_at).
    """
    values = {"collection": collection_id, "source": query_key, "row": row, "limit": limit}
    return connection.execute(FEEDBACK, values).all()


def impression(connection: Connection, collection_id: int, query_id: str) -> Row[Any] | None:
    """Return the row of a logged search, or None."""
    mine = (QUERIES.c.query_id == query_id, QUERIES.c.collection_id == collection_id)
    return connection.execute(select(QUERIES).where(*mine)).one_or_none()
