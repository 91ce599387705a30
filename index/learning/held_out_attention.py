"""The attention of two heads for held-out queries, before and after a run: what `softseek train --heatmap` draws.

A held-out query belongs to a test fold. No run trains on it, so neither head has learned from it. The memory of the
query itself is left out. A report names a query by its hash, because a report outlives a deleted query.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from index.generation.generation import Generation
from index.learning.examples import Feedback, fold_of, hash_of
from index.ranking.attention import AttentionHead
from index.ranking.search import search

RANKS = 10
"""Ranks whose weights are reported, and that count in the change of a ranking."""
QUERIES = 8
"""Queries that are reported."""
DIGITS = 4
Run = Mapping[str, Sequence[str]]
"""Query key -> rows of documents, best first."""


def change(before: Sequence[str], after: Sequence[str]) -> float:
    """Return the change of a ranking: sum of 1 / log2(1 + r) over the first RANKS ranks r with another document."""
    one, other = ([*rows[:RANKS], *[""] * (RANKS - len(rows))] for rows in (before, after))
    differs = [old != new for old, new in zip(one, other, strict=True)]
    return float(np.sum(differs / np.log2(np.arange(2, RANKS + 2))))


def most_changed(test: Sequence[Feedback], before: Run, after: Run) -> list[Feedback]:
    """Return the QUERIES test queries with a confirmed document whose ranking changed most; ties by query key."""
    confirmed = [one for one in test if any(gain > 0 for gain in one.gains.values())]
    order = sorted(
        confirmed, key=lambda one: (-change(before[one.query_key], after[one.query_key]), one.query_key)
    )  # fmt: skip
    return order[:QUERIES]


def attention_before_and_after(
    generation: Generation, champion: AttentionHead, challenger: AttentionHead, queries: Sequence[Feedback]
) -> list[dict[str, Any]]:
    """Return for each query its hash, its fold, and the weights of the champion and of the challenger."""
    return [
        {
            "hash": f"{hash_of(one.query_key):016x}",
            "fold": fold_of(one.query_key),
            "before": weights_by_rank(generation, champion, one),
            "after": weights_by_rank(generation, challenger, one),
        }
        for one in queries
    ]


def weights_by_rank(generation: Generation, head: AttentionHead, one: Feedback) -> list[float]:
    """Return the weights of the first RANKS ranks and of the null slot (RANKS + 1,), 0 for ranks without a document."""
    ranking = search(generation, head, one.as_query())
    first = ranking.weights[:RANKS].tolist()
    return [round(float(each), DIGITS) for each in (*first, *[0.0] * (RANKS - len(first)), ranking.null_weight)]
