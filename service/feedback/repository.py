"""SQL of feedback: events, judgments, and the `query` keys made from them.

Every function runs inside the caller's transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, or_, select

from index.filters.conditions import FilterNode
from index.filters.evaluation import matches
from index.memory.query_key import anonymous_key, as_query_key, earlier_query_key
from index.records import Floats, KeyKind
from service.feedback.schemas import EventIn, JudgmentIn
from service.storage.database import now, rfc3339
from service.storage.dialects import unindexed
from service.storage.filter_sql import to_sql
from service.storage.tables import DOCUMENTS, EVENTS, JUDGMENTS, KEYS, PENDING_DOCUMENTS, QUERIES
from service.storage.tenants import is_named, split
from service.storage.vector_codec import as_blob


@dataclass(frozen=True)
class MemoryRow:
    """A `query` key to store: a signed weight between a query and a document, from an event or a judgment.

    The weight of a rating of 0 is 0, and its vector is empty.
    """

    row: int
    query_key: str
    vector: Floats
    weight: float
    event_id: int | None = None
    judgment_id: int | None = None
    confirmed_on: str | None = None
    """The day of an anonymous key, which has neither."""


@dataclass(frozen=True)
class LoggedQuery:
    """The text of a logged search, and the tenant that searched."""

    text: str
    tenant: str


def logged_queries(
    connection: Connection, collection_id: int, ids: Iterable[str | None], key_filter: str | None = None
) -> dict[str, LoggedQuery]:
    """Return query id -> logged search, for these ids. key_filter: only searches with this filter."""
    wanted = sorted({id for id in ids if id})
    if not wanted:
        return {}
    columns = [QUERIES.c.query_id, QUERIES.c.text, QUERIES.c.client_id, QUERIES.c.request]
    found = select(*columns[: 3 if key_filter is None else 4]).where(
        unindexed(QUERIES, collection_id), QUERIES.c.query_id.in_(wanted)
    )
    # PostgreSQL reads no member of a JSON text with a NUL anywhere: it is read here
    return {
        row.query_id: LoggedQuery(row.text, split(row.client_id)[0])
        for row in connection.execute(found)
        if key_filter is None or row.request.get("key_filter") == key_filter
    }


def document_rows(
    connection: Connection, collection_id: int, ids: Iterable[str | None], forced: FilterNode | None = None
) -> dict[str, int]:
    """Return document id -> row of the searchable documents among these ids that pass the filter `forced`."""
    wanted = sorted({id for id in ids if id})
    found = select(DOCUMENTS.c.id, DOCUMENTS.c.row).where(
        DOCUMENTS.c.collection_id == collection_id, DOCUMENTS.c.id.in_(wanted)
    )
    if forced is not None:
        found = found.where(to_sql(connection, forced, DOCUMENTS.c.metadata))
    return {row.id: row.row for row in connection.execute(found)}


def waiting_documents(
    connection: Connection, collection_id: int, ids: Iterable[str | None], forced: FilterNode | None = None
) -> set[str]:
    """Return the ids among these of the pending documents whose metadata passes the filter `forced`."""
    wanted = sorted({id for id in ids if id})
    if not wanted:
        return set()
    pending = PENDING_DOCUMENTS.c
    found = select(pending.id, pending.body["metadata"]).where(
        pending.collection_id == collection_id, pending.id.in_(wanted)
    )
    return {id for id, fields in connection.execute(found) if forced is None or matches(forced, fields or {})}


def shown_positions(
    connection: Connection, collection_id: int, events: Iterable[EventIn]
) -> dict[tuple[str, str], int]:
    """Return query id and document id -> position, for the documents of graded events that a logged list shows."""
    wanted = {(event.query_id, event.document_id) for event in events if event.grade and event.query_id}
    if not wanted:
        return {}
    found = select(QUERIES.c.query_id, QUERIES.c.shown).where(
        unindexed(QUERIES, collection_id), QUERIES.c.query_id.in_(sorted({query_id for query_id, _ in wanted}))
    )
    return {
        (query_id, hit["id"]): int(hit["position"])
        for query_id, shown in connection.execute(found)
        for hit in shown
        if (query_id, hit["id"]) in wanted
    }


@dataclass(frozen=True)
class EventRow:
    """An event to store, with its query text and the 1-based position of its document.

    The position in the logged list replaces the one that the client reports, which some clients count from 0 or by
    page. is_counted: whether the event has its grade, and is learned from. from_browser: whether a key made for
    browsers sent it.
    """

    event: EventIn
    text: str
    position: int | None
    is_counted: bool = True
    from_browser: bool = False


def insert_events(connection: Connection, collection_id: int, events: Iterable[EventRow]) -> list[int]:
    """Store events; return their ids, in their order."""
    rows = [
        {
            "collection_id": collection_id,
            "action_name": one.event.action_name,
            "grade": one.event.grade if one.is_counted else None,
            "query_id": one.event.query_id,
            "query_text": one.text,
            "query_key": as_query_key(one.text),
            "document_id": one.event.document_id,
            "position": one.position,
            "client_id": one.event.client_id,
            "session_id": one.event.session_id,
            "timestamp": rfc3339(one.event.timestamp),
            "body": one.event.model_dump(mode="json"),
            "created_at": now(),
            "from_browser": one.from_browser,
        }
        for one in events
    ]
    if not rows:
        return []
    stored = insert(EVENTS).returning(EVENTS.c.id, sort_by_parameter_order=True)
    return list(connection.execute(stored, rows).scalars())


def delete_events(
    connection: Connection,
    collection_id: int,
    query_id: str | None = None,
    client_id: str | None = None,
    query_key: str | None = None,
) -> tuple[int, list[int]]:
    """Delete the events that match all given conditions, and their `query` keys.

    query_id, client_id: as they are stored, or as they were written, by any tenant. query_key: of events with a text.
    Returns the number of events and the ids of the keys.
    """
    mine = EVENTS.c.collection_id == collection_id
    names = ((EVENTS.c.query_id, query_id), (EVENTS.c.client_id, client_id))
    where = [is_named(column, collection_id, name) for column, name in names if name] or [mine]
    # a text of white space has the query key of the events without a text
    where += [EVENTS.c.query_key == query_key, EVENTS.c.query_text != ""] if query_key is not None else []
    keys = select(KEYS.c.id).where(KEYS.c.event_id.in_(select(EVENTS.c.id).where(*where)))
    removed = [int(key) for key in connection.execute(keys).scalars()]
    return int(connection.execute(delete(EVENTS).where(*where)).rowcount), removed


def delete_anonymous(connection: Connection, collection_id: int, query: str) -> list[int]:
    """Delete the anonymous memory of a query, of all tenants; return the ids of its keys."""
    names = {anonymous_key(as_query_key(query)), anonymous_key(earlier_query_key(query))}
    mine = (
        KEYS.c.collection_id == collection_id,
        KEYS.c.kind == KeyKind.QUERY,
        or_(*(KEYS.c.query_key.between(name, f"{name}~") for name in sorted(names))),
    )
    return list(connection.execute(delete(KEYS).where(*mine).returning(KEYS.c.id)).scalars())


def insert_judgment(connection: Connection, collection_id: int, judgment: JudgmentIn) -> int:
    """Store a judgment with a rating; return its id."""
    values = {
        "collection_id": collection_id,
        "query_text": judgment.query,
        "query_key": as_query_key(judgment.query),
        "document_id": judgment.document_id,
        "rating": judgment.rating,
        "rater": judgment.rater,
        "created_at": now(),
    }
    return int(connection.execute(insert(JUDGMENTS).values(values).returning(JUDGMENTS.c.id)).scalar_one())


def delete_judgment(connection: Connection, collection_id: int, judgment: JudgmentIn) -> list[int]:
    """Delete the judgment with the same query, document and rater, and its `query` keys; return the ids of the keys."""
    same = (
        JUDGMENTS.c.collection_id == collection_id,
        JUDGMENTS.c.query_key == as_query_key(judgment.query),
        JUDGMENTS.c.document_id == judgment.document_id,
        JUDGMENTS.c.rater == judgment.rater,
    )
    keys = select(KEYS.c.id).where(KEYS.c.judgment_id.in_(select(JUDGMENTS.c.id).where(*same)))
    removed = [int(key) for key in connection.execute(keys).scalars()]
    connection.execute(delete(JUDGMENTS).where(*same))
    return removed


def insert_memory(connection: Connection, collection_id: int, memory: Iterable[MemoryRow]) -> list[int]:
    """Store `query` keys; return their ids, in their order."""
    rows = [
        {
            "collection_id": collection_id,
            "document_row": key.row,
            "kind": int(KeyKind.QUERY),
            "vector": as_blob(key.vector),
            "weight": key.weight,
            "span_start": 0,
            "span_end": 0,
            "query_key": key.query_key,
            "event_id": key.event_id,
            "judgment_id": key.judgment_id,
            "confirmed_on": key.confirmed_on,
        }
        for key in memory
    ]
    if not rows:
        return []
    stored = insert(KEYS).returning(KEYS.c.id, sort_by_parameter_order=True)
    return list(connection.execute(stored, rows).scalars())
