"""Decides whether a challenger may replace the champion, by a paired comparison on held-out queries.

Sees measures per query, never models. Sources: Smucker et al. 2007 (significance tests in retrieval); Efron 1979.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 4000
FEW_QUERIES = 30
"""Below this number of queries the bootstrap interval is too narrow, and the t-test must agree."""
RECALL_TOLERANCE = 0.005
"""The largest accepted loss of mean Recall@100, if the loss is not significant."""


@dataclass(frozen=True)
class Comparison:
    """A paired comparison of one measure: means, mean difference b - a, its bootstrap interval, p of the t-test."""

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
        """Return the comparison with b, the difference and the interval lowered by `by`."""
        difference, low, high = self.difference - by, self.low - by, self.high - by
        return replace(self, b=self.b - by, difference=difference, low=low, high=high)


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


def compare(measure: str, a: Mapping[str, float], b: Mapping[str, float], seed: int = 0) -> Comparison:
    """Compare two systems on the same queries; raises ValueError if the queries differ."""
    if a.keys() != b.keys():
        raise ValueError("a paired comparison needs the same queries on both sides")
    queries = sorted(a)
    left = np.asarray([a[query] for query in queries], float)
    right = np.asarray([b[query] for query in queries], float)
    low, high = interval(right - left, seed)
    p_value = _p_value(right - left)
    mean_a, mean_b = (float(side.mean()) if queries else 0.0 for side in (left, right))
    return Comparison(measure, len(queries), mean_a, mean_b, mean_b - mean_a, low, high, p_value)


def _p_value(differences: NDArray[np.float64]) -> float:
    """Return p of a paired t-test: 1 for fewer than 2 queries or no difference at all, 0 for equal differences."""
    if len(differences) < 2 or not differences.any():
        return 1.0
    if np.ptp(differences) <= 1e-12:  # no variance: scipy would divide by zero and warn
        return 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def interval(values: NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """Return the percentile-bootstrap interval of the mean at CONFIDENCE; (mean, mean) for fewer than 2 values."""
    if len(values) < 2:
        mean = float(values.mean()) if len(values) else 0.0
        return mean, mean
    draws = np.random.default_rng(seed).multinomial(len(values), np.full(len(values), 1 / len(values)), RESAMPLES)
    means = draws @ values / len(values)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def gate(ndcg: Comparison, recall: Comparison) -> Decision:
    """Promote if nDCG@10 is better, with an interval above zero, and Recall@100 is not worse."""
    better = Check(
        "ndcg_better",
        ndcg.queries > 1 and ndcg.low > 0 and (ndcg.queries >= FEW_QUERIES or ndcg.p_value < 1 - CONFIDENCE),
        f"nDCG@10 {ndcg.a:.4f} -> {ndcg.b:.4f}, difference {ndcg.difference:+.4f} "
        f"[{ndcg.low:+.4f}, {ndcg.high:+.4f}] on {ndcg.queries} held-out queries, p = {ndcg.p_value:.2g}: "
        f"the interval must lie above zero, and on fewer than {FEW_QUERIES} queries p below {1 - CONFIDENCE:.2f}",
    )
    kept = Check(
        "recall_not_worse",
        recall.difference >= 0 or (recall.difference >= -RECALL_TOLERANCE and recall.high >= 0),
        f"Recall@100 {recall.a:.4f} -> {recall.b:.4f}, difference {recall.difference:+.4f} "
        f"[{recall.low:+.4f}, {recall.high:+.4f}]: at most {RECALL_TOLERANCE} lower, and not significantly",
    )
    return Decision(better.passed and kept.passed, (better, kept))
