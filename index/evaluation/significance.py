"""Decides whether a challenger may replace the champion, by a paired comparison on held-out queries.

Sees measures per query, never models. The interval and p come from one statistic, Student's t of the paired
differences, so an interval without 0 always has p below 1 - CONFIDENCE. Sources: Student 1908; Smucker et al. 2007
(the t-test agrees with the randomisation test in retrieval); Foster and Stine 2008 (alpha spending without an end).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95
EVER_PROMOTED = 0.1
"""The largest probability that a head that is as good as the champion in both measures is ever promoted (`level`)."""
LEAST_SPREAD = 1e-12
"""Differences of measures below it are rounding errors."""
LEAST_CHANGED = 6
"""Queries that must have changed for a significant loss: with fewer, no randomisation test has p below .05. So many
must also be left without one client."""
RECALL_TOLERANCE = 0.005
"""The largest accepted loss of mean Recall@100, if the loss is not significant; 1 / queries is accepted."""
WITHOUT_ONE = 0.2
"""The p below which a gain from clicks counts without one client: a side of .1, at every decision. A client that alone
decides is found by the sign; a smaller limit would ask small teams for many more clicks (docs/decisions/0081)."""
NEVER_SHOWN_RISE = 0.3
"""The largest accepted rise of the share of documents among the first ten that no list showed."""


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
    changed: int
    """Queries whose measure differs. With m of them no randomisation test reaches p below 2^(1 - m)."""
    gained: float = math.inf
    """The mean of max(0, difference) over all queries."""
    subtracted: float = 0.0
    """What `lowered` has subtracted from b and all differences."""
    clients: int | None = None
    """The number of clients that the measure comes from; None if they are not known."""
    without_one: "Comparison | None" = None
    """The comparison without the clicks of one client that proves the least; None if no client might decide alone."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, without `gained`; the last three only where they say something."""
        found = {name: value for name, value in asdict(self).items() if name not in ("gained", "without_one")}
        found = {name: value for name, value in found.items() if value or name not in ("subtracted", "clients")}
        if self.without_one is not None:
            one = self.without_one
            found["without_one"] = {
                name: getattr(one, name) for name in ("queries", "difference", "low", "high", "p_value")
            }
        return found

    @property
    def doubt(self) -> float:
        """How little a gain is proved, from 0 to 2: p of a gain, 2 - p of a loss, 2 with too few queries."""
        if self.queries < LEAST_CHANGED:
            return 2.0
        return self.p_value if self.difference > 0 else 2 - self.p_value

    def is_better(self, limit: float) -> bool:
        """Return whether the measure is better with p below the limit, without one client below WITHOUT_ONE."""
        other, better = self.without_one, self.difference > 0 and self.p_value < limit
        if other is None:
            return better
        return better and other.queries >= LEAST_CHANGED and other.is_better(max(limit, WITHOUT_ONE))

    @property
    def ratio(self) -> float:
        """The difference over half the width of its interval: Student's t over its quantile. 0 without a difference."""
        half = (self.high - self.low) / 2
        return self.difference / half if half else math.copysign(math.inf, self.difference) if self.difference else 0.0

    def lowered(self, by: float) -> "Comparison":
        """Return the comparison with b and all differences lowered by an overestimate, at most by `gained`.

        A choice overestimates gains. Lowered by more, the differences of queries that do not change, which have no
        spread, would be a certain loss, and b could be negative.
        """
        by = min(by, self.gained)
        difference, low, high = self.difference - by, self.low - by, self.high - by
        p_value = _p_value(difference, (high - low) / 2, self.queries)
        lower = replace(self, b=self.b - by, difference=difference, low=low, high=high, p_value=p_value)
        return replace(lower, subtracted=self.subtracted + by)


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
    earlier: int = 0
    """Decisions against the same champion before this one."""

    @property
    def level(self) -> float:
        """The p below which a gain counts, half of it for each of two measures (`level`)."""
        return level(self.earlier)

    def with_check(self, check: Check | None) -> "Decision":
        """Return the decision with a further check, which must pass too; None adds nothing."""
        if check is None:
            return self
        return replace(self, promote=self.promote and check.passed, checks=(*self.checks, check))

    def as_dict(self) -> dict[str, Any]:
        """Return the decision as JSON values."""
        checks = [asdict(check) for check in self.checks]
        facts = {"earlier_decisions": self.earlier, "level": round(self.level, 8)}
        return {"promote": self.promote, "checks": checks, "reasons": self.reasons, **facts}

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
    changed = int((np.abs(right - left) > LEAST_SPREAD).sum())
    gained = float(np.maximum(right - left, 0).mean()) if queries else 0.0
    return Comparison(measure, len(queries), mean_a, mean_b, difference, low, high, p_value, changed, gained)


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the interval of the mean of values (n,) at CONFIDENCE by Student's t; (mean, mean) for fewer than 2.

    Equal values give (mean, mean) too: they have no spread. Measures of rankings are computed and not drawn, so two
    rankings without a difference on any query are equal on these queries, and the gate needs queries that changed. Rare
    events such as clicks need a margin (`rare_events.least_margins`).
    """
    mean = float(values.mean()) if len(values) else 0.0
    if len(values) < 2 or np.ptp(values) <= LEAST_SPREAD:
        return mean, mean
    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * float(values.std(ddof=1)) / len(values) ** 0.5
    return mean - half, mean + half


def _p_value(difference: float, half: float, queries: int) -> float:
    """Return p of the t-test: 1 for fewer than 2 queries or no difference at all, 0 for equal differences."""
    if queries < 2 or abs(difference) <= LEAST_SPREAD:
        return 1.0
    if not half:
        return 0.0
    quantile = float(stdtrit(queries - 1, (1 + CONFIDENCE) / 2))
    return float(2 * stdtr(queries - 1, -abs(difference) * quantile / half))


def level(earlier: int) -> float:
    """Return the p below which a gain counts after `earlier` decisions against the same champion.

    Decision k has .2 / (k (k + 1)). A gain is one side of p, so the first decision promotes a head that is exactly as
    good as the champion with probability .05, and the chances of all decisions, however many, sum to EVER_PROMOTED
    (alpha spending).
    """
    number = earlier + 1
    return 2 * EVER_PROMOTED / (number * (number + 1))


def gate(
    judged: tuple[Comparison, Comparison] | None,
    recall: Comparison,
    clicks: tuple[Comparison, Comparison] | None = None,
    ndcg: Comparison | None = None,
    never_shown: tuple[float, float] | None = None,
    earlier: int = 0,
) -> Decision:
    """Promote if a measure is better with p below half of the level of the decision, and Recall@100 is not worse.

    One of two measures must be better (Bonferroni). judged: the comparisons of the likelihood of judgments and of
    nDCG@10, which must not be lower. clicks: the comparisons of the likelihood and of the ranks of clicks; they decide
    in place of judged, and the ranks must not be significantly worse. ndcg: nDCG@10 of the held-out queries with
    judgments where some have clicks, None without them; it must not be significantly worse. never_shown: the shares of
    first documents that no list showed, of champion and challenger. Held-out clicks say nothing about such documents,
    so their share may rise by NEVER_SHOWN_RISE at most. earlier: the number of decisions against the same champion
    before this one; they used the same held-out queries.
    """
    accepted = max(RECALL_TOLERANCE, 1 / max(1, recall.queries))
    kept = Check(
        "recall_not_worse",
        recall.difference >= 0 or (recall.difference >= -accepted - LEAST_SPREAD and recall.high >= 0),
        f"Recall@100 {_figures(recall)}: at most {accepted:.2g} lower, and not significantly",
    )
    if clicks is not None:
        checks = [_better("clicks_better", clicks, earlier), _not_worse("ranks_not_worse", clicks[1])]
    else:
        assert judged is not None
        checks = [_better("judgments_better", judged, earlier), _not_lower("ndcg_not_lower", judged[1])]
    checks += [] if ndcg is None else [_not_worse("ndcg_not_worse", ndcg)]
    checks.append(kept)
    if never_shown is not None:
        before, after = never_shown
        checks.append(
            Check(
                "documents_known",
                after - before <= NEVER_SHOWN_RISE,
                f"documents among the first ten that no list showed: {before:.0%} -> {after:.0%}, "
                f"at most {NEVER_SHOWN_RISE:.0%} more",
            )
        )
    return Decision(all(check.passed for check in checks), tuple(checks), earlier)


def _better(name: str, found: tuple[Comparison, Comparison], earlier: int) -> Check:
    """Return the check that the likelihood or the measure of ranks is better, each with p below half of the level.

    Enough queries must have changed their measure of ranks: every likelihood differs, also of equal rankings.
    """
    limit = level(earlier) / 2
    least = 1 + math.ceil(-math.log2(limit))
    changed = found[1].changed
    wanted = f"one must be better with p below {limit:.2g}"
    if earlier:
        wanted += f", half of the level of decision {earlier + 1} against this champion"
    if changed < least:
        wanted += f"; {changed} queries changed, and {least} are needed"
    passed = changed >= least and any(one.is_better(limit) for one in found)
    return Check(name, passed, "; ".join(f"{one.measure} {_on_queries(one)}" for one in found) + f": {wanted}")


def _not_worse(name: str, found: Comparison) -> Check:
    """Return the check that a measure is not significantly worse."""
    return Check(
        name,
        found.high >= 0 or found.changed < LEAST_CHANGED,
        f"{found.measure} {_on_queries(found)}: not significantly worse",
    )


def _not_lower(name: str, found: Comparison) -> Check:
    """Return the check that the mean of a measure is not lower."""
    return Check(
        name,
        found.difference >= -LEAST_SPREAD,
        f"{found.measure} difference {found.difference:+.4f}: must not be lower",
    )


def _figures(found: Comparison) -> str:
    return f"{found.a:.4f} -> {found.b:.4f}, difference {found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def _on_queries(found: Comparison) -> str:
    text = f"{_figures(found)} on {found.queries} held-out queries, p = {found.p_value:.2g}"
    if found.without_one is None:
        return text
    one = found.without_one
    return (
        f"{text} (without one of {found.clients} clients {one.difference:+.4f} on {one.queries}, p = {one.p_value:.2g})"
    )
