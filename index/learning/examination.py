"""The examination of each position, solved from contrasts (`index.learning.contrasts`)."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from index.learning.contrasts import Contrasts
from index.memory.click_worth import ASSUMED_CURVE, POSITIONS
from index.records import Floats

PRIOR_DEVIATION = 0.5
"""Standard deviation of the fall of log examination from one position to another, e times as deep, in the prior."""
STEEPEST = 5.0
"""Greatest fall of log examination from one position to another, e times as deep."""

Doubles = NDArray[np.float64]


def examination_curve(queries: Iterable[Contrasts], prior: Floats = ASSUMED_CURVE) -> Floats:
    """Return the non-increasing examination curve (POSITIONS,), 1 at the first position.

    With A_q the contrasts of a query and phi = 1 / examination, the sums m = sum_q A_q phi have the mean zero. The
    curve minimises sum_a m_a^2 / sum_q (A_q phi)_a^2, the continuously updated generalised method of moments of Hansen,
    Heaton and Yaron (1996), in which a curve gains nothing by the scale of phi. The prior is a random walk of log phi
    over the logarithm of the position around a non-increasing curve. It decides where no document changed its position.
    """
    entries = [(number, *entry) for number, contrasts in enumerate(queries) for entry in contrasts]
    table = np.asarray(entries, np.float64).reshape(-1, 4)
    query, earlier, rank = table[:, :3].astype(np.int64).T
    if (earlier == rank).all():
        return prior
    rows, row = np.unique(query * POSITIONS + earlier, return_inverse=True)
    coefficient, rank_of_row = table[:, 3], rows % POSITIONS
    expected, deeper = -np.diff(np.log(prior.astype(np.float64))), np.diff(np.log(np.arange(1, POSITIONS + 1)))
    scale = PRIOR_DEVIATION**2 * deeper

    def loss(falls: Doubles) -> tuple[float, Doubles]:
        """Return the objective and its gradient. falls (POSITIONS - 1,): of log examination to the next position."""
        phi = np.exp(np.concatenate([[0.0], np.cumsum(falls)]))
        own = np.bincount(row, coefficient * phi[rank], len(rows))
        moment = np.bincount(rank_of_row, own, POSITIONS)
        variance = np.bincount(rank_of_row, own**2, POSITIONS) + 1e-12
        ratio = moment / variance
        by_row = 2 * (ratio[rank_of_row] - ratio[rank_of_row] ** 2 * own)
        by_log = np.bincount(rank, coefficient * by_row[row], POSITIONS) * phi
        by_fall = np.cumsum(by_log[::-1])[::-1][1:]
        away = falls - expected
        return float(moment @ ratio + (away**2 / scale).sum()), by_fall + 2 * away / scale

    bounds = [(0.0, STEEPEST * one) for one in deeper]
    found = minimize(loss, expected, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    curve: Floats = np.exp(-np.concatenate([[0.0], np.cumsum(found.x)])).astype(np.float32)
    return curve
