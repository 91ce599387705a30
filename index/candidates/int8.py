"""All keys scanned in 8 bits a number, the best refined with the vectors themselves: for sets of every common size.

Whole numbers multiply faster than half-precision ones and take half the memory, of which a scan reads all: so the rest
of the search finds its own data in the processor's cache. Nothing is trained, so the same keys give the same bits
however they came.
"""

from typing import Any

import faiss
import numpy as np

from index.candidates.refined import Reader, RefinedIndex, add
from index.records import Floats, Ints

LARGEST = 127.0
DEVIATIONS = 8.0
"""A number of a unit vector is some 1/sqrt(D) in size; what lies beyond so many times that is cut off in the scan."""
SHORTEST = np.float32(1e-30)
"""The largest number of a query is taken to be at least this: a query of nothing divides by something."""


class Int8Index(RefinedIndex):
    """IndexScalarQuantizer over whole numbers from -127 to 127; queries are rounded like keys."""

    refined = 1.25

    def __init__(self, keys: Floats, read: Reader, previous: "Int8Index | None" = None) -> None:
        """previous is an index over the first of these keys, whose copy only the others are added to."""
        dim = keys.shape[1]
        index: Any
        if previous is None:
            index = faiss.IndexScalarQuantizer(
                dim, faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
            )
        else:
            index = faiss.clone_index(previous._index)
        add(index, keys, rounded)
        super().__init__(index, read)

    @classmethod
    def of(cls, index: Any, read: Reader) -> "Int8Index":
        """Return the index over what was read from a file whose checksum the caller has verified."""
        bytewise = cls.__new__(cls)
        RefinedIndex.__init__(bytewise, index, read)
        return bytewise

    def _scan(self, queries: Floats, k: int, selector: Any) -> Ints:
        most = np.abs(queries).max(axis=1, keepdims=True)
        scaled = np.rint(queries * (LARGEST / np.maximum(most, SHORTEST)))
        parameters = None if selector is None else faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
        found: Ints = self._index.search(scaled.astype(np.float32), k, params=parameters)[1]
        return found


def rounded(keys: Floats) -> Floats:
    """Return keys (n, D) as whole numbers from -127 to 127, all on the same scale."""
    scale = np.float32(LARGEST * max(1.0, keys.shape[1] ** 0.5 / DEVIATIONS))
    whole: Floats = np.rint(keys * scale).clip(-LARGEST, LARGEST)
    return whole
