"""Which candidates of a ranking are hits: thresholds, the first with each value of `distinct`, and the order of `sort`.

Sees no documents: the caller ranks them, in one generation or in parts.
"""

from collections.abc import Callable, Sequence

import numpy as np

from index.ranking.search import Ranking
from index.records import Ints
from service.runtime.candidate_steps import STEP
from service.search.field_columns import Scalar
from service.search.schemas import SearchIn

MOST_AT_ONCE = 2_000
"""Sorted documents that a ranking has at most besides its candidates and the hits so far, unless a page has more."""

MOST_SORTED = 50_000
"""Sorted documents after which no more are ranked, so that a threshold that few pass costs a bounded time."""

Ranked = tuple[Ranking, Ints]
"""A ranking, and the 0-based ranks (n,) of its hits in the order in which they are shown."""


def is_left_out(ranking: Ranking, request: SearchIn) -> bool:
    """Return whether all hits are left out, because the null weight is too large."""
    return request.max_null_weight is not None and ranking.null_weight > request.max_null_weight


def passing_ranks(ranking: Ranking, request: SearchIn) -> Ints:
    """Return the 0-based ranks of the hits that pass the thresholds."""
    if is_left_out(ranking, request):
        return _NONE
    if request.min_logit is None:
        return np.arange(len(ranking.doc_indices))
    # a threshold beyond the range of float32 overflows where it is compared as one
    ranks: Ints = np.flatnonzero(ranking.logits >= np.float64(request.min_logit))
    return ranks


def ranks_in_order(ranking: Ranking, documents: Ints, request: SearchIn) -> Ints:
    """Return the 0-based ranks of those documents (n,) that pass the thresholds, in this order; some may be gone."""
    rank_of = {document: rank for rank, document in enumerate(ranking.doc_indices.tolist())}
    ranks = np.asarray([rank_of[one] for one in documents.tolist() if one in rank_of], np.int64)
    return ranks[np.isin(ranks, passing_ranks(ranking, request))]


def first_of_each(values: Sequence[Scalar | None]) -> Ints:
    """Return the positions (n,) of the first document with each value; documents without a value are all kept."""
    seen: set[tuple[type, Scalar]] = set()
    kept = []
    for position, value in enumerate(values):
        if value is None or (type(value), value) not in seen:
            kept.append(position)
        if value is not None:
            seen.add((type(value), value))
    return np.asarray(kept, np.int64)


def passing_in_order(
    request: SearchIn,
    first: Callable[[int], Ints],
    rank: Callable[[Ints], Ranking],
    distinct_values: Callable[[Ints], Sequence[Scalar | None]],
) -> Ranked:
    """Return the hits of a search with `sort` and `min_logit` up to the end of the page, and one more.

    first: count -> the first documents (n,) in the order of `sort`. They are ranked in groups until enough of them
    pass, because only a ranking gives their logits; MOST_SORTED at most. rank: documents (n,) -> a ranking that has
    them. distinct_values: documents (n,) -> their values of `distinct`, of which the first that passes is shown.
    """
    window = request.offset + request.limit + 1
    begin, size = 0, window
    found: Ranked | None = None
    while True:
        documents = first(begin + size)
        known = _NONE if found is None else found[0].doc_indices[found[1]]
        further = documents[begin:]
        if found is not None and not len(further):
            return found
        asked = np.concatenate([known, further[~np.isin(further, known)]])
        ranking = rank(asked)
        ranks = ranks_in_order(ranking, asked, request)
        if request.distinct:
            ranks = ranks[first_of_each(distinct_values(ranking.doc_indices[ranks]))]
        if found is None or len(ranks) > len(found[1]):
            found = ranking, ranks[:window]
        begin += size
        is_end = len(documents) < begin or begin >= MOST_SORTED
        if len(found[1]) == window or is_end or is_left_out(found[0], request):
            return found
        size = min(max(size, min(STEP * size, MOST_AT_ONCE)), MOST_SORTED - begin)


_NONE = np.empty(0, np.int64)
