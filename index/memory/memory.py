"""Memory: the past queries whose searchers confirmed a document, as arrays that a search reads.

Sees rows, vectors and weights; what they are merged from is known to `index.memory.aggregation`. A memory never changes:
the next one shares the vectors of the one before, so that one more confirmation copies no vector but its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from index.inner_products import inner_products
from index.records import Floats, Ints, MemoryKey
from index.storage.growable_array import GrowableArray

GONE = ""
"""Stands in `sources` where a past query was; nothing belongs to it any more."""
GONE_ROOM = 256
"""Places of forgotten past queries that are borne; beyond these, and half of all, the vectors are packed anew."""


@dataclass(frozen=True, eq=False)
class Memory:
    """S past queries and M query keys, one per past query and document that it confirms.

    vectors (S, D) unit; sources, one per past query; first (S + 1,): its keys are first[s]:first[s + 1]. Of each key:
    source (M,) its past query, rows (M,) ascending within it, weights (M,) signed, counts (M,) confirmations merged.
    """

    vectors: Floats
    query_keys: tuple[str, ...]
    first: Ints
    query_key: Ints
    rows: Ints
    weights: Floats
    counts: Ints
    doc_indices: Mapping[str, int]
    """Of each source that is remembered."""
    room: GrowableArray[np.float32]

    @classmethod
    def of(cls, keys: Iterable[MemoryKey], dim: int) -> "Memory":
        """Return the memory of these keys, by source and row: the same keys give the same bits in whatever order."""
        ordered = sorted(keys, key=lambda key: (key.query_key, key.row))
        none = np.empty(0, np.int64)
        vectors = np.empty((0, dim), np.float32)
        start = np.zeros(1, np.int64)
        empty = cls(vectors, (), start, none, none, np.empty(0, np.float32), none, {}, GrowableArray(vectors))
        return empty.changed(
            {query_key: list(group) for query_key, group in groupby(ordered, lambda key: key.query_key)}
        )

    def changed(self, keys: Mapping[str, Sequence[MemoryKey]]) -> "Memory":
        """Return a memory in which these sources have these keys, all of one vector; without keys, it is forgotten."""
        if not keys:
            return self
        doc_indices, query_keys = dict(self.doc_indices), list(self.query_keys)
        vectors: list[Floats] = []
        for query_key in sorted(keys):
            index = doc_indices.pop(query_key, None)
            if index is not None and keys[query_key] and np.array_equal(self.vectors[index], keys[query_key][0].vector):
                doc_indices[query_key] = index
                continue
            if index is not None:
                query_keys[index] = GONE
            if keys[query_key]:
                doc_indices[query_key] = len(query_keys)
                query_keys.append(query_key)
                vectors.append(keys[query_key][0].vector)
        if len(query_keys) - len(doc_indices) > max(GONE_ROOM, len(query_keys) // 2):
            kept = [key for key in self.keys if key.query_key not in keys]
            return Memory.of([*kept, *(key for group in keys.values() for key in group)], self.vectors.shape[1])
        room = self.room.extended(len(self.query_keys), vectors)
        return self._with(room, tuple(query_keys), doc_indices, keys)

    def _with(
        self,
        room: GrowableArray[np.float32],
        query_keys: tuple[str, ...],
        doc_indices: dict[str, int],
        keys: Mapping[str, Sequence[MemoryKey]],
    ) -> "Memory":
        touched = [self.doc_indices[query_key] for query_key in keys if query_key in self.doc_indices]
        stay = ~np.isin(self.query_key, touched)
        added = [key for query_key in keys for key in keys[query_key]]
        query_key = np.append(self.query_key[stay], [doc_indices[key.query_key] for key in added]).astype(np.int64)
        rows = np.append(self.rows[stay], [key.row for key in added]).astype(np.int64)
        weights = np.append(self.weights[stay], [key.weight for key in added]).astype(np.float32)
        counts = np.append(self.counts[stay], [key.count for key in added]).astype(np.int64)
        order = np.argsort(query_key, kind="stable")  # rows are ascending already
        return Memory(
            room.rows[: len(query_keys)],
            query_keys,
            np.searchsorted(query_key[order], np.arange(len(query_keys) + 1)),
            query_key[order],
            rows[order],
            weights[order],
            counts[order],
            doc_indices,
            room,
        )

    @property
    def keys(self) -> list[MemoryKey]:
        """Return the keys that it was made of, by source and row."""
        ordered = sorted(range(len(self.rows)), key=lambda at: (self.query_keys[self.query_key[at]], self.rows[at]))
        return [
            MemoryKey(
                int(self.rows[at]),
                self.vectors[self.query_key[at]],
                float(self.weights[at]),
                self.query_keys[self.query_key[at]],
                int(self.counts[at]),
            )
            for at in ordered
        ]

    def near(self, vector: Floats, radius: float, excluded_query: str | None = None) -> tuple[Ints, Floats]:
        """Return the keys (m,) of the past queries within the radius of a unit vector (D,), and their cosines (m,).

        unseen is a source whose keys are left out. Keys come by the text of their source, not by when it was first
        asked, so that what was forgotten in between leaves no trace in the order that they are summed in.
        """
        cosine = inner_products(self.vectors, vector)
        near = [at for at in np.flatnonzero(cosine >= radius).tolist() if self.query_keys[at] != excluded_query]
        found = np.asarray(sorted(near, key=self.query_keys.__getitem__), np.int64)
        each = self.first[found + 1] - self.first[found]
        within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        return np.repeat(self.first[found], each) + within, np.repeat(cosine[found], each)
