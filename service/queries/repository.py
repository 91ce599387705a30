"""SQL of the queries of a log: counts of searches and of their clicks, in groups."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Float, Subquery, cast, desc, distinct, func, select

from service.runtime.explored_slates import ANSWERED
from service.storage.database import SKEW, first_id
from service.storage.newest_rows import client_of, searched_since
from service.storage.tables import EVENTS, QUERIES

MAX_SEARCHES = 100_000
"""Logged searches that are counted: the newest."""
DAY = len("2026-11-28")
"""Characters of the date in a stored time."""

Order = Literal["searches", "without_click", "unanswered"]


@dataclass(frozen=True)
class Counts:
    """Counts of some logged searches."""

    searches: int
    """The number of searches; each page of hits is one."""
    clients: int
    """The number of their clients."""
    clicked: int
    """The number of searches with a click or another event of a positive grade."""
    unanswered: int
    """The number of searches whose response said that no document answers the query."""
    reciprocal_rank: float
    """The mean of 1 / the position of the highest clicked hit; 0 for a search without one."""
    first: str
    """The time of the first search."""
    last: str
    """The time of the last search."""


class SearchLog:
    """The newest MAX_SEARCHES searches of a collection since a time, with the position of their highest clicked hit."""

    def __init__(self, connection: Connection, collection_id: int, since: datetime) -> None:
        self._connection = connection
        self._searches = _searches(collection_id, since)
        one = self._searches.c
        self._counts: dict[str, ColumnElement[Any]] = {
            "searches": func.count(),
            "clients": func.count(distinct(one.client)),
            "clicked": func.count(one.clicked_id),
            "unanswered": func.count(1).filter(one.answered.is_(False)),
            "reciprocal_rank": func.coalesce(func.sum(1 / cast(one.position, Float)), 0.0) / func.count(),
            "first": func.min(one.created_at),
            "last": func.max(one.created_at),
        }

    def total(self) -> tuple[Counts, int] | None:
        """Return the counts of all searches, and the number of their queries; None if there are no searches."""
        queries = func.count(distinct(self._searches.c.query_key))
        row = self._connection.execute(select(*self._counts.values(), queries).having(func.count() > 0)).one_or_none()
        return None if row is None else (Counts(*row[:-1]), row[-1])

    def by_query(self, order: Order, limit: int) -> list[tuple[str, Counts]]:
        """Return one of the spellings of each query and its counts: the largest by the order first, ties by query."""
        key, counts = self._searches.c.query_key, self._counts
        largest: dict[Order, ColumnElement[Any]] = {
            "searches": counts["searches"],
            "without_click": counts["searches"] - counts["clicked"],
            "unanswered": counts["unanswered"],
        }
        wanted = select(func.max(self._searches.c.text), *counts.values()).group_by(key)
        rows: Any = self._connection.execute(
            wanted.order_by(desc(largest[order]), desc(counts["searches"]), key).limit(limit)
        )
        return [(row[0], Counts(*row[1:])) for row in rows]

    def by_day(self) -> list[tuple[str, Counts]]:
        """Return each day in UTC with searches, and its counts."""
        return self._by(func.substr(self._searches.c.created_at, 1, DAY))

    def by_model(self) -> list[tuple[int, Counts]]:
        """Return each version of a model with searches, and its counts."""
        return self._by(self._searches.c.model_version)

    def _by(self, group: Any) -> list[tuple[Any, Counts]]:
        rows: Any = self._connection.execute(select(group, *self._counts.values()).group_by(group).order_by(group))
        return [(row[0], Counts(*row[1:])) for row in rows]


def _searches(collection_id: int, since: datetime) -> Subquery:
    """Return the searches, one row each: clicked_id and position are NULL without a click.

    A click on a document that the list does not have counts at the position that its event gives, if any.
    """
    newest = (
        select(
            QUERIES.c.query_id,
            QUERIES.c.query_key,
            QUERIES.c.text,
            client_of(QUERIES, QUERIES.c.query_id).label("client"),
            QUERIES.c.request[ANSWERED].as_boolean().label("answered"),
            QUERIES.c.model_version,
            QUERIES.c.created_at,
        )
        .where(searched_since(collection_id, since))
        .order_by(QUERIES.c.query_id.desc())
        .limit(MAX_SEARCHES)
        .subquery()
    )
    clicked = (
        select(EVENTS.c.query_id, func.min(EVENTS.c.position).label("position"))
        .where(EVENTS.c.collection_id == collection_id, EVENTS.c.query_id >= first_id(since - SKEW), EVENTS.c.grade > 0)
        .group_by(EVENTS.c.query_id)
        .subquery()
    )
    joined = newest.outerjoin(clicked, newest.c.query_id == clicked.c.query_id)
    return select(newest, clicked.c.query_id.label("clicked_id"), clicked.c.position).select_from(joined).subquery()
