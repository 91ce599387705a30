"""A linear adapter of the query vector: q' = unit(q + W q); document vectors are frozen.

W is full or of low rank, initially zero. Training uses InfoNCE over the passages of the batch and hard negatives, with
AdamW. A fifth of the train queries validates: nDCG@10 over the whole collection stops the training and chooses rank and
learning rate. Then all train queries are fitted for the same number of epochs. The scores are dense alone or fused with
words, whichever validates better.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import DEPTH, Task
from benchmarks.peers.material import Material, Split
from benchmarks.peers.ranking import Ndcg, best, best_fusion, fused
from index.records import Floats, Ints

RANKS = (16, 64, 0)
"""Ranks that are tried; 0 is the full matrix."""
RATES = (1e-4, 3e-4, 1e-3)
EPOCHS, PATIENCE = 30, 3
BATCH_PAIRS = 64
NEGATIVES, NEGATIVE_POOL = 4, 50
"""Hard negatives drawn per pair, from the query's nearest passages of documents without a relevant judgment."""
SCALE = 20.0
VALIDATION_QUERIES = 600


class QueryMap(nn.Module):
    """unit(q + W q), with W (D, D) of low rank or full."""

    def __init__(self, dim: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(dim, rank) / dim**0.5) if rank else None
        self.up = nn.Parameter(torch.zeros(rank or dim, dim))

    def forward(self, queries: Tensor) -> Tensor:
        moved = queries if self.down is None else queries @ self.down
        return nn.functional.normalize(queries + moved @ self.up, dim=1)


@dataclass(frozen=True)
class Pairs:
    """Train pairs: the query's row and its positive passage (M,); per train query a pool (T, NEGATIVE_POOL)."""

    rows: Ints
    positives: Ints
    pool: Ints


class Adapter:
    """Maps query vectors; document vectors stay unchanged."""

    def __init__(self, material: Material, task: Task) -> None:
        torch.set_num_threads(1)
        self._material, self._task = material, task
        self._passages = torch.from_numpy(material.passages.vectors)
        self._queries = torch.from_numpy(np.array(material.train.vectors))
        self._relevant = material.gains.toarray() > 0
        self._fusion: str | None = None

    def learn(self) -> dict[str, Any]:
        grown, held_out = self._material.divided(self._task.seed)
        held_out = held_out[:VALIDATION_QUERIES]
        pairs, ndcg = self._pairs(), Ndcg(self._material.gains[held_out].toarray())
        found = {}
        for rank, rate in product(RANKS, RATES):
            found[rank, rate] = self._stopped(pairs, grown, held_out, ndcg, rank, rate)
        rank, rate = max(found, key=lambda one: found[one][0])
        alone, epochs, mapped = found[rank, rate]
        words = np.asarray(self._material.train.words[held_out])
        fusion, together = best_fusion(self._dense(mapped), words, ndcg)
        self._fusion = fusion if together > alone else None
        self._query_map = self._fitted(pairs, np.arange(len(self._queries)), rank, rate, epochs)
        facts = {"rank": rank or "full", "rate": rate, "epochs": epochs, "fusion": self._fusion}
        return facts | {"validation_dense": round(alone, 4), "validation_fused": round(together, 4)}

    def publish(self) -> None:
        """Nothing to do: only query vectors change."""

    def rank(self) -> dict[str, Ints]:
        test = self._material.test
        dense = self._dense(self._mapped(self._query_map, test))
        scores = fused(self._fusion, dense, test.words) if self._fusion else dense
        return {"adapter": best(scores, DEPTH)}

    def _stopped(
        self, pairs: Pairs, grown: Ints, held_out: Ints, ndcg: Ndcg, rank: int, rate: float
    ) -> tuple[float, int, Floats]:
        """Return the best measure on held-out queries, its epoch, and the mapped vectors of these queries."""
        queries = np.array(self._material.train.vectors[held_out])
        best_found = (ndcg.mean(self._dense(queries)), 0, queries)
        for epoch, query_map in enumerate(self._epochs(pairs, grown, rank, rate), 1):
            with torch.no_grad():
                mapped = query_map(torch.from_numpy(queries)).numpy()
            measured = ndcg.mean(self._dense(mapped))
            if measured > best_found[0]:
                best_found = (measured, epoch, mapped)
            if epoch - best_found[1] >= PATIENCE:
                break
        return best_found

    def _fitted(self, pairs: Pairs, rows: Ints, rank: int, rate: float, epochs: int) -> QueryMap:
        query_map = QueryMap(self._queries.shape[1], rank)
        for after_epoch in islice(self._epochs(pairs, rows, rank, rate), epochs):
            query_map = after_epoch
        return query_map

    def _epochs(self, pairs: Pairs, rows: Ints, rank: int, rate: float) -> Iterator[QueryMap]:
        """Yield the adapter after every epoch over the pairs of these train rows."""
        torch.manual_seed(self._task.seed)
        draws = np.random.default_rng(self._task.seed)
        query_map = QueryMap(self._queries.shape[1], rank)
        optimizer = torch.optim.AdamW(query_map.parameters(), lr=rate, weight_decay=0.01)
        mine = np.flatnonzero(np.isin(pairs.rows, rows))
        for _ in range(EPOCHS):
            order = draws.permutation(mine)
            for first in range(0, len(order), BATCH_PAIRS):
                loss = self._loss(query_map, pairs, order[first : first + BATCH_PAIRS], draws)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            yield query_map

    def _loss(self, query_map: QueryMap, pairs: Pairs, batch: Ints, draws: np.random.Generator) -> Tensor:
        rows, positives = pairs.rows[batch], pairs.positives[batch]
        drawn = draws.integers(0, pairs.pool.shape[1], (len(batch), NEGATIVES))
        columns = np.r_[positives, pairs.pool[rows[:, None], drawn].ravel()]
        logits = SCALE * query_map(self._queries[rows]) @ self._passages[columns].T
        forbidden = self._relevant[rows][:, self._material.passages.doc_indices[columns]]
        forbidden[np.arange(len(batch)), np.arange(len(batch))] = False
        logits = logits.masked_fill(torch.from_numpy(forbidden), -torch.inf)
        return nn.functional.cross_entropy(logits, torch.arange(len(batch)))

    def _pairs(self) -> Pairs:
        rows, doc_indices = self._material.positives()
        passages = self._material.passages
        first = np.searchsorted(passages.doc_indices, np.arange(len(self._material.ids) + 1))
        held = first[doc_indices + 1] > first[doc_indices]
        positives, pool = [], np.empty((len(self._queries), NEGATIVE_POOL), np.int64)
        vectors = self._material.train.vectors
        for row, doc_index in zip(rows[held], doc_indices[held], strict=True):
            own = passages.vectors[first[doc_index] : first[doc_index + 1]]
            positives.append(first[doc_index] + int(np.argmax(own @ vectors[row])))
        for row in range(len(pool)):
            scores = passages.vectors @ vectors[row]
            scores[self._relevant[row][passages.doc_indices]] = -np.inf
            pool[row] = np.argpartition(-scores, NEGATIVE_POOL)[:NEGATIVE_POOL]
        return Pairs(rows[held], np.asarray(positives), pool)

    def _mapped(self, query_map: QueryMap, split: Split) -> Floats:
        with torch.no_grad():
            mapped: Floats = query_map(torch.from_numpy(np.array(split.vectors))).numpy()
        return mapped

    def _dense(self, queries: Floats) -> Floats:
        return self._material.passages.best(queries, len(self._material.ids))
