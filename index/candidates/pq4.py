"""Scans all keys with 4 bits per two numbers and rescores the best 10 k or 20 k with the exact keys.

A filter needs a selector, which faiss's IndexPQFastScan does not accept. IndexIVFPQFastScan accepts a selector, and
with a single list of all keys it is as fast. A product quantiser with 2 numbers per part and 16 centroids hardly
depends on its training keys. It is trained on the keys up to the last power of four, and later keys are only added: the
same keys give the same bits in any number of additions. Inverted lists do depend on their training keys
(docs/performance/growth.md).
"""

from typing import Any

import faiss
import numpy as np

from index.candidates.refined import RefinedIndex, VectorReader, add
from index.records import Floats, Ints

CENTROIDS = 16
TRAINING_KEYS = 256 * CENTROIDS
"""The most training keys that faiss uses."""
REFINED, REFINED_OF_MANY, MANY = 10.0, 20.0, 1 << 20
"""Keys scored exactly for each requested key: REFINED below MANY keys, REFINED_OF_MANY from MANY keys on.

In larger sets more keys are nearly as near as the nearest.
"""
ROUNDS = 10
"""k-means rounds. The 25 rounds of faiss's default take twice as long and improve nothing."""
LIST_ROUNDS = 4
"""k-means rounds for the centres of lists. Six instead of two rounds improve recall hardly (docs/experiments.md)."""
ONE_BY_ONE = 11
"""faiss's implementation that scans for each query separately: two thirds of the time for one query over 10^6 keys."""


def training_count(count: int) -> int:
    """Return how many of the first `count` keys are used for training: the largest power of four."""
    return 1 << (count.bit_length() - 1) // 2 * 2 if count else 0


class PQ4Index(RefinedIndex):
    """IndexIVFPQFastScan with one list, over the inner product."""

    def __init__(self, index: Any, read: VectorReader) -> None:
        index.implem = ONE_BY_ONE
        super().__init__(index, read)

    @classmethod
    def build(cls, keys: Floats, read: VectorReader, previous: "PQ4Index | None" = None) -> "PQ4Index":
        """Return an index over keys (K, D).

        previous indexes the first of them. If training would use the same keys, the others are added to a copy of it.
        """
        if previous is not None and previous.is_extensible_to(len(keys)):
            index: Any = faiss.clone_index(previous._index)
        else:
            index = _trained(keys)
        add(index, keys)
        return cls(index, read)

    @property
    def refined(self) -> float:
        return REFINED if self.count < MANY else REFINED_OF_MANY

    def is_extensible_to(self, count: int) -> bool:
        """Return whether adding keys to this index gives the same index as a build over the first `count` keys."""
        return 0 < self.count <= count and training_count(count) == training_count(self.count)

    def _scan(self, queries: Floats, k: int, selector: Any) -> Ints:
        parameters = None
        if selector is not None:
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=1)  # type: ignore[call-arg]  # stub lacks it
        found: Ints = self._index.search(queries, k, params=parameters)[1]
        return found


def _trained(keys: Floats) -> Any:
    """Return an empty index, trained on keys spread evenly over the first training_count(K) keys."""
    first = training_count(len(keys))
    return empty_index(keys[: first : max(1, first // TRAINING_KEYS)])


def empty_index(sample: Floats, numbers: int = 2, lists: int = 1) -> Any:
    """Return an empty index, trained on these keys (n, D). numbers: of a key, per part, if D is a multiple of them.

    lists: the number of lists. Their centres are unit vectors.
    """
    faiss.omp_set_num_threads(1)  # faiss threads wait for each other while other work uses the cores
    dim = sample.shape[1]
    parts = dim if dim % numbers else dim // numbers
    index: Any = faiss.index_factory(dim, f"IVF{lists},PQ{parts}x4fs", faiss.METRIC_INNER_PRODUCT)
    index.pq.cp.niter = ROUNDS
    index.cp.niter = LIST_ROUNDS
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1  # else faiss prints a warning
    sample = sample if len(sample) else np.zeros((1, dim), np.float32)
    index.train(np.resize(sample, (max(CENTROIDS, len(sample)), dim)))  # faiss needs at least one key per centroid
    return index
