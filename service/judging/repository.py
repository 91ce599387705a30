"""SQL of judging: the queries that people ask, and the documents that have a judgment."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    Connection,
    Text,
    and_,
    case,
    cast,
    distinct,
    func,
    literal,
    null,
    select,
    union_all,
)

from index.memory.query_key import bare_key
from service.storage.database import rfc3339
from service.storage.dialects import unindexed
from service.storage.event_times import acted_since
from service.storage.newest_rows import client_of, searched_since
from service.storage.tables import EVENTS, JUDGMENTS, QUERIES

MAX_ROWS = 50_000
"""Impressions, events and judgments that are read: of each, the newest."""
MAX_QUERIES = 1_000
"""Query texts that are returned."""
NOT_SEARCHABLE = ("", "*")
"""Query keys without words."""


@dataclass(frozen=True)
class AskedQuery:
    """A query text that was searched lately or has feedback."""

    query_key: str
    text: str
    """One of the spellings of the query."""
    searches: int
    """The number of its logged searches."""
    clients: int
    """The number of clients that searched it or gave feedback on it; a search without a client counts as a client, and
    feedback on a logged search as its client."""


def asked_queries(connection: Connection, collection_id: int, since: datetime) -> list[AskedQuery]:
    """Return the queries that were searched since then, and the queries with feedback of any time.

    The queries of most clients come first, ties by query key. Clients are counted from `since` on.
    """
    searcher = client_of(QUERIES, QUERIES.c.query_id)
    own = client_of(EVENTS, func.coalesce(EVENTS.c.query_id, "event " + cast(EVENTS.c.id, Text)))
    client = func.coalesce(searcher, own)  # feedback on a logged list is by the client of its search
    lately = case((acted_since(rfc3339(since)), client), else_=null())
    logged = and_(QUERIES.c.query_id == EVENTS.c.query_id, QUERIES.c.collection_id == EVENTS.c.collection_id)
    searched = select(
        QUERIES.c.query_key.label("query_key"),
        QUERIES.c.text.label("text"),
        searcher.label("client"),
        literal(1).label("searches"),
    ).where(searched_since(collection_id, since))
    acted = (
        select(EVENTS.c.query_key, EVENTS.c.query_text, lately, literal(0))
        .join(QUERIES, logged, isouter=True)
        .where(unindexed(EVENTS, collection_id), EVENTS.c.grade != 0)
    )
    rated = select(JUDGMENTS.c.query_key, JUDGMENTS.c.query_text, null(), literal(0)).where(
        unindexed(JUDGMENTS, collection_id)
    )
    newest = (
        searched.order_by(QUERIES.c.query_id.desc()),
        acted.order_by(EVENTS.c.id.desc()),
        rated.order_by(JUDGMENTS.c.id.desc()),
    )
    every = union_all(*(select(one.limit(MAX_ROWS).subquery()) for one in newest)).subquery()
    clients = func.count(distinct(every.c.client))
    wanted = select(every.c.query_key, func.max(every.c.text), func.sum(every.c.searches), clients)
    wanted = wanted.where(every.c.query_key.not_in(NOT_SEARCHABLE)).group_by(every.c.query_key)
    rows = connection.execute(wanted.order_by(clients.desc(), every.c.query_key).limit(MAX_QUERIES))
    return [AskedQuery(*row) for row in rows]


def judged_documents(connection: Connection, collection_id: int, query_keys: Sequence[str]) -> dict[str, set[str]]:
    """Return words (`bare_key`) -> ids of the documents that any rater judged for a query key with these words.

    Only these query keys are read, at most MAX_QUERIES.
    """
    wanted = select(JUDGMENTS.c.query_key, JUDGMENTS.c.document_id).where(
        JUDGMENTS.c.collection_id == collection_id, JUDGMENTS.c.query_key.in_(query_keys)
    )
    found: dict[str, set[str]] = {bare_key(query_key): set() for query_key in query_keys}
    for query_key, document_id in connection.execute(wanted):
        found[bare_key(query_key)].add(document_id)
    return found
