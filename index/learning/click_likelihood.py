"""The likelihood of held-out clicks: how well the order of a head explains which of the shown documents were clicked.

A query with clicks has no complete judgments, so a measure of ranks knows only the documents that were shown and grades
them from few clicks. The likelihood uses every click as it is: P(n | query) is the softmax over the shown documents of
g(distance_n) + log propensity_n, with the expected examinations as propensities (Joachims et al. 2017; Ai et al. 2018).
The distance is the best logit minus logit_n. g falls, and is fitted for each head: a head gains nothing by its scale,
nor by logits that only stretch or squeeze the order of another head. A share of the clicks is by chance, so that a
single click far below the best document does not decide. A query with few clicks has less weight: its mean is noise.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from index.evaluation.significance import Comparison, compare
from index.generation.generation import Generation
from index.learning.examples import Feedback, expected_examinations, hash_of, make_batch, make_example, relative_log
from index.ranking.attention import AttentionHead
from index.ranking.search import project
from index.records import Floats

CLICKS = "log likelihood per click"
"""The name of the measure."""
KNOTS = (1 / 3, 2 / 3)
"""The quantiles of the distances above 0 at which the slope of g changes."""
STEEPEST = 50.0
"""The largest slope of g, for distances in units of their mean."""
CHANCE = 0.05
"""The share of clicks that are on any examined document."""
CLICK_VARIANCE = 5.0
"""The variance of a click within a query over the variance between queries, for differences between two heads."""
TOP = 10

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Clicked:
    """The shown documents of a query with clicks under a head, all (n,).

    logits, log propensities, clicks, the expected examinations, and the impressions that these are computed from.
    """

    logits: NDArray[Any]
    log_propensity: NDArray[Any]
    clicks: NDArray[Any]
    examinations: NDArray[Any]
    impressions: Sequence[Mapping[int, int]] = ()

    def under(self, curve: Floats) -> "Clicked":
        """Return the documents with the propensities and examinations of another curve."""
        examinations = np.asarray([expected_examinations(one, curve) for one in self.impressions], np.float64)
        return replace(self, log_propensity=relative_log(examinations), examinations=examinations)


@dataclass(frozen=True)
class Calibration:
    """The function g of a head: piecewise linear, with slope -w_i between two knots, w >= 0, and g(0) = 0.

    The softmax of g is a conditional logit (McFadden 1974). With equal slopes, w is an inverse temperature.
    """

    weights: Doubles
    """w (3,)."""
    knots: Doubles
    """The distances (2,) at which the slope changes, ascending."""

    def __call__(self, distances: Doubles) -> Doubles:
        scores: Doubles = np.einsum("w,wqn->qn", self.weights, _features(distances, self.knots))
        return scores


@dataclass(frozen=True)
class ClickTable:
    """The clicks of Q queries: log propensity (Q, N) of each shown document, -inf in empty slots; clicks (Q, N).

    weights (Q,) are those of the queries (`query_weights`).
    """

    query_keys: Sequence[str]
    log_propensity: Doubles
    clicks: Doubles
    weights: Doubles

    @classmethod
    def of(
        cls, shown: Mapping[str, tuple[NDArray[Any], NDArray[Any]]], weights: Mapping[str, float] | None = None
    ) -> "ClickTable":
        """Return the table of query key -> log propensities (n,) and clicks (n,); the clicks have a sum above 0.

        weights: query key -> weight, where these queries are a part of others; None has the weights of these queries.
        """
        width = max((len(clicks) for _, clicks in shown.values()), default=0)
        log_propensity, clicks = np.full((len(shown), width), -np.inf), np.zeros((len(shown), width))
        for at, (own_propensity, own_clicks) in enumerate(shown.values()):
            log_propensity[at, : len(own_propensity)] = own_propensity
            clicks[at, : len(own_clicks)] = own_clicks
        known = weights or query_weights({key: of for key, (_, of) in shown.items()})
        return cls(list(shown), log_propensity, clicks, np.asarray([known[key] for key in shown], np.float64))

    @cached_property
    def _by_chance(self) -> Doubles:
        """The probabilities (Q, N) of a click by chance."""
        return _softmax(self.log_propensity)

    @cached_property
    def _share(self) -> Doubles:
        """The share (Q, N) of each document in the clicks of its query."""
        shares: Doubles = self.clicks / self.clicks.sum(axis=1, keepdims=True)
        return shares

    def distances(self, logits: Mapping[str, NDArray[Any]]) -> Doubles:
        """Return the best logit minus each logit (Q, N), 0 in empty slots. logits: query key -> (n,)."""
        found = np.zeros_like(self.log_propensity)
        for at, key in enumerate(self.query_keys):
            found[at, : len(logits[key])] = np.max(logits[key]) - np.asarray(logits[key], np.float64)
        return found

    def calibrated(self, distances: Doubles) -> Calibration:
        """Return g with the largest likelihood of these clicks."""
        positive = distances[np.isfinite(self.log_propensity) & (distances > 0)]
        knots = np.quantile(positive, KNOTS) if len(positive) else np.ones(len(KNOTS))
        scale = 1 / max(1e-12, float(np.mean(positive)) if len(positive) else 1.0)
        features = scale * _features(distances, knots)
        start = np.ones(len(features))
        bounds = [(0.0, STEEPEST)] * len(start)
        found = minimize(self.loss, start, (features,), jac=True, method="L-BFGS-B", bounds=bounds)
        return Calibration(scale * np.asarray(found.x, np.float64), knots)

    def loss(self, weights: Doubles, features: Doubles) -> tuple[float, Doubles]:
        """Return minus the sum of the likelihoods for weights (3,) of features (3, Q, N), and its gradient (3,)."""
        chosen, likelihood, share = self._probabilities(np.einsum("w,wqn->qn", weights, features))
        gradient = np.einsum("qn,wqn->w", share - share.sum(axis=1, keepdims=True) * chosen, features)
        return -float(likelihood.sum()), -gradient

    def likelihoods(
        self, logits: Mapping[str, NDArray[Any]], calibration: Calibration | None = None
    ) -> dict[str, float]:
        """Return query key -> mean log probability of a click, times the weight of the query.

        logits: query key -> logits (n,) of its shown documents. calibration: g; None fits it on the same queries, which
        overestimates by little.
        """
        if not self.query_keys:
            return {}
        distances = self.distances(logits)
        _, found, _ = self._probabilities((calibration or self.calibrated(distances))(distances))
        return dict(zip(self.query_keys, found.tolist(), strict=True))

    def _probabilities(self, scores: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        """Return the softmax (Q, N), the weighted mean log probability of a click (Q,), and its derivative (Q, N).

        A click is on document n with p_n = (1 - CHANCE) softmax_n + CHANCE E_n / sum E. The derivative is by
        log softmax_n: the weighted share of the clicks that are not by chance.
        """
        chosen = _softmax(scores + self.log_propensity)
        probability = (1 - CHANCE) * chosen + CHANCE * self._by_chance
        share = self.weights[:, None] * self._share
        likelihood: Doubles = (share * np.log(np.where(self.clicks > 0, probability, 1.0))).sum(axis=1)
        meant = share * (1 - CHANCE) * chosen / np.where(probability > 0, probability, 1.0)
        return chosen, likelihood, meant


def query_weights(clicks: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return query key -> weight, with the mean 1, of queries with these clicks (n,) on their documents.

    The difference between two heads has the variance v + CLICK_VARIANCE v / m on a query with m clicks. The mean has
    the least variance with weights in proportion to its inverse, m / (m + CLICK_VARIANCE) (random effects, DerSimonian
    and Laird 1986).
    """
    totals = {key: float(of.sum()) for key, of in clicks.items()}
    found = {key: total / (total + CLICK_VARIANCE) for key, total in totals.items()}
    mean = sum(found.values()) / max(1, len(found))
    return {key: weight / mean for key, weight in found.items()}


def _softmax(scores: Doubles) -> Doubles:
    """Return the softmax (Q, N) of scores; -inf is an empty slot."""
    found: Doubles = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    return found


def _features(distances: Doubles, knots: Doubles) -> Doubles:
    """Return the features (3, Q, N) whose weighted sum is g: minus the part of each distance between two knots."""
    reached = np.stack([np.minimum(distances, knot) for knot in (*knots, np.inf)])
    return -np.diff(reached, axis=0, prepend=0.0)


def click_counts(feedback: Feedback, rows: Sequence[int]) -> Doubles:
    """Return the number of clicks (n,) on the documents with these rows in the lists of a query."""
    return np.asarray([sum((feedback.clicks or {}).get(row, {}).values()) for row in rows], np.float64)


def clicked_queries(feedback: Sequence[Feedback]) -> list[Feedback]:
    """Return the queries with a click on a shown document, and at least two shown documents."""
    return [
        one for one in feedback if one.shown is not None and len(one.shown) > 1 and any((one.clicks or {}).values())
    ]


def clicked(generation: Generation, head: AttentionHead, feedback: Feedback, curve: Floats) -> Clicked | None:
    """Return the shown documents of a query under a head; None if the documents of all clicks are gone.

    The memory of the query itself is left out.
    """
    example = make_example(generation, feedback, project(head, feedback.vector), 0, curve)
    rows = generation.rows[example.candidates.doc_indices].tolist()
    clicks = click_counts(feedback, rows)
    if len(rows) < 2 or not clicks.sum():
        return None
    batch = make_batch(generation, [example], with_values=head.hops, with_fields=bool(head.priors.fields))
    logits = np.asarray(head(batch.query, batch.candidates).logits[0, : len(rows)], np.float64)
    impressions = [(feedback.shown or {}).get(row, {}) for row in rows]
    return Clicked(logits, np.empty(0), clicks, np.empty(0), impressions).under(curve)


def likelihoods(queries: Mapping[str, Clicked]) -> dict[str, float]:
    """Return query key -> mean log probability of a click, times the weight of the query.

    g of a half of the queries is fitted on the other half.
    """
    weights = query_weights({key: one.clicks for key, one in queries.items()})
    halves: tuple[dict[str, Clicked], dict[str, Clicked]] = ({}, {})
    for key, one in queries.items():
        halves[hash_of(key) // 16 % 2][key] = one
    tables = [
        ClickTable.of({key: (one.log_propensity, one.clicks) for key, one in half.items()}, weights) for half in halves
    ]
    logits = [{key: one.logits for key, one in half.items()} for half in halves]
    found: dict[str, float] = {}
    for own, other in ((0, 1), (1, 0)):
        fitted = other if halves[other] else own
        if halves[own]:
            calibration = tables[fitted].calibrated(tables[fitted].distances(logits[fitted]))
            found |= tables[own].likelihoods(logits[own], calibration)
    return found


def clicked_pairs(
    generation: Generation, champion: AttentionHead, pairs: Sequence[tuple[Feedback, AttentionHead]], curve: Floats
) -> tuple[dict[str, Clicked], dict[str, Clicked]]:
    """Return the shown documents of the queries that have them, by query key, under the champion and the other head.

    pairs: each held-out query with the head that did not train on it.
    """
    before: dict[str, Clicked] = {}
    after: dict[str, Clicked] = {}
    for one, head in pairs:
        mine, theirs = clicked(generation, champion, one, curve), clicked(generation, head, one, curve)
        if mine is not None and theirs is not None:
            before[one.query_key], after[one.query_key] = mine, theirs
    return before, after


def compare_clicks(before: Mapping[str, Clicked], after: Mapping[str, Clicked]) -> Comparison:
    """Return the paired comparison of the likelihoods of clicks, for at least two queries (`clicked_pairs`)."""
    return compare(CLICKS, likelihoods(before), likelihoods(after))


def never_shown(runs: Mapping[str, Sequence[str]], queries: Sequence[Feedback], new: Set[int]) -> float:
    """Return the mean share of the first ten documents that no list of their query showed.

    runs: query key -> rows, best first. new: the rows of documents that do not count, because they are newer than all
    documents that the log shows: it could not show them.
    """
    shares = []
    for one in queries:
        top = [int(row) for row in runs[one.query_key][:TOP]]
        shares.append(sum(row not in (one.shown or {}) and row not in new for row in top) / max(1, len(top)))
    return float(np.mean(shares)) if shares else 0.0
