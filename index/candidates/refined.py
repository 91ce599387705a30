"""The base of indexes that scan compressed keys and rescore the best of the scan with the exact keys.

The index holds the compressed keys only and reads exact keys when a search needs them. The returned scores are exact
inner products. If a filter leaves few keys, all of them are scored exactly, without a scan.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from index.candidates.base import MISSING, SealedIndex
from index.candidates.inner_products import inner_products
from index.records import Floats, Ints, Mask

ADDED_AT_ONCE = 65_536
"""Keys added at a time. Bounds the memory of a build whose keys are mapped from a file."""
FEW_SHARE = 64
"""At most 1 / FEW_SHARE of the keys is few: scoring one exact key takes as long as scanning 64 compressed keys."""

VectorReader = Callable[[Ints], Floats]
"""Returns the vectors (n, D) at positions (n,). The index has no copy of them."""


class RefinedIndex(SealedIndex, ABC):
    """A faiss index over compressed keys (K, D) and exact scores of the best keys; immutable after construction."""

    def __init__(self, index: Any, read: VectorReader) -> None:
        self._index = index
        self._read = read
        self.count = int(index.ntotal)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        scores = np.full((len(queries), k), -np.inf, np.float32)
        found = np.full((len(queries), k), MISSING, np.int64)
        if not k or not len(queries):
            return scores, found
        usable = self.count if allowed is None else int(np.count_nonzero(allowed))
        for row, positions in enumerate(self._to_refine(queries, k, allowed, usable)):
            exact = inner_products(self._read(positions), queries[row])
            best = np.argsort(-exact, kind="stable")[:k]  # positions ascend, so ties go to the lower position
            scores[row, : len(best)], found[row, : len(best)] = exact[best], positions[best]
        return scores, found

    def save(self, path: Path) -> None:
        faiss.write_index(self._index, str(path))

    @property
    @abstractmethod
    def refined(self) -> float:
        """Keys scored exactly for each requested key."""

    @abstractmethod
    def _scan(self, queries: Floats, k: int, selector: Any) -> Ints:
        """Return the positions (B, k) of the best compressed keys; selector is faiss's, None allows all."""

    def _to_refine(self, queries: Floats, k: int, allowed: Mask | None, usable: int) -> list[Ints]:
        """Return for each query the positions to score exactly, ascending: all allowed positions if these are few."""
        wanted = int(self.refined * k)
        if usable <= max(wanted, self.count // FEW_SHARE):
            few = np.arange(self.count) if allowed is None else np.flatnonzero(allowed)
            return [few] * len(queries)
        faiss.omp_set_num_threads(1)  # set per calling thread; more threads starve concurrent searches
        selector = None
        if allowed is not None and usable < self.count:
            bitmap = np.packbits(allowed, bitorder="little")
            selector = faiss.IDSelectorBitmap(self.count, faiss.swig_ptr(bitmap))
        found = self._scan(np.ascontiguousarray(queries), wanted, selector)
        return [np.sort(row[row != MISSING]) for row in found]


def add(index: Any, keys: Floats, prepare: Callable[[Floats], Floats] = np.ascontiguousarray) -> None:
    """Add the keys from position index.ntotal on, of keys (K, D), to a faiss index; `prepare` converts each block."""
    faiss.omp_set_num_threads(1)  # faiss threads wait for each other while other work uses the cores
    for start in range(int(index.ntotal), len(keys), ADDED_AT_ONCE):
        index.add(prepare(keys[start : start + ADDED_AT_ONCE]))
