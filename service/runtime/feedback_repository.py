"""SQL of the feedback log: judgments, events, impressions and the vectors of their queries. The caller commits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import orjson
from sqlalchemy import Connection, Select, Text, cast, distinct, exists, func, insert, select, union
from sqlalchemy.dialects import postgresql, sqlite

from index.records import Floats, KeyKind
from service.runtime.collection_settings import today
from service.storage.checksums import row_checksum
from service.storage.database import rfc3339
from service.storage.dialects import is_sqlite
from service.storage.event_times import acted_at, acted_since
from service.storage.tables import DOCUMENTS, EVENTS, JUDGMENTS, KEYS, QUERIES
from service.storage.tenants import named
from service.storage.vector_codec import as_vector

HALF_LIVES = 3
"""The half-lives of memory after which clicks are not learned from: they have less than an eighth of their weight."""
LEAST_QUERIES, LEAST_SHARE = 50, 0.1
"""Clicks before are left out only if so many queries, and this share of all clicked ones, were clicked since."""
IMPRESSION = "impression"
CHUNK = 2_000
"""Rows that are read from the database at a time."""
_INSERTION: Any = insert(QUERIES).compile(dialect=sqlite.dialect())
INSERT_IMPRESSION, IMPRESSION_FIELDS = str(_INSERTION), tuple(_INSERTION.positiontup)
"""The statement that inserts an impression, and the names of its parameters in their order."""
JSON_FIELDS = ("request", "shown")


def document_rows(connection: Connection, collection_id: int) -> dict[str, int]:
    """Return document id -> row, for all documents of a collection."""
    wanted = select(DOCUMENTS.c.id, DOCUMENTS.c.row).where(DOCUMENTS.c.collection_id == collection_id)
    return {row.id: row.row for row in connection.execute(wanted)}


def confirmed_count(connection: Connection, collection_id: int) -> int:
    """Return the number of query texts with a positive grade on a document that exists: most that a run can learn from.

    A run leaves out those whose later feedback takes the confirmation back, and actions on pinned documents: to count
    them, all events have to be read. Memory is no measure of it: it has anonymous keys, and no keys of a document that
    has just been posted again.
    """
    living = select(DOCUMENTS.c.id).where(DOCUMENTS.c.collection_id == collection_id)
    confirmed = [
        select(table.c.query_key).where(
            table.c.collection_id == collection_id, table.c.document_id.in_(living), grade > 0
        )
        for table, grade in ((JUDGMENTS, JUDGMENTS.c.rating), (EVENTS, EVENTS.c.grade))
    ]
    return int(connection.execute(select(func.count()).select_from(union(*confirmed).subquery())).scalar_one())


def learned_since(connection: Connection, collection_id: int, half_life_days: int | None) -> str | None:
    """Return the time from which training and evaluation read clicks, RFC 3339: HALF_LIVES half-lives ago.

    None, for all clicks, without a half-life, and where too few of the clicked queries were clicked since: an old log
    that was imported is better than nothing.
    """
    if half_life_days is None:
        return None
    days = max(0, today() - HALF_LIVES * half_life_days)
    since = rfc3339(datetime.fromtimestamp(0, UTC) + timedelta(days=days))
    living = select(DOCUMENTS.c.id).where(DOCUMENTS.c.collection_id == collection_id)
    clicked = select(func.count(distinct(EVENTS.c.query_key))).where(
        EVENTS.c.collection_id == collection_id, EVENTS.c.grade > 0, EVENTS.c.document_id.in_(living)
    )
    lately = connection.execute(clicked.where(acted_since(since))).scalar_one()
    if lately < LEAST_QUERIES or lately < LEAST_SHARE * connection.execute(clicked).scalar_one():
        return None
    return since


def judgments(connection: Connection, collection_id: int) -> Iterator[Any]:
    """Yield the judgments of a collection in the order of arrival."""
    wanted = select(JUDGMENTS).where(JUDGMENTS.c.collection_id == collection_id).order_by(JUDGMENTS.c.id)
    yield from connection.execute(wanted)


def graded_events(connection: Connection, collection_id: int, since: str | None = None) -> Iterator[Any]:
    """Yield the events with a grade other than 0 since a time, in the order of the times at which they count.

    `timestamp` is that time: a client whose clock is ahead does not act after the events that come later.
    """
    columns = (
        EVENTS.c.id, EVENTS.c.query_key, EVENTS.c.query_text, EVENTS.c.query_id, EVENTS.c.document_id, EVENTS.c.grade,
        named(EVENTS.c.client_id).label("client_id"), EVENTS.c.session_id, acted_at().label("timestamp"),
    )  # fmt: skip
    wanted = select(*columns).where(EVENTS.c.collection_id == collection_id, EVENTS.c.grade != 0)
    wanted = wanted if since is None else wanted.where(acted_since(since))
    return _streamed(connection, wanted.order_by(acted_at(), EVENTS.c.id))


def impressions(connection: Connection, collection_id: int, since: str | None = None) -> Iterator[Any]:
    """Yield the impressions since a time in the order of their ids; `shown` and `request` are JSON text."""
    shown, request = (cast(one, Text).label(one.key) for one in (QUERIES.c.shown, QUERIES.c.request))
    columns = (
        QUERIES.c.query_id, QUERIES.c.query_key, QUERIES.c.text, named(QUERIES.c.client_id).label("client_id"),
        QUERIES.c.session_id, QUERIES.c.created_at, shown, request,
    )  # fmt: skip
    wanted = select(*columns).where(QUERIES.c.collection_id == collection_id)
    wanted = wanted if since is None else wanted.where(QUERIES.c.created_at >= since)
    return _streamed(connection, wanted.order_by(QUERIES.c.query_id))


@dataclass(frozen=True)
class ShownList:
    """The list that impression events of a query show, with the fields of an impression."""

    query_id: str
    query_key: str
    text: str
    client_id: str | None
    session_id: str | None
    created_at: str
    """The time at which its first document counts."""
    shown: bytes
    """JSON: an object with id and position for each document."""
    request: bytes = b"{}"
    """JSON: the parameters of the search, which are unknown."""


def shown_lists(connection: Connection, collection_id: int, since: str | None = None) -> Iterator[ShownList]:
    """Yield a list for each query id that has impression events and no logged impression, in the order of their times.

    since: the time from which events count; None for all.
    A document without a position follows the document before it, in the order of arrival.
    """
    one = EVENTS.c
    columns = (
        one.query_id, one.query_key, one.query_text, named(one.client_id).label("client_id"), one.session_id,
        one.document_id, one.position, acted_at().label("timestamp"),
    )  # fmt: skip
    logged = exists().where(QUERIES.c.query_id == EVENTS.c.query_id, QUERIES.c.collection_id == collection_id)
    wanted = select(*columns).where(
        EVENTS.c.collection_id == collection_id,
        EVENTS.c.action_name == IMPRESSION,
        EVENTS.c.query_id.is_not(None),
        EVENTS.c.document_id.is_not(None),
        ~logged,
        *(() if since is None else (acted_since(since),)),
    )
    began_at = func.min(acted_at()).over(partition_by=one.query_id)
    rows = _streamed(connection, wanted.order_by(began_at, one.query_id, one.position.nulls_last(), one.id))
    for query_id, events in groupby(rows, key=lambda row: row.query_id):
        positions: dict[str, int] = {}
        began = ""
        for event in events:
            last = event
            began = min(began or event.timestamp, event.timestamp)
            positions.setdefault(event.document_id, event.position or max(positions.values(), default=0) + 1)
        shown = orjson.dumps([{"id": id, "position": position} for id, position in positions.items()])
        yield ShownList(query_id, last.query_key, last.query_text, last.client_id, last.session_id, began, shown)


def query_vectors(connection: Connection, collection_id: int) -> dict[str, Floats]:
    """Return query key -> vector (D,), for all queries in memory."""
    mine = (KEYS.c.collection_id == collection_id, KEYS.c.kind == KeyKind.QUERY, KEYS.c.weight != 0)
    wanted = select(KEYS.c.query_key, KEYS.c.vector).where(*mine)
    return {row.query_key: as_vector(row.vector) for row in connection.execute(wanted.order_by(KEYS.c.id.desc()))}


def insert_impressions(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Insert impressions. The driver gets the values as they are stored, without SQLAlchemy's conversion of each."""
    stored = [row | {name: orjson.dumps(row[name]).decode() for name in JSON_FIELDS} for row in rows]
    for row in stored:
        row["checksum"] = row_checksum(QUERIES.name, row)
    if is_sqlite(connection):
        values = [tuple(row[name] for name in IMPRESSION_FIELDS) for row in stored]
        connection.exec_driver_sql(INSERT_IMPRESSION, values)
    else:
        once = postgresql.insert(QUERIES).on_conflict_do_nothing()  # a searcher may deliver an impression again
        connection.execute(once, rows)


def _streamed(connection: Connection, wanted: Select[*tuple[Any, ...]]) -> Iterator[Any]:
    return iter(connection.execute(wanted, execution_options={"yield_per": CHUNK}))
