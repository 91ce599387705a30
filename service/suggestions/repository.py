"""SQL of suggestions: reads a range of the index on query keys, of bounded length."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Subquery, func, select, union

from service.storage.tables import EVENTS, QUERIES
from service.storage.tenants import named

MAX_ROWS = 20_000
"""Events and impressions that are read for a prefix, in the order of their query keys."""
LAST = "\U0010ffff"
"""Follows every character of a query key."""

Counts = dict[tuple[str, str], int]


def clicked_queries(connection: Connection, collection_id: int, prefix: str) -> Counts:
    """Return (query key, text) -> number of events with a positive grade, for the query keys with this prefix."""
    found = _range(EVENTS, (EVENTS.c.query_key, EVENTS.c.query_text, EVENTS.c.grade), collection_id, prefix)
    grouped = select(found.c.source, found.c.query_text, func.count()).where(found.c.grade > 0)
    rows = connection.execute(grouped.group_by(found.c.source, found.c.query_text))
    return {(key, text): count for key, text, count in rows}


def client_counts(connection: Connection, collection_id: int, prefix: str) -> dict[str, int]:
    """Return query key -> number of distinct clients that searched or acted, for the query keys with this prefix."""
    parts: list[Select[Any]] = []
    for table in (EVENTS, QUERIES):
        client = named(table.c.client_id).label("client_id")
        found = _range(table, (table.c.query_key, client), collection_id, prefix)
        parts.append(select(found.c.source, found.c.client_id).where(found.c.client_id.is_not(None)))
    clients = union(*parts).subquery()  # a union has no duplicates
    rows = connection.execute(select(clients.c.source, func.count()).group_by(clients.c.source))
    return {str(key): int(count) for key, count in rows}


def _range(table: Any, columns: tuple[Any, ...], collection_id: int, prefix: str) -> Subquery:
    """Return the first MAX_ROWS rows of a table whose query key has this prefix."""
    condition: ColumnElement[bool] = table.c.query_key.between(prefix, prefix + LAST)
    first, *others = columns
    wanted = select(first.label("source"), *others).where(table.c.collection_id == collection_id, condition)
    return wanted.order_by(table.c.query_key).limit(MAX_ROWS).subquery()
