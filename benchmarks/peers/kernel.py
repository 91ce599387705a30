"""Nadaraya-Watson regression of the grades over train query vectors, added to the best fixed fusion.

    m(q, n) = sum_i K(q . q_i) g_in / (sum_i K(q . q_i) + K(floor)),   K(s) = exp(t (s - 1))

K(floor) is the weight of an empty memory: without it the nearest train query decides at any distance. Leave-one-out
cross-validation over the train queries chooses sharpness t, floor and the weight of m. Source: Watson 1964.
"""

from itertools import product
from typing import Any

import numpy as np

from benchmarks.peers import DEPTH, Task
from benchmarks.peers.material import Material, Split
from benchmarks.peers.ranking import Ndcg, best, fused
from index.records import Floats, Ints

SHARPNESS = (5.0, 10.0, 20.0, 40.0, 80.0)
FLOORS = (-np.inf, 0.3, 0.5, 0.7)
MIXES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
SAMPLE = 1500
"""Number of train queries that are left out in turn, at most. All others answer each of them."""


class Kernel:
    """Stores train queries. Learning chooses three numbers."""

    def __init__(self, material: Material, task: Task) -> None:
        self._material = material
        gains = material.gains
        self._values = (gains / gains.max()).T.tocsr()
        self._chosen = (SHARPNESS[0], FLOORS[0], 0.0)

    def learn(self) -> dict[str, Any]:
        train, count = self._material.train, len(self._material.train.queries)
        rows = np.sort(np.random.default_rng(0).choice(count, min(SAMPLE, count), replace=False))
        similarity = train.vectors[rows] @ train.vectors.T
        similarity[np.arange(len(rows)), rows] = -np.inf
        fusion, ndcg = self._fusion(train, rows), Ndcg(self._material.gains[rows].toarray())
        means: dict[tuple[float, float, float], float] = {}
        for sharpness, floor in product(SHARPNESS, FLOORS):
            memory = self._memory(similarity, sharpness, floor)
            means |= {(sharpness, floor, mix): ndcg.mean(fusion + np.float32(mix) * memory) for mix in MIXES}
        self._chosen = max(means, key=lambda one: means[one])
        sharpness, floor, mix = self._chosen
        return {
            "sharpness": sharpness,
            "floor": max(floor, -1.0),
            "mix": mix,
            "validation": round(means[self._chosen], 4),
        }

    def publish(self) -> None:
        """Nothing to do: the vectors of train queries are stored."""

    def rank(self) -> dict[str, Ints]:
        sharpness, floor, mix = self._chosen
        test = self._material.test
        memory = self._memory(test.vectors @ self._material.train.vectors.T, sharpness, floor)
        scores = self._fusion(test, np.arange(len(test.queries))) + np.float32(mix) * memory
        return {"kernel": best(scores, DEPTH)}

    def _fusion(self, split: Split, rows: Ints) -> Floats:
        return fused(self._material.fusion, split.dense[rows], split.words[rows])

    def _memory(self, similarity: Floats, sharpness: float, floor: float) -> Floats:
        """Return m (Q, N) from cosines to train queries (Q, T)."""
        weights = np.exp(sharpness * (similarity - 1)).astype(np.float32)
        total = weights.sum(1, keepdims=True) + np.exp(sharpness * (floor - 1))
        remembered: Floats = ((self._values @ weights.T).T / np.maximum(total, 1e-30)).astype(np.float32)
        return remembered
