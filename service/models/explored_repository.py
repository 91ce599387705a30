"""SQL of explored lists and of the events on their documents."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from service.storage.dialects import newest_first
from service.storage.event_times import acted_at
from service.storage.tables import EVENTS, QUERIES
from service.storage.tenants import named

CHUNK = 500
"""Rows that are read at a time, and query ids in one SQL statement."""
ASKED = QUERIES.c.request["explore"].as_float() > 0
"""The condition that a search asked for exploration."""


def has_explored(connection: Connection, collection_id: int) -> bool:
    """Return whether a search of the collection asked for exploration."""
    wanted = select(QUERIES.c.query_id).where(QUERIES.c.collection_id == collection_id, ASKED)
    return connection.execute(wanted.limit(1)).first() is not None


def explored_lists(connection: Connection, collection_id: int) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yield the impressions of searches that asked for exploration, the newest first."""
    columns = (
        QUERIES.c.query_id, QUERIES.c.query_key, QUERIES.c.text, QUERIES.c.request, QUERIES.c.shown,
        QUERIES.c.created_at, named(QUERIES.c.client_id).label("client_id"), QUERIES.c.session_id,
    )  # fmt: skip
    wanted = select(*columns).where(QUERIES.c.collection_id == collection_id, ASKED)
    wanted = wanted.order_by(*newest_first(connection))
    yield from connection.execute(wanted, execution_options={"yield_per": CHUNK})


def graded_events(
    connection: Connection, collection_id: int, query_ids: Sequence[str]
) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yield the graded events on documents in these searches, those of a search in the order of their times."""
    client = named(EVENTS.c.client_id).label("client_id")
    columns = (EVENTS.c.query_id, EVENTS.c.document_id, EVENTS.c.grade, client, EVENTS.c.session_id)
    for first in range(0, len(query_ids), CHUNK):
        wanted = select(*columns).where(
            EVENTS.c.collection_id == collection_id,
            EVENTS.c.query_id.in_(query_ids[first : first + CHUNK]),
            EVENTS.c.document_id.is_not(None),
            EVENTS.c.grade != 0,
        )
        yield from connection.execute(wanted.order_by(acted_at(), EVENTS.c.id))
