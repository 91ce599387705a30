"""All keys scanned in 4 bits per two numbers, the best ten times k of them refined with the vectors themselves.

faiss's plain IndexPQFastScan takes no selector; IndexIVFPQFastScan with one list, which holds every key, takes one and
is as quick. A product quantiser of two numbers and 16 centroids hardly depends on what it was trained on, so it is
trained on the keys up to the last power of four, and keys that come later are only added: the same keys give the same
bits, whether they came at once or little by little.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from index.candidates.base import MISSING
from index.records import Floats, Ints, Mask

REFINED = 10
"""Keys scored exactly for each one wanted."""
CENTROIDS = 16
TRAINING_KEYS = 256 * CENTROIDS
"""faiss takes no more."""
ROUNDS = 10
"""Of k-means. 25, as faiss has it, take twice as long and find nothing more."""
ADDED_AT_ONCE = 65_536
"""Bounds the memory of a build whose keys are mapped from a file."""

ONE_BY_ONE = 11
"""faiss's way to scan for each query by itself: two thirds of the time for one query over a million keys."""

Reader = Callable[[Ints], Floats]
"""Gives the vectors (n, D) at positions (n,): the index has no copy of them."""


def trained_on(count: int) -> int:
    """Return how many of the first of `count` keys train: the largest power of four."""
    return 1 << (count.bit_length() - 1) // 2 * 2 if count else 0


class CompressedIndex:
    """IndexIVFPQFastScan of one list over the inner product; built once, then only searched."""

    def __init__(self, keys: Floats, read: Reader, previous: "CompressedIndex | None" = None) -> None:
        self.count = len(keys)
        self._read = read
        faiss.omp_set_num_threads(1)  # its threads wait for each other while others use the cores
        self._index: faiss.IndexIVFPQFastScan
        if previous is not None and previous.serves(self.count):
            clone: Any = faiss.clone_index(previous._index)
            self._index, first = clone, previous.count
        else:
            self._index, first = _trained(keys), 0
        self._index.implem = ONE_BY_ONE
        for start in range(first, self.count, ADDED_AT_ONCE):
            self._index.add(np.ascontiguousarray(keys[start : start + ADDED_AT_ONCE]))

    def serves(self, count: int) -> bool:
        """Whether an index over the first `count` keys is this one with the others added."""
        return 0 < self.count <= count and trained_on(count) == trained_on(self.count)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        scores = np.full((len(queries), k), -np.inf, np.float32)
        found = np.full((len(queries), k), MISSING, np.int64)
        if not k or not len(queries):
            return scores, found
        usable = self.count if allowed is None else int(np.count_nonzero(allowed))
        for row, positions in enumerate(self._coarse(queries, k, allowed, usable)):
            exact = np.einsum("nd,d->n", self._read(positions), queries[row])  # the same bits in whatever company
            best = np.lexsort((positions, -exact))[:k]
            scores[row, : len(best)], found[row, : len(best)] = exact[best], positions[best]
        return scores, found

    def _coarse(self, queries: Floats, k: int, allowed: Mask | None, usable: int) -> list[Ints]:
        """Return per query the positions to refine, ascending: all that are allowed where these are few."""
        if usable <= REFINED * k:
            few = np.arange(self.count) if allowed is None else np.flatnonzero(allowed)
            return [few] * len(queries)
        faiss.omp_set_num_threads(1)  # counts per calling thread; more than one starves concurrent searches
        parameters = None
        if allowed is not None and usable < self.count:
            bitmap = np.packbits(allowed, bitorder="little")
            selector = faiss.IDSelectorBitmap(self.count, faiss.swig_ptr(bitmap))
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=1)  # type: ignore[call-arg]  # stub lacks it
        _, found = self._index.search(np.ascontiguousarray(queries), REFINED * k, params=parameters)
        return [np.sort(row[row != MISSING]) for row in found]

    def save(self, path: Path) -> None:
        """Write the codes to a file. faiss neither syncs nor checks it: the caller's manifest does."""
        faiss.write_index(self._index, str(path))

    @classmethod
    def of(cls, index: faiss.IndexIVFPQFastScan, read: Reader) -> "CompressedIndex":
        """Return the index over what was read from a file whose checksum the caller has verified."""
        index.implem = ONE_BY_ONE
        compressed = cls.__new__(cls)
        compressed._index, compressed._read, compressed.count = index, read, int(index.ntotal)
        return compressed


def _trained(keys: Floats) -> faiss.IndexIVFPQFastScan:
    """Return an empty index whose centroids are those of keys spread evenly over the first power of four."""
    dim = keys.shape[1]
    parts = dim if dim % 2 else dim // 2
    index: Any = faiss.index_factory(dim, f"IVF1,PQ{parts}x4fs", faiss.METRIC_INNER_PRODUCT)
    index.pq.cp.niter = ROUNDS
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1  # or faiss prints what it thinks of less
    first = trained_on(len(keys))
    sample = keys[: first : max(1, first // TRAINING_KEYS)] if first else np.zeros((1, dim), np.float32)
    index.train(np.resize(sample, (max(CENTROIDS, len(sample)), dim)))  # faiss wants one for each centroid at least
    trained: faiss.IndexIVFPQFastScan = index
    return trained
