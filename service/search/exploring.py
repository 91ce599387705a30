"""Draws the order of the hits of a search that asks for exploration.

Exploration concerns the first page of a search with words and without `sort`. Pinned documents keep their place, and so
do the documents that come first because of their exact rating.
"""

import numpy as np

from index.ranking.exact_matches import MOST_EXACT
from index.ranking.exploration import Exploration, explore
from index.ranking.search import Ranking
from index.records import Ints, Mask
from service.search.pinning import Pins
from service.search.schemas import SearchIn


def drawn(request: SearchIn, ranking: Ranking, ranks: Ints, pins: Pins) -> Exploration | None:
    """Return the drawn order of the hits, None if the search is not explored.

    ranks (n,): the 0-based ranks of the hits in the order in which they are shown without exploration. The draw is new
    for every search: its seed comes from the operating system.
    """
    if not request.explore or request.sort or request.offset:
        return None
    return explore(ranking.logits[ranks], _kept(ranking, ranks, pins), request.explore, np.random.default_rng())


def exact_count(ranking: Ranking) -> int:
    """Return the number of documents that come first because of their exact rating; they have the first ranks."""
    return min(MOST_EXACT, len(ranking.candidates.exact))


def _kept(ranking: Ranking, ranks: Ints, pins: Pins) -> Mask:
    """Return (n,) bool, True for the hits that keep their place."""
    kept: Mask = (ranks < exact_count(ranking)) | np.isin(ranking.doc_indices[ranks], pins.doc_indices)
    return kept
