"""Finds all past queries within a radius of a query: a scan of compressed vectors, refined with the exact vectors.

Sees vectors only. The vectors from `sealed.count` on, the tail, are scored exactly, and so is a set that is no larger
than a tail. Every returned cosine is exact and has the same bits as without the scan.
"""

from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np

from index.candidates.inner_products import inner_products
from index.candidates.pq4 import ONE_BY_ONE, TRAINING_KEYS, empty_index
from index.candidates.refined import add
from index.records import Floats, Ints

TAIL = 2048
"""The most past queries that are scored exactly without a scan: about half a millisecond."""
FIRST_SCANNED = 1024
"""Past queries that the first scan returns. The number grows until all that may be near are among them."""
GROWTH = 16
DEVIATIONS = 6.0
"""A past query is refined if its scanned score is below the radius by at most the reach: the mean error of scanned
scores and DEVIATIONS standard deviations of it. The error is a sum over all numbers of a vector, so a larger one is not
expected among 10^8 past queries."""
SHRINKAGE = 0.12
"""The usual share by which a scanned score is too low: centroids are shorter than the vectors that they stand for."""
SPREAD = 0.34
"""The standard deviation of the error is taken as SPREAD / sqrt(D) at least, the usual one of unit vectors (D,)."""


@dataclass(frozen=True)
class SealedQueries:
    """A 4-bit index over the first `count` vectors. It is immutable; `extended` returns another."""

    index: Any
    count: int

    @classmethod
    def of(cls, vectors: Floats) -> "SealedQueries":
        """Return an index over vectors (S, D). It is trained once, on at most TRAINING_KEYS of them."""
        step = max(1, len(vectors) // TRAINING_KEYS)
        return cls(empty_index(vectors[::step]), 0).extended(vectors)

    def extended(self, vectors: Floats) -> "SealedQueries":
        """Return an index over vectors (S, D), of which this index has the first."""
        index: Any = faiss.clone_index(self.index)
        index.implem = ONE_BY_ONE
        add(index, vectors)
        return SealedQueries(index, len(vectors))

    def near(self, vectors: Floats, query: Floats, radius: float) -> tuple[Ints, Floats]:
        """Return the positions (n,), ascending, and exact cosines (n,) of the sealed vectors within the radius.

        The scan grows until its last score is out of reach, and the reach grows with the errors that refining finds.
        """
        k, least = min(FIRST_SCANNED, self.count), SPREAD / len(query) ** 0.5
        reach = SHRINKAGE * abs(radius) + DEVIATIONS * least
        faiss.omp_set_num_threads(1)  # set per calling thread; more threads starve concurrent searches
        while True:
            scores, found = (rows[0] for rows in self.index.search(query[None], k))
            if scores[-1] >= radius - reach and k < self.count:
                k = min(GROWTH * k, self.count)
                continue
            refined = scores >= radius - reach
            positions = found[refined]
            cosines = inner_products(vectors[positions], query)
            errors = cosines - scores[refined]
            needed = max(0.0, float(errors.mean())) + DEVIATIONS * max(least, float(errors.std())) if len(errors) else 0
            if needed <= reach or k == self.count:
                break
            reach = 1.1 * needed
        near = np.flatnonzero(cosines >= radius)
        near = near[np.argsort(positions[near])]
        return positions[near].astype(np.int64), cosines[near]


def sealed_queries(vectors: Floats, before: SealedQueries | None) -> SealedQueries | None:
    """Return an index over all vectors (S, D) if more than TAIL of them are not in `before`, else `before`."""
    if len(vectors) - (before.count if before else 0) <= TAIL:
        return before
    return before.extended(vectors) if before else SealedQueries.of(vectors)


def near_queries(vectors: Floats, sealed: SealedQueries | None, query: Floats, radius: float) -> tuple[Ints, Floats]:
    """Return the positions (n,), ascending, and the cosines (n,) of the vectors (S, D) within the radius of a query."""
    first = sealed.count if sealed else 0
    cosine = inner_products(vectors[first:], query)
    tail = np.flatnonzero(cosine >= radius)
    if sealed is None:
        return tail, cosine[tail]
    positions, cosines = sealed.near(vectors, query, radius)
    return np.concatenate([positions, tail + first]), np.concatenate([cosines, cosine[tail]])
