"""How far the interval of a mean must reach at least where few events carry the mean.

Student's t of values that are 0 but for a few events is too narrow, and has no width without any event. The sum of the
weights of rare events is a weighted sum of Poisson counts, whose limits come from gamma distributions (Fay and Feuer
1997; the upper limit as in Tiwari et al. 2006, with one further event of a usual weight). A difference has events of
both signs; its limits come from the limits of both (Zou and Donner 2008).

Letters: M lists, P positions.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from index.evaluation.significance import CONFIDENCE

Doubles = NDArray[np.float64]
FEW_EVENTS = 50
"""Effective number of events of each sign from which on Student's t holds. Simulated in docs/experiments.md."""


def least_margins(rewards: Doubles, weights: Doubles) -> tuple[float, float]:
    """Return how far the interval of the mean of sum_p w_p r_p reaches at least, below and above the mean.

    rewards (M, P) >= 0; weights (M, P), negative for rewards that lower the mean. Both margins are 0 where the
    effective number of events (Kish 1965) of each sign that weights have is FEW_EVENTS or more.
    """
    sums = (weights * rewards).sum(axis=1)
    parts = [(np.maximum(sign * sums, 0), np.maximum(sign * weights, 0)) for sign in (1, -1)]
    if all(_effective_number(events) >= FEW_EVENTS or not own.any() for events, own in parts):
        return 0.0, 0.0
    raising, lowering = (_margins(*part) for part in parts)
    below, above = np.hypot(raising[0], lowering[1]), np.hypot(raising[1], lowering[0])
    return float(below) / len(sums), float(above) / len(sums)


def _effective_number(sums: Doubles) -> float:
    """Return (sum x)^2 / sum x^2 of the sums x of the lists, 0 without an event."""
    squares = float((sums**2).sum())
    return float(sums.sum()) ** 2 / squares if squares else 0.0


def _margins(sums: Doubles, weights: Doubles) -> tuple[float, float]:
    """Return how far the limits of the expected sum lie below and above the sum. sums (M,), weights (M, P), all >= 0.

    A limit is a quantile of the gamma distribution with the mean y and the variance v of the sum; the upper limit adds
    an event. Its weight is the mean of the weights, each counted by itself, because heavy events are missing from short
    logs.
    """
    y, v = float(sums.sum()), float((sums**2).sum())
    further = float((weights**2).sum() / weights.sum()) if weights.any() else 0.0
    lower = _quantile(y, v, (1 - CONFIDENCE) / 2)
    upper = _quantile(y + further, v + further**2, (1 + CONFIDENCE) / 2)
    return y - lower, upper - y


def _quantile(mean: float, variance: float, share: float) -> float:
    """Return a quantile of the gamma distribution with this mean and variance; 0 for the variance 0."""
    return float(variance / mean * gammaincinv(mean**2 / variance, share)) if variance else 0.0
