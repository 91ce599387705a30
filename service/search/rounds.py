"""Ranks a search again with more candidates where one ranking does not decide its page or whether more hits follow."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from index.ranking.retrieval import Query
from index.ranking.search import Ranking
from index.records import Ints
from service.runtime.candidate_steps import MOST, STEP
from service.search.passing import Ranked, passing_ranks
from service.search.schemas import SearchIn

Rank = Callable[[Query, Ints], Ranked]
"""A query, and the documents (k,) of hits that keep their places, to its ranking and hits."""
NO_HITS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Found:
    """A ranking of a query, the ranks (n,) of its hits in their order, and whether hits follow after the page."""

    query: Query
    ranking: Ranking
    ranks: Ints
    has_more: bool

    def documents(self, count: int) -> list[int]:
        """Return the documents of the first hits, at most `count`."""
        documents: list[int] = self.ranking.doc_indices[self.ranks[:count]].tolist()
        return documents


def find(
    request: SearchIn,
    query: Query,
    ranked: Rank,
    lacks: Callable[[Ranking, Ints], bool],
    everything: bool,
) -> Found:
    """Return what a search finds, and whether there are hits after its page.

    lacks: whether there are documents with a value of `distinct` that none of these hits has. everything: whether the
    query has no words, so that its candidates are all documents. Where the page ends with the last candidate, a search
    for one more candidate tells.
    """
    first = _found(request, query, ranked)
    if everything or request.sort or first.has_more:
        return first
    if request.distinct:
        return _distinct(request, first, ranked, lacks)
    end = request.offset + request.limit
    if len(first.ranks) == end == query.count:
        return replace(first, has_more=len(ranked(replace(query, count=end + 1), NO_HITS)[1]) > end)
    return first


def _found(request: SearchIn, query: Query, ranked: Rank, kept: Ints = NO_HITS) -> Found:
    ranking, ranks = ranked(query, kept)
    return Found(query, ranking, ranks, len(ranks) > request.offset + request.limit)


def _distinct(request: SearchIn, first: Found, ranked: Rank, lacks: Callable[[Ranking, Ints], bool]) -> Found:
    """Return the ranking of 1, 4, 16 ... times as many candidates: the least that has all hits of the page.

    Most candidates may have the same value, so `distinct` may leave fewer hits than the page has, although there are
    documents with other values. The hits of fewer candidates keep their places, so that all pages are of one list.
    """
    end = request.offset + request.limit
    shown = last = first
    while (
        not last.has_more
        and last.query.count < MOST
        and len(passing_ranks(last.ranking, request)) >= last.query.count
        and lacks(last.ranking, last.ranks)
    ):
        more = replace(last.query, count=min(STEP * last.query.count, MOST))
        last = _found(request, more, ranked, last.ranking.doc_indices[last.ranks])
        if shown.documents(end) != last.documents(end):  # the page was short, or had a pinned document at its end
            shown = last
    return replace(shown, has_more=last.has_more)
