"""All keys scanned in 4 bits per two numbers, the best ten or twenty times k refined with the vectors themselves.

faiss's plain IndexPQFastScan takes no selector; IndexIVFPQFastScan with one list, which holds every key, takes one and
is as quick. A product quantiser of two numbers and 16 centroids hardly depends on what it was trained on, so it is
trained on the keys up to the last power of four, and keys that come later are only added: the same keys give the same
bits, whether they came at once or little by little. Lists by centroids do depend on it (docs/performance.md).
"""

from typing import Any

import faiss
import numpy as np

from index.candidates.refined import Reader, RefinedIndex, add
from index.records import Floats, Ints

CENTROIDS = 16
TRAINING_KEYS = 256 * CENTROIDS
"""faiss takes no more."""
REFINED, REFINED_OF_MANY, MANY = 10.0, 20.0, 1 << 20
"""The more keys, the more of them are nearly as near as the nearest."""
ROUNDS = 10
"""Of k-means. 25, as faiss has it, take twice as long and find nothing more."""
ONE_BY_ONE = 11
"""faiss's way to scan for each query by itself: two thirds of the time for one query over a million keys."""


def trained_on(count: int) -> int:
    """Return how many of the first of `count` keys train: the largest power of four."""
    return 1 << (count.bit_length() - 1) // 2 * 2 if count else 0


class PQ4Index(RefinedIndex):
    """IndexIVFPQFastScan of one list over the inner product."""

    def __init__(self, keys: Floats, read: Reader, previous: "PQ4Index | None" = None) -> None:
        """previous is an index over the first of these keys: where it serves, only the others are added to its copy."""
        if previous is not None and previous.serves(len(keys)):
            index: Any = faiss.clone_index(previous._index)
        else:
            index = _trained(keys)
        index.implem = ONE_BY_ONE
        add(index, keys)
        super().__init__(index, read)

    @classmethod
    def of(cls, index: Any, read: Reader) -> "PQ4Index":
        """Return the index over what was read from a file whose checksum the caller has verified."""
        index.implem = ONE_BY_ONE
        compressed = cls.__new__(cls)
        RefinedIndex.__init__(compressed, index, read)
        return compressed

    @property
    def refined(self) -> float:
        return REFINED if self.count < MANY else REFINED_OF_MANY

    def serves(self, count: int) -> bool:
        """Whether an index over the first `count` keys is this one with the others added."""
        return 0 < self.count <= count and trained_on(count) == trained_on(self.count)

    def _scan(self, queries: Floats, k: int, selector: Any) -> Ints:
        parameters = None
        if selector is not None:
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=1)  # type: ignore[call-arg]  # stub lacks it
        found: Ints = self._index.search(queries, k, params=parameters)[1]
        return found


def _trained(keys: Floats) -> Any:
    """Return an empty index whose centroids are those of keys spread evenly over the first power of four."""
    faiss.omp_set_num_threads(1)  # its threads wait for each other while others use the cores
    dim = keys.shape[1]
    parts = dim if dim % 2 else dim // 2
    index: Any = faiss.index_factory(dim, f"IVF1,PQ{parts}x4fs", faiss.METRIC_INNER_PRODUCT)
    index.pq.cp.niter = ROUNDS
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1  # or faiss prints what it thinks of less
    first = trained_on(len(keys))
    sample = keys[: first : max(1, first // TRAINING_KEYS)] if first else np.zeros((1, dim), np.float32)
    index.train(np.resize(sample, (max(CENTROIDS, len(sample)), dim)))  # faiss wants one for each centroid at least
    return index
