"""Decides whether a challenger may replace the champion, by a paired comparison on held-out queries.

Sees measures per query, never models. The interval and p come from one statistic, Student's t of the paired
differences, so an interval without 0 always has p below 1 - CONFIDENCE. Sources: Student 1908; Smucker et al. 2007
(the t-test agrees with the randomisation test in retrieval).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
LEAST_SPREAD = 1e-12
"""Differences of measures below it are rounding errors."""
RECALL_TOLERANCE = 0.005
"""The largest accepted loss of mean Recall@100, if the loss is not significant."""


@dataclass(frozen=True)
class Comparison:
    """A paired comparison of one measure: means, mean difference b - a, its interval and p by Student's t."""

    measure: str
    queries: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    p_value: float

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def lowered(self, by: float) -> "Comparison":
        """Return the comparison with b and all differences lowered by `by`."""
        difference, low, high = self.difference - by, self.low - by, self.high - by
        p_value = _p_value(difference, (high - low) / 2, self.queries)
        return replace(self, b=self.b - by, difference=difference, low=low, high=high, p_value=p_value)


@dataclass(frozen=True)
class Check:
    """One condition of the gate, its result, and the reason with the figures."""

    name: str
    passed: bool
    reason: str


@dataclass(frozen=True)
class Decision:
    """The decision of the gate, with all checks, failed or passed."""

    promote: bool
    checks: tuple[Check, ...]

    @property
    def reasons(self) -> list[str]:
        """The reason of every check, as a sentence."""
        return [check.reason for check in self.checks]


def compare(measure: str, a: Mapping[str, float], b: Mapping[str, float]) -> Comparison:
    """Compare two systems on the same queries; raises ValueError if the queries differ."""
    if a.keys() != b.keys():
        raise ValueError("a paired comparison needs the same queries on both sides")
    queries = sorted(a)
    left = np.asarray([a[query] for query in queries], float)
    right = np.asarray([b[query] for query in queries], float)
    low, high = interval(right - left)
    mean_a, mean_b = (float(side.mean()) if queries else 0.0 for side in (left, right))
    difference = mean_b - mean_a
    p_value = _p_value(difference, (high - low) / 2, len(queries))
    return Comparison(measure, len(queries), mean_a, mean_b, difference, low, high, p_value)


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the interval of the mean of values (n,) at CONFIDENCE by Student's t; (mean, mean) for fewer than 2."""
    mean = float(values.mean()) if len(values) else 0.0
    if len(values) < 2 or np.ptp(values) <= LEAST_SPREAD:
        return mean, mean
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    half = quantile * float(values.std(ddof=1)) / len(values) ** 0.5
    return mean - half, mean + half


def _p_value(difference: float, half: float, queries: int) -> float:
    """Return p of the t-test: 1 for fewer than 2 queries or no difference at all, 0 for equal differences."""
    if queries < 2 or abs(difference) <= LEAST_SPREAD:
        return 1.0
    if not half:
        return 0.0
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, queries - 1))
    return float(2 * stats.t.sf(abs(difference) * quantile / half, queries - 1))


def gate(ndcg: Comparison, recall: Comparison) -> Decision:
    """Promote if nDCG@10 is better, with an interval above zero, and Recall@100 is not worse."""
    better = Check(
        "ndcg_better",
        ndcg.queries > 1 and ndcg.low > 0,
        f"nDCG@10 {ndcg.a:.4f} -> {ndcg.b:.4f}, difference {ndcg.difference:+.4f} "
        f"[{ndcg.low:+.4f}, {ndcg.high:+.4f}] on {ndcg.queries} held-out queries, p = {ndcg.p_value:.2g}: "
        "the interval must lie above zero",
    )
    kept = Check(
        "recall_not_worse",
        recall.difference >= 0 or (recall.difference >= -RECALL_TOLERANCE and recall.high >= 0),
        f"Recall@100 {recall.a:.4f} -> {recall.b:.4f}, difference {recall.difference:+.4f} "
        f"[{recall.low:+.4f}, {recall.high:+.4f}]: at most {RECALL_TOLERANCE} lower, and not significantly",
    )
    return Decision(better.passed and kept.passed, (better, kept))
