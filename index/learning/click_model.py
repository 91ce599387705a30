"""The click model of a log: the examination of each position, and the relevance grade of each document for a query.

Sees counts and contrasts of impressions and clicks, never lists, events or models. An impression is one document shown
at one position of a list. The model is the position-based model: a document n at position p is clicked with probability
examination_p x attraction_n (Craswell et al. 2008; Chuklin et al. 2015).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from index.learning.attraction import ASSUMED_ATTRACTION, Attraction, Outcomes, estimate_attraction, impressions_of
from index.learning.examination import examination_curve
from index.learning.examples import MAX_SILENT, Feedback, hash_of
from index.memory.click_worth import ASSUMED_CURVE, POSITIONS
from index.records import Floats, Ints

ENOUGH_CLICKS = 100
"""Least number of clicks in the log for an estimate."""
ATTRACTION_PRIOR = (1.0, 4.0)
"""Beta prior of an attraction in EM: pseudo-counts of clicks and of examinations without a click."""
PRIOR_IMPRESSIONS = 5.0
"""Weight of the assumed curve in EM, in impressions per position. A position without clicks keeps some examination."""
STEPS = 200
"""EM iterations for the examination curve."""
LEAST_WORTH = 0.05
"""Worth below which a document counts as irrelevant."""
BEST_GRADE = 4
"""Grade of a document with worth 1."""
FEW_PAIRS = 30
"""Number of pairs that changed positions with which half of the doubt about the curve is left."""
FROZEN_POSITIONS = 50
"""Length of the curve in a model's lineage."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class ClickCounts:
    """Counts of impressions and clicks per query, document and rank; all arrays are (n,).

    pair is the number of the (query, document) pair; rank is 0-based and below POSITIONS; shown, the impressions, is
    >= clicks. A pair has at most one entry per rank.
    """

    pair: Ints
    rank: Ints
    shown: Doubles
    clicks: Doubles

    def swapped(self) -> "ClickCounts":
        """Return the entries of pairs that were shown at two or more ranks and clicked: they identify examination."""
        if not len(self.pair):
            return self
        ranks, clicks = np.bincount(self.pair), np.bincount(self.pair, self.clicks)
        kept = (ranks[self.pair] > 1) & (clicks[self.pair] > 0)
        _, pair = np.unique(self.pair[kept], return_inverse=True)
        return ClickCounts(pair.astype(np.int64), self.rank[kept], self.shown[kept], self.clicks[kept])


@dataclass(frozen=True)
class Examination:
    """A non-increasing examination curve (POSITIONS,), 1 at the first position, and the facts of its estimate."""

    curve: Floats
    method: str
    """`estimated`, or `assumed` if the log has too few clicks."""
    pairs: int
    """Pairs of query and document that changed positions and were clicked."""
    pair_clicks: int
    """Clicks on these pairs."""
    clicks: int
    """All clicks of the log."""

    @property
    def flatter(self) -> Floats:
        """A flatter curve that the log does not exclude: the curve to the power of 3/4 if no document changed position.

        With more of them, the exponent goes to 1. A curve that is too steep favours every head that changes the order
        of the lists, because a click at a low position then counts for too much.
        """
        curve: Floats = self.curve ** np.float32(1 - 0.25 * FEW_PAIRS / (FEW_PAIRS + self.pairs))
        return curve

    def as_dict(self) -> dict[str, Any]:
        """Return the examination as a training record shows it: the facts, and the curve at ten positions."""
        first = [round(float(chance), 4) for chance in self.curve[:10]]
        facts = {"swapped_pairs": self.pairs, "swapped_clicks": self.pair_clicks, "clicks": self.clicks}
        return {"method": self.method, **facts, "curve": first}


@dataclass(frozen=True)
class ClickModel:
    """The click model of a log: the examination of positions and the attraction of documents."""

    examination: Examination
    attraction: Attraction

    def as_dict(self) -> dict[str, Any]:
        """Return the click model as a training record shows it."""
        return self.examination.as_dict() | {"attraction": self._rates()}

    def frozen(self) -> dict[str, Any]:
        """Return the click model as the lineage of a model keeps it: the curve at FROZEN_POSITIONS, and the rates.

        The worth of clicks in memory is computed from this curve (`index.memory.click_worth`).
        """
        curve = [round(float(chance), 4) for chance in self.examination.curve[:FROZEN_POSITIONS]]
        return {"method": self.examination.method, "curve": curve, "attraction": self._rates()}

    def _rates(self) -> dict[str, float]:
        return {name: round(value, 4) for name, value in asdict(self.attraction).items()}


def count_clicks(feedback: Iterable[Feedback]) -> ClickCounts:
    """Return the counts of all queries whose impressions are known."""
    entries: dict[tuple[int, int], list[int]] = {}
    pair = 0
    for one in feedback:
        clicked: Mapping[int, Mapping[int, int]] = one.clicks or {}
        for row, impressions in (one.shown or {}).items():
            clicks = clicked.get(row, {})
            for position, times in impressions.items():
                entry = entries.setdefault((pair, min(position, POSITIONS) - 1), [0, 0])
                entry[0] += times
                entry[1] += min(clicks.get(position, 0), times)
            pair += 1
    keys = np.asarray(list(entries), np.int64).reshape(-1, 2)
    counts = np.asarray(list(entries.values()), np.float64).reshape(-1, 2)
    return ClickCounts(keys[:, 0], keys[:, 1], counts[:, 0], counts[:, 1])


def estimate_examination(feedback: Sequence[Feedback]) -> Examination:
    """Return the examination of a log: with fewer than ENOUGH_CLICKS clicks the assumed one, else `examination_curve`.

    Its prior is the geometric mean of the assumed curve and of EM. EM takes a good ranking for a steep curve, and the
    assumed curve knows nothing of the log.
    """
    counts = count_clicks(feedback)
    swapped = counts.swapped()
    facts = (len(np.unique(swapped.pair)), int(swapped.clicks.sum()), int(counts.clicks.sum()))
    if counts.clicks.sum() < ENOUGH_CLICKS:
        return Examination(ASSUMED_CURVE, "assumed", *facts)
    prior = np.sqrt(expectation_maximisation(counts) * ASSUMED_CURVE)
    return Examination(examination_curve((one.contrasts for one in feedback), prior), "estimated", *facts)


def expectation_maximisation(counts: ClickCounts, steps: int = STEPS) -> Floats:
    """Return the curve (POSITIONS,) by EM of the position-based model with a Beta prior on attraction.

    Wang et al. 2018, section 4, without their regression: each pair has its own attraction. Below the last shown
    position the curve falls as the assumed curve does.
    """
    pair, rank, shown, clicks = counts.pair, counts.rank, counts.shown, counts.clicks
    passed, pairs = shown - clicks, int(pair.max(initial=-1)) + 1
    prior_clicks, prior_passes = ATTRACTION_PRIOR
    curve, attraction = ASSUMED_CURVE.astype(np.float64), np.full(pairs, prior_clicks / (prior_clicks + prior_passes))
    rank_shown, pair_shown = sums_of(rank, shown, POSITIONS), sums_of(pair, shown, pairs)
    for _ in range(steps):
        examined, attracted = curve[rank], attraction[pair]
        missed = passed / np.maximum(1 - examined * attracted, 1e-12)
        rank_examined = sums_of(rank, clicks + missed * examined * (1 - attracted), POSITIONS)
        pair_attracted = sums_of(pair, clicks + missed * attracted * (1 - examined), pairs)
        curve = (rank_examined + PRIOR_IMPRESSIONS * ASSUMED_CURVE) / (rank_shown + PRIOR_IMPRESSIONS)
        attraction = (pair_attracted + prior_clicks) / (pair_shown + prior_clicks + prior_passes)
    last = int(rank.max(initial=0))
    curve[last + 1 :] = curve[last] * ASSUMED_CURVE[last + 1 :] / ASSUMED_CURVE[last]
    return non_increasing(curve, sums_of(rank, clicks, POSITIONS) + ASSUMED_CURVE)


def sums_of(groups: Ints, values: Doubles, count: int) -> Doubles:
    """Return (count,) the sum of the values of each group in [0, count)."""
    return np.bincount(groups, values, count).astype(np.float64, copy=False)


def non_increasing(curve: Doubles, weights: Doubles) -> Floats:
    """Return the nearest non-increasing curve, scaled to start at 1: isotonic regression of the weighted logarithms."""
    logs = isotonic_regression(np.log(np.maximum(curve, 1e-6)), weights=weights, increasing=False).x
    smooth: Floats = np.exp(logs - logs[0]).astype(np.float32)
    return smooth


def highest_hash(feedback: Iterable[Feedback]) -> int | None:
    """Return the highest hash of the silent queries of a whole log that may have only a sample of them, else None.

    Call it before the log is split: each part of a sample has fewer than MAX_SILENT.
    """
    silent = [hash_of(one.query_key) for one in feedback if one.is_silent]
    return max(silent) if len(silent) >= MAX_SILENT else None


def estimate_clicks(feedback: Iterable[Feedback], highest: int | None = None) -> ClickModel:
    """Return the click model of a log.

    Queries without a click must be in it: the rates of a log without them are conditioned on a click, so that noise is
    overestimated. highest: if the log has only a sample of them, their highest hash (`highest_hash`); queries with a
    higher one are left out, so that all queries are sampled alike.
    """
    known = [one for one in feedback if one.shown is not None]
    if highest is not None:
        known = [one for one in known if hash_of(one.query_key) <= highest]
    examination = estimate_examination(known)
    return ClickModel(examination, estimate_attraction(known, examination.curve))


def held_out_gains(feedback: Feedback, model: ClickModel | None = None) -> dict[int, int]:
    """Return the grades of a held-out query, row -> grade, 0 for an irrelevant document.

    Judgments are rounded; positive judgments give at least 1. If the impressions are known, the grade is BEST_GRADE
    times `Attraction.worth_of` the outcomes of its impressions, rounded. The rates come from the whole log and not
    from the query's lists alone, because even the best document of a list may be irrelevant.
    """
    if feedback.shown is None:
        return {row: max(1, round(gain)) if gain > 0 else 0 for row, gain in feedback.gains.items()}
    model = model or ClickModel(Examination(ASSUMED_CURVE, "assumed", 0, 0, 0), ASSUMED_ATTRACTION)
    worth = model.attraction.worth_of(Outcomes.of([feedback], model.examination.curve))
    return {row: _grade(float(value)) for row, value in zip(impressions_of(feedback), worth, strict=True)}


def held_out_qrels(feedback: Sequence[Feedback], model: ClickModel | None = None) -> dict[str, dict[str, int]]:
    """Return the qrels of held-out queries, query key -> row -> grade (`held_out_gains`)."""
    return {one.query_key: {str(row): grade for row, grade in held_out_gains(one, model).items()} for one in feedback}


def among_shown(run: Mapping[str, Sequence[str]], queries: Sequence[Feedback], depth: int) -> dict[str, list[str]]:
    """Return the first `depth` documents of each query; for a query with clicks, of the documents that were shown.

    A document that was never shown could not be clicked; to count it as irrelevant would favour the model that made the
    lists (condensed lists, Sakai 2007).
    """
    return {
        one.query_key: [row for row in run[one.query_key] if one.shown is None or int(row) in one.shown][:depth]
        for one in queries
    }


def _grade(worth: float) -> int:
    """Return the grade of a worth: at least 1 from LEAST_WORTH on, so that a click in few examinations still counts."""
    return max(1, round(BEST_GRADE * worth)) if worth >= LEAST_WORTH else 0


def as_judged(feedback: Feedback, model: ClickModel) -> Feedback:
    """Return the feedback with its clicks replaced by grades and without its impressions.

    Its confidence is its best grade over BEST_GRADE: one click on a list is weak evidence about the whole query.
    """
    if feedback.shown is None:
        return feedback
    gains = {row: float(grade) for row, grade in held_out_gains(feedback, model).items() if grade}
    confidence = max(gains.values(), default=BEST_GRADE) / BEST_GRADE
    return replace(feedback, gains=gains, shown=None, clicks=None, examined=None, confidence=confidence)
