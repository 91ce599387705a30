"""SQL of retention. The caller commits."""

from sqlalchemy import Connection, delete, exists, or_, select
from sqlalchemy.orm import aliased

from index.records import KeyKind
from service.storage.tables import Event, Impression, Key


def expiring_keys(connection: Connection, collection_id: int, before: str) -> list[int]:
    """Return the ids of the `query` keys whose events have a timestamp before a time.

    The keys of a client that has a later event about the same query and document are left out: that event stands for
    the client, now and when it expires.
    """
    later = aliased(Event)
    stands = exists().where(
        later.collection_id == collection_id,
        later.query_key == Event.query_key,
        later.client_id == Event.client_id,
        later.document_id == Event.document_id,
        later.timestamp >= before,
        later.grade != 0,
    )
    wanted = select(Key.id).join(Event, Event.id == Key.event_id)
    wanted = wanted.where(Event.collection_id == collection_id, Event.timestamp < before, ~stands)
    return [int(id) for id in connection.execute(wanted.order_by(Key.id)).scalars()]


def delete_impressions(connection: Connection, collection_id: int, before: str) -> set[str]:
    """Delete the impressions of a collection that are older than `before`; return their query keys."""
    old = (Impression.collection_id == collection_id, Impression.created_at < before)
    return set(connection.execute(delete(Impression).where(*old).returning(Impression.query_key)).scalars())


def delete_memory(connection: Connection, collection_id: int, before: str) -> list[int]:
    """Delete the `query` keys of events of before a time, and the anonymous keys of earlier days; return their ids."""
    events = select(Event.id).where(Event.collection_id == collection_id, Event.timestamp < before)
    old = or_(Key.confirmed_on < before[:10], Key.event_id.in_(events))
    mine = (Key.collection_id == collection_id, Key.kind == KeyKind.QUERY)
    return list(connection.execute(delete(Key).where(*mine, old).returning(Key.id)).scalars())
