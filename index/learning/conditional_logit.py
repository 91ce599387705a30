"""The conditional logit of choices: how probable a head makes the documents that were chosen, among all of a query.

P(n | query) is the softmax of g(distance_n) + log propensity_n over the documents of the query, where the distance is
the best logit minus logit_n (McFadden 1974). g falls, and is fitted for each head: a head gains nothing by its scale,
and the more knots g has, the less by logits that only stretch or squeeze the order of another head. A share of the
choices is by chance, so that a single one far below the best document does not decide. Choices are clicks
(`click_likelihood`) or judgments (`judgment_likelihood`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

THIRDS = (1 / 3, 2 / 3)
"""The quantiles at which g changes its slope where a query has few documents: a list has about ten."""
STEEPEST = 50.0
"""The largest slope of g, for distances in units of their mean."""
CHANCE = 0.05
"""The share of choices by chance: each document has it in proportion to its propensity."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """The function g of a head: piecewise linear, with slope -w_i between two knots, w >= 0, and g(0) = 0.

    The softmax of g is a conditional logit (McFadden 1974). With equal slopes, w is an inverse temperature.
    """

    weights: Doubles
    """w (K + 1,)."""
    knots: Doubles
    """The distances (K,) at which the slope changes, ascending."""

    def __call__(self, distances: Doubles) -> Doubles:
        scores: Doubles = np.einsum("w,wqn->qn", self.weights, _features(distances, self.knots))
        return scores


@dataclass(frozen=True)
class ChoiceTable:
    """The choices of Q queries: log propensity (Q, N) of each document, -inf in empty slots; choices (Q, N).

    choices: how often each document was chosen, or its grade. weights (Q,) are those of the queries. quantiles (K,): of
    the distances above 0, at which the slope of g changes.
    """

    query_keys: Sequence[str]
    log_propensity: Doubles
    choices: Doubles
    weights: Doubles
    quantiles: Sequence[float] = THIRDS

    @classmethod
    def of(
        cls,
        queries: Mapping[str, tuple[NDArray[Any], NDArray[Any]]],
        weights: Mapping[str, float],
        quantiles: Sequence[float] = THIRDS,
    ) -> "ChoiceTable":
        """Return the table of query key -> log propensities (n,) and choices (n,); the choices have a sum above 0.

        weights: query key -> weight.
        """
        width = max((len(choices) for _, choices in queries.values()), default=0)
        log_propensity, choices = np.full((len(queries), width), -np.inf), np.zeros((len(queries), width))
        for at, (own_propensity, own_choices) in enumerate(queries.values()):
            log_propensity[at, : len(own_propensity)] = own_propensity
            choices[at, : len(own_choices)] = own_choices
        own_weights = np.asarray([weights[key] for key in queries], np.float64)
        return cls(list(queries), log_propensity, choices, own_weights, quantiles)

    @cached_property
    def _by_chance(self) -> Doubles:
        """The probabilities (Q, N) of a choice by chance."""
        return _softmax(self.log_propensity)

    @cached_property
    def _share(self) -> Doubles:
        """The share (Q, N) of each document in the choices of its query."""
        shares: Doubles = self.choices / self.choices.sum(axis=1, keepdims=True)
        return shares

    def distances(self, logits: Mapping[str, NDArray[Any]]) -> Doubles:
        """Return the best logit minus each logit (Q, N), 0 in empty slots. logits: query key -> (n,)."""
        found = np.zeros_like(self.log_propensity)
        for at, key in enumerate(self.query_keys):
            found[at, : len(logits[key])] = np.max(logits[key]) - np.asarray(logits[key], np.float64)
        return found

    def calibrated(self, distances: Doubles) -> Calibration:
        """Return g with the largest likelihood of these choices."""
        positive = distances[np.isfinite(self.log_propensity) & (distances > 0)]
        knots = np.quantile(positive, self.quantiles) if len(positive) else np.ones(len(self.quantiles))
        scale = 1 / max(1e-12, float(np.mean(positive)) if len(positive) else 1.0)
        features = scale * _features(distances, knots)
        start = np.ones(len(features))
        bounds = [(0.0, STEEPEST)] * len(start)
        found = minimize(self.loss, start, (features,), jac=True, method="L-BFGS-B", bounds=bounds)
        return Calibration(scale * np.asarray(found.x, np.float64), knots)

    def loss(self, weights: Doubles, features: Doubles) -> tuple[float, Doubles]:
        """Return minus the sum of the likelihoods for weights (K + 1,) of features (K + 1, Q, N), and its gradient."""
        chosen, likelihood, share = self._probabilities(np.einsum("w,wqn->qn", weights, features))
        gradient = np.einsum("qn,wqn->w", share - share.sum(axis=1, keepdims=True) * chosen, features)
        return -float(likelihood.sum()), -gradient

    def likelihoods(
        self, logits: Mapping[str, NDArray[Any]], calibration: Calibration | None = None
    ) -> dict[str, float]:
        """Return query key -> mean log probability of a choice, times the weight of the query.

        logits: query key -> logits (n,) of its documents. calibration: g; None fits it on the same queries, which
        overestimates by little.
        """
        if not self.query_keys:
            return {}
        distances = self.distances(logits)
        _, found, _ = self._probabilities((calibration or self.calibrated(distances))(distances))
        return dict(zip(self.query_keys, found.tolist(), strict=True))

    def _probabilities(self, scores: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        """Return the softmax (Q, N), the weighted mean log probability of a choice (Q,), and its derivative (Q, N).

        Document n with the propensity E_n is chosen with p_n = (1 - CHANCE) softmax_n + CHANCE E_n / sum E. The
        derivative is by log softmax_n: the weighted share of the choices that are not by chance.
        """
        chosen = _softmax(scores + self.log_propensity)
        probability = (1 - CHANCE) * chosen + CHANCE * self._by_chance
        share = self.weights[:, None] * self._share
        likelihood: Doubles = (share * np.log(np.where(self.choices > 0, probability, 1.0))).sum(axis=1)
        meant = share * (1 - CHANCE) * chosen / np.where(probability > 0, probability, 1.0)
        return chosen, likelihood, meant


def _softmax(scores: Doubles) -> Doubles:
    """Return the softmax (Q, N) of scores; -inf is an empty slot."""
    found: Doubles = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    return found


def _features(distances: Doubles, knots: Doubles) -> Doubles:
    """Return the features (K + 1, Q, N) whose weighted sum is g: minus the part of each distance between two knots."""
    reached = np.stack([np.minimum(distances, knot) for knot in (*knots, np.inf)])
    return -np.diff(reached, axis=0, prepend=0.0)
