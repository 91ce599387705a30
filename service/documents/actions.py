"""Takes documents in durably, encodes them, makes them searchable; takes them out."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, delete, insert, select, update

from index.encoding.documents import EncodedDocument, encode_documents, words_of
from index.errors import Canceled
from index.generation.generation import IndexedDocument
from index.records import Document as DocumentRecord
from index.records import KeyKind
from service.documents.schemas import DocumentIn
from service.http.problems import not_found
from service.http.requests import first_error
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, confirmations
from service.runtime.jobs import Progress
from service.runtime.runtime import Runtime
from service.storage.database import now
from service.storage.tables import Document, Key, PendingDocument, Value
from service.storage.vector_codec import as_blob

CHUNK = 128
"""Documents that are encoded, committed and published together: small enough that searches see them soon."""
AHEAD = 2
"""Chunks on their way to the encoder while one is published: one is cut and tokenised while another is encoded."""


@dataclass(frozen=True)
class Accepted:
    """Documents that are durable: their sequence numbers, and the outcome of every item in the order posted."""

    sequences: list[int]
    items: list[dict[str, Any]]


def checked(index: int, item: Any) -> tuple[DocumentIn | None, dict[str, Any]]:
    """Return an item as a document, or None, and its outcome so far."""
    given = item.get("id") if isinstance(item, dict) else None
    known = given if isinstance(given, str) and len(given) <= 512 else None
    try:
        document = DocumentIn.model_validate(item)
    except ValidationError as error:
        outcome = {"index": index, "id": known, "status": 422, "code": "invalid_document", "detail": first_error(error)}
        return None, outcome
    return document, {"index": index, "id": document.id, "status": 201, "code": None}


def accept(runtime: Runtime, state: CollectionState, items: Sequence[Any], first_index: int = 0) -> Accepted:
    """Check each item and store the good ones as pending, durably, in one transaction."""
    state.require_encoder(runtime.encoder)
    outcomes: list[dict[str, Any]] = []
    documents: dict[str, DocumentIn] = {}
    for index, item in enumerate(items, first_index):
        document, outcome = checked(index, item)
        outcomes.append(outcome)
        if document:
            documents[document.id] = document  # the same id twice: the last one counts, as in two requests
    with runtime.database.write() as connection:
        sequences = _store_pending(connection, state, list(documents.values()))
        _mark_replacements(connection, state, outcomes)
    return Accepted(sequences, outcomes)


def _store_pending(connection: Connection, state: CollectionState, documents: list[DocumentIn]) -> list[int]:
    if not documents:
        return []
    ids = [document.id for document in documents]
    mine = PendingDocument.collection_id == state.id
    connection.execute(delete(PendingDocument).where(mine, PendingDocument.id.in_(ids)))
    rows = [
        {
            "collection_id": state.id,
            "id": document.id,
            "body": document.model_dump(exclude={"id"}),
            "created_at": now(),
        }
        for document in documents
    ]
    connection.execute(insert(PendingDocument), rows)
    found = connection.execute(
        select(PendingDocument.sequence).where(mine, PendingDocument.id.in_(ids)).order_by(PendingDocument.sequence)
    )
    return [int(sequence) for sequence in found.scalars()]


def _mark_replacements(connection: Connection, state: CollectionState, outcomes: list[dict[str, Any]]) -> None:
    ids = [outcome["id"] for outcome in outcomes if outcome["code"] is None]
    known = set(
        connection.execute(
            select(Document.id).where(Document.collection_id == state.id, Document.id.in_(ids))
        ).scalars()
    )
    for outcome in outcomes:
        if outcome["code"] is None and outcome["id"] in known:
            outcome["status"] = 200


def make_searchable(
    runtime: Runtime, state: CollectionState, sequences: Sequence[int], advance: Callable[[int], None] = lambda _: None
) -> None:
    """Encode pending documents and publish them, a chunk at a time; advance is told of each chunk.

    Raises EncoderMismatch before anything is encoded: the documents stay pending.
    """
    state.require_encoder(runtime.encoder)
    chunks = [sequences[start : start + CHUNK] for start in range(0, len(sequences), CHUNK)]
    encode = partial(_encoded, runtime, state)
    with ThreadPoolExecutor(AHEAD, "encode-ahead") as ahead:
        coming = deque(ahead.submit(encode, chunk) for chunk in chunks[:AHEAD])
        for at, chunk in enumerate(chunks):
            encoded = coming.popleft().result()
            coming.extend(ahead.submit(encode, following) for following in chunks[at + AHEAD : at + AHEAD + 1])
            with state.lock:
                _publish(runtime, state, encoded)
            advance(len(chunk))


def _encoded(
    runtime: Runtime, state: CollectionState, sequences: Sequence[int]
) -> dict[int, tuple[DocumentRecord, EncodedDocument]]:
    """Return sequence -> document and keys, of those that are still pending."""
    with runtime.database.read() as connection:
        pending = connection.execute(
            select(PendingDocument.sequence, PendingDocument.id, PendingDocument.body)
            .where(PendingDocument.sequence.in_(sequences))
            .order_by(PendingDocument.sequence)
        ).all()
    records = [DocumentRecord(id=row.id, **row.body) for row in pending]
    encoded = encode_documents(runtime.encoder, records, state.settings.kinds)
    return {row.sequence: both for row, both in zip(pending, zip(records, encoded, strict=True), strict=True)}


def _publish(
    runtime: Runtime, state: CollectionState, encoded: Mapping[int, tuple[DocumentRecord, EncodedDocument]]
) -> None:
    """Move documents from pending to searchable: one transaction, then one generation.

    What was deleted or posted again while it was encoded is no longer pending and left out: the later word counts.
    """
    with runtime.database.write() as connection:
        taken = connection.execute(
            delete(PendingDocument)
            .where(PendingDocument.sequence.in_(list(encoded)))
            .returning(PendingDocument.sequence)
        )
        documents = [encoded[sequence] for sequence in sorted(taken.scalars())]
        if not documents:
            return
        added, removed = _write_documents(connection, state, documents)
        watermark = bump_watermark(connection, state.id, documents=True)
        moved = confirmations(connection, state.id, rows=[one.row for one in added]) if removed else []
    state.publish(watermark, added, removed, moved)


def _write_documents(
    connection: Connection, state: CollectionState, documents: Sequence[tuple[DocumentRecord, EncodedDocument]]
) -> tuple[list[IndexedDocument], list[int]]:
    """Write the rows of documents; return them for the index, and the rows that they replace."""
    ids = [record.id for record, _ in documents]
    mine = select(Document.id, Document.row).where(Document.collection_id == state.id, Document.id.in_(ids))
    replaced = {row.id: int(row.row) for row in connection.execute(mine)}
    old = list(replaced.values())
    if old:
        connection.execute(delete(Key).where(Key.document_row.in_(old), Key.kind != KeyKind.QUERY))
        connection.execute(delete(Document).where(Document.row.in_(old)))
    moment = now()
    stored = [
        {
            "collection_id": state.id,
            "id": record.id,
            "title": record.title,
            "text": record.text,
            "url": record.url,
            "metadata": dict(record.metadata),
            "created_at": moment,
        }
        for record, _ in documents
    ]
    wanted = insert(Document).returning(Document.row, sort_by_parameter_order=True)
    rows = [int(row) for row in connection.execute(wanted, stored).scalars()]
    for id, row in zip(ids, rows, strict=True):
        if id in replaced:  # memory stays with its id
            connection.execute(update(Key).where(Key.document_row == replaced[id]).values(document_row=row))
    _write_vectors(connection, state, rows, [vectors for _, vectors in documents])
    added = [
        IndexedDocument(row, words_of(record), vectors.keys)
        for row, (record, vectors) in zip(rows, documents, strict=True)
    ]
    return added, old


def _write_vectors(
    connection: Connection, state: CollectionState, rows: Sequence[int], documents: Sequence[EncodedDocument]
) -> None:
    keys = [
        {
            "collection_id": state.id,
            "document_row": row,
            "query_key": None,
            "kind": int(key.kind),
            "vector": as_blob(key.vector),
            "weight": key.weight,
            "span_start": key.start,
            "span_end": key.end,
        }
        for row, vectors in zip(rows, documents, strict=True)
        for key in vectors.keys
    ]
    if keys:
        connection.execute(insert(Key), keys)
    values = [
        {"document_row": row, "vector": as_blob(vectors.value)} for row, vectors in zip(rows, documents, strict=True)
    ]
    connection.execute(insert(Value), values)


def start_indexing(runtime: Runtime, state: CollectionState, accepted: Accepted) -> str:
    """Start the task that makes accepted documents searchable; return its id."""

    def work(progress: Progress) -> dict[str, Any]:
        try:
            progress.expect(len(accepted.sequences))
            progress.check()
            make_searchable(runtime, state, accepted.sequences, progress.advance)
        except Canceled:
            if not runtime.closing:
                give_up(runtime, accepted.sequences)
            raise
        return summary(accepted.items) | {"items": accepted.items}

    return runtime.jobs.start("documents", state.name, work)


def give_up(runtime: Runtime, sequences: Sequence[int]) -> None:
    """Forget pending documents whose task was canceled; those that are searchable already stay."""
    with runtime.database.write() as connection:
        for start in range(0, len(sequences), 500):
            part = sequences[start : start + 500]
            connection.execute(delete(PendingDocument).where(PendingDocument.sequence.in_(part)))


def summary(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of outcomes, and those that failed."""
    errors = [item for item in items if item["code"] is not None]
    return {
        "items_total": len(items),
        "succeeded": len(items) - len(errors),
        "failed": len(errors),
        "errors": errors[:1000],
    }


def resume_pending(runtime: Runtime) -> None:
    """Take up the documents that an earlier process accepted and did not make searchable."""
    for state in runtime.collections.values():
        with runtime.database.read() as connection:
            wanted = select(PendingDocument.sequence).where(PendingDocument.collection_id == state.id)
            sequences = list(connection.execute(wanted.order_by(PendingDocument.sequence)).scalars())
        if sequences:
            start_indexing(runtime, state, Accepted(sequences, []))


def delete_documents(runtime: Runtime, state: CollectionState, ids: Sequence[str]) -> int:
    """Delete documents with their keys and memory; gone from search on return. Returns how many there were."""
    with state.lock:
        removed: list[int] = []
        gone: list[int] = []
        count = 0
        with runtime.database.write() as connection:
            for start in range(0, len(ids), 500):
                part = ids[start : start + 500]
                rows = _delete_part(connection, state, part)
                gone += rows[1]
                removed += rows[0]
                count += rows[2]
            watermark = bump_watermark(connection, state.id, documents=True)
        state.publish(watermark, [], removed, [], gone)
    return count


def _delete_part(
    connection: Connection, state: CollectionState, ids: Sequence[str]
) -> tuple[list[int], list[int], int]:
    """Return the rows and the memory keys that were deleted, and how many documents that was, pending ones included."""
    mine = (Document.collection_id == state.id, Document.id.in_(ids))
    waiting = (PendingDocument.collection_id == state.id, PendingDocument.id.in_(ids))
    known = set(connection.execute(select(Document.id).where(*mine)).scalars())
    known |= set(connection.execute(select(PendingDocument.id).where(*waiting)).scalars())
    connection.execute(delete(PendingDocument).where(*waiting))
    rows = list(connection.execute(select(Document.row).where(*mine)).scalars())
    keys = Key.document_row.in_(rows)
    memory = list(connection.execute(select(Key.id).where(keys, Key.kind == KeyKind.QUERY)).scalars())
    connection.execute(delete(Key).where(keys))
    connection.execute(delete(Document).where(*mine))
    return [int(row) for row in rows], [int(one) for one in memory], len(known)


def show_document(runtime: Runtime, state: CollectionState, document_id: str) -> dict[str, Any]:
    """Return a document as posted last, searchable or still pending."""
    with runtime.database.read() as connection:
        pending = connection.execute(
            select(PendingDocument.body).where(
                PendingDocument.collection_id == state.id, PendingDocument.id == document_id
            )
        ).scalar()
        if pending is not None:
            return {"id": document_id, **pending}
        row = connection.execute(
            select(Document.__table__).where(Document.collection_id == state.id, Document.id == document_id)
        ).one_or_none()
    if row is None:
        raise not_found("document")
    return document_body(row)


def list_documents(runtime: Runtime, state: CollectionState, limit: int, cursor: int) -> dict[str, Any]:
    """Return searchable documents in the order of arrival, and where the next page starts."""
    with runtime.database.read() as connection:
        rows = connection.execute(
            select(Document.__table__)
            .where(Document.collection_id == state.id, Document.row > cursor)
            .order_by(Document.row)
            .limit(limit + 1)
        ).all()
    more = len(rows) > limit
    return {
        "documents": [document_body(row) for row in rows[:limit]],
        "cursor": str(rows[limit - 1].row) if more else None,
    }


def document_body(row: Any) -> dict[str, Any]:
    """Return a row of `documents` as the contract shows it."""
    return {"id": row.id, "title": row.title, "text": row.text, "url": row.url, "metadata": row.metadata}
