"""SQL that counts the clicks of known clients in the logged impressions of a query, for each tenant.

Reads only what is committed, with an index, and a limited number of events and impressions for each query. The rows of
a query are read once for all tenants.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from index.memory.aggregation import TenantRows
from index.memory.exact import LEAST_LIKE, ClickCount
from service.storage.database import Database
from service.storage.dialects import is_one_of, newest_first
from service.storage.tables import DOCUMENTS, EVENTS, QUERIES
from service.storage.tenants import NO_TENANT, split

COUNTED = 500
"""Impressions of a query and a tenant that are counted: the latest. Bounds the time of a click on a frequent query."""
SCANNED = 5_000
"""Events and impressions of a query, of all tenants, that are read: the latest of each. The index of a query has no
tenant, which is read with each row. In SQLite the index is in the order of time; PostgreSQL sorts the rows of the
query first."""
CHUNK = 500
"""Values in one SQL statement."""
Impression = Row[*tuple[Any, ...]]
"""A logged impression with `query_id`, `client_id` and `created_at`."""
Impressions = dict[str, str]
"""Query id -> who searched: the client, or the search itself where its client is not known."""


def click_counts(
    database: Database, collection_id: int, wanted: TenantRows
) -> dict[str, dict[str, dict[int, ClickCount]]]:
    """Return query key -> tenant -> row -> count of clicks, for these rows.

    An impression in which a rule pinned the document is left out. A client that searches again and again counts once.
    """
    with database.read() as connection:
        every = {row for by_tenant in wanted.values() for rows in by_tenant.values() for row in rows}
        ids = _document_ids(connection, sorted(every))
        return {
            query_key: _counts(connection, collection_id, query_key, by_tenant, ids)
            for query_key, by_tenant in wanted.items()
        }


def _document_ids(connection: Connection, rows: Sequence[int]) -> dict[int, str]:
    """Return row -> document id."""
    found: dict[int, str] = {}
    for first in range(0, len(rows), CHUNK):
        wanted = select(DOCUMENTS.c.row, DOCUMENTS.c.id).where(DOCUMENTS.c.row.in_(rows[first : first + CHUNK]))
        found |= {row.row: row.id for row in connection.execute(wanted)}
    return found


def _counts(
    connection: Connection,
    collection_id: int,
    query_key: str,
    wanted: Mapping[str, Sequence[int]],
    ids: Mapping[int, str],
) -> dict[str, dict[int, ClickCount]]:
    """Return tenant -> row -> count of clicks of a query."""
    showing = _showing(
        connection,
        collection_id,
        query_key,
        {tenant: {ids[row] for row in rows if row in ids} for tenant, rows in wanted.items()},
    )
    clicking = _clicking(connection, collection_id, showing)
    counts: dict[str, dict[int, ClickCount]] = {}
    for tenant, rows in wanted.items():
        counts[tenant] = {}
        for row in rows:
            clicks = clicking.get((tenant, ids.get(row, "")), set())
            clients = frozenset(f"client {client}" for _, client in clicks)
            searched = showing[tenant].get(ids.get(row, ""), {})
            clicked = len({searched[query_id] for query_id, _ in clicks})
            counts[tenant][row] = ClickCount(clients, clicked, len(set(searched.values())))
    return counts


def _showing(
    connection: Connection, collection_id: int, query_key: str, ids: Mapping[str, set[str]]
) -> dict[str, dict[str, Impressions]]:
    """Return tenant -> document id -> its latest impressions that showed the document, without those that pinned it.

    ids: tenant -> document ids.
    """
    showing: dict[str, dict[str, Impressions]] = {tenant: {} for tenant in ids}
    for tenant, impression, shown in _latest(connection, collection_id, query_key, ids.keys()):
        is_known = split(impression.client_id)[1] is not None
        searcher = f"client {impression.client_id}" if is_known else f"search {impression.query_id}"
        for hit in shown:
            if hit["id"] in ids[tenant] and not hit.get("pinned"):
                showing[tenant].setdefault(hit["id"], {})[impression.query_id] = searcher
    return showing


def _latest(
    connection: Connection, collection_id: int, query_key: str, tenants: Collection[str]
) -> Iterator[tuple[str, Impression, Any]]:
    """Yield tenant, impression and shown list of the latest searches of the query, up to the tenant's last event.

    Impressions after the tenant's last event on the query do not count yet: only events change a ranking, so that it is
    the same again when an event is deleted. A collection without tenants is read at once. Otherwise the ids are read
    first, and no lists of other tenants.
    """
    last = _last_events(connection, collection_id, query_key, tenants)
    if not last:
        return
    of_query = (
        select(QUERIES.c.query_id, QUERIES.c.client_id, QUERIES.c.created_at)
        .where(
            QUERIES.c.collection_id == collection_id,
            QUERIES.c.query_key == query_key,
            QUERIES.c.created_at <= max(last.values()),
        )
        .order_by(*newest_first(connection))
    )
    if last.keys() == set(tenants) == {NO_TENANT}:
        newest = connection.execute(of_query.add_columns(QUERIES.c.shown).limit(COUNTED)).all()
        mine = _by_tenant(newest, last)[NO_TENANT]
        if len(newest) < COUNTED or len(mine) == COUNTED:
            yield from ((NO_TENANT, row, row.shown) for row in mine)
            return
    every = _by_tenant(connection.execute(of_query.limit(SCANNED)).all(), last)
    kept = {row.query_id: (tenant, row) for tenant in tenants for row in every.get(tenant, ())[:COUNTED]}
    query_ids = list(kept)
    for first in range(0, len(query_ids), CHUNK):
        part = is_one_of(connection, QUERIES.c.query_id, query_ids[first : first + CHUNK])
        for query_id, shown in connection.execute(select(QUERIES.c.query_id, QUERIES.c.shown).where(part)):
            yield *kept[query_id], shown


def _last_events(
    connection: Connection, collection_id: int, query_key: str, tenants: Collection[str]
) -> dict[str, str]:
    """Return tenant -> time of its last graded event on the query, among the latest.

    It has further tenants where the last event is not of the only tenant wanted.
    """
    mine = (EVENTS.c.collection_id == collection_id, EVENTS.c.query_key == query_key, EVENTS.c.grade != 0)
    newest = select(EVENTS.c.client_id, EVENTS.c.created_at).where(*mine).order_by(EVENTS.c.id.desc())
    last: dict[str, str] = {}
    for most in (1, SCANNED):  # one row suffices after the event of a tenant
        for client_id, created_at in connection.execute(newest.limit(most)):
            last.setdefault(split(client_id)[0], created_at)
        if last.keys() >= set(tenants):
            break
    return last


def _by_tenant(impressions: Iterable[Impression], last: Mapping[str, str]) -> dict[str, list[Impression]]:
    """Return tenant -> its impressions up to its last event."""
    found: dict[str, list[Impression]] = {tenant: [] for tenant in last}
    for row in impressions:
        tenant = split(row.client_id)[0]
        if tenant in last and row.created_at <= last[tenant]:
            found[tenant].append(row)
    return found


def _clicking(
    connection: Connection, collection_id: int, showing: Mapping[str, Mapping[str, Impressions]]
) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """Return tenant and document id -> pairs of an impression that showed the document, and a client that liked it.

    showing: tenant -> document id -> impressions.
    """
    query_ids = sorted({id for shown in showing.values() for some in shown.values() for id in some})
    document_ids = sorted({id for shown in showing.values() for id in shown})
    clicking: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for first in range(0, len(query_ids), CHUNK):
        wanted = select(EVENTS.c.document_id, EVENTS.c.query_id, EVENTS.c.client_id).where(
            EVENTS.c.collection_id == collection_id,
            is_one_of(connection, EVENTS.c.query_id, query_ids[first : first + CHUNK]),
            EVENTS.c.document_id.in_(document_ids),
            EVENTS.c.grade >= LEAST_LIKE,  # a condition on the client would make SQLite use the index of clients
        )
        for document_id, query_id, client_id in connection.execute(wanted):
            tenant, name = split(client_id)
            if name is not None and query_id in showing.get(tenant, {}).get(document_id, {}):
                clicking.setdefault((tenant, str(document_id)), set()).add((str(query_id), str(client_id)))
    return clicking
