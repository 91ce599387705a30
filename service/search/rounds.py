"""Ranks a search again with more candidates where one ranking does not decide its page or whether more hits follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from index.ranking.retrieval import Query
from index.ranking.search import Ranking
from index.records import Ints
from service.runtime.candidate_steps import MOST, STEP
from service.search.field_columns import Scalar
from service.search.passing import Ranked, first_of_each, passing_ranks
from service.search.schemas import SearchIn


@dataclass(frozen=True)
class Found:
    """A ranking of a query, the ranks (n,) of its hits in their order, and whether hits follow after the page."""

    query: Query
    ranking: Ranking
    ranks: Ints
    has_more: bool


def find(
    request: SearchIn,
    query: Query,
    ranked: Callable[[Query], Ranked],
    lacks: Callable[[Ranking, Ints], bool],
    values: Callable[[Ints], Sequence[Scalar | None]],
    everything: bool,
) -> Found:
    """Return what a search finds, and whether there are hits after its page.

    ranked: query -> its ranking and hits. lacks: whether there are documents with a value of `distinct` that none
    of these hits has. values: documents (n,) -> their values of `distinct`. everything: whether the query has no words,
    so that its candidates are all documents. Where the page ends with the last candidate, a search for one more
    candidate tells.
    """
    first = _found(request, query, ranked)
    if everything or request.sort or first.has_more:
        return first
    if request.distinct:
        return _distinct(request, first, ranked, lacks, values)
    end = request.offset + request.limit
    if len(first.ranks) == end == query.count:
        return replace(first, has_more=len(ranked(replace(query, count=end + 1))[1]) > end)
    return first


def _found(request: SearchIn, query: Query, ranked: Callable[[Query], Ranked]) -> Found:
    ranking, ranks = ranked(query)
    return Found(query, ranking, ranks, len(ranks) > request.offset + request.limit)


def _distinct(
    request: SearchIn,
    first: Found,
    ranked: Callable[[Query], Ranked],
    lacks: Callable[[Ranking, Ints], bool],
    values: Callable[[Ints], Sequence[Scalar | None]],
) -> Found:
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
        more = _found(request, replace(last.query, count=min(STEP * last.query.count, MOST)), ranked)
        ranks = _ranks_after(last, more, values)
        last = replace(more, ranks=ranks, has_more=len(ranks) > end)
        if len(shown.ranks) < min(len(last.ranks), end):
            shown = last
    return replace(shown, has_more=last.has_more)


def _ranks_after(before: Found, now: Found, values: Callable[[Ints], Sequence[Scalar | None]]) -> Ints:
    """Return the ranks (n,) of the hits of a ranking: first those of the ranking before, then those with other values.

    A candidate of the ranking before is missing only where the second hop searches for another query.
    """
    rank_of = {document: rank for rank, document in enumerate(now.ranking.doc_indices.tolist())}
    documents = before.ranking.doc_indices[before.ranks].tolist()
    kept = np.asarray([rank_of[document] for document in documents if document in rank_of], np.int64)
    ranks: Ints = np.concatenate([kept, now.ranks[~np.isin(now.ranks, kept)]])
    return ranks[first_of_each(values(now.ranking.doc_indices[ranks]))]
