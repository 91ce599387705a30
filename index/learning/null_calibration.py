"""Measures of calibration, and the fits of the null weight.

Sees probabilities, evidence and outcomes, never queries. Sources: Naeini et al. 2015 and Guo et al. 2017 (expected
calibration error); Brier 1950; Geifman and El-Yaniv 2017 (risk and coverage); Platt 1999 (logistic fit).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import bdtr, expit

Array = NDArray[np.float64]
BINS = 15


def expected_calibration_error(probability: ArrayLike, outcome: ArrayLike, bins: int = BINS) -> float:
    """Return sum_b |b|/n |mean outcome - mean probability| over bins of equal mass.

    probability (n,) in [0, 1]; outcome (n,) 0 or 1. Outcomes of equal probabilities are averaged first, so that the
    result does not depend on the order of the data.
    """
    predicted, observed = np.asarray(probability, np.float64), np.asarray(outcome, np.float64)
    order = np.argsort(predicted, kind="stable")
    predicted, observed = predicted[order], _averaged_over_ties(predicted, observed)[order]
    binned = zip(np.array_split(predicted, bins), np.array_split(observed, bins), strict=True)
    return float(sum(abs(float((mean - rate).sum())) for mean, rate in binned) / len(predicted))


def brier_score(probability: ArrayLike, outcome: ArrayLike) -> float:
    """Return the mean squared difference of probability (n,) and outcome (n,) 0 or 1; 0.25 for a constant 0.5."""
    return float(np.mean((np.asarray(probability, np.float64) - np.asarray(outcome, np.float64)) ** 2))


def auroc(score: ArrayLike, outcome: ArrayLike) -> float:
    """Return the probability that a positive (outcome 1) scores above a negative; ties count half; nan without both."""
    positive = np.asarray(outcome, bool)
    _, values, counts = np.unique(np.asarray(score, np.float64), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[values]  # the mean rank of equal scores
    pairs = int(positive.sum()) * int((~positive).sum())
    below = float(ranks[positive].sum()) - positive.sum() * (positive.sum() + 1) / 2
    return below / pairs if pairs else float("nan")


def risk_at_coverage(confidence: ArrayLike, correct: ArrayLike) -> Array:
    """Return the risk (n,): entry i is the share of wrong answers among the i+1 most confident of n answers.

    confidence (n,); correct (n,) 0 or 1. Equal confidences count as if in random order.
    """
    sure = -np.asarray(confidence, np.float64)
    wrong = _averaged_over_ties(sure, 1 - np.asarray(correct, np.float64))[np.argsort(sure, kind="stable")]
    risk: Array = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    return risk


def area_under_risk(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Return the mean risk over all coverages: 1 - mean(correct) for random confidences."""
    return float(np.mean(risk_at_coverage(confidence, correct)))


def null_evidence(logits: ArrayLike) -> Array:
    """Return the evidence (..., 2) for the null weight from the logits (..., N) of the candidates, -inf in empty slots.

    The evidence is the log-sum-exp of the logits and the peak, the largest weight of a candidate among the candidates
    alone, in (0, 1]. The first is the amount of evidence; the second shows whether a single document or many documents
    have it. Without candidates it is (-inf, 0).
    """
    rows = np.asarray(logits, np.float64)
    top = rows.max(axis=-1, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    total = np.exp(rows - shift[..., None]).sum(axis=-1)
    found = total > 0
    evidence = np.where(found, shift + np.log(np.where(found, total, 1.0)), -np.inf)
    return np.stack([evidence, np.where(found, 1 / np.where(found, total, 1.0), 0.0)], axis=-1)


@dataclass(frozen=True)
class NullFit:
    """alpha_0 = sigmoid(offset - slope log sum_n exp logit_n - peak max_n p_n), p the weights of the candidates alone.

    slope and peak are >= 0: more evidence or a higher peak never increases the null weight. A constant null logit T b0
    is offset T b0, slope 1, peak 0.
    """

    offset: float
    slope: float = 1.0
    peak: float = 0.0

    def null_weight(self, evidence: ArrayLike) -> Array:
        """Return alpha_0 (n,) for the evidence (n, 2) of n queries; 1 without candidates."""
        rows = np.asarray(evidence, np.float64)
        weight: Array = np.where(np.isfinite(rows[..., 0]), expit(self._odds(rows)), 1.0)
        return weight

    def _odds(self, evidence: Array) -> Array:
        total = np.where(np.isfinite(evidence[..., 0]), evidence[..., 0], 0.0)
        odds: Array = self.offset - self.slope * total - self.peak * evidence[..., 1]
        return odds


SPREAD = (1.0, 10.0)
"""Standard deviations of the Gaussian prior on slope (mean 1) and peak (mean 0), which matters with few queries."""


def fit_null(answered: ArrayLike, unanswered: ArrayLike, least_slope: float = 0.0) -> NullFit:
    """Return the logistic fit (Platt 1999) of the null weight to the evidence of queries (`null_evidence`).

    answered (n, 2): evidence with the relevant documents among the candidates; unanswered (m, 2): without them. Rows
    without candidates are ignored. Both classes have equal prior probability.
    """
    positive, negative = _finite(answered), _finite(unanswered)
    if not len(positive) or not len(negative):
        return NullFit(_separating(positive, negative))
    centre = float(np.concatenate([positive, negative])[:, 0].mean())  # centring decorrelates offset and slope
    found = minimize(
        _loss,
        np.asarray([0.0, 1.0, 0.0]),
        args=(_design(positive, centre), _design(negative, centre)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None), (least_slope, None), (0, None)],
    )
    offset, slope, peak = found.x.tolist()
    return NullFit(offset + slope * centre, slope, peak)


FALSE_ALARMS = 0.05
"""Share of the answered queries that may have a null weight of one half or more."""
USUAL = (0.2, 1.5)
"""Slope and peak, close to the median of the fits to six sets, for collections whose real queries are not known."""
LEAST_SLOPE = USUAL[0] / 2
"""Least slope: queries that are far from every document must be caught, and queries whose answers were taken out do not
show it."""
CONFIDENCE = 0.9
"""Probability with which the share of false alarms holds for new queries."""
MARGIN = 1e-3
"""Distance of the threshold below the query that defines it, so that rounding to float32 makes no alarm of it."""


def fit_cautious(
    answered: ArrayLike, unanswered: ArrayLike, usual: bool = False, confidence: float = CONFIDENCE
) -> NullFit | None:
    """Return a fit whose null weight is one half or more for at most FALSE_ALARMS of the answered queries.

    A false alarm costs more than a missed one, so the offset is at most a low quantile of the answered queries, which
    bounds the false alarms of new queries that are exchangeable with them (`_alarms_allowed`). Where the classes are
    far apart, `fit_null` has a lower offset between them, and it is kept. Slope and peak come from `fit_null`, or are
    USUAL. None with fewer than 1 / FALSE_ALARMS - 1 answered queries.
    """
    positive = _finite(answered)
    allowed = _alarms_allowed(len(positive), confidence)
    if not allowed:
        return None
    fit = NullFit(np.inf, *USUAL) if usual else fit_null(positive, unanswered, LEAST_SLOPE)
    support = np.sort(fit.slope * positive[:, 0] + fit.peak * positive[:, 1])
    return NullFit(min(fit.offset, float(support[allowed - 1]) - MARGIN), fit.slope, fit.peak)


def _alarms_allowed(count: int, confidence: float) -> int:
    """Return k: a threshold below the k-th lowest of `count` answered queries has few enough false alarms.

    The share of false alarms of new queries has the distribution Beta(k, count + 1 - k). k is the largest number for
    which the share exceeds FALSE_ALARMS with a probability of at most 1 - confidence (Vovk 2012). Where there is none,
    k is 1 if the mean k / (count + 1) does not exceed it (conformal prediction, Vovk et al. 2005), else 0. A confidence
    of 0 bounds the mean alone.
    """
    in_the_mean = int(FALSE_ALARMS * (count + 1) + 1e-9)
    sure = [k for k in range(1, in_the_mean + 1) if bdtr(k - 1, count, FALSE_ALARMS) <= 1 - confidence]
    return max(sure, default=min(1, in_the_mean))


def _design(evidence: Array, centre: float) -> Array:
    """Return the rows (n, 3) whose products with (offset, slope, peak) are the log odds of the null slot."""
    return np.column_stack([np.ones(len(evidence)), centre - evidence[:, 0], -evidence[:, 1]])


def _loss(theta: Array, positive: Array, negative: Array) -> tuple[float, Array]:
    """Return the mean logarithmic loss of both classes and its gradient (3,). The prior has the weight of one query."""
    distance = (theta - (0.0, 1.0, 0.0)) / (np.inf, *SPREAD)
    share = 1 / (len(positive) + len(negative))
    likelihood = np.logaddexp(0, positive @ theta).mean() + np.logaddexp(0, -negative @ theta).mean()
    loss = likelihood + share * (distance**2).sum() / 2
    gradient: Array = expit(positive @ theta) @ positive / len(positive) - expit(-negative @ theta) @ negative / len(
        negative
    )
    return float(loss), gradient + share * distance / (np.inf, *SPREAD)


def _separating(positive: Array, negative: Array) -> float:
    """Return an offset for a single class: below the evidence of all positives, or above all negatives."""
    if len(positive):
        return float(positive[:, 0].min()) - 2
    return float(negative[:, 0].max()) + 2 if len(negative) else 0.0


def _finite(evidence: ArrayLike) -> Array:
    rows = np.asarray(evidence, np.float64).reshape(-1, 2)
    return rows[np.isfinite(rows[:, 0])]


def _averaged_over_ties(by: Array, values: Array) -> Array:
    """Return the values (n,), each replaced by the mean of the values with the same `by` (n,)."""
    _, group = np.unique(by, return_inverse=True)
    averaged: Array = (np.bincount(group, values) / np.bincount(group))[group]
    return averaged
