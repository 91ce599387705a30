"""The gate alone, over many nights: heads near the champion instead of trained heads, so that many logs are possible.

The champion draws the labels of a log that grows (benchmarks/label_draws.py). Every night another head challenges it:
the champion with other weights. No head can be better, so every promotion is false. Each night has a new head, which
is harder than a trained head that changes little from night to night.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.label_draws import TOP, Truth
from benchmarks.remembered_evidence import RememberedEvidence
from index.evaluation.measures import measure_run
from index.evaluation.significance import compare, gate
from index.generation.generation import Generation
from index.learning.examples import Feedback
from index.learning.judgment_likelihood import CANDIDATES, JUDGMENTS, ScoredRows, judgment_likelihoods
from index.learning.model_selection import NDCG
from index.ranking.attention import AttentionHead

HEADS = 60
SPREAD = 0.3
"""Standard deviation of the logarithm of each weight of a challenger over the champion's."""


class GateAlone:
    """The best documents of every query under the champion and under challengers."""

    def __init__(
        self,
        memory: RememberedEvidence,
        generation: Generation,
        champion: AttentionHead,
        queries: Sequence[Feedback],
        pool: Sequence[Truth],
    ) -> None:
        random = np.random.default_rng(0)
        factors = [np.exp(SPREAD * random.normal(size=len(champion.beta))) for _ in range(HEADS)]
        heads = [champion, *(champion.changed(beta=champion.beta * each) for each in factors)]
        self._pool = pool
        self._chances = [np.cumsum(truth.chance) for truth in pool]
        names = {int(row): str(row) for row in generation.rows}
        self._best = [
            [ScoredRows([names[row] for row in rows.tolist()], logits) for rows, logits in found]
            for found in (memory.best(generation, head, queries, CANDIDATES) for head in heads)
        ]
        means = [
            np.mean(
                [truth.expected_ndcg(list(map(int, one.rows[:TOP]))) for truth, one in zip(pool, found, strict=True)]
            )
            for found in self._best
        ]
        self._gains = [round(float(mean - means[0]), 5) for mean in means]

    def log(self, sizes: Sequence[int], draw: int) -> Iterator[dict[str, Any]]:
        """Yield the record of each night until a head is promoted. sizes: queries of each night."""
        random = np.random.default_rng([draw, len(sizes)])
        chosen = random.choice(len(self._pool), sizes[-1], replace=False).tolist()
        labels = [self._label(query, random) for query in chosen]
        for night, size in enumerate(sizes):
            head = 1 + int(random.integers(HEADS))
            sides = [{str(at): self._best[one][chosen[at]] for at in range(size)} for one in (0, head)]
            qrels = {str(at): {str(labels[at]): 1} for at in range(size)}
            before, after = (measure_run({key: one.rows for key, one in side.items()}, qrels) for side in sides)
            ndcg, recall = (compare(name, before[name], after[name]) for name in (NDCG, "R@100"))
            judged = compare(JUDGMENTS, *judgment_likelihoods(sides[0], sides[1], qrels))
            decision = gate((judged, ndcg), recall, earlier=night)
            decided = max(judged, ndcg, key=lambda one: (one.difference > 0, -one.p_value))
            facts = {"promote": decision.promote, "recipe": "weights", "gain": self._gains[head]}
            found = {"difference": decided.difference, "ndcg": ndcg.difference, "p": min(1.0, 2 * decided.p_value)}
            yield facts | found | {"queries": size}
            if decision.promote:
                return

    def _label(self, query: int, random: np.random.Generator) -> int:
        at = int(np.searchsorted(self._chances[query], random.random()))
        return int(self._pool[query].rows[min(at, len(self._chances[query]) - 1)])
