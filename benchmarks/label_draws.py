"""Labels drawn from a head's own distribution: no head ranks better than the head that draws them.

P(n | query) is the softmax of the head's logits / T over the candidates of a full search. Sorted by P, a list has the
best expected nDCG@10, so the head that draws is the best possible head, and every gain over it is an error. There is no
memory: with it, the noise of the labels would be evidence, and a head that ignores memory would be better.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.click_log import DEPTH, SHOWN, SHUFFLE
from benchmarks.remembered_evidence import RememberedEvidence
from benchmarks.simulator import Searchers, clicked
from index.generation.generation import Generation
from index.learning.contrasts import add_showing, contrasts_of
from index.learning.examples import Feedback
from index.memory.query_key import as_query_key
from index.ranking.attention import AttentionHead
from index.records import Floats

SHUFFLED = 0.3
"""Share of the lists in which documents change ranks."""
TOP = 10
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """The distribution of a query: rows of the candidates, best first, and their probabilities, both (N,)."""

    text: str
    vector: Floats
    rows: NDArray[np.int64]
    chance: Doubles

    @cached_property
    def by_row(self) -> dict[int, float]:
        """Row -> probability."""
        return dict(zip(self.rows.tolist(), self.chance.tolist(), strict=True))

    def expected_ndcg(self, ranked: Sequence[int]) -> float:
        """Return the expectation of nDCG@10 of a ranking, where one document is drawn as relevant."""
        return float(sum(self.by_row.get(row, 0.0) / np.log2(rank + 2) for rank, row in enumerate(ranked[:TOP])))

    def judged(self, random: np.random.Generator) -> Feedback:
        """Return the query with one relevant document."""
        row = int(random.choice(self.rows, p=self.chance))
        return Feedback(as_query_key(self.text), self.text, self.vector, {row: 1.0})

    def clicked(self, searchers: Searchers, lists: int, random: np.random.Generator) -> Feedback:
        """Return the query with the clicks of searchers on lists of SHOWN documents; without a click it is silent.

        A searcher finds an examined document attractive in proportion to its probability.
        """
        worth = dict(zip(self.rows.tolist(), (self.chance / self.chance.max()).tolist(), strict=True))
        shown: dict[int, Counter[int]] = defaultdict(Counter)
        clicks: dict[int, Counter[int]] = defaultdict(Counter)
        examined: set[int] = set()
        sums: dict[int, float] = {}
        for _ in range(lists):
            rows = self._list(random)
            attractive = [searchers.noise + (searchers.best - searchers.noise) * worth[row] for row in rows]
            hits = np.flatnonzero(clicked(searchers, np.asarray(attractive, np.float32), random)).tolist()
            for position, row in enumerate(rows, 1):
                before = clicks.get(row, Counter())
                if earlier := {place: (times, before[place]) for place, times in shown[row].items()}:
                    add_showing(sums, earlier, position, position - 1 in hits)
                shown[row][position] += 1
            for hit in hits:
                clicks[rows[hit]][hit + 1] += 1
            examined.update(rows[: hits[-1] + 2] if hits else ())
        gains = {row: float(by.total()) for row, by in clicks.items()}
        vector = self.vector if gains else np.empty(0, np.float32)
        one = Feedback(as_query_key(self.text), self.text, vector, gains, shown, clicks, frozenset(examined))
        return replace(one, contrasts=contrasts_of(sums) if gains else ())

    def _list(self, random: np.random.Generator) -> list[int]:
        rows = self.rows[:DEPTH]
        ranks = np.arange(len(rows), dtype=np.float64)
        if random.random() < SHUFFLED:
            ranks += SHUFFLE * random.normal(size=len(ranks))
        return [int(row) for row in rows[np.argsort(ranks, kind="stable")[:SHOWN]]]


def truths(
    memory: RememberedEvidence,
    generation: Generation,
    head: AttentionHead,
    queries: Sequence[Feedback],
    temperature: float,
) -> list[Truth]:
    """Return the distribution of each query by a head; temperature: the factor T of the head's own temperature."""
    found = []
    for one in queries:
        rows, logits = memory.scored(generation, head, one)
        scores = logits.astype(np.float64) / temperature
        weights = np.exp(scores - scores.max())
        found.append(Truth(one.text, one.vector, rows, weights / weights.sum()))
    return found
