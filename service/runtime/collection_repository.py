"""SQL of collections, and of the documents and confirmations that their state is built from. The caller commits."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, delete, func, insert, literal, or_, select, update

from index.encoding.documents import words_of
from index.generation.generation import IndexedDocument
from index.memory.confirmation import Confirmation
from index.memory.grades import grade_of
from index.records import Document as DocumentRecord
from index.records import Floats, Key, KeyKind
from service.http.problems import not_found
from service.runtime.task_repository import rename_tasks
from service.storage.base import METADATA
from service.storage.checked_rows import update_row
from service.storage.checksums import TABLES, with_owner_changed
from service.storage.database import Database, now
from service.storage.dialects import greatest_number, unindexed
from service.storage.tables import (
    COLLECTION_ALIASES,
    COLLECTIONS,
    DOCUMENTS,
    EVENTS,
    JUDGMENTS,
    KEYS,
    TRAINING_RUNS,
    VALUES,
)
from service.storage.tenants import split
from service.storage.unreadable_rows import UnreadableRow, reading
from service.storage.vector_codec import as_vector

log = structlog.get_logger()
PART_SIZE = 1_000
"""Rows in a condition of a statement, at most."""
OWN_KINDS = frozenset(KeyKind) - {KeyKind.QUERY}
"""Kinds of the keys that documents have of themselves."""
TOMBSTONE = "/"
"""The first character of the name of a collection that is being deleted. Names from clients do not contain it."""
BESIDE = f"{TOMBSTONE}reencoding "
"""The beginning of the name of a collection that `reencode` or `reindex` fills; a number follows."""


def insert_collection(
    connection: Connection, name: str, settings: dict[str, Any], encoder: str, fingerprint: str, dim: int
) -> RowMapping:
    """Insert a collection and return its row."""
    values = {
        "name": name,
        "settings": settings,
        "encoder": encoder,
        "fingerprint": fingerprint,
        "dim": dim,
        "watermark": 0,
        "documents_watermark": 0,
        "created_at": now(),
    }
    collection_id = connection.execute(insert(COLLECTIONS).values(values).returning(COLLECTIONS.c.id)).scalar_one()
    return collection_row(connection, collection_id)


def collection_row(connection: Connection, collection_id: int) -> RowMapping:
    """Return the row of a collection. Raises NoResultFound."""
    wanted = select(COLLECTIONS).where(COLLECTIONS.c.id == collection_id)
    return connection.execute(wanted).mappings().one()


def collection_rows(connection: Connection) -> Sequence[RowMapping]:
    """Return the rows of all collections. Raises UnreadableRow."""
    with reading("collections"):
        return connection.execute(select(COLLECTIONS)).mappings().all()


def collection_ids(connection: Connection) -> set[int]:
    """Return the ids of all collections, also of those whose deletion goes on."""
    return set(connection.execute(select(COLLECTIONS.c.id)).scalars())


def greatest_collection_id(connection: Connection) -> int:
    """Return the greatest id that a collection of this database ever had; ids are never reused."""
    return greatest_number(connection, METADATA.tables["collections"])


def collection_aliases(connection: Connection) -> dict[str, str]:
    """Return alias -> name of its collection, for all aliases."""
    wanted = select(COLLECTION_ALIASES.c.name, COLLECTION_ALIASES.c.collection)
    with reading("collection_aliases"):
        return {alias: collection for alias, collection in connection.execute(wanted)}  # noqa: C416


def swap_names(connection: Connection, a: int, b: int) -> None:
    """Exchange the names of two collections, in their tasks too."""
    rows = {one: collection_row(connection, one) for one in (a, b)}
    mark_deleted(connection, a)  # names are unique, so the first name is free while the other takes it
    for one, other in ((b, a), (a, b)):
        update_row(connection, "collections", {"id": one}, {"name": rows[other]["name"]})
    rename_tasks(connection, {row["name"]: row["created_at"] for row in rows.values()})


def mark_deleted(connection: Connection, collection_id: int) -> None:
    """Rename a collection so that it is not loaded again."""
    update_row(connection, "collections", {"id": collection_id}, {"name": f"{TOMBSTONE}{collection_id}"})


def delete_collection(connection: Connection, collection_id: int) -> None:
    """Delete a collection with everything in it."""
    connection.execute(delete(KEYS).where(KEYS.c.collection_id == collection_id))
    connection.execute(delete(COLLECTIONS).where(COLLECTIONS.c.id == collection_id))


def marked_collections(connection: Connection) -> list[int]:
    """Return the ids of the collections that `mark_deleted` has renamed, and of those that were made beside.

    A name of another form is damaged: a single flipped bit makes `/ak` of `oak`. Such a collection is not deleted.
    """
    marked = select(COLLECTIONS.c.id, COLLECTIONS.c.name).where(COLLECTIONS.c.name.startswith(TOMBSTONE))
    found = connection.execute(marked).all()
    return [id for id, name in found if name == f"{TOMBSTONE}{id}" or name.startswith(BESIDE)]


def processing_run_ids(connection: Connection, collection_id: int | None = None) -> set[str]:
    """Return the ids of the training runs that have not ended, of one collection or of all."""
    wanted = select(TRAINING_RUNS.c.id).where(TRAINING_RUNS.c.status == "processing")
    if collection_id is not None:
        wanted = wanted.where(TRAINING_RUNS.c.collection_id == collection_id)
    return set(connection.execute(wanted).scalars())


def bump_watermark(connection: Connection, collection_id: int, documents: bool) -> int:
    """Count a visible change of a collection and return the new watermark.

    documents: whether documents changed, so that the saved index is outdated. The checksum changes by the difference of
    the watermarks, so that the row is not read. Raises Problem 404 if the collection was deleted.
    """
    watermark, factors = COLLECTIONS.c.watermark + 1, TABLES["collections"].owners
    values: dict[str, Any] = {"watermark": watermark}
    change: Any = factors["watermark"]
    if documents:
        values["documents_watermark"] = watermark
        change = change + (watermark - COLLECTIONS.c.documents_watermark) * factors["documents_watermark"]
    values["checksum"] = with_owner_changed(COLLECTIONS.c.checksum, change)
    changed = update(COLLECTIONS).where(COLLECTIONS.c.id == collection_id).values(values)
    number = connection.execute(changed.returning(COLLECTIONS.c.watermark)).scalar()
    if number is None:
        raise not_found("collection")
    return int(number)


def require_collection(connection: Connection, collection_id: int) -> None:
    """Raise Problem 404 if a collection was deleted after its request began. Called inside the writing transaction."""
    name = connection.execute(select(COLLECTIONS.c.name).where(COLLECTIONS.c.id == collection_id)).scalar()
    if name is None or name == f"{TOMBSTONE}{collection_id}":
        raise not_found("collection")


def indexed_documents(
    connection: Connection, collection_id: int, rows: Sequence[int] | None = None, *, needs_vectors: bool = False
) -> list[IndexedDocument]:
    """Return the documents of a collection with their own keys and values, in the order of rows.

    rows: only these documents, at most PART_SIZE; None: all. A document with a vector that cannot be read has none,
    like one that is not encoded yet: `doctor` names it. needs_vectors: such a vector is an error. Raises UnreadableRow.
    """
    dim = connection.execute(select(COLLECTIONS.c.dim).where(COLLECTIONS.c.id == collection_id)).scalar_one_or_none()
    keys: dict[int, list[Key]] = {}
    damaged: set[int] = set()
    wanted = select(KEYS.c.document_row, KEYS.c.kind, KEYS.c.vector, KEYS.c.span_start, KEYS.c.span_end)
    own = wanted.where(KEYS.c.kind != KeyKind.QUERY).order_by(KEYS.c.id)
    if rows is None:
        own = own.where(KEYS.c.collection_id == collection_id)
    else:
        own = own.where(unindexed(KEYS, collection_id), KEYS.c.document_row.in_(rows))
    with reading("keys"):
        for row, kind, vector, start, end in connection.execute(own):
            key_vector = _vector(vector, dim)
            if key_vector is None or kind not in OWN_KINDS:
                damaged.add(row)
            else:
                keys.setdefault(row, []).append(Key(KeyKind(kind), key_vector, start, end))
    table = DOCUMENTS.c
    stored = select(table.row, table.id, table.title, table.text, table.metadata, VALUES.c.vector)
    stored = stored.join(VALUES, VALUES.c.document_row == table.row, isouter=True)
    if rows is None:
        stored = stored.where(DOCUMENTS.c.collection_id == collection_id)
    else:
        stored = stored.where(unindexed(DOCUMENTS, collection_id), DOCUMENTS.c.row.in_(rows))
    found = connection.execute(stored.order_by(DOCUMENTS.c.row))
    documents = []
    with reading("documents"):
        for row, id, title, text, metadata, blob in found:
            value = _vector(blob, dim)
            if blob is not None and value is None:
                damaged.add(row)
            own_keys, value = ([], None) if row in damaged else (keys.get(row, []), value)
            words = words_of(DocumentRecord(id, text, title))
            documents.append(IndexedDocument(row, words, own_keys, value, title or "", id, metadata))
    if damaged and needs_vectors:
        raise UnreadableRow("keys or values")
    if damaged:
        unreadable = [document.id for document in documents if document.row in damaged]
        log.error("vectors_unreadable", collection=collection_id, count=len(unreadable), documents=unreadable[:20])
    return documents


def document_rows(connection: Connection, collection_id: int) -> list[int]:
    """Return the rows of the documents of a collection, in ascending order."""
    wanted = select(DOCUMENTS.c.row).where(DOCUMENTS.c.collection_id == collection_id).order_by(DOCUMENTS.c.row)
    return list(connection.execute(wanted).scalars())


def rows_without_vectors(connection: Connection, collection_id: int) -> set[int]:
    """Return the rows of the documents whose vectors are not stored yet."""
    wanted = select(DOCUMENTS.c.row).join(VALUES, VALUES.c.document_row == DOCUMENTS.c.row, isouter=True)
    missing = wanted.where(DOCUMENTS.c.collection_id == collection_id, VALUES.c.vector.is_(None))
    return set(connection.execute(missing).scalars())


def _vector(blob: bytes | None, dim: int | None) -> Floats | None:
    """Return the vector (D,) of a BLOB; None without one, and for another width."""
    try:
        vector = None if blob is None else as_vector(blob)
    except UnreadableRow:
        return None
    return vector if vector is not None and len(vector) == dim else None


def confirmations(
    connection: Connection,
    collection_id: int,
    ids: Iterable[int] | None = None,
    rows: Iterable[int] | None = None,
    query_keys: Iterable[str] | None = None,
) -> list[Confirmation]:
    """Return the confirmations of a collection: all, or of the keys `ids`, the documents `rows` or `query_keys`."""
    wanted = _confirmations().where(KEYS.c.kind == KeyKind.QUERY, _has_width(collection_id))
    if ids is not None:
        wanted = wanted.where(KEYS.c.id.in_(list(ids)))
    elif rows is not None:  # no condition on the collection: SQLite would scan all of its memory by that index
        wanted = wanted.where(KEYS.c.document_row.in_(list(rows)))
    else:
        wanted = wanted.where(KEYS.c.collection_id == collection_id)
        if query_keys is not None:
            wanted = wanted.where(KEYS.c.query_key.in_(list(query_keys)))
    vectors: dict[bytes, Floats] = {}  # confirmations of the same query share a vector
    return [_confirmation(row, vectors) for row in connection.execute(wanted)]


def confirmations_without_vectors(connection: Connection, collection_id: int) -> Iterator[Confirmation]:
    """Yield all confirmations of a collection, grouped by query; each has an empty vector."""
    wanted = _confirmations(literal(b"").label("vector")).where(
        KEYS.c.kind == KeyKind.QUERY, KEYS.c.collection_id == collection_id, _has_width(collection_id)
    )
    rows = connection.execute(wanted.order_by(KEYS.c.query_key), execution_options={"yield_per": PART_SIZE})
    empty: dict[bytes, Floats] = {}
    return (_confirmation(row, empty) for row in rows)


def read_confirmations(database: Database, collection_id: int, query_keys: Sequence[str] | None) -> list[Confirmation]:
    """Return the committed confirmations of these past queries, or of all of a collection."""
    with database.read() as connection:
        return confirmations(connection, collection_id, query_keys=query_keys)


def _confirmations(vector: ColumnElement[bytes] | None = None) -> Select[*tuple[Any, ...]]:
    """Return the statement that reads confirmations; `vector` replaces the stored vector.

    A damaged key without an event, a judgment and a day is left out, as is a key with a vector of another width:
    `softseek doctor` names it.
    """
    event, judgment = EVENTS.c, JUDGMENTS.c
    stored = KEYS.c.vector if vector is None else vector
    key = (KEYS.c.id, KEYS.c.document_row, stored, KEYS.c.weight, KEYS.c.query_key, KEYS.c.confirmed_on)
    by_event = (event.client_id, event.timestamp, event.created_at, event.position, event.from_browser)
    by_judgment = (judgment.rater, judgment.created_at.label("judged_at"))
    return (
        select(*key, *by_event, *by_judgment)
        .join(EVENTS, EVENTS.c.id == KEYS.c.event_id, isouter=True)
        .join(JUDGMENTS, JUDGMENTS.c.id == KEYS.c.judgment_id, isouter=True)
        .where(or_(event.created_at.is_not(None), judgment.created_at.is_not(None), KEYS.c.confirmed_on.is_not(None)))
    )


def _has_width(collection_id: int) -> ColumnElement[bool]:
    """Return the condition that the vector of a key is empty, or as wide as those of its collection.

    A length is read without the vector.
    """
    length = func.length(KEYS.c.vector)
    width = select(4 * COLLECTIONS.c.dim).where(COLLECTIONS.c.id == collection_id).scalar_subquery()
    return or_(length == width, length == 0)


def _confirmation(row: Any, vectors: dict[bytes, Floats]) -> Confirmation:
    """Return the confirmation of a stored key. A rater and a client of the same name count as two persons.

    Raises UnreadableRow.
    """
    judged = row.judged_at is not None
    tenant, written = split(row.client_id)
    client = None if written is None else f"client {row.client_id}"
    if row.confirmed_on is not None:  # anonymous: without an event, its client and its position
        moment = f"{row.confirmed_on}T00:00:00Z"
    else:
        moment = row.judged_at if judged else min(row.timestamp, row.created_at)  # a client's clock may be ahead
    try:
        milliseconds = round(1000 * datetime.fromisoformat(moment).timestamp())
    except ValueError as error:
        raise UnreadableRow from error
    return Confirmation(
        row.id,
        row.document_row,
        row.query_key or "",
        vectors.setdefault(row.vector, as_vector(row.vector)),
        grade_of(row.weight),
        f"rater {row.rater}" if judged else client,
        milliseconds,
        judged,
        row.position,
        tenant,
        bool(row.from_browser),
    )
