"""Estimators of the examination that need no order of lists, for comparison: EM, and clicks per position.

Both take positions as independent of earlier clicks.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, minimize

from index.learning.click_model import ClickCounts
from index.memory.click_worth import ASSUMED_CURVE, POSITIONS
from index.records import Floats, Ints

PRIOR_CLICKS = 30.0
"""Weight of the prior curve in `harvest`, in clicks. It determines the curve where the log has no clicks."""
ATTRACTION_PRIOR = (1.0, 4.0)
"""Beta prior of an attraction in EM: pseudo-counts of clicks and of examinations without a click."""
PRIOR_IMPRESSIONS = 5.0
"""Weight of the assumed curve in EM, in impressions per position. A position without clicks keeps some examination."""
STEPS = 200
"""EM iterations for the examination curve."""

Doubles = NDArray[np.float64]


def expectation_maximisation(counts: ClickCounts, steps: int = STEPS) -> Floats:
    """Return the curve (POSITIONS,) by EM of the position-based model with a Beta prior on attraction.

    Wang et al. 2018, section 4, without their regression: each pair has its own attraction. Below the last shown
    position the curve falls as the assumed curve does.
    """
    pair, rank, shown, clicks = counts.pair, counts.rank, counts.shown, counts.clicks
    passed, pairs = shown - clicks, int(pair.max(initial=-1)) + 1
    prior_clicks, prior_passes = ATTRACTION_PRIOR
    curve, attraction = ASSUMED_CURVE.astype(np.float64), np.full(pairs, prior_clicks / (prior_clicks + prior_passes))
    rank_shown, pair_shown = _sums(rank, shown, POSITIONS), _sums(pair, shown, pairs)
    for _ in range(steps):
        examined, attracted = curve[rank], attraction[pair]
        missed = passed / np.maximum(1 - examined * attracted, 1e-12)
        rank_examined = _sums(rank, clicks + missed * examined * (1 - attracted), POSITIONS)
        pair_attracted = _sums(pair, clicks + missed * attracted * (1 - examined), pairs)
        curve = (rank_examined + PRIOR_IMPRESSIONS * ASSUMED_CURVE) / (rank_shown + PRIOR_IMPRESSIONS)
        attraction = (pair_attracted + prior_clicks) / (pair_shown + prior_clicks + prior_passes)
    last = int(rank.max(initial=0))
    curve[last + 1 :] = curve[last] * ASSUMED_CURVE[last + 1 :] / ASSUMED_CURVE[last]
    return non_increasing(curve, _sums(rank, clicks, POSITIONS) + ASSUMED_CURVE)


def harvest(counts: ClickCounts, prior: Floats = ASSUMED_CURVE, prior_clicks: float = PRIOR_CLICKS) -> Floats:
    """Return the examination curve (POSITIONS,) from documents shown at several positions.

    Given the number of clicks on a pair, the clicks are distributed over its positions in proportion to shown x
    examination: attraction cancels. The curve maximises this conditional likelihood, a concave function of log
    examination. The expected gradient is zero at the true curve whenever the click probability is a product of
    examination and attraction. All positions of a pair are used at once; AllPairs (Agarwal et al. 2019) uses them two
    by two. The prior curve is added as a virtual pair, shown once at every position, with `prior_clicks` clicks.
    """
    swapped = counts.swapped()
    virtual = int(swapped.pair.max(initial=-1)) + 1
    pair = np.concatenate([swapped.pair, np.full(POSITIONS, virtual)])
    rank = np.concatenate([swapped.rank, np.arange(POSITIONS)])
    shown = np.concatenate([swapped.shown, np.ones(POSITIONS)])
    clicks = np.concatenate([swapped.clicks, prior_clicks * prior / prior.sum()])
    pair_clicks, rank_clicks = _sums(pair, clicks, virtual + 1), _sums(rank, clicks, POSITIONS)

    def loss(logs: Doubles) -> tuple[float, Doubles]:
        expected = shown * np.exp(logs[rank])
        total = _sums(pair, expected, virtual + 1)
        gradient = _sums(rank, expected * (pair_clicks / total)[pair], POSITIONS) - rank_clicks
        return float(pair_clicks @ np.log(total) - rank_clicks @ logs), gradient

    found = minimize(loss, np.log(prior.astype(np.float64)), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return non_increasing(np.exp(found.x - found.x.max()), rank_clicks)


def _sums(groups: Ints, values: Doubles, count: int) -> Doubles:
    """Return (count,) the sum of the values of each group in [0, count)."""
    return np.bincount(groups, values, count).astype(np.float64, copy=False)


def non_increasing(curve: Doubles, weights: Doubles) -> Floats:
    """Return the nearest non-increasing curve, scaled to start at 1: isotonic regression of the weighted logarithms."""
    logs = isotonic_regression(np.log(np.maximum(curve, 1e-6)), weights=weights, increasing=False).x
    smooth: Floats = np.exp(logs - logs[0]).astype(np.float32)
    return smooth
