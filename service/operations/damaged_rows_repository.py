"""SQL that compares stored rows with their checksums, and deletes and replaces damaged vectors. The caller commits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, Column, Connection, Integer, delete, func, or_, select

from service.storage.base import METADATA
from service.storage.checksums import MASK, TABLES, half_sums, halves, readable, texts_as_stored
from service.storage.dialects import is_sqlite, unindexed
from service.storage.postgres_text import unescaped
from service.storage.tables import COLLECTIONS, DOCUMENTS, EVENTS, JUDGMENTS, KEYS, VALUES

ROWS_AT_ONCE = 200
"""Rows that are in memory at a time."""
FIRST = 5
"""Columns of a row before the columns that the checksum covers."""
FROM_QUERY = (
    "CAST(one.kind = 3 AS INTEGER) + CAST(one.source IS NOT NULL AS INTEGER) + CAST(one.event_id IS NOT NULL"
    " OR one.judgment_id IS NOT NULL OR one.confirmed_on IS NOT NULL AS INTEGER) > 1"
)
"""Whether a key is of a past query: two of three signs, because the third may be damaged."""
NAMES = {"documents": "id", "pending_documents": "id", "collections": "name"} | dict.fromkeys(
    ("models", "model_files"), "version"
)
"""Table -> the column that names a row in reports, where it is not the last column of the primary key."""
PART_SIZE = 500
"""Ids in a condition of a statement, at most."""


@dataclass(frozen=True)
class DamagedRow:
    """A row that differs from its checksum.

    number: the row's own number, 0 for a row that has an id instead. name: the id of its document, or the
    row's own id. collection_id: None if no row names the collection.
    vector: whether all but the lower sum agrees. In a key or value only the vector differs then.
    documents: for a key or value, the rows of the documents that it may belong to: that number may be damaged too.
    """

    number: int
    collection_id: int | None
    name: str
    is_memory: bool = False
    vector: bool = False
    documents: tuple[int, ...] = ()


def damaged_rows(connection: Connection, table: str) -> Iterator[DamagedRow]:
    """Yield the rows of a table that differ from their checksums, or have none, in the order of their numbers."""
    columns = TABLES[table].columns
    with texts_as_stored(connection):
        found = connection.exec_driver_sql(_statement(connection, table), execution_options={"yield_per": ROWS_AT_ONCE})
        for row in found:
            values = dict(zip(columns, map(_unescaped, row[FIRST:]), strict=True))
            lower, upper = half_sums(table, values)
            number, collection_id, name, from_query, checksum = row[:FIRST]
            if isinstance(checksum, int) and halves(checksum) == (lower, upper):
                continue
            documents: tuple[int, ...] = ()
            if "document_row" in values and isinstance(values["document_row"], int):
                owner = values["document_row"]
                kept = halves(checksum)[1] if isinstance(checksum, int) else upper
                documents = (owner, (kept - upper + owner) & MASK)
            yield DamagedRow(
                number,
                collection_id if isinstance(collection_id, int) else None,
                readable(name),
                bool(from_query),
                isinstance(checksum, int) and halves(checksum)[1] == upper,
                documents,
            )


def _unescaped(value: Any) -> Any:
    return unescaped(value) if isinstance(value, str) else value


def _statement(connection: Connection, table: str) -> str:
    """Return the SELECT of number, collection, name, whether a query made the row, checksum, and the columns."""
    stored = METADATA.tables[table]
    key = list(stored.primary_key)[-1]
    number = f'one."{key.name}"' if isinstance(key.type, Integer) else "0"
    columns = ", ".join(_column(connection, stored.c[name]) for name in TABLES[table].columns)
    joined, collection, name, from_query = "", "one.collection_id", f'one."{NAMES.get(table, key.name)}"', "0"
    if table == "collections":
        collection = "one.id"
    elif "document_row" in stored.c:
        joined = ' LEFT JOIN documents ON documents."row" = one.document_row'
        name = f"coalesce(documents.id, CAST({name} AS TEXT))"
        collection = (
            "coalesce(documents.collection_id, one.collection_id)" if table == "keys" else "documents.collection_id"
        )
        from_query = FROM_QUERY if table == "keys" else "0"
    elif "collection_id" not in stored.c:
        collection = "NULL"
    first = f"{number}, {collection}, {name}, {from_query}, one.checksum"
    order = "" if number == "0" else f" ORDER BY {number}"
    return f'SELECT {first}, {columns} FROM "{table}" AS one{joined}{order}'


def _column(connection: Connection, column: Column[Any]) -> str:
    """Return the SQL of a column as it is stored: JSON as its text."""
    name = f'one."{column.name}"'
    return f"CAST({name} AS TEXT)" if isinstance(column.type, JSON) and not is_sqlite(connection) else name


def row_count(connection: Connection, table: str, collection_id: int) -> int:
    """Return the number of rows of a collection in a table."""
    stored = METADATA.tables[table]
    wanted = select(func.count()).select_from(stored).where(stored.c.collection_id == collection_id)
    return int(connection.execute(wanted).scalar_one())


def collection_ids(connection: Connection) -> set[int]:
    """Return the numbers of all collections, also of collections that are being deleted."""
    return set(connection.execute(select(COLLECTIONS.c.id)).scalars())


def owner_collection(connection: Connection, rows: Sequence[int]) -> int | None:
    """Return the number of the collection of the first of these documents that is stored, or None."""
    found = select(DOCUMENTS.c.collection_id).where(DOCUMENTS.c.row.in_(rows)).limit(1)
    return connection.execute(found).scalar()


def ids_of_rows(connection: Connection, collection_id: int, rows: Sequence[int]) -> dict[int, str]:
    """Return row -> id of the documents of a collection among these rows."""
    wanted = select(DOCUMENTS.c.row, DOCUMENTS.c.id).where(
        unindexed(DOCUMENTS, collection_id), DOCUMENTS.c.row.in_(rows)
    )
    with texts_as_stored(connection):
        return {int(row): readable(id) for row, id in connection.execute(wanted.order_by(DOCUMENTS.c.row))}


def delete_left_vectors(connection: Connection, keys: Sequence[int], values: Sequence[int]) -> None:
    """Delete keys, and the values among these that belong to no document."""
    for start in range(0, len(keys), PART_SIZE):
        connection.execute(delete(KEYS).where(KEYS.c.id.in_(keys[start : start + PART_SIZE])))
    for start in range(0, len(values), PART_SIZE):
        part = VALUES.c.document_row.in_(values[start : start + PART_SIZE])
        connection.execute(delete(VALUES).where(part, VALUES.c.document_row.not_in(select(DOCUMENTS.c.row))))


def query_texts(connection: Connection, ids: Sequence[int]) -> dict[int, tuple[str, int | None, int | None]]:
    """Return id -> text of the query, event and judgment, for the `query` keys among these that have a text.

    Keys of weight 0 have no vector, and are left out.
    """
    found: dict[int, tuple[str, int | None, int | None]] = {}
    for start in range(0, len(ids), PART_SIZE):
        wanted = (
            select(
                KEYS.c.id,
                func.coalesce(EVENTS.c.query_text, JUDGMENTS.c.query_text),
                KEYS.c.event_id,
                KEYS.c.judgment_id,
            )
            .join(EVENTS, EVENTS.c.id == KEYS.c.event_id, isouter=True)
            .join(JUDGMENTS, JUDGMENTS.c.id == KEYS.c.judgment_id, isouter=True)
            .where(KEYS.c.id.in_(ids[start : start + PART_SIZE]), KEYS.c.weight != 0)
        )
        rows = connection.execute(wanted.where(or_(KEYS.c.event_id.is_not(None), KEYS.c.judgment_id.is_not(None))))
        found |= {id: (text, event, judgment) for id, text, event, judgment in rows}
    return found
