"""Memory: past queries that confirm documents, as arrays that a search reads.

Sees rows, vectors and weights; `index.memory.aggregation` makes the keys from confirmations. A memory is immutable. A
changed memory shares the vectors of the memory before it, so a new confirmation copies only its own vector.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from index.candidates.inner_products import inner_products
from index.records import Floats, Ints, MemoryKey
from index.storage.growable_array import GrowableArray

FORGOTTEN = ""
"""Replaces the query key of a forgotten past query, which has no memory keys."""
MOST_FORGOTTEN = 256
"""Vectors are repacked once more past queries than this, and more than half of all, are forgotten."""


@dataclass(frozen=True, eq=False)
class Memory:
    """S past queries and M memory keys, one key for each past query and document that it confirms.

    A query key is the normalised text of a past query. Memory keys are sorted by past query: past query s has the keys
    first[s]:first[s + 1].
    """

    vectors: Floats
    """(S, D), unit."""
    query_keys: tuple[str, ...]
    """The query key of each past query (S,)."""
    first: Ints
    """(S + 1,)"""
    query_index: Ints
    """The past query of each memory key (M,), in [0, S)."""
    rows: Ints
    """The document of each memory key (M,), ascending within a past query."""
    weights: Floats
    """(M,), signed."""
    counts: Ints
    """The number of confirmations merged in each memory key (M,)."""
    exact: Floats
    """The exact rating of each memory key (M,), 0 if its document does not come first."""
    index_of: Mapping[str, int]
    """Query key -> its past query, for all that are not forgotten."""
    growable_vectors: GrowableArray[np.float32]
    """The array that `vectors` is a view of."""

    @classmethod
    def of(cls, keys: Iterable[MemoryKey], dim: int) -> "Memory":
        """Return the memory of these keys. The same keys give the same bits in any order."""
        ordered = sorted(keys, key=lambda key: (key.query_key, key.row))
        none = np.empty(0, np.int64)
        vectors = np.empty((0, dim), np.float32)
        start = np.zeros(1, np.int64)
        no_floats = np.empty(0, np.float32)
        empty = cls(vectors, (), start, none, none, no_floats, none, no_floats, {}, GrowableArray(vectors))
        return empty.changed(
            {query_key: list(group) for query_key, group in groupby(ordered, lambda key: key.query_key)}
        )

    def changed(self, keys: Mapping[str, Sequence[MemoryKey]]) -> "Memory":
        """Return a memory in which each query key of `keys` has exactly these memory keys; the others are unchanged.

        The memory keys of one query key have the same vector and ascending rows. An empty sequence forgets the query.
        """
        if not keys:
            return self
        index_of, query_keys = dict(self.index_of), list(self.query_keys)
        vectors: list[Floats] = []
        for query_key in sorted(keys):
            index = index_of.pop(query_key, None)
            if index is not None and keys[query_key] and np.array_equal(self.vectors[index], keys[query_key][0].vector):
                index_of[query_key] = index
                continue
            if index is not None:
                query_keys[index] = FORGOTTEN
            if keys[query_key]:
                index_of[query_key] = len(query_keys)
                query_keys.append(query_key)
                vectors.append(keys[query_key][0].vector)
        if len(query_keys) - len(index_of) > max(MOST_FORGOTTEN, len(query_keys) // 2):
            kept = [key for key in self.keys if key.query_key not in keys]
            return Memory.of([*kept, *(key for group in keys.values() for key in group)], self.vectors.shape[1])
        growable_vectors = self.growable_vectors.extended(len(self.query_keys), vectors)
        return self._with(growable_vectors, tuple(query_keys), index_of, keys)

    def _with(
        self,
        growable_vectors: GrowableArray[np.float32],
        query_keys: tuple[str, ...],
        index_of: dict[str, int],
        keys: Mapping[str, Sequence[MemoryKey]],
    ) -> "Memory":
        replaced = [self.index_of[query_key] for query_key in keys if query_key in self.index_of]
        kept = ~np.isin(self.query_index, replaced)
        added = [key for query_key in keys for key in keys[query_key]]
        query_index = np.append(self.query_index[kept], [index_of[key.query_key] for key in added]).astype(np.int64)
        rows = np.append(self.rows[kept], [key.row for key in added]).astype(np.int64)
        weights = np.append(self.weights[kept], [key.weight for key in added]).astype(np.float32)
        counts = np.append(self.counts[kept], [key.count for key in added]).astype(np.int64)
        exact = np.append(self.exact[kept], [key.exact for key in added]).astype(np.float32)
        order = np.argsort(query_index, kind="stable")  # rows stay ascending within a past query
        return Memory(
            vectors=growable_vectors.rows[: len(query_keys)],
            query_keys=query_keys,
            first=np.searchsorted(query_index[order], np.arange(len(query_keys) + 1)),
            query_index=query_index[order],
            rows=rows[order],
            weights=weights[order],
            counts=counts[order],
            exact=exact[order],
            index_of=index_of,
            growable_vectors=growable_vectors,
        )

    @property
    def keys(self) -> list[MemoryKey]:
        """The memory keys, by query key and row."""
        ordered = sorted(range(len(self.rows)), key=lambda at: (self.query_keys[self.query_index[at]], self.rows[at]))
        return [
            MemoryKey(
                int(self.rows[at]),
                self.vectors[self.query_index[at]],
                float(self.weights[at]),
                self.query_keys[self.query_index[at]],
                int(self.counts[at]),
                float(self.exact[at]),
            )
            for at in ordered
        ]

    def exact_of(self, query_key: str) -> tuple[Ints, Floats]:
        """Return the documents (m,) that come first for exactly this query, and their exact ratings (m,)."""
        index = self.index_of.get(query_key)
        if index is None:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        keys = slice(self.first[index], self.first[index + 1])
        rated = self.exact[keys] > 0
        return self.rows[keys][rated], self.exact[keys][rated]

    def near(self, vector: Floats, radius: float, excluded_query: str | None = None) -> tuple[Ints, Floats]:
        """Return the memory keys (m,) of the past queries within the radius of a unit vector (D,), and cosines (m,).

        radius: the least cosine. excluded_query: a query key whose memory keys are left out. Memory keys are ordered by
        query key, not by age, so forgotten past queries do not affect the order of later sums.
        """
        cosine = inner_products(self.vectors, vector)
        near = [at for at in np.flatnonzero(cosine >= radius).tolist() if self.query_keys[at] != excluded_query]
        found = np.asarray(sorted(near, key=self.query_keys.__getitem__), np.int64)
        counts = self.first[found + 1] - self.first[found]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(self.first[found], counts) + within, np.repeat(cosine[found], counts)
