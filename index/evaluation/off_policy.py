"""Estimates the clicks per search of a policy that was not live, from lists that another policy sampled and logged.

Sees arrays, never models or documents. A reward at a position depends on the documents down to it (the cascade
assumption), so it is weighted by the ratio of the probabilities of this prefix under both policies: reward interaction
inverse propensity scoring (McInerney et al. 2020). The estimators are importance sampling (Horvitz and Thompson 1952),
its self-normalised form (Swaminathan and Joachims 2015), and the doubly robust form (Dudik et al. 2011; Kiyohara et al.
2022). Each gives a value per list; their mean is the estimate, and Student's t of the values is its interval, with a
variance by clients (`clients`), and wider where few rewards carry the estimate (`rare_events`).
An estimate whose weight few lists carry has no interval: it would be too narrow. Neither has an estimate of the lists
of very few clients, nor one whose mean weight is too far from 1, because lists that carry weight are missing.

Letters: M logged lists, P positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.evaluation.clients import LEAST_CLIENTS, clustered_interval, effective_clients
from index.evaluation.rare_events import least_margins
from index.records import Ints

Doubles = NDArray[np.float64]
RELIABLE_SHARE = 1 / 3
"""Least effective sample size of an estimate with an interval, as a share of the lists in a sampled order.

With less, few lists have most of the weight, and a log without such a list shows too little variance. Simulated in
docs/performance/exploration.md."""
LEAST_SIZE = 50
"""Least effective sample size of an estimate with an interval: the share of fewer lists varies too much to decide."""
WEIGHT_ERRORS = 3.0
"""Standard errors from 1, at most, of the mean weight of an estimate with an interval."""
WEIGHT_ROUNDING = 0.01
"""A mean weight as near to 1 as this is no obstacle: probabilities are logged and computed with rounding errors."""


@dataclass(frozen=True)
class Replay:
    """The logged lists as one policy sees them; all arrays are (M, P).

    ratios: probability of the prefix down to a position under this policy, over its logged probability. predicted: the
    reward that the reward model predicts for the logged document. expected: the mean prediction for the document that
    this policy would put there, given the logged documents above. start: the same without any logged document.
    """

    ratios: Doubles
    predicted: Doubles
    expected: Doubles
    start: Doubles

    @property
    def effective_sample_size(self) -> float:
        """The mean over the positions of (sum w)^2 / sum w^2 for the ratios w (Kish 1965)."""
        squares = (self.ratios**2).sum(axis=0)
        sizes = self.ratios.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0)
        return float(sizes.mean()) if sizes.size else 0.0

    @property
    def misfit(self) -> str | None:
        """Why the logged lists cannot stand for the lists of this policy; None if they may, or have no position.

        The mean of their ratios has the expectation 1 (docs/math.md, 17).
        """
        if not self.ratios.size:
            return None
        weights = self.ratios.mean(axis=1)
        mean = float(weights.mean())
        if mean == 0 or abs(mean - 1) <= WEIGHT_ROUNDING:
            return None  # with a mean of 0 the effective sample size is 0
        error = float(weights.std()) / mean / len(weights) ** 0.5
        if abs(np.log(mean)) <= WEIGHT_ERRORS * error:
            return None
        return (
            f"the mean weight of the searches is {mean:.2f}, too far from 1: documents, rules or memory "
            "may have changed after the searches were logged"
        )


def importance_sampled(rewards: Doubles, replay: Replay) -> Doubles:
    """Return (M,) sum_p w_p r_p of each list: unbiased, with the highest variance. rewards (M, P)."""
    values: Doubles = (replay.ratios * rewards).sum(axis=1)
    return values


def self_normalised(rewards: Doubles, replay: Replay) -> Doubles:
    """Return values (M,) whose mean is sum_p (sum_m w r / sum_m w): the bias is of order 1 / M.

    The values are the estimate plus its influence function, so that their standard deviation is the estimate's times
    the root of M. rewards (M, P).
    """
    mean = replay.ratios.mean(axis=0)
    scale = np.where(mean > 0, mean, 1.0)
    by_position = (replay.ratios * rewards).mean(axis=0) / scale
    influence = replay.ratios / scale * (rewards - by_position)
    values: Doubles = by_position.sum() + influence.sum(axis=1)
    return values


def doubly_robust(rewards: Doubles, replay: Replay) -> Doubles:
    """Return (M,) sum_p s_p + w_{p-1} (e_p - s_p) + w_p (r_p - q_p) of each list, with w_0 = 1. rewards (M, P).

    s, e and q are `start`, `expected` and `predicted`. Unbiased for every reward model that did not see the rewards of
    the list; the better it predicts, the lower the variance.
    """
    above = np.concatenate([np.ones((len(rewards), 1)), replay.ratios[:, :-1]], axis=1)
    control = replay.start + above * (replay.expected - replay.start)
    values: Doubles = (control + replay.ratios * (rewards - replay.predicted)).sum(axis=1)
    return values


ESTIMATORS = {"ips": importance_sampled, "self_normalised": self_normalised, "doubly_robust": doubly_robust}
"""The estimators by their names in answers."""


@dataclass(frozen=True)
class Estimate:
    """An estimate of the rewards per list: mean, interval, number of lists, effective sample size.

    interval: low and high; None where too few lists carry the weight for it to hold as often as it says, with a misfit
    (`Replay.misfit`), and with fewer clients than LEAST_CLIENTS. least: the effective sample size that an interval
    needs. clients: their effective number.
    """

    mean: float
    interval: tuple[float, float] | None
    impressions: int
    effective_sample_size: float
    least: float
    misfit: str | None = None
    clients: float = np.inf

    @property
    def reason(self) -> str | None:
        """Why there is no interval; None if there is one."""
        if self.interval is not None:
            return None
        if self.effective_sample_size >= self.least:
            few = f"the effective number of clients is {self.clients:.2f}, and an interval needs {LEAST_CLIENTS}"
            return self.misfit or few
        size, least = f"{self.effective_sample_size:.1f}", f"{self.least:.1f}"
        return f"few searches carry the weight: the effective sample size is {size}, and an interval needs {least}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        low, high = (None, None) if self.interval is None else (round(end, 5) for end in self.interval)
        return {
            "mean": round(self.mean, 5),
            "low": low,
            "high": high,
            "impressions": self.impressions,
            "effective_sample_size": round(self.effective_sample_size, 1),
            "reliable": self.interval is not None,
            "reason": self.reason,
        }


def estimate(
    values: Doubles,
    effective_sample_size: float,
    sampled: float,
    misfit: str | None = None,
    margins: tuple[float, float] = (0.0, 0.0),
    clients: Ints | None = None,
) -> Estimate:
    """Return the estimate of the values (M,) of an estimator, M > 0.

    sampled: the lists in a sampled order. margins: how far an interval reaches at least, below and above the mean.
    clients (M,): the number of the client of each list; None: each list has a client of its own.
    """
    least = max(LEAST_SIZE, RELIABLE_SHARE * sampled)
    own = np.arange(len(values)) if clients is None else clients
    mean, found, number = float(values.mean()), None, np.inf if clients is None else effective_clients(own)
    if effective_sample_size >= least and misfit is None and number >= LEAST_CLIENTS:
        low, high = clustered_interval(values, own)
        found = min(low, mean - margins[0]), max(high, mean + margins[1])
    return Estimate(mean, found, len(values), effective_sample_size, least, misfit, number)


def compared(
    rewards: Doubles, a: Replay, b: Replay, sampled: float, clients: Ints | None = None
) -> Mapping[str, Mapping[str, Estimate]]:
    """Return `a`, `b` and `difference` (b - a, paired by list) -> estimator -> estimate. rewards (M, P), M > 0.

    sampled: the number of lists whose order was sampled, or its expectation: the others have the logging model's own
    order. clients (M,) as in `estimate`.
    """
    weights = {"a": a.ratios, "b": b.ratios, "difference": b.ratios - a.ratios}
    sizes = {"a": a.effective_sample_size, "b": b.effective_sample_size}
    sizes["difference"] = min(sizes.values())
    misfits = {"a": a.misfit, "b": b.misfit, "difference": a.misfit or b.misfit}
    margins = {side: least_margins(rewards, own) for side, own in weights.items()}
    spreads = {side: float((own * rewards).sum(axis=1).std()) for side, own in weights.items()}
    found: dict[str, dict[str, Estimate]] = {side: {} for side in weights}
    for name, estimator in ESTIMATORS.items():
        left, right = estimator(rewards, a), estimator(rewards, b)
        for side, values in (("a", left), ("b", right), ("difference", right - left)):
            # the margins are of importance sampling; an estimator with a lower spread needs less
            share = min(1.0, float(values.std()) / spreads[side]) if spreads[side] else 1.0
            below, above = (share * margin for margin in margins[side])
            found[side][name] = estimate(values, sizes[side], sampled, misfits[side], (below, above), clients)
    return found


def fitted_rewards(rewards: Doubles, attention: Doubles, examination: Doubles) -> Doubles:
    """Return the coefficients (M, 2) of the reward model theta_p (u + c alpha) for each list, u first.

    attention (M, P): alpha of the logged documents; examination (P,) or (M, P): theta. Least squares on the lists of
    the other half, so that no list predicts its own rewards. The halves are the lists with even and with odd numbers.
    """
    coefficients = np.zeros((len(rewards), 2))
    for half in (0, 1):
        other = slice(1 - half, None, 2)
        theta = np.broadcast_to(examination, rewards.shape)[other].ravel()
        features = np.stack([theta, theta * attention[other].ravel()], axis=1)
        found = np.linalg.lstsq(features, rewards[other].ravel(), rcond=None)[0]
        coefficients[half::2] = found
    return coefficients


def with_rewards(
    ratios: Doubles, attention: Mapping[str, Doubles], coefficients: Doubles, examination: Doubles
) -> Replay:
    """Return the replay of a policy under the reward model theta_p (u + c alpha).

    attention: `predicted`, `expected` and `start` -> alpha (M, P): of the logged document, and its means over the
    documents that the policy would put there. coefficients (M, 2) as `fitted_rewards` returns them. examination (P,)
    or (M, P): theta, 0 after the end of a list.
    """
    constant, slope = coefficients[:, :1], coefficients[:, 1:]
    return Replay(ratios, **{name: examination * (constant + slope * alpha) for name, alpha in attention.items()})
