"""The schema of the queries of a log."""

from typing import Any

from service.http.answers import Answer, example

EXAMPLE: dict[str, Any] = {
    "searches": 40,
    "clients": 12,
    "clicked": 22,
    "unanswered": 3,
    "reciprocal_rank": 0.41,
    "first": "2026-11-02T08:10:00.000Z",
    "last": "2026-11-28T09:30:00.000Z",
}


class SearchCounts(Answer):
    """Counts of logged searches."""

    searches: int
    """The number of searches. A further page of hits is a search."""
    clients: int
    """The number of clients that searched. A search without a client and a session counts as a client."""
    clicked: int
    """The number of searches with a click or another event of a positive grade."""
    unanswered: int
    """The number of searches whose response had `"answered": false`. Those that an earlier release logged do not
    count."""
    reciprocal_rank: float
    """The mean of 1 / the position of the highest clicked hit. A search without a click counts with 0."""
    first: str
    """The time of the first search."""
    last: str
    """The time of the last search."""


class CountsOfQuery(SearchCounts):
    """A query and the counts of its searches."""

    q: str
    """The text of the query, in one of its spellings."""


class CountsOfDay(SearchCounts):
    """A day and the counts of its searches."""

    date: str
    """The day in UTC."""


class CountsOfModel(SearchCounts):
    """A version of a model, and the counts of the searches that it answered."""

    version: int
    """The version."""


class Queries(Answer):
    """What people search: counts of all searches, and by query, by day and by model."""

    model_config = example(
        since="2026-10-29T10:00:00.000Z",
        total=EXAMPLE,
        distinct=1,
        queries=[{"q": "how do I copy a folder"} | EXAMPLE],
        days=[{"date": "2026-11-28"} | EXAMPLE],
        models=[{"version": 3} | EXAMPLE],
    )

    since: str
    """The time from which searches are counted: the newest 100,000 at most."""
    total: SearchCounts | None
    """The counts of all searches; null if there are none."""
    distinct: int
    """The number of different queries."""
    queries: list[CountsOfQuery]
    """The first queries in the order that was asked for."""
    days: list[CountsOfDay]
    """The days with searches, in their order."""
    models: list[CountsOfModel]
    """The versions that answered searches, in their order."""
