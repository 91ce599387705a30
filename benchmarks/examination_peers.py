"""An estimator of the examination that needs no order of lists, for comparison: clicks per position."""

import numpy as np
from scipy.optimize import minimize

from index.learning.click_model import ClickCounts, Doubles, non_increasing, sums_of
from index.memory.click_worth import ASSUMED_CURVE, POSITIONS
from index.records import Floats

PRIOR_CLICKS = 30.0
"""Weight of the prior curve, in clicks. It determines the curve where the log has no clicks."""


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
    pair_clicks, rank_clicks = sums_of(pair, clicks, virtual + 1), sums_of(rank, clicks, POSITIONS)

    def loss(logs: Doubles) -> tuple[float, Doubles]:
        expected = shown * np.exp(logs[rank])
        total = sums_of(pair, expected, virtual + 1)
        gradient = sums_of(rank, expected * (pair_clicks / total)[pair], POSITIONS) - rank_clicks
        return float(pair_clicks @ np.log(total) - rank_clicks @ logs), gradient

    found = minimize(loss, np.log(prior.astype(np.float64)), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return non_increasing(np.exp(found.x - found.x.max()), rank_clicks)
