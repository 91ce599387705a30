"""What indexes that scan a short form of the keys have in common: the best of the scan are refined with the keys.

The index holds the short form alone; vectors are read where a search wants them, and what is returned are their exact
inner products. Where a filter leaves few keys, all of these are scored exactly and nothing is scanned.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from index.candidates.base import MISSING
from index.inner_products import inner_products
from index.records import Floats, Ints, Mask

ADDED_AT_ONCE = 65_536
"""Bounds the memory of a build whose keys are mapped from a file."""
FEW_SHARE = 64
"""One of so many keys is few: to read and score a vector takes as long as to scan so many short forms."""

Reader = Callable[[Ints], Floats]
"""Gives the vectors (n, D) at positions (n,): the index has no copy of them."""


class RefinedIndex(ABC):
    """faiss over short forms of keys (K, D), and the exact scores of the best; built once, then only searched."""

    def __init__(self, index: Any, read: Reader) -> None:
        self._index = index
        self._read = read
        self.count = int(index.ntotal)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        scores = np.full((len(queries), k), -np.inf, np.float32)
        found = np.full((len(queries), k), MISSING, np.int64)
        if not k or not len(queries):
            return scores, found
        usable = self.count if allowed is None else int(np.count_nonzero(allowed))
        for row, positions in enumerate(self._coarse(queries, k, allowed, usable)):
            exact = inner_products(self._read(positions), queries[row])
            best = np.argsort(-exact, kind="stable")[:k]  # positions ascend: of equals the lower one comes first
            scores[row, : len(best)], found[row, : len(best)] = exact[best], positions[best]
        return scores, found

    def save(self, path: Path) -> None:
        """Write the short forms to a file. faiss neither syncs nor checks it: the caller's manifest does."""
        faiss.write_index(self._index, str(path))

    @property
    @abstractmethod
    def refined(self) -> float:
        """Keys scored exactly for each one wanted."""

    @abstractmethod
    def _scan(self, queries: Floats, k: int, selector: Any) -> Ints:
        """Return the positions (B, k) of the best short forms; selector is faiss's, None allows all."""

    def _coarse(self, queries: Floats, k: int, allowed: Mask | None, usable: int) -> list[Ints]:
        """Return per query the positions to refine, ascending: all that are allowed where these are few."""
        wanted = int(self.refined * k)
        if usable <= max(wanted, self.count // FEW_SHARE):
            few = np.arange(self.count) if allowed is None else np.flatnonzero(allowed)
            return [few] * len(queries)
        faiss.omp_set_num_threads(1)  # counts per calling thread; more than one starves concurrent searches
        selector = None
        if allowed is not None and usable < self.count:
            bitmap = np.packbits(allowed, bitorder="little")
            selector = faiss.IDSelectorBitmap(self.count, faiss.swig_ptr(bitmap))
        found = self._scan(np.ascontiguousarray(queries), wanted, selector)
        return [np.sort(row[row != MISSING]) for row in found]


def add(index: Any, keys: Floats, prepare: Callable[[Floats], Floats] = np.ascontiguousarray) -> None:
    """Add to a faiss index what it does not hold of these keys (K, D), each as `prepare` makes it."""
    faiss.omp_set_num_threads(1)  # its threads wait for each other while others use the cores
    for start in range(int(index.ntotal), len(keys), ADDED_AT_ONCE):
        index.add(prepare(keys[start : start + ADDED_AT_ONCE]))
