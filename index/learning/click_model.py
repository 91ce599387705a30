"""What a log of clicks says: how much each place of a list is looked at, and how good each document is for a query.

Sees counts of showings and clicks, never lists, events or models. All of it rests on the position-based model: a
document n at place p is clicked with chance examination_p x attraction_n (Craswell et al. 2008; Chuklin et al. 2015).
What tells the two apart is the same query's same document at two places: its attraction is the same at both. Such
swaps come by themselves, from documents added, models and memory (Agarwal et al. 2019).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit

from index.learning.examples import ASSUMED, POSITIONS, Feedback, looks
from index.records import Floats, Ints

ENOUGH_CLICKS = 100
"""Clicks from which on a log is believed; on documents that changed places, from which on those are."""
PRIOR_CLICKS = 30.0
"""Clicks that the prior curve is worth beside those of `harvest`: it decides where they are silent."""
ATTRACTION_PRIOR = (1.0, 4.0)
"""Beta prior of an attraction in EM: clicks and passed-over looks that every document starts with."""
PRIOR_SHOWINGS = 5.0
"""Showings that the assumed curve is worth in EM, at every place: a place without a click is not one without looks."""
STEPS = 200
"""Of EM."""
LEAST_LOOK = 0.05
"""A single showing counts as at least this many looks when documents are graded: one deep click is no proof."""
PRIOR_LOOKS = 1.0
"""Looks that every document starts with when it is graded, at its query's average."""
MIXTURE_STEPS = 200
LEAST_WORTH = 0.05
"""Worth below which a document counts as not wanted."""
BEST_GRADE = 4

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class ClickCounts:
    """Showings and clicks, one entry per query, document and place: all (n,); pair numbers the (query, document)s.

    place is 0-based, below POSITIONS; shown >= clicks; entries of a pair at the same place do not repeat.
    """

    pair: Ints
    rank: Ints
    shown: Doubles
    clicks: Doubles

    def swapped(self) -> "ClickCounts":
        """Return the entries of pairs that were shown at two places or more, and clicked at one: what tells places."""
        if not len(self.pair):
            return self
        doc_indices, clicks = np.bincount(self.pair), np.bincount(self.pair, self.clicks)
        kept = (doc_indices[self.pair] > 1) & (clicks[self.pair] > 0)
        _, pair = np.unique(self.pair[kept], return_inverse=True)
        return ClickCounts(pair.astype(np.int64), self.rank[kept], self.shown[kept], self.clicks[kept])


@dataclass(frozen=True)
class Examination:
    """How much each place is looked at: curve (POSITIONS,), 1 at the first place and never rising, and its grounds."""

    curve: Floats
    method: str
    """`harvest`, `em` where too few documents changed places, or `assumed` where there are too few clicks."""
    pairs: int
    """Pairs of query and document that changed places and were clicked."""
    pair_clicks: int
    """Clicks on them."""
    clicks: int
    """Clicks in all."""

    def as_dict(self) -> dict[str, Any]:
        """Return what a training record says of it."""
        first = [round(float(chance), 4) for chance in self.curve[:10]]
        facts = {"swapped_pairs": self.pairs, "swapped_clicks": self.pair_clicks, "clicks": self.clicks}
        return {"method": self.method, **facts, "curve": first}


@dataclass(frozen=True)
class Attraction:
    """Clicks per look of documents that nobody wanted (noise), of those that were (worth), and the share of these."""

    noise: float
    worth: float
    share: float

    def posterior(self, clicks: Doubles, looked: Doubles) -> Doubles:
        """Return the chance (n,) that a document with so many clicks in so many looks is one that was wanted."""
        odds = np.log(self.share / (1 - self.share)) + clicks * np.log(self.worth / self.noise)
        chance: Doubles = expit(odds - (self.worth - self.noise) * looked)
        return chance

    def worth_of(self, clicks: Doubles, looked: Doubles) -> Doubles:
        """Return (n,) in [0, 1]: that chance, times the rate of its clicks over `worth`, at most 1; 0 without a click.

        The rate is (clicks + 2 noise) / (looks + 2), so that few looks prove little.
        """
        rate = (clicks + 2 * self.noise) / (looked + 2)
        worth = self.posterior(clicks, looked) * np.minimum(1.0, rate / self.worth)
        return np.where(clicks > 0, worth, 0.0)


ASSUMED_ATTRACTION = Attraction(0.1, 0.5, 0.1)


@dataclass(frozen=True)
class ClickModel:
    """What clicks mean in a log: how much places are looked at, and what a click in so many looks proves."""

    examination: Examination
    attraction: Attraction

    def as_dict(self) -> dict[str, Any]:
        """Return what a training record says of it."""
        rates = {name: round(value, 4) for name, value in asdict(self.attraction).items()}
        return self.examination.as_dict() | {"attraction": rates}


def count_clicks(feedback: Iterable[Feedback]) -> ClickCounts:
    """Return the counts of all queries whose showings are known."""
    entries: dict[tuple[int, int], list[int]] = {}
    pair = 0
    for one in feedback:
        clicked: Mapping[int, Mapping[int, int]] = one.clicks or {}
        for row, showings in (one.shown or {}).items():
            clicks = clicked.get(row, {})
            for position, times in showings.items():
                entry = entries.setdefault((pair, min(position, POSITIONS) - 1), [0, 0])
                entry[0] += times
                entry[1] += min(clicks.get(position, 0), times)
            pair += 1
    keys = np.asarray(list(entries), np.int64).reshape(-1, 2)
    counts = np.asarray(list(entries.values()), np.float64).reshape(-1, 2)
    return ClickCounts(keys[:, 0], keys[:, 1], counts[:, 0], counts[:, 1])


def estimate_examination(feedback: Iterable[Feedback]) -> Examination:
    """Return how much each place is looked at, as far as the log can tell.

    With too few clicks as assumed; else by EM, which believes more than it can know where documents keep their
    places; and with enough clicks on documents that changed them by `harvest`, EM deciding where those are silent.
    """
    counts = count_clicks(feedback)
    swapped = counts.swapped()
    facts = (len(np.unique(swapped.pair)), int(swapped.clicks.sum()), int(counts.clicks.sum()))
    if counts.clicks.sum() < ENOUGH_CLICKS:
        return Examination(ASSUMED, "assumed", *facts)
    prior = expectation_maximisation(counts)
    if swapped.clicks.sum() < ENOUGH_CLICKS:
        return Examination(prior, "em", *facts)
    return Examination(harvest(swapped, prior), "harvest", *facts)


def expectation_maximisation(counts: ClickCounts, steps: int = STEPS) -> Floats:
    """Return the curve (POSITIONS,) by EM of the position-based model, attraction having a Beta prior.

    Wang et al. 2018, section 4, without their regression: each pair has an attraction of its own. Below the last place
    that was shown the curve falls on as the assumed one does.
    """
    pair, rank, shown, clicks = counts.pair, counts.rank, counts.shown, counts.clicks
    passed, pairs = shown - clicks, int(pair.max(initial=-1)) + 1
    more_clicks, more_passes = ATTRACTION_PRIOR
    looked, attraction = ASSUMED.astype(np.float64), np.full(pairs, more_clicks / (more_clicks + more_passes))
    shown_at, shown_of = _sums(rank, shown, POSITIONS), _sums(pair, shown, pairs)
    for _ in range(steps):
        look, attracted = looked[rank], attraction[pair]
        missed = passed / np.maximum(1 - look * attracted, 1e-12)
        at_place = _sums(rank, clicks + missed * look * (1 - attracted), POSITIONS)
        of_pair = _sums(pair, clicks + missed * attracted * (1 - look), pairs)
        looked = (at_place + PRIOR_SHOWINGS * ASSUMED) / (shown_at + PRIOR_SHOWINGS)
        attraction = (of_pair + more_clicks) / (shown_of + more_clicks + more_passes)
    last = int(rank.max(initial=0))
    looked[last + 1 :] = looked[last] * ASSUMED[last + 1 :] / ASSUMED[last]
    return non_increasing(looked, _sums(rank, clicks, POSITIONS) + ASSUMED)


def harvest(counts: ClickCounts, prior: Floats = ASSUMED, prior_clicks: float = PRIOR_CLICKS) -> Floats:
    """Return the curve (POSITIONS,) of examination from documents shown at several places.

    Given how often a pair was clicked, its clicks fall on its places as shown x examination: attraction cancels. The
    curve maximises that conditional likelihood, a concave function of log examination; its gradient is zero in
    expectation at the true curve under any chance of a click that is a product of the two. All pairs of places are
    used at once (AllPairs, Agarwal et al. 2019, takes them two by two). The prior curve joins as one more pair, shown
    once at every place, with `prior_clicks` clicks.
    """
    swapped = counts.swapped()
    virtual = int(swapped.pair.max(initial=-1)) + 1
    pair = np.concatenate([swapped.pair, np.full(POSITIONS, virtual)])
    rank = np.concatenate([swapped.rank, np.arange(POSITIONS)])
    shown = np.concatenate([swapped.shown, np.ones(POSITIONS)])
    clicks = np.concatenate([swapped.clicks, prior_clicks * prior / prior.sum()])
    of_pair, of_place = _sums(pair, clicks, virtual + 1), _sums(rank, clicks, POSITIONS)

    def loss(logs: Doubles) -> tuple[float, Doubles]:
        expected = shown * np.exp(logs[rank])
        total = _sums(pair, expected, virtual + 1)
        gradient = _sums(rank, expected * (of_pair / total)[pair], POSITIONS) - of_place
        return float(of_pair @ np.log(total) - of_place @ logs), gradient

    found = minimize(loss, np.log(prior.astype(np.float64)), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return non_increasing(np.exp(found.x - found.x.max()), of_place)


def _sums(names: Ints, numbers: Doubles, count: int) -> Doubles:
    """Return (count,) the sum of the numbers of each name in [0, count)."""
    return np.bincount(names, numbers, count).astype(np.float64, copy=False)


def non_increasing(curve: Doubles, weights: Doubles) -> Floats:
    """Return the nearest curve that never rises, 1 at the first place: pool adjacent violators, by weighted logs."""
    logs = isotonic_regression(np.log(np.maximum(curve, 1e-6)), weights=weights, increasing=False).x
    smooth: Floats = np.exp(logs - logs[0]).astype(np.float32)
    return smooth


def estimate_clicks(feedback: Iterable[Feedback]) -> ClickModel:
    """Return what a log says of places and of documents."""
    known = [one for one in feedback if one.shown is not None]
    examination = estimate_examination(known)
    return ClickModel(examination, estimate_attraction(known, examination.curve))


def estimate_attraction(feedback: Sequence[Feedback], curve: Floats) -> Attraction:
    """Return how often documents are clicked per look, those that nobody wanted and those that were: by EM.

    Clicks of a document are Poisson with mean rate x expected looks, and there are two rates (a mixture; Dempster et
    al. 1977). Both start from the mean rate, as if PRIOR_LOOKS looks had said half and three times as much; without
    clicks they are those of `ASSUMED_ATTRACTION`.
    """
    pairs = [
        (looked, max(0.0, one.gains.get(row, 0.0))) for one in feedback for row, looked in _looked(one, curve).items()
    ]
    looked, clicks = np.asarray(pairs, np.float64).reshape(-1, 2).T
    if not clicks.sum():
        return ASSUMED_ATTRACTION
    mean = float(clicks.sum() / looked.sum())
    found = Attraction(mean / 2, 3 * mean, 0.1)
    for _ in range(MIXTURE_STEPS):
        wanted = found.posterior(clicks, looked)
        worth = (wanted @ clicks + PRIOR_LOOKS * 3 * mean) / (wanted @ looked + PRIOR_LOOKS)
        noise = ((1 - wanted) @ clicks + PRIOR_LOOKS * mean / 2) / ((1 - wanted) @ looked + PRIOR_LOOKS)
        found = Attraction(float(noise), float(worth), float(np.clip(wanted.mean(), 1e-3, 0.5)))
    return found


def held_out_gains(feedback: Feedback, model: ClickModel | None = None) -> dict[int, int]:
    """Return row -> grade: what a query is judged by, 0 for what nobody wanted.

    Judgments are rounded, at least 1 where above zero. With clicks whose lists are known, a document has BEST_GRADE
    times `Attraction.worth_of` its gains and its expected looks: by what clicks of the whole log mean, and not beside
    the others of its list alone, of which the best may be of no use either.
    """
    if feedback.shown is None:
        return {row: max(1, round(gain)) if gain > 0 else 0 for row, gain in feedback.gains.items()}
    model = model or ClickModel(Examination(ASSUMED, "assumed", 0, 0, 0), ASSUMED_ATTRACTION)
    looked = _looked(feedback, model.examination.curve)
    rows = list(looked)
    clicks = np.asarray([max(0.0, feedback.gains.get(row, 0.0)) for row in rows], np.float64)
    worth = model.attraction.worth_of(clicks, np.asarray(list(looked.values()), np.float64))
    return {row: _grade(float(value)) for row, value in zip(rows, worth, strict=True)}


def held_out_qrels(feedback: Sequence[Feedback], model: ClickModel | None = None) -> dict[str, dict[str, int]]:
    """Return what held-out queries are judged by, over rows (`held_out_gains`)."""
    return {one.query_key: {str(row): grade for row, grade in held_out_gains(one, model).items()} for one in feedback}


def _grade(worth: float) -> int:
    """Return the grade of a worth: where few looks prove little, a click is still the best that is known."""
    return max(1, round(BEST_GRADE * worth)) if worth >= LEAST_WORTH else 0


def as_judged(feedback: Feedback, model: ClickModel) -> Feedback:
    """Return feedback with the grades of its clicks in place of them: what was shown, and where, no longer counts."""
    if feedback.shown is None:
        return feedback
    gains = {row: float(grade) for row, grade in held_out_gains(feedback, model).items() if grade}
    return replace(feedback, gains=gains, shown=None, clicks=None, examined=None)


def _looked(feedback: Feedback, curve: Floats) -> dict[int, float]:
    """Return row -> expected looks, a showing counting as LEAST_LOOK at least; a click on no known list as one look."""
    clipped = np.maximum(curve, LEAST_LOOK)
    looked = {row: looks(showings, clipped) for row, showings in (feedback.shown or {}).items()}
    return looked | {row: 1.0 for row in feedback.gains if row not in looked}
