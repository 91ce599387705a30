"""Memory: the past queries whose searchers confirmed a document, as arrays that a search reads.

Sees rows, vectors and weights; what they are merged from is known to `index.confirmations`. A memory never changes:
the next one shares the vectors of the one before, so that one more confirmation copies no vector but its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from index.inner_products import inner_products
from index.records import Floats, Ints, MemoryKey
from index.rooms import Room

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
    sources: tuple[str, ...]
    first: Ints
    source: Ints
    rows: Ints
    weights: Floats
    counts: Ints
    places: Mapping[str, int]
    """Of each source that is remembered."""
    room: Room[np.float32]

    @classmethod
    def of(cls, keys: Iterable[MemoryKey], dim: int) -> "Memory":
        """Return the memory of these keys, by source and row: the same keys give the same bits in whatever order."""
        ordered = sorted(keys, key=lambda key: (key.source, key.row))
        none = np.empty(0, np.int64)
        vectors = np.empty((0, dim), np.float32)
        start = np.zeros(1, np.int64)
        empty = cls(vectors, (), start, none, none, np.empty(0, np.float32), none, {}, Room(vectors))
        return empty.changed({source: list(group) for source, group in groupby(ordered, lambda key: key.source)})

    def changed(self, keys: Mapping[str, Sequence[MemoryKey]]) -> "Memory":
        """Return a memory in which these sources have these keys, all of one vector; without keys, it is forgotten."""
        if not keys:
            return self
        places, sources = dict(self.places), list(self.sources)
        vectors: list[Floats] = []
        for source in sorted(keys):
            place = places.pop(source, None)
            if place is not None and keys[source] and np.array_equal(self.vectors[place], keys[source][0].vector):
                places[source] = place
                continue
            if place is not None:
                sources[place] = GONE
            if keys[source]:
                places[source] = len(sources)
                sources.append(source)
                vectors.append(keys[source][0].vector)
        if len(sources) - len(places) > max(GONE_ROOM, len(sources) // 2):
            kept = [key for key in self.keys if key.source not in keys]
            return Memory.of([*kept, *(key for group in keys.values() for key in group)], self.vectors.shape[1])
        room = self.room.extended(len(self.sources), vectors)
        return self._with(room, tuple(sources), places, keys)

    def _with(
        self,
        room: Room[np.float32],
        sources: tuple[str, ...],
        places: dict[str, int],
        keys: Mapping[str, Sequence[MemoryKey]],
    ) -> "Memory":
        touched = [self.places[source] for source in keys if source in self.places]
        stay = ~np.isin(self.source, touched)
        added = [key for source in keys for key in keys[source]]
        source = np.append(self.source[stay], [places[key.source] for key in added]).astype(np.int64)
        rows = np.append(self.rows[stay], [key.row for key in added]).astype(np.int64)
        weights = np.append(self.weights[stay], [key.weight for key in added]).astype(np.float32)
        counts = np.append(self.counts[stay], [key.count for key in added]).astype(np.int64)
        order = np.argsort(source, kind="stable")  # rows are ascending already
        return Memory(
            room.rows[: len(sources)],
            sources,
            np.searchsorted(source[order], np.arange(len(sources) + 1)),
            source[order],
            rows[order],
            weights[order],
            counts[order],
            places,
            room,
        )

    @property
    def keys(self) -> list[MemoryKey]:
        """Return the keys that it was made of, by source and row."""
        ordered = sorted(range(len(self.rows)), key=lambda at: (self.sources[self.source[at]], self.rows[at]))
        return [
            MemoryKey(
                int(self.rows[at]),
                self.vectors[self.source[at]],
                float(self.weights[at]),
                self.sources[self.source[at]],
                int(self.counts[at]),
            )
            for at in ordered
        ]

    def near(self, vector: Floats, radius: float, unseen: str | None = None) -> tuple[Ints, Floats]:
        """Return the keys (m,) of the past queries within the radius of a unit vector (D,), and their cosines (m,).

        unseen is a source whose keys are left out. Keys come by the text of their source, not by when it was first
        asked, so that what was forgotten in between leaves no trace in the order that they are summed in.
        """
        cosine = inner_products(self.vectors, vector)
        near = [at for at in np.flatnonzero(cosine >= radius).tolist() if self.sources[at] != unseen]
        found = np.asarray(sorted(near, key=self.sources.__getitem__), np.int64)
        each = self.first[found + 1] - self.first[found]
        within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        return np.repeat(self.first[found], each) + within, np.repeat(cosine[found], each)
