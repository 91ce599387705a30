"""The ranks of clicked documents under two heads: nDCG@10 whose gains are click rates per expected examination.

The likelihood of clicks asks how well logits explain all clicks; it hardly rises where a head only orders the first
documents better. This measure asks for the order alone. With the clicks c_n and the expected examinations E_n of the
shown documents, the gain of a document is a shrunken rate, x_n = (c_n + k r_n) / (E_n + k) (inverse propensity
weighting, Joachims et al. 2017, with the rate of similar documents where examinations are few). r_n is the rate over
all queries of documents whose mean rank by both heads is as high, so neither order of a pair of documents is favoured.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from index.learning.click_likelihood import Clicked

RANKS = "nDCG@10 by clicks"
"""The name of the measure."""
EXAMINATIONS = 1.0
"""k, the expected examinations that the rate of similar documents counts for."""
TOP = 10
LEAST = 1e-9

Doubles = NDArray[np.float64]


def rank_measures(
    before: Mapping[str, Clicked], after: Mapping[str, Clicked]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return query key -> the measure, for both heads. before, after: query key -> the shown documents under each."""
    keys = sorted(before)
    before, after = (_shown(side) for side in (before, after))
    ranks = [(_ranks(before[key].logits), _ranks(after[key].logits)) for key in keys]
    groups = [np.minimum((left + right) // 2, TOP) for left, right in ranks]
    rates = _rates([before[key] for key in keys], groups)
    values: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for key, pair, group in zip(keys, ranks, groups, strict=True):
        one = before[key]
        gains = (one.clicks + EXAMINATIONS * rates[group]) / (one.examinations + EXAMINATIONS)
        best = max(LEAST, float(np.sort(gains)[::-1] @ _discounts(np.arange(len(gains)))))
        for own, side in zip(pair, values, strict=True):
            side[key] = float(gains @ _discounts(own)) / best
    return values


def _shown(queries: Mapping[str, Clicked]) -> dict[str, Clicked]:
    """Return the queries without documents that no list showed: a solved session names documents of other lists."""
    found = {}
    for key, one in queries.items():
        kept = one.examinations > 0
        logits, log_propensity, clicks = (of[kept] for of in (one.logits, one.log_propensity, one.clicks))
        found[key] = Clicked(logits, log_propensity, clicks, one.examinations[kept])
    return found


def _ranks(logits: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rank (n,) of each document, from 0; of equal logits the first is better."""
    ranks = np.empty(len(logits), np.int64)
    ranks[np.argsort(-logits, kind="stable")] = np.arange(len(logits))
    return ranks


def _discounts(ranks: NDArray[np.int64]) -> Doubles:
    discounts: Doubles = np.where(ranks < TOP, 1 / np.log2(ranks + 2.0), 0.0)
    return discounts


def _rates(queries: Sequence[Clicked], groups: Sequence[NDArray[np.int64]]) -> Doubles:
    """Return the clicks per expected examination (TOP + 1,) of the documents of each group. All queries weigh alike."""
    clicks, examinations = np.zeros(TOP + 1), np.zeros(TOP + 1)
    for one, group in zip(queries, groups, strict=True):
        weight = 1 / max(LEAST, float(one.examinations.sum()))
        clicks += np.bincount(group, weight * one.clicks, TOP + 1)
        examinations += np.bincount(group, weight * one.examinations, TOP + 1)
    rates: Doubles = clicks / np.maximum(examinations, LEAST)
    return rates
