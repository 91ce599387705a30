"""Scans all keys with 8 bits per number and rescores the best with the exact keys.

Whole numbers multiply faster than half-precision numbers and take half the memory. A scan reads all of this memory, so
a smaller index leaves more of the processor's cache to the rest of the search. Nothing is trained: the same keys give
the same bits in any number of additions.
"""

from typing import Any

import faiss
import numpy as np

from index.candidates.refined import RefinedIndex, VectorReader, add
from index.records import Floats, Ints

LARGEST = 127.0
DEVIATIONS = 8.0
"""A number of a unit vector is about 1/sqrt(D) in size. The scan clips numbers beyond DEVIATIONS times that size."""
SMALLEST_MAXIMUM = np.float32(1e-30)
"""Lower bound of the largest number of a query, which a query of zeros is divided by."""


class Int8Index(RefinedIndex):
    """IndexScalarQuantizer over whole numbers from -127 to 127. Queries are rounded like keys."""

    refined = 1.25

    @classmethod
    def build(cls, keys: Floats, read: VectorReader, previous: "Int8Index | None" = None) -> "Int8Index":
        """Return an index over keys (K, D). previous indexes the first of them; the others are added to its copy."""
        index: Any
        if previous is None:
            kind = faiss.ScalarQuantizer.QT_8bit_direct_signed
            index = faiss.IndexScalarQuantizer(keys.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        else:
            index = faiss.clone_index(previous._index)
        add(index, keys, rounded)
        return cls(index, read)

    def _scan(self, queries: Floats, k: int, selector: Any) -> Ints:
        largest = np.abs(queries).max(axis=1, keepdims=True)
        scaled = np.rint(queries * (LARGEST / np.maximum(largest, SMALLEST_MAXIMUM)))
        parameters = None if selector is None else faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
        found: Ints = self._index.search(scaled.astype(np.float32), k, params=parameters)[1]
        return found


def rounded(keys: Floats) -> Floats:
    """Return keys (n, D) as whole numbers from -127 to 127, all on the same scale."""
    scale = np.float32(LARGEST * max(1.0, keys.shape[1] ** 0.5 / DEVIATIONS))
    whole: Floats = np.rint(keys * scale).clip(-LARGEST, LARGEST)
    return whole
