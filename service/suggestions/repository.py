"""SQL of suggestions: reads a range of the index on query keys, or the newest rows where the range is long."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Subquery, func, select, union

from service.storage.dialects import unindexed
from service.storage.tables import EVENTS, QUERIES
from service.storage.tenants import named

MAX_ROWS = 20_000
"""Events, and impressions, that are read for a prefix. For a prefix of more, those among the newest are read instead:
the first in the order of query keys would be those that begin with `ka` alone, of all that begin with `k`."""
NEWEST = 50_000
"""The newest events, and impressions, of the collection that are read for such a prefix."""
LAST = "\U0010ffff"
"""Follows every character of a query key."""

Counts = dict[tuple[str, str], int]


def clicked_queries(connection: Connection, collection_id: int, prefix: str) -> Counts:
    """Return (query key, text) -> number of events with a positive grade, for the query keys with this prefix."""
    columns = (EVENTS.c.query_key, EVENTS.c.query_text, EVENTS.c.grade)
    found = _rows(connection, EVENTS, EVENTS.c.id, columns, collection_id, prefix)
    grouped = select(found.c.source, found.c.query_text, func.count()).where(found.c.grade > 0)
    rows = connection.execute(grouped.group_by(found.c.source, found.c.query_text))
    return {(key, text): count for key, text, count in rows}


def client_counts(connection: Connection, collection_id: int, prefix: str) -> dict[str, int]:
    """Return query key -> number of distinct clients that searched or acted, for the query keys with this prefix."""
    parts: list[Select[Any]] = []
    for table, number in ((EVENTS, EVENTS.c.id), (QUERIES, QUERIES.c.query_id)):
        client = named(table.c.client_id).label("client_id")
        found = _rows(connection, table, number, (table.c.query_key, client), collection_id, prefix)
        parts.append(select(found.c.source, found.c.client_id).where(found.c.client_id.is_not(None)))
    clients = union(*parts).subquery()  # a union has no duplicates
    rows = connection.execute(select(clients.c.source, func.count()).group_by(clients.c.source))
    return {str(key): int(count) for key, count in rows}


def _rows(
    connection: Connection, table: Any, number: Any, columns: tuple[Any, ...], collection_id: int, prefix: str
) -> Subquery:
    """Return the rows of a table whose query key has this prefix. number: the column that tells newer rows."""
    first, *others = columns
    has_prefix: ColumnElement[bool] = table.c.query_key.between(prefix, prefix + LAST)
    mine = select(first.label("source"), *others)
    found = mine.where(table.c.collection_id == collection_id, has_prefix).limit(MAX_ROWS + 1).subquery()
    if connection.execute(select(func.count()).select_from(found)).scalar_one() <= MAX_ROWS:
        return found
    newest = mine.where(unindexed(table, collection_id)).order_by(number.desc()).limit(NEWEST).subquery()
    return select(newest).where(newest.c.source.between(prefix, prefix + LAST)).subquery()
