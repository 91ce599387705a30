"""SQL of documents: pending documents, searchable documents, their keys and values.

Every function runs inside the caller's transaction.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, RowMapping, Text, cast, delete, func, insert, literal, select, tuple_, update

from index.encoding.documents import EncodedDocument
from index.filters.conditions import FilterNode
from index.filters.evaluation import matches
from index.records import Document as DocumentRecord
from index.records import KeyKind
from service.storage.checksums import row_checksum, texts_as_stored, with_owner_changed
from service.storage.database import now
from service.storage.filter_sql import to_sql
from service.storage.tables import DOCUMENTS, KEYS, PENDING_DOCUMENTS, VALUES
from service.storage.unreadable_rows import readable_rows
from service.storage.vector_codec import as_blob

PART_SIZE = 500
"""Ids in one DELETE statement: SQLite limits the parameters of a statement."""

T = TypeVar("T")


def insert_pending(connection: Connection, collection_id: int, bodies: dict[str, dict[str, Any]]) -> list[int]:
    """Store documents (id -> body) as pending, in place of pending documents with the same ids.

    Returns the sequence numbers in ascending order.
    """
    if not bodies:
        return []
    mine = (PENDING_DOCUMENTS.c.collection_id == collection_id, PENDING_DOCUMENTS.c.id.in_(list(bodies)))
    connection.execute(delete(PENDING_DOCUMENTS).where(*mine))
    created_at = now()
    rows = [
        {"collection_id": collection_id, "id": id, "body": body, "created_at": created_at}
        for id, body in bodies.items()
    ]
    connection.execute(insert(PENDING_DOCUMENTS), rows)
    found = connection.execute(select(PENDING_DOCUMENTS.c.sequence).where(*mine).order_by(PENDING_DOCUMENTS.c.sequence))
    return [int(sequence) for sequence in found.scalars()]


def pending_sequences(connection: Connection, collection_id: int) -> list[int]:
    """Return the sequence numbers of all pending documents of a collection, in ascending order."""
    wanted = select(PENDING_DOCUMENTS.c.sequence).where(PENDING_DOCUMENTS.c.collection_id == collection_id)
    return list(connection.execute(wanted.order_by(PENDING_DOCUMENTS.c.sequence)).scalars())


def pending_documents(connection: Connection, sequences: Sequence[int]) -> Sequence[Row[int, str, dict[str, Any]]]:
    """Return (sequence, id, body) of the documents that are still pending, by sequence."""
    wanted = select(PENDING_DOCUMENTS.c.sequence, PENDING_DOCUMENTS.c.id, PENDING_DOCUMENTS.c.body)
    found = wanted.where(PENDING_DOCUMENTS.c.sequence.in_(sequences)).order_by(PENDING_DOCUMENTS.c.sequence)
    return connection.execute(found).all()


def take_pending(connection: Connection, sequences: Sequence[int]) -> list[int]:
    """Delete pending documents; return the sequence numbers that were still pending, in ascending order."""
    condition = PENDING_DOCUMENTS.c.sequence.in_(sequences)
    taken = connection.execute(delete(PENDING_DOCUMENTS).where(condition).returning(PENDING_DOCUMENTS.c.sequence))
    return sorted(taken.scalars())


def delete_pending(connection: Connection, sequences: Sequence[int]) -> None:
    """Delete pending documents by sequence number."""
    for part in _parts(sequences):
        connection.execute(delete(PENDING_DOCUMENTS).where(PENDING_DOCUMENTS.c.sequence.in_(part)))


def pending_characters(connection: Connection, sequences: Sequence[int]) -> int:
    """Return the number of characters of pending documents, as JSON."""
    size = func.coalesce(func.sum(func.length(cast(PENDING_DOCUMENTS.c.body, Text))), 0)
    parts = (select(size).where(PENDING_DOCUMENTS.c.sequence.in_(part)) for part in _parts(sequences))
    return sum(int(connection.execute(part).scalar_one()) for part in parts)


def new_pending_documents(
    connection: Connection, collection_id: int, sequences: Sequence[int]
) -> Sequence[Row[int, str, dict[str, Any]]]:
    """Return (sequence, id, body) of the pending documents whose id no searchable document has, by sequence."""
    found = pending_documents(connection, sequences)
    known = rows_by_id(connection, collection_id, [row.id for row in found])
    return [row for row in found if row.id not in known]


def ids_without_vectors(connection: Connection, collection_id: int, sequences: Sequence[int]) -> list[str]:
    """Return the ids of the documents that are still pending, and searchable without vectors."""
    same = (DOCUMENTS.c.collection_id == collection_id) & (DOCUMENTS.c.id == PENDING_DOCUMENTS.c.id)
    wanted = (
        select(PENDING_DOCUMENTS.c.id).join(DOCUMENTS, same).join(VALUES, isouter=True).where(VALUES.c.vector.is_(None))
    )
    parts = (wanted.where(PENDING_DOCUMENTS.c.sequence.in_(part)) for part in _parts(sequences))
    return [id for part in parts for id in connection.execute(part).scalars()]


def pending_with_stored_texts(connection: Connection, collection_id: int, sequences: Sequence[int]) -> list[int]:
    """Return the sequence numbers of the pending documents whose title and text are searchable with vectors.

    A document that cannot be read is left out.
    """
    pending, documents = PENDING_DOCUMENTS.c, DOCUMENTS.c
    same = (documents.collection_id == collection_id) & (documents.id == pending.id)
    wanted = select(pending.sequence, pending.body, documents.title, documents.text)
    wanted = wanted.join(DOCUMENTS, same).join(VALUES)
    found: list[int] = []
    for part in _parts(sequences):  # compared here: PostgreSQL takes no NUL out of JSON
        rows, _ = readable_rows(connection, wanted.where(pending.sequence.in_(part)), pending.sequence)
        found += [one.sequence for one in rows if (one.body["title"], one.body["text"]) == (one.title, one.text)]
    return found


def pending_body(connection: Connection, collection_id: int, document_id: str) -> dict[str, Any] | None:
    """Return the body of a pending document, or None."""
    mine = (PENDING_DOCUMENTS.c.collection_id == collection_id, PENDING_DOCUMENTS.c.id == document_id)
    body: dict[str, Any] | None = connection.execute(select(PENDING_DOCUMENTS.c.body).where(*mine)).scalar()
    return body


def pending_bodies(connection: Connection, collection_id: int, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return id -> body of the pending documents among these ids."""
    wanted = select(PENDING_DOCUMENTS.c.id, PENDING_DOCUMENTS.c.body)
    mine = wanted.where(PENDING_DOCUMENTS.c.collection_id == collection_id)
    parts = (connection.execute(mine.where(PENDING_DOCUMENTS.c.id.in_(part))) for part in _parts(ids))
    return {id: body for part in parts for id, body in part}


def document(connection: Connection, collection_id: int, document_id: str) -> Row[Any] | None:
    """Return the row of a searchable document, or None."""
    mine = (DOCUMENTS.c.collection_id == collection_id, DOCUMENTS.c.id == document_id)
    return connection.execute(select(DOCUMENTS).where(*mine)).one_or_none()


def documents_after(connection: Connection, collection_id: int, row: int, limit: int) -> Sequence[Row[Any]]:
    """Return the rows of up to `limit` searchable documents after `row`, in row order."""
    mine = (DOCUMENTS.c.collection_id == collection_id, DOCUMENTS.c.row > row)
    return connection.execute(select(DOCUMENTS).where(*mine).order_by(DOCUMENTS.c.row).limit(limit)).all()


def documents_arrived_after(
    connection: Connection, collection_id: int, created_at: str, document_id: str, limit: int
) -> tuple[list[Row[Any]], list[Row[Any]]]:
    """Return up to `limit` searchable documents that arrived after a document, in the order of arrival.

    A document keeps its place when it is replaced. Documents of the same time are in the order of their ids. They are
    the rows of documents, and (created_at, id) of the documents among them that cannot be read.
    """
    table = DOCUMENTS.c
    after = tuple_(table.created_at, table.id) > tuple_(
        literal(created_at, table.created_at.type), literal(document_id, table.id.type)
    )
    wanted = select(DOCUMENTS).where(table.collection_id == collection_id, after)
    wanted = wanted.order_by(table.created_at, table.id).limit(limit)
    return readable_rows(connection, wanted, table.created_at, table.id)


def record_of(row: Row[Any]) -> DocumentRecord:
    """Return the document of a row of `documents`."""
    return DocumentRecord(row.id, row.text, row.title, row.url, row.metadata)


def documents_of_rows(connection: Connection, rows: Sequence[int]) -> Sequence[Row[Any]]:
    """Return the searchable documents of these rows that are still there, in row order."""
    wanted = select(DOCUMENTS).where(DOCUMENTS.c.row.in_(rows)).order_by(DOCUMENTS.c.row)
    return connection.execute(wanted).all()


def rows_by_id(connection: Connection, collection_id: int, ids: Sequence[str]) -> dict[str, int]:
    """Return id -> row of the searchable documents among these ids."""
    return {one.id: one.row for one in places(connection, collection_id, ids)}


def places(connection: Connection, collection_id: int, ids: Sequence[str]) -> Sequence[Row[str, int, str]]:
    """Return (id, row, created_at) of the searchable documents among these ids.

    created_at: the time when a document with this id was first stored.
    """
    # in two steps, because SQLite would read all documents of the collection in an index that has all these columns
    rows = select(DOCUMENTS.c.row).where(DOCUMENTS.c.collection_id == collection_id, DOCUMENTS.c.id.in_(ids))
    wanted = select(DOCUMENTS.c.id, DOCUMENTS.c.row, DOCUMENTS.c.created_at).where(DOCUMENTS.c.row.in_(rows))
    return connection.execute(wanted).all()


def stored_bodies(connection: Connection, collection_id: int, ids: Sequence[str]) -> dict[str, dict[str, Any] | None]:
    """Return id -> body of the searchable documents among these ids; None if a document differs from its checksum."""
    table = DOCUMENTS.c
    columns = [cast(one, Text).label("metadata") if one is table.metadata else one for one in table]
    wanted = select(*columns).where(DOCUMENTS.c.collection_id == collection_id, DOCUMENTS.c.id.in_(ids))
    with texts_as_stored(connection):
        found = connection.execute(wanted).mappings().all()
    return {row["id"]: _body(row) for row in found}


def _body(row: RowMapping) -> dict[str, Any] | None:
    if not is_sound("documents", row):
        return None
    return {name: row[name] for name in ("title", "text", "url")} | {"metadata": json.loads(row["metadata"])}


def pending_among(connection: Connection, collection_id: int, ids: Sequence[str]) -> dict[str, int]:
    """Return id -> sequence number of the pending documents among these ids."""
    wanted = select(PENDING_DOCUMENTS.c.id, PENDING_DOCUMENTS.c.sequence)
    mine = wanted.where(PENDING_DOCUMENTS.c.collection_id == collection_id)
    parts = (connection.execute(mine.where(PENDING_DOCUMENTS.c.id.in_(part))) for part in _parts(ids))
    return {id: int(sequence) for part in parts for id, sequence in part}


def still_pending(connection: Connection, sequences: Sequence[int]) -> list[int]:
    """Return the sequence numbers among these of documents that are still pending."""
    wanted = select(PENDING_DOCUMENTS.c.sequence)
    parts = (wanted.where(PENDING_DOCUMENTS.c.sequence.in_(part)) for part in _parts(sequences))
    return [int(sequence) for part in parts for sequence in connection.execute(part).scalars()]


def ids_by_row(connection: Connection, collection_id: int) -> dict[int, str]:
    """Return row -> id of all searchable documents."""
    found = connection.execute(
        select(DOCUMENTS.c.row, DOCUMENTS.c.id).where(DOCUMENTS.c.collection_id == collection_id)
    )
    return {int(row): id for row, id in found}


def matching_ids(
    connection: Connection, collection_id: int, node: FilterNode, among: Sequence[str] | None = None
) -> list[str]:
    """Return the ids of the documents whose newest version, pending or searchable, matches a filter.

    among: the ids that are compared; None: all.
    """
    if among is not None:
        return [id for part in _parts(among) for id in _matching(connection, collection_id, node, part)]
    return _matching(connection, collection_id, node, None)


def _matching(connection: Connection, collection_id: int, node: FilterNode, among: Sequence[str] | None) -> list[str]:
    documents, pending = DOCUMENTS.c, PENDING_DOCUMENTS.c
    stored = select(documents.id).where(
        documents.collection_id == collection_id, to_sql(connection, node, documents.metadata)
    )
    waiting = select(pending.id, pending.body["metadata"]).where(pending.collection_id == collection_id)
    if among is not None:
        stored, waiting = stored.where(documents.id.in_(among)), waiting.where(pending.id.in_(among))
    is_match = {id: matches(node, fields or {}) for id, fields in connection.execute(waiting)}
    found = [id for id in connection.execute(stored).scalars() if id not in is_match]
    return found + [id for id, does_match in is_match.items() if does_match]


def newest_numbers(connection: Connection, collection_id: int) -> tuple[int, int]:
    """Return the greatest row of a searchable document and the greatest sequence number of a pending one, 0 if none."""
    row = select(func.max(DOCUMENTS.c.row)).where(DOCUMENTS.c.collection_id == collection_id)
    sequence = select(func.max(PENDING_DOCUMENTS.c.sequence)).where(PENDING_DOCUMENTS.c.collection_id == collection_id)
    return connection.execute(row).scalar() or 0, connection.execute(sequence).scalar() or 0


def ids_after(connection: Connection, collection_id: int, row: int, sequence: int) -> list[str]:
    """Return the ids of the searchable documents after a row and of the pending ones after a sequence number."""
    stored = select(DOCUMENTS.c.id).where(DOCUMENTS.c.collection_id == collection_id, DOCUMENTS.c.row > row)
    mine = (PENDING_DOCUMENTS.c.collection_id == collection_id, PENDING_DOCUMENTS.c.sequence > sequence)
    waiting = select(PENDING_DOCUMENTS.c.id).where(*mine)
    return [*connection.execute(stored).scalars(), *connection.execute(waiting).scalars()]


def insert_documents(
    connection: Connection, collection_id: int, records: Sequence[DocumentRecord], created: Mapping[str, str]
) -> list[int]:
    """Insert documents; return their rows in the order of the records.

    created: id -> created_at of the documents in whose place they come.
    """
    created_at = now()
    values = [
        {
            "collection_id": collection_id,
            "id": record.id,
            "title": record.title,
            "text": record.text,
            "url": record.url,
            "metadata": dict(record.metadata),
            "created_at": created.get(record.id, created_at),
        }
        for record in records
    ]
    statement = insert(DOCUMENTS).returning(DOCUMENTS.c.row, sort_by_parameter_order=True)
    return [int(row) for row in connection.execute(statement, values).scalars()]


def insert_vectors(
    connection: Connection, collection_id: int, rows: Sequence[int], documents: Sequence[EncodedDocument]
) -> None:
    """Insert the keys and the value of each document."""
    keys = [
        {
            "collection_id": collection_id,
            "document_row": row,
            "query_key": None,
            "kind": int(key.kind),
            "vector": as_blob(key.vector),
            "weight": 1.0,
            "span_start": key.start,
            "span_end": key.end,
        }
        for row, encoded in zip(rows, documents, strict=True)
        for key in encoded.keys
    ]
    if keys:
        connection.execute(insert(KEYS), keys)
    values = [
        {"document_row": row, "vector": as_blob(encoded.value)} for row, encoded in zip(rows, documents, strict=True)
    ]
    connection.execute(insert(VALUES), values)


def damaged_rows(rows: Iterable[Row[Any]]) -> list[int]:
    """Return the places of the rows of `documents_after` that differ from their checksums."""
    return [at for at, row in enumerate(rows) if not is_sound("documents", row._mapping)]


def mark_damaged(connection: Connection, rows: Sequence[int]) -> None:
    """Take the checksums away from documents that were copied from damaged documents."""
    connection.execute(update(DOCUMENTS).where(DOCUMENTS.c.row.in_(rows)).values(checksum=None))


def is_sound(table: str, row: RowMapping) -> bool:
    """Return whether a row of a table agrees with its checksum."""
    return bool(row_checksum(table, dict(row)) == row["checksum"])


def delete_replaced(connection: Connection, rows: Sequence[int]) -> None:
    """Delete documents and their own keys. Their `query` keys stay, for `move_memory`."""
    if rows:
        connection.execute(delete(KEYS).where(KEYS.c.document_row.in_(rows), KEYS.c.kind != KeyKind.QUERY))
        connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.row.in_(rows)))


def move_memory(connection: Connection, moved: Mapping[int, int]) -> None:
    """Attach the `query` keys of replaced documents to their new rows. moved: old row -> new row."""
    if not moved:
        return
    with_memory = select(KEYS.c.document_row).where(KEYS.c.document_row.in_(list(moved))).distinct()
    for old_row in connection.execute(with_memory).scalars().all():
        new_row = moved[old_row]
        values = {"document_row": new_row, "checksum": with_owner_changed(KEYS.c.checksum, new_row - old_row)}
        connection.execute(update(KEYS).where(KEYS.c.document_row == old_row).values(values))


def delete_documents(
    connection: Connection, collection_id: int, ids: Sequence[str]
) -> tuple[list[int], list[int], int]:
    """Delete documents, pending or searchable, with all their keys.

    Returns the rows and the ids of the `query` keys that were deleted, and the number of distinct documents.
    """
    rows: list[int] = []
    memory: list[int] = []
    count = 0
    for part in _parts(ids):
        pending = (PENDING_DOCUMENTS.c.collection_id == collection_id, PENDING_DOCUMENTS.c.id.in_(part))
        searchable = rows_by_id(connection, collection_id, part)
        count += len(
            searchable.keys() | set(connection.execute(select(PENDING_DOCUMENTS.c.id).where(*pending)).scalars())
        )
        connection.execute(delete(PENDING_DOCUMENTS).where(*pending))
        part_rows = list(searchable.values())
        keys = KEYS.c.document_row.in_(part_rows)
        memory += connection.execute(select(KEYS.c.id).where(keys, KEYS.c.kind == KeyKind.QUERY)).scalars()
        connection.execute(delete(KEYS).where(keys))
        connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.row.in_(part_rows)))
        rows += part_rows
    return rows, memory, count


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + PART_SIZE] for start in range(0, len(items), PART_SIZE))
