"""SQL of retention. The caller commits."""

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, Select, and_, case, delete, func, or_, select

from index.records import KeyKind
from service.storage.event_times import acted_before, acted_since
from service.storage.tables import EVENTS, KEYS, QUERIES
from service.storage.tenants import is_unnamed


def silent_events(connection: Connection, collection_id: int, before: str) -> Iterator[int]:
    """Yield the ids of the events that count at a time before `before` and have no `query` key."""
    wanted = select(EVENTS.c.id).join(KEYS, KEYS.c.event_id == EVENTS.c.id, isouter=True)
    wanted = wanted.where(EVENTS.c.collection_id == collection_id, acted_before(before), KEYS.c.id.is_(None))
    return iter(connection.execute(wanted.order_by(EVENTS.c.id)).scalars())


def expiring_queries(connection: Connection, collection_id: int, before: str) -> list[tuple[str, int]]:
    """Return query key and number of events, of all times, of the queries with an event of before a time."""
    is_old = func.max(case((acted_before(before), 1), else_=0))
    wanted = select(EVENTS.c.query_key, func.count()).where(EVENTS.c.collection_id == collection_id)
    found = connection.execute(wanted.group_by(EVENTS.c.query_key).having(is_old == 1).order_by(EVENTS.c.query_key))
    return [(query_key, count) for query_key, count in found]


def expiring_keys(connection: Connection, collection_id: int, before: str, query_keys: Sequence[str]) -> list[int]:
    """Return the ids of the `query` keys of these queries whose events count at a time before `before`.

    The keys of a client that has a later event about the same query and document are left out: that event stands for
    the client, now and when it expires.
    """
    return list(connection.execute(_expiring_keys(collection_id, before, query_keys)).scalars())


def _expiring_keys(collection_id: int, before: str, query_keys: Sequence[str]) -> Select[int]:
    """Return the statement of `expiring_keys`. It reads the events of the queries once, and sorts them by client.

    SQLite would look for the later events of each event that expires by itself, without an index on all three columns.
    """
    event = EVENTS.c
    same = (event.query_key, event.client_id, event.document_id)
    is_later = case((and_(acted_since(before), event.grade != 0), 1), else_=0)
    has_later = func.max(is_later).over(partition_by=same).label("has_later")
    wanted = select(event.id, event.client_id, event.timestamp, event.created_at, has_later)
    found = wanted.where(*_of_queries(collection_id, query_keys)).subquery()
    keys = select(KEYS.c.id).join(found, found.c.id == KEYS.c.event_id)
    stands_alone = or_(found.c.has_later == 0, is_unnamed(found.c.client_id))
    return keys.where(acted_before(before, found), stands_alone).order_by(KEYS.c.id)


def _of_queries(collection_id: int, query_keys: Sequence[str]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return EVENTS.c.collection_id == collection_id, EVENTS.c.query_key.in_(query_keys)


def delete_silent_events(connection: Connection, ids: Sequence[int]) -> None:
    """Delete those of these events that have no `query` key."""
    remembered = select(KEYS.c.event_id).where(KEYS.c.event_id.in_(ids))
    connection.execute(delete(EVENTS).where(EVENTS.c.id.in_(ids), EVENTS.c.id.not_in(remembered)))


def delete_events(connection: Connection, collection_id: int, before: str, query_keys: Sequence[str]) -> list[int]:
    """Delete the events of these queries that count at a time before `before`; return the ids of their keys."""
    old = (*_of_queries(collection_id, query_keys), acted_before(before))
    keys = select(KEYS.c.id).where(KEYS.c.event_id.in_(select(EVENTS.c.id).where(*old)))
    removed = list(connection.execute(keys).scalars())
    connection.execute(delete(EVENTS).where(*old))
    return removed


def old_impressions(
    connection: Connection, collection_id: int, before: str, first: str, most: int
) -> list[tuple[str, str]]:
    """Return query id and query key of the impressions older than `before`, in the order of their query keys.

    first: the first query key. most: the number of impressions, at most.
    """
    wanted = select(QUERIES.c.query_id, QUERIES.c.query_key)
    old = (QUERIES.c.collection_id == collection_id, QUERIES.c.query_key >= first, QUERIES.c.created_at < before)
    found = connection.execute(wanted.where(*old).order_by(QUERIES.c.query_key).limit(most))
    return [(query_id, query_key) for query_id, query_key in found]


def delete_impressions(connection: Connection, query_ids: Sequence[str]) -> None:
    """Delete these impressions."""
    connection.execute(delete(QUERIES).where(QUERIES.c.query_id.in_(query_ids)))


def old_memory(connection: Connection, collection_id: int, before: str) -> Iterator[int]:
    """Yield the ids of the `query` keys of events of before a time, and of anonymous keys of earlier days, by query."""
    events = select(EVENTS.c.id).where(EVENTS.c.collection_id == collection_id, acted_before(before))
    old = or_(KEYS.c.confirmed_on < before[:10], KEYS.c.event_id.in_(events))
    mine = (KEYS.c.collection_id == collection_id, KEYS.c.kind == KeyKind.QUERY)
    return iter(connection.execute(select(KEYS.c.id).where(*mine, old).order_by(KEYS.c.query_key)).scalars())


def delete_memory(connection: Connection, ids: Sequence[int]) -> list[int]:
    """Delete these keys; return the ids of those that there were."""
    return list(connection.execute(delete(KEYS).where(KEYS.c.id.in_(ids)).returning(KEYS.c.id)).scalars())
