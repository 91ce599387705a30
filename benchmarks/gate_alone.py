"""The gate alone, over many nights: heads near the champion instead of trained heads, so that many logs are possible.

The champion draws the labels of a log that grows (benchmarks/label_draws.py). Every night another head challenges it:
the champion with other weights. No head can be better, so every promotion is false. Each night has a new head, which
is harder than a trained head that changes little from night to night.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.label_draws import TOP, Truth
from benchmarks.remembered_evidence import RememberedEvidence
from index.evaluation.significance import compare, gate
from index.generation.generation import Generation
from index.learning.examples import Feedback
from index.ranking.attention import AttentionHead

HEADS = 60
SPREAD = 0.3
"""Standard deviation of the logarithm of each weight of a challenger over the champion's."""
Doubles = NDArray[np.float64]


class GateAlone:
    """The nDCG@10 of the champion and of challengers, for every query and every document that may be relevant."""

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
        tops = [memory.best_rows(generation, head, queries, TOP) for head in heads]
        self._values = [
            [{row: 1 / float(np.log2(rank + 2)) for rank, row in enumerate(rows)} for rows in top] for top in tops
        ]
        means = [np.mean([a.expected_ndcg(b) for a, b in zip(pool, top, strict=True)]) for top in tops]
        self._gains = [round(float(mean - means[0]), 5) for mean in means]

    def log(self, sizes: Sequence[int], draw: int) -> Iterator[dict[str, Any]]:
        """Yield the record of each night until a head is promoted. sizes: queries of each night."""
        random = np.random.default_rng([draw, len(sizes)])
        chosen = random.choice(len(self._pool), sizes[-1], replace=False).tolist()
        labels = [self._label(query, random) for query in chosen]
        for night, size in enumerate(sizes):
            head = 1 + int(random.integers(HEADS))
            before, after = (
                {str(at): self._values[one][query].get(label, 0.0) for at, (query, label) in pairs}
                for one in (0, head)
                for pairs in [list(enumerate(zip(chosen[:size], labels[:size], strict=True)))]
            )
            found = compare("nDCG@10", before, after)
            decision = gate(found, compare("R@100", before, before), earlier=night)
            facts = {"promote": decision.promote, "recipe": "weights", "gain": self._gains[head]}
            gained = {"difference": found.difference, "ndcg": found.difference, "p": found.p_value}
            yield facts | gained | {"queries": size}
            if decision.promote:
                return

    def _label(self, query: int, random: np.random.Generator) -> int:
        at = int(np.searchsorted(self._chances[query], random.random()))
        return int(self._pool[query].rows[min(at, len(self._chances[query]) - 1)])
