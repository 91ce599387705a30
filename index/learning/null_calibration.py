"""How far a probability can be trusted, and the fit of the null weight's.

Sees probabilities, evidence and outcomes, never queries. Sources: Naeini et al. 2015 and Guo et al. 2017 (expected
calibration error); Brier 1950; Geifman and El-Yaniv 2017 (risk and coverage); Platt 1999 (the logistic fit).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

Array = NDArray[np.float64]
BINS = 15


def expected_calibration_error(probability: ArrayLike, outcome: ArrayLike, bins: int = BINS) -> float:
    """Return sum_b |b|/n |mean outcome - mean probability| over bins of equal mass.

    probability (n,) in [0, 1]; outcome (n,) 0 or 1. Outcomes of equal probabilities are averaged first, so that the
    order of the data does not count.
    """
    claimed, happened = np.asarray(probability, np.float64), np.asarray(outcome, np.float64)
    order = np.argsort(claimed, kind="stable")
    claimed, happened = claimed[order], _averaged_over_ties(claimed, happened)[order]
    gaps = zip(np.array_split(claimed, bins), np.array_split(happened, bins), strict=True)
    return float(sum(abs(float((one - other).sum())) for one, other in gaps) / len(claimed))


def brier_score(probability: ArrayLike, outcome: ArrayLike) -> float:
    """Return the mean squared difference of probability (n,) and outcome (n,) 0 or 1; .25 for a constant half."""
    return float(np.mean((np.asarray(probability, np.float64) - np.asarray(outcome, np.float64)) ** 2))


def auroc(score: ArrayLike, outcome: ArrayLike) -> float:
    """Return the chance that a positive (outcome 1) scores above a negative, ties counting half; nan without both."""
    positive = np.asarray(outcome, bool)
    ranks = rankdata(np.asarray(score, np.float64))
    pairs = int(positive.sum()) * int((~positive).sum())
    below = float(ranks[positive].sum()) - positive.sum() * (positive.sum() + 1) / 2
    return below / pairs if pairs else float("nan")


def risk_at_coverage(confidence: ArrayLike, correct: ArrayLike) -> Array:
    """Return the risk (n,) when only the i+1 most confident of n are answered: the share of them that is not correct.

    confidence (n,), higher is surer; correct (n,) 0 or 1. Equally confident ones count as if in random order.
    """
    sure = -np.asarray(confidence, np.float64)
    wrong = _averaged_over_ties(sure, 1 - np.asarray(correct, np.float64))[np.argsort(sure, kind="stable")]
    risk: Array = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    return risk


def area_under_risk(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Return the mean risk over all coverages. A random order has 1 - mean(correct), the best one that of `correct`."""
    return float(np.mean(risk_at_coverage(confidence, correct)))


def null_evidence(logits: ArrayLike) -> Array:
    """Return what the null weight is read off, (..., 2), for the logits (..., N) of the candidates, -inf where none is:

    the log-sum-exp, and the peak, the largest weight that a candidate has among candidates alone, in (0, 1]. How much
    evidence there is counts, and whether one document has it or many share it. Without candidates it is (-inf, 0).
    """
    given = np.asarray(logits, np.float64)
    top = given.max(axis=-1, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    total = np.exp(given - shift[..., None]).sum(axis=-1)
    found = total > 0
    evidence = np.where(found, shift + np.log(np.where(found, total, 1.0)), -np.inf)
    return np.stack([evidence, np.where(found, 1 / np.where(found, total, 1.0), 0.0)], axis=-1)


@dataclass(frozen=True)
class NullFit:
    """alpha_0 = sigmoid(offset - slope log sum_n exp logit_n - peak max_n p_n), p the weights of the candidates alone.

    slope and peak are >= 0: neither more evidence nor a clearer winner makes "nothing here" likelier. A constant null
    logit T b0 is offset T b0, slope 1, peak 0.
    """

    offset: float
    slope: float = 1.0
    peak: float = 0.0

    def null_weight(self, evidence: ArrayLike) -> Array:
        """Return alpha_0 (n,) for the evidence (n, 2) of n queries; 1 without candidates."""
        given = np.asarray(evidence, np.float64)
        weight: Array = np.where(np.isfinite(given[..., 0]), expit(self._odds(given)), 1.0)
        return weight

    def _odds(self, evidence: Array) -> Array:
        total = np.where(np.isfinite(evidence[..., 0]), evidence[..., 0], 0.0)
        odds: Array = self.offset - self.slope * total - self.peak * evidence[..., 1]
        return odds


SPREAD = (1.0, 10.0)
"""Standard deviations of the Gaussian prior that holds slope near 1 and peak near 0 where there are few queries."""


def fit_null(answered: ArrayLike, unanswered: ArrayLike) -> NullFit:
    """Return the logistic fit (Platt 1999) of "nothing here" to the evidence of queries, as `null_evidence` gives it.

    answered (n, 2): with the documents that answer among the candidates; unanswered (m, 2): with them taken out. Rows
    without candidates say nothing and are passed over. Both halves count the same: beforehand, either is as likely.
    """
    there, gone = (_finite(one) for one in (answered, unanswered))
    if not len(there) or not len(gone):
        return NullFit(_separating(there, gone))
    centre = float(np.concatenate([there, gone])[:, 0].mean())  # offset and slope hardly depend on each other there
    found = minimize(
        _loss,
        np.asarray([0.0, 1.0, 0.0]),
        args=(_design(there, centre), _design(gone, centre)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None), (0, None), (0, None)],
    )
    offset, slope, peak = found.x.tolist()
    return NullFit(offset + slope * centre, slope, peak)


def _design(evidence: Array, centre: float) -> Array:
    """Return the rows (n, 3) whose product with (offset, slope, peak) are the log odds of the null slot."""
    return np.column_stack([np.ones(len(evidence)), centre - evidence[:, 0], -evidence[:, 1]])


def _loss(theta: Array, there: Array, gone: Array) -> tuple[float, Array]:
    """Return the mean logarithmic loss of both halves with the prior as one query's worth, and its gradient (3,)."""
    away = (theta - (0.0, 1.0, 0.0)) / (np.inf, *SPREAD)
    share = 1 / (len(there) + len(gone))
    loss = np.logaddexp(0, there @ theta).mean() + np.logaddexp(0, -gone @ theta).mean() + share * (away**2).sum() / 2
    gradient: Array = expit(there @ theta) @ there / len(there) - expit(-gone @ theta) @ gone / len(gone)
    return float(loss), gradient + share * away / (np.inf, *SPREAD)


def _separating(there: Array, gone: Array) -> float:
    """Return the offset where only one half is known: below all that is answered, above all that is not."""
    if len(there):
        return float(there[:, 0].min()) - 2
    return float(gone[:, 0].max()) + 2 if len(gone) else 0.0


def _finite(evidence: ArrayLike) -> Array:
    rows = np.asarray(evidence, np.float64).reshape(-1, 2)
    return rows[np.isfinite(rows[:, 0])]


def _averaged_over_ties(by: Array, values: Array) -> Array:
    """Return the values (n,), each replaced by the mean over those with the same `by` (n,)."""
    _, group = np.unique(by, return_inverse=True)
    averaged: Array = (np.bincount(group, values) / np.bincount(group))[group]
    return averaged
