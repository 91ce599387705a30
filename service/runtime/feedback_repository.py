"""SQL of the feedback log: judgments, events, impressions and the vectors of their queries. The caller commits."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Text, cast, insert, select

from index.records import Floats, KeyKind
from service.storage.tables import Document, Event, Impression, Judgment, Key
from service.storage.vector_codec import as_vector

CHUNK = 2_000
"""Rows that are read from the database at a time."""


def document_rows(connection: Connection, collection_id: int) -> dict[str, int]:
    """Return document id -> row, for all documents of a collection."""
    wanted = select(Document.id, Document.row).where(Document.collection_id == collection_id)
    return {row.id: row.row for row in connection.execute(wanted)}


def confirmed_count(connection: Connection, collection_id: int) -> int:
    """Return the number of query texts with a confirmed document."""
    wanted = select(Key.query_key).where(Key.collection_id == collection_id, Key.kind == KeyKind.QUERY, Key.weight > 0)
    return len(set(connection.execute(wanted.distinct()).scalars()))


def judgments(connection: Connection, collection_id: int) -> Iterator[Any]:
    """Yield the judgments of a collection in the order of arrival."""
    wanted = select(Judgment).where(Judgment.collection_id == collection_id).order_by(Judgment.id)
    yield from connection.execute(wanted)


def graded_events(connection: Connection, collection_id: int) -> Iterator[Any]:
    """Yield the events with a grade other than 0, in the order of their timestamps."""
    columns = (
        Event.id, Event.query_key, Event.query_text, Event.query_id, Event.document_id, Event.grade,
        Event.client_id, Event.session_id,
    )  # fmt: skip
    wanted = select(*columns).where(Event.collection_id == collection_id, Event.grade != 0)
    return _streamed(connection, wanted.order_by(Event.timestamp, Event.id))


def impressions(connection: Connection, collection_id: int) -> Iterator[Any]:
    """Yield the impressions of a collection in the order of their ids; `shown` is JSON text."""
    shown = cast(Impression.shown, Text).label("shown")
    columns = (Impression.query_id, Impression.query_key, Impression.text, Impression.session_id, shown)
    wanted = select(*columns).where(Impression.collection_id == collection_id)
    return _streamed(connection, wanted.order_by(Impression.query_id))


def query_vectors(connection: Connection, collection_id: int) -> dict[str, Floats]:
    """Return query key -> vector (D,), for all queries in memory."""
    wanted = select(Key.query_key, Key.vector).where(Key.collection_id == collection_id, Key.kind == KeyKind.QUERY)
    return {row.query_key: as_vector(row.vector) for row in connection.execute(wanted.order_by(Key.id.desc()))}


def insert_impressions(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Insert impressions."""
    connection.execute(insert(Impression), rows)


def _streamed(connection: Connection, wanted: Select[*tuple[Any, ...]]) -> Iterator[Any]:
    return iter(connection.execute(wanted, execution_options={"yield_per": CHUNK}))
