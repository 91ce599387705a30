"""SQL that counts the clicks of known clients in the logged impressions of a query.

Reads only what is committed, with an index, and a limited number of impressions for each query.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from index.memory.exact import LEAST_LIKE, ClickCount
from service.storage.database import Database
from service.storage.dialects import newest_first
from service.storage.tables import DOCUMENTS, EVENTS, QUERIES

COUNTED = 500
"""Impressions of a query that are counted: the latest. Bounds the time of a click on a frequent query."""
CHUNK = 500
"""Rows of documents in one SQL statement."""


def click_counts(
    database: Database, collection_id: int, wanted: Mapping[str, Sequence[int]]
) -> dict[str, dict[int, ClickCount]]:
    """Return query key -> row -> count of clicks, for these rows.

    An impression in which a rule pinned the document is left out.
    """
    with database.read() as connection:
        ids = _document_ids(connection, sorted({row for rows in wanted.values() for row in rows}))
        return {
            query_key: _counts(connection, collection_id, query_key, rows, ids) for query_key, rows in wanted.items()
        }


def _document_ids(connection: Connection, rows: Sequence[int]) -> dict[int, str]:
    """Return row -> document id."""
    found: dict[int, str] = {}
    for first in range(0, len(rows), CHUNK):
        wanted = select(DOCUMENTS.c.row, DOCUMENTS.c.id).where(DOCUMENTS.c.row.in_(rows[first : first + CHUNK]))
        found |= {row.row: row.id for row in connection.execute(wanted)}
    return found


def _counts(
    connection: Connection, collection_id: int, query_key: str, rows: Sequence[int], ids: Mapping[int, str]
) -> dict[int, ClickCount]:
    showing = _showing(connection, collection_id, query_key, {ids[row] for row in rows if row in ids})
    clicking = _clicking(connection, collection_id, showing)
    counts = {}
    for row in rows:
        shown = showing.get(ids.get(row, ""), set())
        clicks = {(query_id, client) for query_id, client in clicking.get(ids.get(row, ""), ()) if query_id in shown}
        clients = frozenset(f"client {client}" for _, client in clicks)
        counts[row] = ClickCount(clients, len({query_id for query_id, _ in clicks}), len(shown))
    return counts


def _showing(connection: Connection, collection_id: int, query_key: str, ids: set[str]) -> dict[str, set[str]]:
    """Return document id -> the latest impressions of the query that showed it, without those that pinned it.

    Impressions after the last event on the query do not count yet: only events change a ranking, so that it is the same
    again when an event is deleted.
    """
    of_query = (EVENTS.c.collection_id == collection_id, EVENTS.c.query_key == query_key, EVENTS.c.grade != 0)
    newest = select(EVENTS.c.created_at).where(*of_query).order_by(EVENTS.c.id.desc())  # the index is in this order
    last = newest.limit(1).scalar_subquery()
    mine = (QUERIES.c.collection_id == collection_id, QUERIES.c.query_key == query_key, QUERIES.c.created_at <= last)
    latest = select(QUERIES.c.query_id, QUERIES.c.shown).where(*mine).order_by(*newest_first(connection)).limit(COUNTED)
    showing: dict[str, set[str]] = {}
    for query_id, shown in connection.execute(latest):
        for hit in shown:
            if hit["id"] in ids and not hit.get("pinned"):
                showing.setdefault(hit["id"], set()).add(query_id)
    return showing


def _clicking(
    connection: Connection, collection_id: int, showing: Mapping[str, set[str]]
) -> dict[str, set[tuple[str, str]]]:
    """Return document id -> pairs of an impression and a client that liked the document in it."""
    query_ids = sorted(set().union(*showing.values()))
    wanted = select(EVENTS.c.document_id, EVENTS.c.query_id, EVENTS.c.client_id).where(
        EVENTS.c.collection_id == collection_id,
        EVENTS.c.query_id.in_(query_ids),
        EVENTS.c.document_id.in_(sorted(showing)),
        EVENTS.c.client_id.is_not(None),
        EVENTS.c.grade >= LEAST_LIKE,
    )
    clicking: dict[str, set[tuple[str, str]]] = {}
    for document_id, query_id, client_id in connection.execute(wanted):
        clicking.setdefault(str(document_id), set()).add((str(query_id), str(client_id)))
    return clicking
