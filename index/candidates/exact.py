"""The reference: every inner product, in float32. Slow at size, never wrong."""

import numpy as np

from index.candidates.base import MISSING
from index.records import Floats, Ints, Mask


class ExactIndex:
    """Scores every key; ties go to the lower position."""

    def __init__(self, keys: Floats) -> None:
        self._keys = keys
        self.count = len(keys)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        scores = queries @ self._keys.T
        if allowed is not None:
            scores[:, ~allowed] = -np.inf
        width = min(k, self.count)
        found = np.full((len(queries), k), MISSING, np.int64)
        best = np.full((len(queries), k), -np.inf, np.float32)
        if width:
            order = np.argsort(-scores, axis=1, kind="stable")[:, :width]
            best[:, :width] = np.take_along_axis(scores, order, axis=1)
            found[:, :width] = np.where(np.isneginf(best[:, :width]), MISSING, order)
        return best, found
