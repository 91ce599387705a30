"""The exact rating of a document for a past query: whether it comes first when the same words are searched again.

Sees the confirmations of one pair of query and document, and counts of clicks; `index.ranking.exact_matches` uses the
rating. Judgments decide where they exist; else clicks of several known clients. Age does not change the rating.

All visitors of a page can read its key made for browsers, and make up clients with it. So events of such keys alone
bring no document first, and their dislikes count against clicks and not against judgments.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import fsum

from index.memory.confirmation import Confirmation

LEAST_RATING = 3.0
"""Least mean rating of a document that comes first."""
CLICKED_RATING = 3.0
"""The exact rating of a document that clicks qualify."""
LEAST_LIKE = 0.5
"""Least grade of a click that is a like. A click after which the client came back within seconds has less."""
LEAST_CLIENTS = 3
"""Least number of clients that like a document, less those that dislike it, for clicks to qualify it."""
NOISE_RATE = 0.1
"""`ClickCount.rate` that a document without relevance may get. Clicks qualify above this rate only."""
RATING_DIGITS = 6
"""A stored weight gives back its rating with a rounding error; ratings are rounded to this number of digits."""


@dataclass(frozen=True)
class ClickCount:
    """The logged impressions of one query and tenant that showed one document.

    clients: the clients that liked the document in these impressions. shown: the number of clients that searched; a
    search without a client counts as one. clicked: the number of these with an impression in which one liked it.
    """

    clients: frozenset[str]
    clicked: int
    shown: int

    @property
    def rate(self) -> float:
        """The share of the clients that searched with a like, 0 without impressions."""
        return self.clicked / max(1, self.shown)


def united(counts: Collection[ClickCount]) -> ClickCount | None:
    """Return the counts of several tenants as one, None without counts."""
    if not counts:
        return None
    clients = frozenset[str]().union(*(one.clients for one in counts))
    return ClickCount(clients, sum(one.clicked for one in counts), sum(one.shown for one in counts))


def exact_rating(confirmations: Collection[Confirmation], clicks: ClickCount | None = None) -> float:
    """Return the exact rating of a pair from 3 to 4, or 0 if the document does not come first.

    confirmations: by all query keys with the same words. Each rater counts once, with the latest rating, and each
    client once, and all anonymous events of a tenant together count once. A client that dislikes the document counts as
    a rating of 0, or against a client that clicked it. Clicks qualify a document if a key that is not for browsers sent
    one of them; dislikes of keys for browsers do not count as ratings. The order of confirmations has no effect.
    """
    judged = sorted((each for each in confirmations if each.judged), key=lambda each: (each.moment, each.id))
    by_rater = {each.client: each.grade for each in judged}
    ratings = [max(0.0, round(grade, RATING_DIGITS)) for grade in by_rater.values()]
    if ratings:
        mean = fsum(ratings) / (len(ratings) + _dislikes(_without_browsers(confirmations)))
        return mean if mean >= LEAST_RATING else 0.0
    if clicks is None or clicks.rate <= NOISE_RATE:
        return 0.0
    liking = clicks.clients & liking_clients(confirmations)
    if len(liking) - _dislikes(confirmations) < LEAST_CLIENTS:
        return 0.0
    return CLICKED_RATING if liking & _vouching_clients(confirmations) else 0.0


def may_qualify(confirmations: Collection[Confirmation]) -> bool:
    """Return whether clicks may qualify a document: enough clients like it, one of them by a key not for browsers."""
    if len(confirmations) < LEAST_CLIENTS:
        return False
    liking = liking_clients(confirmations)
    return len(liking) >= LEAST_CLIENTS and not liking.isdisjoint(_vouching_clients(confirmations))


def _vouching_clients(confirmations: Collection[Confirmation]) -> set[str | None]:
    """Return the clients with a like that a key not for browsers sent."""
    events = [each for each in _without_browsers(confirmations) if not each.judged]
    return {each.client for each in events if round(each.grade, RATING_DIGITS) >= LEAST_LIKE}


def _without_browsers(confirmations: Collection[Confirmation]) -> list[Confirmation]:
    return [each for each in confirmations if not each.from_browser]


def _dislikes(confirmations: Collection[Confirmation]) -> int:
    """Return the number of clients and of tenants that dislike the document."""
    return len(_disliking_clients(confirmations)) + len(_disliking_tenants(confirmations))


def liking_clients(confirmations: Collection[Confirmation]) -> set[str]:
    """Return the known clients whose latest event about the document is not a dislike."""
    clients = {each.client for each in confirmations if each.client is not None and not each.judged}
    return clients - _disliking_clients(confirmations)


def _disliking_clients(confirmations: Collection[Confirmation]) -> set[str]:
    """Return the clients whose latest event is a dislike. At equal times the dislike is the latest."""
    latest: dict[str, tuple[int, bool]] = {}
    for each in confirmations:
        if not each.judged and each.client is not None:
            this = (each.moment, each.grade < 0)
            latest[each.client] = max(this, latest.get(each.client, this))
    return {client for client, (_, dislikes) in latest.items() if dislikes}


def _disliking_tenants(confirmations: Collection[Confirmation]) -> set[str]:
    """Return the tenants whose anonymous events dislike: their grades sum to less than 0."""
    anonymous: dict[str, list[float]] = {}
    for each in confirmations:
        if not each.judged and each.client is None:
            anonymous.setdefault(each.tenant, []).append(each.grade)
    return {tenant for tenant, grades in anonymous.items() if fsum(grades) < 0}
