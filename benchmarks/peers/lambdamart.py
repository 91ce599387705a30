"""LightGBM's LambdaMART over candidates, on the signals of our search and on counts of judgments.

Trees are fitted to the candidates of train queries. A fifth of the queries validates: nDCG@10 stops the boosting, and
chooses tree size, learning rate and reranking depth from a small grid. Then all train queries are fitted. The counts of
a document exclude the query's own judgments. Source: Burges 2010.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import DEPTH, Task
from benchmarks.peers.features import COUNTS, FEATURES, IN_SEQUENCE, Features
from benchmarks.peers.material import Material, Split
from benchmarks.peers.ranking import Ndcg, best
from index.records import Ints

LEAVES = (4, 8, 16, 31)
RATES = (0.05, 0.1)
ROUNDS, PATIENCE = 500, 40
TRAIN_DEPTH = 100
DEPTHS = (100, 1000)
"""Candidates by dense and by words each. The rest of the collection follows in the order of the fixed fusion."""
GRID_QUERIES = 1500
"""Number of train queries for the grid, at most."""
BLOCK = 128
TIES = 1e-9
"""Weight of the fixed fusion among candidates: it orders candidates with equal scores of the trees."""


class LambdaMart:
    """Reranks the union of the best candidates by dense and by words."""

    system = "lambdamart"
    columns: tuple[str, ...] = FEATURES
    in_sequence = False

    def __init__(self, material: Material, task: Task) -> None:
        self._material, self._task = material, task
        self._features = Features(material, self.in_sequence)
        self._depth = DEPTHS[0]

    def learn(self) -> dict[str, Any]:
        grown, held_out = self._material.divided(self._task.seed)
        grid = np.random.default_rng(self._task.seed).permutation(grown)[:GRID_QUERIES]
        train = self._dataset(np.sort(grid))
        check = self._dataset(held_out, train)
        found: dict[tuple[int, float], lightgbm.Booster] = {}
        for leaves, rate in product(LEAVES, RATES):
            stop = lightgbm.early_stopping(PATIENCE, verbose=False)
            parameters = self._parameters(leaves, rate)
            found[leaves, rate] = lightgbm.train(parameters, train, ROUNDS, valid_sets=[check], callbacks=[stop])
        chosen = max(found, key=lambda one: found[one].best_score["valid_0"]["ndcg@10"])
        self._model = found[chosen]
        measured = self._choose_depth(held_out)
        rounds = max(1, self._model.best_iteration)
        whole = self._dataset(np.arange(len(self._material.train.queries)))
        self._model = lightgbm.train(self._parameters(*chosen), whole, rounds)
        facts = {"leaves": chosen[0], "rate": chosen[1], "rounds": rounds, "depth": self._depth}
        return facts | {"validation": round(measured, 4), "importance": self._importance()}

    def publish(self) -> None:
        """Nothing to do: the signals are computed at query time."""

    def rank(self) -> dict[str, Ints]:
        test = self._material.test
        rows = np.arange(len(test.queries))
        ranked = [best(scores, DEPTH) for scores in self._scored(test, rows, self._depth, training=False)]
        return {self.system: np.concatenate(ranked)}

    def _choose_depth(self, rows: Ints) -> float:
        ndcg = Ndcg(self._material.gains[rows].toarray())
        means = {}
        for depth in DEPTHS:
            scored = self._scored(self._material.train, rows, depth, training=True)
            means[depth] = float(ndcg.of(np.concatenate([best(scores, DEPTH) for scores in scored])).mean())
        self._depth = max(means, key=lambda depth: means[depth])
        return means[self._depth]

    def _scored(self, split: Split, rows: Ints, depth: int, training: bool) -> Iterator[NDArray[np.float64]]:
        """Yield scores (block, N). Other documents come after all candidates, in the order of the fusion."""
        for first in range(0, len(rows), BLOCK):
            block = rows[first : first + BLOCK]
            features = self._features.of(split, block, depth, training)
            scores = features.fusion.astype(np.float64) - 1000.0
            predicted = self._model.predict(features.values[:, : len(self.columns)], num_threads=1)
            fusion = features.fusion[features.rows, features.doc_indices]
            scores[features.rows, features.doc_indices] = predicted + TIES * fusion
            yield scores

    def _dataset(self, rows: Ints, reference: lightgbm.Dataset | None = None) -> lightgbm.Dataset:
        values, labels, counts = [], [], []
        gains = self._material.gains
        for first in range(0, len(rows), BLOCK):
            block = rows[first : first + BLOCK]
            features = self._features.of(self._material.train, block, TRAIN_DEPTH, training=True)
            values.append(features.values[:, : len(self.columns)])
            labels.append(gains[block].toarray()[features.rows, features.doc_indices])
            counts.append(np.bincount(features.rows, minlength=len(block)))
        about: dict[str, Any] = {"feature_name": list(self.columns), "free_raw_data": False, "reference": reference}
        return lightgbm.Dataset(np.concatenate(values), np.concatenate(labels), group=np.concatenate(counts), **about)

    def _parameters(self, leaves: int, rate: float) -> dict[str, Any]:
        top = int(self._material.grades.grades.max())
        return {
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": [10],
            "label_gain": list(range(top + 1)),
            "num_leaves": leaves,
            "learning_rate": rate,
            "min_data_in_leaf": 50,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "feature_fraction": 0.8,
            "seed": self._task.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbose": -1,
        }

    def _importance(self) -> dict[str, float]:
        gain = self._model.feature_importance("gain")
        shares = gain / max(float(gain.sum()), 1e-9)
        return {self.columns[at]: round(float(shares[at]), 3) for at in np.argsort(-shares)[:6]}


class InSequence(LambdaMart):
    """LambdaMART on all signals of our search, coverage, proximity and phrase included."""

    system = "lambdamart-sequence"
    columns = (*FEATURES, *IN_SEQUENCE)
    in_sequence = True


class Uncounted(LambdaMart):
    """LambdaMART without the counts of a document's judgments, which are the last columns.

    If each document was collected and judged for a single query, "judged for no other query" reveals the documents of
    a query, on the test split too. Without the counts this information is hidden.
    """

    system = "lambdamart-uncounted"
    columns = FEATURES[: -len(COUNTS)]
