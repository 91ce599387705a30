"""SQL of the feedback log: judgments, events, impressions and the vectors of their queries. The caller commits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson
from sqlalchemy import Connection, Select, Text, cast, exists, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from index.records import Floats, KeyKind
from service.storage.checksums import row_checksum
from service.storage.dialects import is_sqlite
from service.storage.tables import Document, Event, Impression, Judgment, Key
from service.storage.vector_codec import as_vector

IMPRESSION = "impression"
CHUNK = 2_000
"""Rows that are read from the database at a time."""
_INSERTION: Any = insert(Impression.__table__).compile(dialect=sqlite.dialect())  # type: ignore[arg-type]
INSERT_IMPRESSION, IMPRESSION_FIELDS = str(_INSERTION), tuple(_INSERTION.positiontup)
"""The statement that inserts an impression, and the names of its parameters in their order."""
JSON_FIELDS = ("request", "shown")


def document_rows(connection: Connection, collection_id: int) -> dict[str, int]:
    """Return document id -> row, for all documents of a collection."""
    wanted = select(Document.id, Document.row).where(Document.collection_id == collection_id)
    return {row.id: row.row for row in connection.execute(wanted)}


def confirmed_count(connection: Connection, collection_id: int) -> int:
    """Return the number of query texts with a confirmed document. Anonymous memory has no texts."""
    mine = (Key.collection_id == collection_id, Key.kind == KeyKind.QUERY, Key.confirmed_on.is_(None))
    wanted = select(Key.query_key).where(*mine, Key.weight > 0)
    return len(set(connection.execute(wanted.distinct()).scalars()))


def judgments(connection: Connection, collection_id: int) -> Iterator[Any]:
    """Yield the judgments of a collection in the order of arrival."""
    wanted = select(Judgment).where(Judgment.collection_id == collection_id).order_by(Judgment.id)
    yield from connection.execute(wanted)


def graded_events(connection: Connection, collection_id: int) -> Iterator[Any]:
    """Yield the events with a grade other than 0, in the order of their timestamps."""
    columns = (
        Event.id, Event.query_key, Event.query_text, Event.query_id, Event.document_id, Event.grade,
        Event.client_id, Event.session_id, Event.timestamp,
    )  # fmt: skip
    wanted = select(*columns).where(Event.collection_id == collection_id, Event.grade != 0)
    return _streamed(connection, wanted.order_by(Event.timestamp, Event.id))


def impressions(connection: Connection, collection_id: int) -> Iterator[Any]:
    """Yield the impressions of a collection in the order of their ids; `shown` and `request` are JSON text."""
    shown, request = (cast(one, Text).label(one.key) for one in (Impression.shown, Impression.request))
    columns = (
        Impression.query_id, Impression.query_key, Impression.text, Impression.session_id, Impression.created_at, shown,
        request,
    )  # fmt: skip
    wanted = select(*columns).where(Impression.collection_id == collection_id)
    return _streamed(connection, wanted.order_by(Impression.query_id))


@dataclass(frozen=True)
class ShownList:
    """The list that impression events of a query show, with the fields of an impression."""

    query_id: str
    query_key: str
    text: str
    session_id: str | None
    created_at: str
    """The timestamp of its first document."""
    shown: bytes
    """JSON: an object with id and position for each document."""
    request: bytes = b"{}"
    """JSON: the parameters of the search, which are unknown."""


def shown_lists(connection: Connection, collection_id: int) -> Iterator[ShownList]:
    """Yield a list for each query id that has impression events and no logged impression, in the order of the ids.

    A document without a position follows the document before it, in the order of arrival.
    """
    columns = (
        Event.query_id, Event.query_key, Event.query_text, Event.session_id, Event.document_id, Event.position,
        Event.timestamp,
    )  # fmt: skip
    logged = exists().where(Impression.query_id == Event.query_id, Impression.collection_id == collection_id)
    wanted = select(*columns).where(
        Event.collection_id == collection_id,
        Event.action_name == IMPRESSION,
        Event.query_id.is_not(None),
        Event.document_id.is_not(None),
        ~logged,
    )
    rows = _streamed(connection, wanted.order_by(Event.query_id, Event.position.nulls_last(), Event.id))
    for query_id, events in groupby(rows, key=lambda row: row.query_id):
        positions: dict[str, int] = {}
        began = ""
        for event in events:
            last = event
            began = min(began or event.timestamp, event.timestamp)
            positions.setdefault(event.document_id, event.position or max(positions.values(), default=0) + 1)
        shown = orjson.dumps([{"id": id, "position": position} for id, position in positions.items()])
        yield ShownList(query_id, last.query_key, last.query_text, last.session_id, began, shown)


def query_vectors(connection: Connection, collection_id: int) -> dict[str, Floats]:
    """Return query key -> vector (D,), for all queries in memory."""
    mine = (Key.collection_id == collection_id, Key.kind == KeyKind.QUERY, Key.weight != 0)
    wanted = select(Key.query_key, Key.vector).where(*mine)
    return {row.query_key: as_vector(row.vector) for row in connection.execute(wanted.order_by(Key.id.desc()))}


def insert_impressions(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Insert impressions. The driver gets the values as they are stored, without SQLAlchemy's conversion of each."""
    stored = [row | {name: orjson.dumps(row[name]).decode() for name in JSON_FIELDS} for row in rows]
    for row in stored:
        row["checksum"] = row_checksum(Impression.__tablename__, row)
    if is_sqlite(connection):
        values = [tuple(row[name] for name in IMPRESSION_FIELDS) for row in stored]
        connection.exec_driver_sql(INSERT_IMPRESSION, values)
    else:
        once = postgresql.insert(Impression).on_conflict_do_nothing()  # a searcher may deliver an impression again
        connection.execute(once, rows)


def _streamed(connection: Connection, wanted: Select[*tuple[Any, ...]]) -> Iterator[Any]:
    return iter(connection.execute(wanted, execution_options={"yield_per": CHUNK}))
