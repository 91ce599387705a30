"""The reference index: it computes every inner product in float32."""

import numpy as np

from index.candidates.base import MISSING, CandidateIndex
from index.candidates.inner_products import inner_products
from index.records import Floats, Ints, Mask


class ExactIndex(CandidateIndex):
    """Scores every key. Ties go to the lower position."""

    def __init__(self, keys: Floats) -> None:
        self._keys = keys
        self.count = len(keys)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        found = np.full((len(queries), k), MISSING, np.int64)
        best = np.full((len(queries), k), -np.inf, np.float32)
        for row, query in enumerate(queries):
            score = inner_products(self._keys, query)
            if allowed is not None:
                score[~allowed] = -np.inf
            order = _best(score, min(k, self.count))
            best[row, : len(order)] = score[order]
            found[row, : len(order)] = np.where(np.isneginf(score[order]), MISSING, order)
        return best, found


def _best(scores: Floats, width: int) -> Ints:
    """Return the positions (width,) of the best of the scores (K,), best first."""
    if not width:
        return np.empty(0, np.int64)
    last = np.partition(scores, -width)[-width]
    among = np.flatnonzero(scores >= last)  # more than `width` if scores are equal
    order: Ints = among[np.argsort(-scores[among], kind="stable")][:width]
    return order
