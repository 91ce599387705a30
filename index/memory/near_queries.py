"""Finds the past queries within a radius of a query: a scan of compressed vectors, refined with the exact vectors.

Sees vectors only. The vectors from `sealed.count` on, the tail, are scored exactly, and so is a set that is no larger
than a tail. Every returned cosine is exact and has the same bits as without the scan. Up to LISTED vectors all within
the radius are found. More are divided into lists by k-means, and a scan reads the lists nearest to the query, an eighth
(inverted lists; Jégou et al. 2011): a few of the past queries at the edge of the radius are missed (decision 0052).
"""

from dataclasses import dataclass, replace
from typing import Any

import faiss
import numpy as np

from index.candidates.inner_products import inner_products
from index.candidates.pq4 import CENTROIDS, TRAINING_KEYS, empty_index
from index.candidates.refined import add
from index.records import Floats, Ints, Mask

TAIL = 2048
"""The most past queries that are scored exactly without a scan: about half a millisecond."""
DEVIATIONS = 6.0
"""A past query is refined if its scanned score is below the radius by at most the reach: the mean error of scanned
scores, if it is positive, and DEVIATIONS standard deviations of it. A larger error is not expected among 10^8 usual
past queries. The scores of those that the centroids suit worst are too low on average (docs/performance/growth.md)."""
SCANNED_REACH = 1.25
"""The scan returns scores up to SCANNED_REACH times the reach, so that a larger reach seldom needs another scan."""
GROWTH = 1.02
"""The reach grows to GROWTH times the needed reach, because refining more vectors changes the needed reach."""
WELL_CODED = 0.9
"""A vector is a misfit if its inner product with its centroid is below WELL_CODED times the scale, or if it is far from
the centre of its list. Misfits are refined in every search: the centroids do not suit them, so their scanned scores may
be too low by more than the reach, or the lists nearest to a near query may not have them."""
EXPECTED_MISFITS = 0.02
"""The most misfits that a training leaves among the vectors that it sees, as a share."""
MOST_MISFITS = 1 / 32
"""An index is trained anew if more than this share are misfits, and twice as many as after its training."""
LISTED = 1 << 17
"""From so many vectors on, an index has lists: the codes of fewer stay in the processor's cache."""
LISTS = 1024
PROBED = 128
"""Lists that a scan reads: with them .994 to .999 of the past queries within a radius of .5 are found among real texts
(docs/experiments.md)."""
LIST_TRAINING = 32
"""Vectors per list that the lists are trained on."""
EXPECTED_UNLISTED = 0.0002
"""The share of the training vectors that are misfits because they are far from the centre of every list. Past queries
on a new subject are, too: they are found, and if they become many, the lists are made anew."""
UNLISTED = -1
"""Stands for the list of a misfit that is far from the centre of every list."""
NOT_REFINED = -np.inf
"""Stands for the cosine of a vector that was not refined."""
LEAST_SCALE = 0.01
"""Keeps the scale positive where vectors and centroids are zero."""
REFINED_AT_ONCE = 128
"""Vectors that are gathered and scored at a time: they stay in the processor's cache."""
CODED_AT_ONCE = 512
"""Vectors that are compared with their centroids at a time. Bounds the memory of a build."""
QUERY_BY_QUERY = 12
"""faiss's implementation of a range search in one list that takes as long as a search for the nearest key."""


@dataclass(frozen=True)
class SealedQueries:
    """A 4-bit index over the first `count` vectors. It is immutable; `extended` returns another.

    A scanned score is the inner product of the query and a centroid, divided by the scale: centroids are shorter than
    the vectors that they stand for.
    """

    index: Any
    scale: float
    """The usual inner product of a vector and its centroid."""
    least_listed: float
    """The least cosine to the centre of its list of a vector that is no misfit; -inf with one list."""
    fits: Mask
    """(count,) False for misfits."""
    misfits: Ints
    """The positions of misfits, ascending."""
    misfit_lists: Ints
    """The list of each misfit; UNLISTED: it is refined in every search, else where its list is read."""
    trained_misfits: int
    """The number of misfits after training."""

    @property
    def count(self) -> int:
        return len(self.fits)

    @classmethod
    def of(cls, vectors: Floats) -> "SealedQueries":
        """Return an index over vectors (S, D), trained on at most TRAINING_KEYS of them, or LIST_TRAINING per list."""
        lists = LISTS if len(vectors) >= LISTED else 1
        sample = _spread(vectors, max(TRAINING_KEYS, LIST_TRAINING * lists))
        index = empty_index(sample, _numbers(vectors.shape[1], lists), lists)
        index.nprobe = min(lists, PROBED)
        coded = _coded(index, _spread(sample, TRAINING_KEYS))
        scale = min(float(coded.mean()), float(np.quantile(coded, EXPECTED_MISFITS)) / WELL_CODED)
        least = float(np.quantile(_lists(index, sample)[0], EXPECTED_UNLISTED)) if lists > 1 else -np.inf
        none = np.empty(0, np.int64)
        sealed = cls(index, max(scale, LEAST_SCALE), least, np.empty(0, bool), none, none, 0)._filled(index, vectors)
        return replace(sealed, trained_misfits=len(sealed.misfits))

    def extended(self, vectors: Floats) -> "SealedQueries":
        """Return an index over vectors (S, D), of which this index has the first."""
        if self.index.nlist == 1 and len(vectors) >= LISTED:
            return SealedQueries.of(vectors)
        after = self._filled(faiss.clone_index(self.index), vectors)
        if len(after.misfits) > max(MOST_MISFITS * after.count, 2 * after.trained_misfits):
            return SealedQueries.of(vectors)
        return after

    def _filled(self, index: Any, vectors: Floats) -> "SealedQueries":
        faiss.omp_set_num_threads(1)  # set per calling thread; more threads starve concurrent searches
        index.implem = QUERY_BY_QUERY
        new = vectors[self.count :]
        cosines, lists = _lists(index, new)
        lists[cosines < self.least_listed] = UNLISTED
        fits = (_coded(index, new) >= WELL_CODED * self.scale) & (lists != UNLISTED)
        misfit_lists = np.concatenate([self.misfit_lists, lists[~fits]])
        fits = np.concatenate([self.fits, fits])
        add(index, vectors)
        return replace(self, index=index, fits=fits, misfits=np.flatnonzero(~fits), misfit_lists=misfit_lists)

    def near(self, vectors: Floats, query: Floats, radius: float) -> tuple[Ints, Floats]:
        """Return the positions (n,), ascending, and exact cosines (n,) of the sealed vectors found within the radius.

        The first reach is for errors without a preferred direction. It grows with the errors that refining finds.
        """
        least = ((1 / min(self.scale, WELL_CODED) - 1) / len(query)) ** 0.5
        reach, scanned = DEVIATIONS * least, 0.0
        while True:
            if reach > scanned:
                scanned = SCANNED_REACH * reach
                found = self._scanned(query, radius - scanned)
                if found is None:
                    return _within(vectors[: self.count], query, radius)
                positions, scores = found
                cosines = np.full(len(scores), NOT_REFINED, np.float32)
            wanted = np.flatnonzero((scores >= radius - reach) & (cosines == NOT_REFINED))
            cosines[wanted] = _cosines(vectors, positions[wanted], query)
            needed = _needed((cosines - scores)[cosines > NOT_REFINED], least)
            if needed <= reach:
                break
            reach = GROWTH * needed
        misfits = self._misfits_near(query)
        positions = np.concatenate([positions, misfits])
        cosines = np.concatenate([cosines, _cosines(vectors, misfits, query)])
        near = np.flatnonzero(cosines >= radius)
        near = near[np.argsort(positions[near])]
        return positions[near], cosines[near]

    def _misfits_near(self, query: Floats) -> Ints:
        """Return the positions (n,) of the misfits in the lists that a scan reads, and of those in no list."""
        read = np.zeros(self.index.nlist + 1, bool)
        read[UNLISTED] = True
        read[self.index.quantizer.search(np.ascontiguousarray(query)[None], self.index.nprobe)[1][0]] = True
        near: Ints = self.misfits[read[self.misfit_lists]]
        return near

    def _scanned(self, query: Floats, least: float) -> tuple[Ints, Floats] | None:
        """Return the positions (n,) and the scores (n,) of the scanned vectors that fit and have at least this score.

        None: the bound excludes no vector.
        faiss compares sums of whole numbers, from 0 for the lowest score of any code. A bound below it overflows.
        """
        bound, query = least * self.scale, np.ascontiguousarray(query)
        products = np.empty((self.index.pq.M, CENTROIDS), np.float32)
        self.index.pq.compute_inner_prod_table(faiss.swig_ptr(query), faiss.swig_ptr(products))
        if not bound > products.min(axis=1).sum():
            return None
        faiss.omp_set_num_threads(1)  # set per calling thread; more threads starve concurrent searches
        _, scores, positions = self.index.range_search(query[None], bound)
        fit = self.fits[positions]
        return positions[fit], scores[fit] / np.float32(self.scale)


def _numbers(dim: int, lists: int) -> int:
    """Return the numbers of a vector (dim,) that a code of 4 bits stands for.

    Codes of two numbers have smaller errors, so that fewer vectors are refined; a scan of some lists reads few codes.
    """
    return next(numbers for numbers in ((3, 2, 1) if lists == 1 else (2, 1)) if dim % numbers == 0)


def _spread(vectors: Floats, most: int) -> Floats:
    """Return at most about this number of the vectors (S, D), evenly spaced."""
    return np.ascontiguousarray(vectors[:: max(1, len(vectors) // most)])


def _lists(index: Any, vectors: Floats) -> tuple[Floats, Ints]:
    """Return the cosines (n,) of vectors (n, D) to the centres of their lists, and the lists (n,)."""
    cosines, lists = index.quantizer.search(np.ascontiguousarray(vectors), 1)
    return cosines[:, 0], lists[:, 0]


def _coded(index: Any, vectors: Floats) -> Floats:
    """Return the inner products (n,) of vectors (n, D) and their centroids."""
    products = np.empty(len(vectors), np.float32)
    for first in range(0, len(vectors), CODED_AT_ONCE):
        block = np.ascontiguousarray(vectors[first : first + CODED_AT_ONCE])
        centroids = index.pq.decode(index.pq.compute_codes(block))
        products[first : first + CODED_AT_ONCE] = np.einsum("nd,nd->n", block, centroids)
    return products


def _cosines(vectors: Floats, positions: Ints, query: Floats) -> Floats:
    """Return the exact cosines (n,) of the vectors at positions (n,)."""
    cosines = np.empty(len(positions), np.float32)
    for first in range(0, len(positions), REFINED_AT_ONCE):
        part = slice(first, first + REFINED_AT_ONCE)
        cosines[part] = inner_products(vectors[positions[part]], query)
    return cosines


def _needed(errors: Floats, least: float) -> float:
    """Return the reach that these errors (n,) of scanned scores need. least: the least standard deviation."""
    if not len(errors):
        return 0.0
    return max(0.0, float(errors.mean())) + DEVIATIONS * max(least, float(errors.std()))


def _within(vectors: Floats, query: Floats, radius: float) -> tuple[Ints, Floats]:
    """Return the positions (n,), ascending, and the cosines (n,) of the vectors (S, D) within the radius, by all."""
    cosines = inner_products(vectors, query)
    near = np.flatnonzero(cosines >= radius)
    return near, cosines[near]


def sealed_queries(vectors: Floats, before: SealedQueries | None) -> SealedQueries | None:
    """Return an index over all vectors (S, D) if more than TAIL of them are not in `before`, else `before`."""
    if len(vectors) - (before.count if before else 0) <= TAIL:
        return before
    return before.extended(vectors) if before else SealedQueries.of(vectors)


def near_queries(vectors: Floats, sealed: SealedQueries | None, query: Floats, radius: float) -> tuple[Ints, Floats]:
    """Return the positions (n,), ascending, and the cosines (n,) of the vectors (S, D) within the radius of a query."""
    if sealed is None:
        return _within(vectors, query, radius)
    positions, cosines = sealed.near(vectors, query, radius)
    tail, tail_cosines = _within(vectors[sealed.count :], query, radius)
    return np.concatenate([positions, tail + sealed.count]), np.concatenate([cosines, tail_cosines])
