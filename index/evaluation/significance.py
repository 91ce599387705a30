"""Whether a challenger may replace the champion: a paired comparison on held-out queries, and its reasons.

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
"""Below this the bootstrap's interval is too narrow to be trusted alone, and the t-test has to agree."""
RECALL_TOLERANCE = 0.005
"""Recall@100 may lie this much lower in the mean, as long as the loss is not significant."""


@dataclass(frozen=True)
class Comparison:
    """A paired comparison of one measure: means, mean difference b - a, its bootstrap interval, the t-test's p."""

    measure: str
    queries: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    p_value: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    def lowered(self, by: float) -> "Comparison":
        """Return the comparison with b taken to be so much lower than it was measured."""
        difference, low, high = self.difference - by, self.low - by, self.high - by
        return replace(self, b=self.b - by, difference=difference, low=low, high=high)


@dataclass(frozen=True)
class Check:
    """One condition of the gate, whether it held, and the figures that decided."""

    name: str
    passed: bool
    reason: str


@dataclass(frozen=True)
class Decision:
    """What the gate says, with the reason of every check, failed or passed."""

    promote: bool
    checks: tuple[Check, ...]

    @property
    def reasons(self) -> list[str]:
        """The reasons as plain sentences."""
        return [check.reason for check in self.checks]


def compare(measure: str, a: Mapping[str, float], b: Mapping[str, float], seed: int = 0) -> Comparison:
    """Compare two systems on the same queries; raises ValueError where the queries differ."""
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
    """Return the p of a paired t-test; 1 where nothing moved or one query is all, 0 where all moved alike."""
    if len(differences) < 2 or not differences.any():
        return 1.0
    if np.ptp(differences) <= 1e-12:  # no variance: scipy would divide by zero, and say so
        return 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def interval(values: NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """Return the percentile-bootstrap interval of the mean at CONFIDENCE; (mean, mean) for fewer than two values."""
    if len(values) < 2:
        mean = float(values.mean()) if len(values) else 0.0
        return mean, mean
    draws = np.random.default_rng(seed).multinomial(len(values), np.full(len(values), 1 / len(values)), RESAMPLES)
    means = draws @ values / len(values)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def gate(ndcg: Comparison, recall: Comparison) -> Decision:
    """Promote when nDCG@10 is better with an interval above zero, and Recall@100 is not worse."""
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
