"""Regression trees fitted to the logits of a head: what the linear weights of the evidence cannot express.

The trees are LightGBM's, boosted for nDCG (Burges 2010) from the head's logits as initial scores, and converted to
`ranking.trees`, so that a search needs no other library. Letters: M candidates of all queries, F features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.generation.generation import Generation
from index.learning.examples import Example, make_batch
from index.ranking.attention import AttentionHead
from index.ranking.trees import OUTCOMES, SPLITS, Trees, no_trees
from index.records import Floats, Ints

BATCH = 64
PARAMETERS: dict[str, Any] = {
    "objective": "lambdarank",
    "num_leaves": SPLITS + 1,
    "learning_rate": 0.05,
    "min_data_in_leaf": 50,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.5,
    "lambda_l2": 5.0,
    "lambdarank_truncation_level": 20,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbose": -1,
}


@dataclass(frozen=True)
class Scored:
    """The candidates of queries under a head: features (M, F), logits (M,), grades (M,), counts and weights (Q,)."""

    features: Floats
    logits: Floats
    grades: Ints
    counts: Ints
    confidence: Floats

    @classmethod
    def of(cls, generation: Generation, head: AttentionHead, examples: Sequence[Example]) -> "Scored":
        """Return the candidates of examples under a head without trees."""
        features, logits, grades, counts, confidence = [], [], [], [], []
        for start in range(0, len(examples), BATCH):
            batch = make_batch(generation, examples[start : start + BATCH], with_values=head.hops)
            attention, mask = head(batch.query, batch.candidates), np.asarray(batch.candidates.mask)
            features.append(head.tree_features(attention, batch.candidates)[mask])
            logits.append(np.asarray(attention.logits)[:, :-1][mask])
            grades.append(np.rint(batch.gains[mask]).astype(np.int64))
            counts.append(mask.sum(axis=1))
            confidence.append(batch.confidence)
        return cls(*(np.concatenate(each) for each in (features, logits, grades, counts, confidence)))

    @classmethod
    def union(cls, parts: Sequence["Scored"]) -> "Scored":
        """Return the queries of several parts together."""
        names = ("features", "logits", "grades", "counts", "confidence")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def boost(scored: Scored, rounds: int, seed: int) -> Trees:
    """Return at most `rounds` trees. The same queries, rounds and seed give the same bits."""
    lightgbm = _lightgbm()
    if not scored.grades.any() or not rounds:
        return no_trees()
    data = lightgbm.Dataset(
        scored.features,
        scored.grades,
        group=scored.counts,
        init_score=scored.logits.astype(np.float64),
        weight=np.repeat(scored.confidence, scored.counts),
    )
    gains = list(range(int(scored.grades.max()) + 1))
    booster = lightgbm.train(PARAMETERS | {"seed": seed, "label_gain": gains}, data, rounds)
    return _converted([one["tree_structure"] for one in booster.dump_model()["tree_info"]])


def _lightgbm() -> Any:
    """Return the library. It needs the OpenMP library that torch brings, so torch is loaded first."""
    import torch  # noqa: F401
    import lightgbm  # isort: skip

    return lightgbm


def _converted(roots: Sequence[dict[str, Any]]) -> Trees:
    """Return LightGBM's trees as comparisons and tables."""
    trees = no_trees(len(roots))
    trees.feature[:], trees.threshold[:] = 0, -np.inf
    for tree, root in enumerate(roots):
        splits = _splits(root)
        for at, split in enumerate(splits):
            trees.feature[tree, at] = split["split_feature"]
            trees.threshold[tree, at] = _as_float32(split["threshold"])
        for outcome in range(OUTCOMES):
            node = root
            while "split_feature" in node:
                below = outcome >> next(at for at, split in enumerate(splits) if split is node) & 1
                node = node["left_child" if below else "right_child"]
            trees.value[tree, outcome] = node["leaf_value"]
    return trees


def _splits(node: dict[str, Any]) -> list[dict[str, Any]]:
    if "split_feature" not in node:
        return []
    return [node, *_splits(node["left_child"]), *_splits(node["right_child"])]


def _as_float32(threshold: float) -> np.float32:
    """Return the largest float32 that is not above the threshold: a float32 feature compares with both alike."""
    near = np.float32(threshold)
    return near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf))
