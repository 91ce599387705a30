"""SQL of retention. The caller commits."""

from sqlalchemy import Connection, delete, exists, or_, select

from index.records import KeyKind
from service.storage.event_times import acted_before, acted_since
from service.storage.tables import EVENTS, KEYS, QUERIES
from service.storage.tenants import is_unnamed


def expiring_keys(connection: Connection, collection_id: int, before: str) -> list[int]:
    """Return the ids of the `query` keys whose events count at a time before `before`.

    The keys of a client that has a later event about the same query and document are left out: that event stands for
    the client, now and when it expires.
    """
    later = EVENTS.alias()
    stands = exists().where(
        later.c.collection_id == collection_id,
        later.c.query_key == EVENTS.c.query_key,
        later.c.client_id == EVENTS.c.client_id,
        ~is_unnamed(EVENTS.c.client_id),
        later.c.document_id == EVENTS.c.document_id,
        acted_since(before, later),
        later.c.grade != 0,
    )
    wanted = select(KEYS.c.id).join(EVENTS, EVENTS.c.id == KEYS.c.event_id)
    wanted = wanted.where(EVENTS.c.collection_id == collection_id, acted_before(before), ~stands)
    return [int(id) for id in connection.execute(wanted.order_by(KEYS.c.id)).scalars()]


def delete_impressions(connection: Connection, collection_id: int, before: str) -> set[str]:
    """Delete the impressions of a collection that are older than `before`; return their query keys."""
    old = (QUERIES.c.collection_id == collection_id, QUERIES.c.created_at < before)
    return set(connection.execute(delete(QUERIES).where(*old).returning(QUERIES.c.query_key)).scalars())


def delete_memory(connection: Connection, collection_id: int, before: str) -> list[int]:
    """Delete the `query` keys of events of before a time, and the anonymous keys of earlier days; return their ids."""
    events = select(EVENTS.c.id).where(EVENTS.c.collection_id == collection_id, acted_before(before))
    old = or_(KEYS.c.confirmed_on < before[:10], KEYS.c.event_id.in_(events))
    mine = (KEYS.c.collection_id == collection_id, KEYS.c.kind == KeyKind.QUERY)
    return list(connection.execute(delete(KEYS).where(*mine, old).returning(KEYS.c.id)).scalars())
