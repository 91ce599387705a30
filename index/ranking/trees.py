"""Regression trees over the evidence of a candidate: a correction of its logit, which linear weights cannot express.

A tree has at most three splits. It is stored as three comparisons and a table with a value for each of their eight
outcomes, so that all trees of all candidates are evaluated by array operations. The values of all trees add up to the
part `trees` of the logit. Source: Friedman 2001 (boosted trees); Burges 2010 (trees for ranking).

Letters: M candidates, F features, T trees.
"""

from dataclasses import dataclass

import numpy as np

from index.ranking.array_api import Array
from index.records import Floats, Mask

SPLITS = 3
OUTCOMES = 1 << SPLITS
SHAPES = {"feature": SPLITS, "threshold": SPLITS, "value": OUTCOMES}
"""The arrays of T trees: name -> numbers a tree."""


@dataclass(frozen=True, eq=False)
class Trees:
    """T trees: comparison s of tree t is features[feature[t, s]] <= threshold[t, s].

    feature and threshold (T, SPLITS), value (T, OUTCOMES); bit s of the index of an outcome is comparison s. All are
    float32, as in a model file.
    """

    feature: Floats
    threshold: Floats
    value: Floats

    def __len__(self) -> int:
        return len(self.value)

    def __call__(self, features: Floats) -> Floats:
        """Return the sum (M,) of all trees for the features (M, F)."""
        below = features[:, self.feature.ravel().astype(np.int64)] <= self.threshold.ravel()
        outcome = below.reshape(len(features), len(self), SPLITS) @ (1 << np.arange(SPLITS))
        values = self.value.ravel().take(outcome + OUTCOMES * np.arange(len(self)))
        total: Floats = values.sum(axis=1, dtype=np.float64).astype(np.float32)
        return total

    def first(self, count: int) -> "Trees":
        """Return the first trees."""
        return Trees(self.feature[:count], self.threshold[:count], self.value[:count])

    def parameters(self) -> dict[str, Floats]:
        """Return the arrays by the names of a head's parameters."""
        return {f"trees.{name}": getattr(self, name) for name in SHAPES}


def no_trees(count: int = 0) -> Trees:
    """Return this many trees of value 0."""
    return Trees(*(np.zeros((count, width), np.float32) for width in SHAPES.values()))


def tree_features(evidence: Array, logits: Array, facts: Array, signals: Array, mask: Mask) -> Floats:
    """Return the features (B, N, F) of candidates for the trees.

    evidence (B, N, E), logits (B, N), facts (B, len(FACTS)), signals (B, N, len(SIGNALS)), mask (B, N). The features
    are the evidence, its distance to the best candidate's, the distance of the logit to the best logit, the facts of
    the query and the signals of the document.
    """
    scored = np.concatenate([np.asarray(evidence), np.asarray(logits)[..., None]], axis=-1)
    lowest = np.where(mask[..., None], scored, -np.inf)
    best = lowest.max(axis=1, keepdims=True, initial=-np.inf)
    relative = np.where(mask[..., None], scored - np.where(np.isfinite(best), best, 0.0), 0.0)
    of_query = np.broadcast_to(np.asarray(facts)[:, None, :], (*mask.shape, np.shape(facts)[-1]))
    features: Floats = np.concatenate([evidence, relative, of_query, signals], axis=-1).astype(np.float32)
    return features
