"""The attraction of documents: the clicks of a log are read as those of irrelevant and of relevant documents.

Sees counts of impressions and clicks, never lists, events or models. A document is clicked at most once in a list, with
probability examination_p x attraction at position p (the position-based model, Craswell et al. 2008), and its
attraction is one of two (a mixture; Dempster et al. 1977).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from index.learning.examples import Feedback
from index.records import Floats, Ints

LEAST_EXAMINATION = 0.05
"""Least examination of an impression in grading, so that a single click at a deep position is weak evidence."""
PRIOR_EXAMINATIONS = 1.0
"""Weight of the initial rates of the first start in `estimate_attraction`, in examinations."""
HIGHEST_START = 0.9
"""Highest rate from which the mixture starts."""
SHARES = (1e-3, 0.9)
"""Bounds of the share of relevant documents."""
REJECTED = 1.92
"""Difference of log likelihoods that rejects the lower one: half the .95 quantile of chi-squared with one degree of
freedom (Wilks 1938)."""
MIXTURE_STEPS = 300
"""Most EM iterations for the rates of relevant and irrelevant documents from each start."""
TOLERANCE = 1e-6
"""Change of every rate at which EM has converged."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Outcomes:
    """What happened to n pairs of query and document in their impressions.

    clicks (n,): the sum of the grades of their clicks, 1 for a click. examinations (n,): expected. The entries pair,
    rank and passed (m,) are impressions without a click: the number of the pair in [0, n), the 0-based rank, and how
    many of them. curve: the examination of each rank in (0, 1], at least LEAST_EXAMINATION.
    """

    clicks: Doubles
    examinations: Doubles
    pair: Ints
    rank: Ints
    passed: Doubles
    curve: Doubles

    @classmethod
    def of(cls, feedback: Iterable[Feedback], curve: Floats) -> "Outcomes":
        """Return the outcomes of queries; their pairs are the documents of `impressions_of`, in the same order.

        curve (POSITIONS,): the examination of each position. A click of the grade g counts as g clicks, which take the
        place of g impressions without a click at the positions of the clicks, or at all positions if those are unknown.
        """
        examined = np.maximum(curve, LEAST_EXAMINATION).astype(np.float64)
        clicks: list[float] = []
        expected: list[float] = []
        entries: list[tuple[int, int, float]] = []
        for one in feedback:
            for row, impressions in impressions_of(one).items():
                shown: Mapping[int, float] = _by_rank(impressions, len(examined))
                looks = {rank: times * float(examined[rank]) for rank, times in shown.items()}
                own = max(0.0, one.gains.get(row, 0.0))
                if own:
                    shares: Mapping[int, float] = _by_rank((one.clicks or {}).get(row, {}), len(examined)) or looks
                    each = own / (sum(shares.values()) or 1.0)
                    shown = {rank: times - each * shares.get(rank, 0.0) for rank, times in shown.items()}
                entries += [(len(clicks), rank, times) for rank, times in shown.items() if times > 0]
                clicks.append(own)
                expected.append(sum(looks.values()))
        table = np.asarray(entries, np.float64).reshape(-1, 3)
        pair, rank = table[:, :2].T.astype(np.int64)
        own_clicks, own_looks = np.asarray(clicks, np.float64), np.asarray(expected, np.float64)
        return cls(own_clicks, own_looks, pair, rank, table[:, 2], examined)

    def log_likelihood(self, rate: float) -> Doubles:
        """Return (n,) the logarithm of the probability of each pair's outcomes if its attraction is `rate` < 1.

        The logarithms of the examinations at the clicks are left out: they are the same for every rate.
        """
        return self._summed(np.log(rate), np.log1p(-rate * self.curve))

    def log_ratio(self, worth: float, noise: float) -> Doubles:
        """Return (n,) the log likelihood of the rate `worth` minus the log likelihood of the rate `noise`."""
        return self._summed(np.log(worth / noise), np.log1p(-worth * self.curve) - np.log1p(-noise * self.curve))

    def _summed(self, of_click: float, of_rank: Doubles) -> Doubles:
        """Return (n,) the sum over the outcomes of each pair: of_click for a click, of_rank (POSITIONS,) without."""
        total: Doubles = self.clicks * of_click + np.bincount(
            self.pair, self.passed * of_rank[self.rank], len(self.clicks)
        )
        return total

    def passed_by_rank(self, weights: Doubles) -> Doubles:
        """Return (POSITIONS,) the impressions without a click of all pairs, with the weights (n,) of the pairs."""
        return np.bincount(self.rank, self.passed * weights[self.pair], len(self.curve)).astype(np.float64, copy=False)

    def likeliest(self, rate: float, clicks: float, passed: Doubles, prior: float) -> float:
        """Return the rate of the next EM step of documents with so many clicks, and passed (POSITIONS,) at each rank.

        An impression without a click was examined with probability examination (1 - rate) / (1 - examination rate). The
        prior rate counts as PRIOR_EXAMINATIONS examinations.
        """
        examined = self.curve * (1 - rate) / (1 - self.curve * rate)
        clicks += PRIOR_EXAMINATIONS * prior
        return clicks / (clicks + PRIOR_EXAMINATIONS * (1 - prior) + float(passed @ examined))


def _by_rank(counts: Mapping[int, int], length: int) -> dict[int, float]:
    """Return 0-based rank -> count above 0, of 1-based positions; those after the last rank count as the last."""
    by_rank: dict[int, float] = {}
    for position, times in counts.items():
        if times:
            rank = min(position, length) - 1
            by_rank[rank] = by_rank.get(rank, 0.0) + times
    return by_rank


def impressions_of(feedback: Feedback) -> dict[int, Mapping[int, int]]:
    """Return row -> position -> count; a row with a gain that was never shown has one impression on top."""
    shown = feedback.shown or {}
    return {**shown, **{row: {1: 1} for row in feedback.gains if row not in shown}}


@dataclass(frozen=True)
class Attraction:
    """The attraction in (0, 1) of irrelevant (noise) and relevant (worth) documents, and the share of relevant ones."""

    noise: float
    worth: float
    share: float

    def posterior(self, outcomes: Outcomes) -> Doubles:
        """Return the probability (n,) that each document is relevant, given its outcomes."""
        odds = np.log(self.share / (1 - self.share))
        chance: Doubles = expit(odds + outcomes.log_ratio(self.worth, self.noise))
        return chance

    def worth_of(self, outcomes: Outcomes) -> Doubles:
        """Return the worth (n,) in [0, 1] of documents: posterior times min(1, rate / `worth`); 0 without a click.

        The rate is (clicks + 2 noise) / (examinations + 2), so that few examinations are weak evidence.
        """
        rate = (outcomes.clicks + 2 * self.noise) / (outcomes.examinations + 2)
        worth = self.posterior(outcomes) * np.minimum(1.0, rate / self.worth)
        return np.where(outcomes.clicks > 0, worth, 0.0)


ASSUMED_ATTRACTION = Attraction(0.1, 0.5, 0.1)
"""The attraction of a log without clicks."""


def estimate_attraction(feedback: Sequence[Feedback], curve: Floats) -> Attraction:
    """Return the attraction of irrelevant and relevant documents, by EM from two starts.

    The first start takes few documents as relevant, the second one most. The second maximum counts only if its
    likelihood rejects the first one: a log of one or two lists of each query fits both, and with the second all clicked
    documents would be relevant. A log without clicks gives ASSUMED_ATTRACTION.
    """
    outcomes = Outcomes.of(feedback, curve)
    if not outcomes.clicks.sum():
        return ASSUMED_ATTRACTION
    mean = float(outcomes.clicks.sum() / outcomes.examinations.sum())
    worth = min(3 * mean, HIGHEST_START)
    few = Attraction(min(mean, worth) / 2, worth, 0.1)
    most = Attraction(min(mean, worth) / 4, min(1.2 * mean, HIGHEST_START), 0.8)
    found, other = (_maximised(outcomes, start, few) for start in (few, most))
    return other[0] if other[1] > found[1] + REJECTED else found[0]


def _maximised(outcomes: Outcomes, start: Attraction, prior: Attraction) -> tuple[Attraction, float]:
    """Return the attraction after EM from a start, and its log likelihood with the prior rates."""
    found, all_clicks = start, float(outcomes.clicks.sum())
    all_passed = outcomes.passed_by_rank(np.ones(len(outcomes.clicks)))
    for _ in range(MIXTURE_STEPS):
        before, relevant = found, found.posterior(outcomes)
        clicks, passed = float(relevant @ outcomes.clicks), outcomes.passed_by_rank(relevant)
        worth = outcomes.likeliest(found.worth, clicks, passed, prior.worth)
        noise = outcomes.likeliest(found.noise, all_clicks - clicks, all_passed - passed, prior.noise)
        found = Attraction(noise, worth, float(np.clip(relevant.mean(), *SHARES)))
        if max(abs(np.subtract(astuple(found), astuple(before)))) < TOLERANCE:
            break
    likelihood = np.logaddexp(
        np.log(found.share) + outcomes.log_likelihood(found.worth),
        np.log1p(-found.share) + outcomes.log_likelihood(found.noise),
    ).sum()
    for rate, usual in ((found.worth, prior.worth), (found.noise, prior.noise)):
        likelihood += PRIOR_EXAMINATIONS * (usual * np.log(rate) + (1 - usual) * np.log1p(-rate))
    return found, float(likelihood)
