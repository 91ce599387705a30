"""Memory: past queries that confirm documents, as arrays that a search reads.

Sees rows, vectors and weights; `index.memory.aggregation` makes the keys from confirmations. A memory is immutable. A
changed memory shares the arrays of the memory before it: a change appends, and replaces only what it concerns, so its
cost depends on the changed keys and not on the number of past queries.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.memory.near_queries import SealedQueries, near_queries, sealed_queries
from index.memory.query_key import anonymous_key, are_apart, bare_key, numbers_of
from index.records import Floats, Ints, Mask, MemoryKey
from index.storage.growable_array import GrowableArray
from index.storage.paged_numbers import PagedNumbers
from index.storage.sharded_map import ShardedMap

FORGOTTEN = ""
"""Stands for the query key of a forgotten past query, which has no memory keys."""
MOST_FORGOTTEN = 256
"""Vectors are repacked once more past queries than this, and more than half of all, are forgotten."""
MOST_REPLACED = 4096
"""Memory keys are repacked once more than this, and more than half of all, are replaced."""
COUNT_BITS = 24
"""A span is the position of its first memory key, shifted by COUNT_BITS, and its number of memory keys."""
KEY = np.dtype([("query", "<i8"), ("row", "<i8"), ("count", "<i8"), ("weight", "<f4"), ("exact", "<f4")])
"""A memory key: its past query, the document, the number of merged confirmations, the weight and the exact rating."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Up to S past queries and their memory keys, one for each past query and document that it confirms.

    A query key is the normalised text of a past query. The arrays also hold what is forgotten or replaced, until it is
    repacked; `near`, `exact_of` and `keys` leave it out. Positions are valid within one memory.
    """

    vectors: Floats
    """(S, D), unit."""
    count: int
    """The number of past queries that are not forgotten."""
    growable_names: GrowableArray[Any]
    """The query key of each past query, also if it is forgotten; the first S are of this memory."""
    spans: PagedNumbers
    """The span of each past query; 0 if it is forgotten."""
    table: NDArray[np.void]
    """Memory keys (M,) of the type KEY; those of one past query are together, their rows ascend."""
    living: int
    """The number of memory keys that are not replaced."""
    index_of: ShardedMap[int]
    """Query key -> its past query, for all that are not forgotten."""
    spellings: ShardedMap[tuple[str, ...]]
    """Bare key -> the query keys that have it and differ from it, in the order of their texts."""
    sealed: SealedQueries | None
    """An index over the first vectors, None in a small memory."""
    growable_vectors: GrowableArray[np.float32]
    """The array that `vectors` is a view of."""
    growable_table: GrowableArray[np.void]
    """The array that `table` is a view of."""
    packing: object
    """The same object in all memories that were made from one another by appending."""

    @classmethod
    def of(cls, keys: Iterable[MemoryKey], dim: int) -> "Memory":
        """Return the memory of these keys. The same keys give the same bits in any order."""
        ordered = sorted(keys, key=lambda key: (key.query_key, key.row))
        vectors, names = GrowableArray(np.empty((0, dim), np.float32)), GrowableArray(np.empty(0, object))
        table: GrowableArray[np.void] = GrowableArray(np.empty(0, KEY))
        empty = cls(
            vectors=vectors.view,
            count=0,
            growable_names=names,
            spans=PagedNumbers(),
            table=table.view,
            living=0,
            index_of=ShardedMap(),
            spellings=ShardedMap(),
            sealed=None,
            growable_vectors=vectors,
            growable_table=table,
            packing=object(),
        )
        return empty.changed(
            {query_key: list(group) for query_key, group in groupby(ordered, lambda key: key.query_key)}
        )

    def changed(self, keys: Mapping[str, Sequence[MemoryKey]]) -> "Memory":
        """Return a memory in which each query key of `keys` has exactly these memory keys; the others are unchanged.

        The memory keys of one query key have the same vector and ascending rows. An empty sequence forgets the query.
        """
        if not keys:
            return self
        size = len(self.vectors)
        index_of: dict[str, int | None] = {}
        spans: dict[int, int] = {}
        vectors: list[Floats] = []
        names: list[str] = []
        added: list[tuple[int, int, int, float, float]] = []
        for query_key in sorted(keys):
            group, index = keys[query_key], self.index_of.get(query_key)
            if index is not None and not (group and np.array_equal(self.vectors[index], group[0].vector)):
                index_of[query_key], spans[index], index = None, 0, None
            if not group:
                continue
            if index is None:
                index = index_of[query_key] = size + len(names)
                names.append(query_key)
                vectors.append(group[0].vector)
            spans[index] = len(self.table) + len(added) << COUNT_BITS | len(group)
            added += [(index, key.row, key.count, key.weight, key.exact) for key in group]
        after = self._appended(names, vectors, added, index_of, spans)
        return after._repacked()

    def _appended(
        self,
        names: Sequence[str],
        vectors: Sequence[Floats],
        added: Sequence[tuple[int, int, int, float, float]],
        index_of: Mapping[str, int | None],
        spans: Mapping[int, int],
    ) -> "Memory":
        size, before = len(self.vectors), len(self.table)
        growable_vectors = self.growable_vectors.extended(size, vectors)
        growable_table = self.growable_table.extended(before, np.asarray(added, KEY))
        indexes = self.index_of.changed(index_of)
        replaced = self.spans.take(at for at in spans if at < size) & (1 << COUNT_BITS) - 1
        all_vectors = growable_vectors.rows[: size + len(names)]
        return Memory(
            vectors=all_vectors,
            count=len(indexes),
            growable_names=self.growable_names.extended(size, names),
            spans=self.spans.changed(spans),
            table=growable_table.rows[: before + len(added)],
            living=self.living + len(added) - int(replaced.sum()),
            index_of=indexes,
            spellings=changed_spellings(self.spellings, index_of),
            sealed=sealed_queries(all_vectors, self.sealed),
            growable_vectors=growable_vectors,
            growable_table=growable_table,
            packing=self.packing,
        )

    def _repacked(self) -> "Memory":
        """Return this memory without forgotten past queries, or without replaced memory keys, if these are many."""
        size, keys = len(self.vectors), len(self.table)
        if size - self.count > max(MOST_FORGOTTEN, size // 2):
            return Memory.of(self.keys, self.vectors.shape[1])
        if keys - self.living <= max(MOST_REPLACED, keys // 2):
            return self
        spans = self.spans.all(size)
        counts = spans & (1 << COUNT_BITS) - 1
        first = np.cumsum(counts) - counts
        table: GrowableArray[np.void] = GrowableArray(self.table[_positions(spans)])
        moved = PagedNumbers.of(np.where(counts, first << COUNT_BITS | counts, 0))
        return replace(self, spans=moved, table=table.view, growable_table=table, packing=object())

    @property
    def rows(self) -> Ints:
        """The document of each memory key (M,), also of those that are replaced."""
        return self.table["row"]

    @property
    def weights(self) -> Floats:
        """The signed weight of each memory key (M,)."""
        return self.table["weight"]

    @property
    def counts(self) -> Ints:
        """The number of confirmations merged in each memory key (M,)."""
        return self.table["count"]

    @property
    def query_keys(self) -> tuple[str, ...]:
        """The query key of each past query (S,), FORGOTTEN for those that are. For inspection: it copies all."""
        size = len(self.vectors)
        names, spans = self.growable_names.rows[:size].tolist(), self.spans.all(size).tolist()
        return tuple(name if span else FORGOTTEN for name, span in zip(names, spans, strict=True))

    @property
    def keys(self) -> list[MemoryKey]:
        """The memory keys, by query key and row."""
        found = []
        for query_key in sorted(self.index_of):
            index = self.index_of[query_key]
            table = self.table[_positions(self.spans.take([index]))].tolist()
            vector = self.vectors[index]
            found += [MemoryKey(row, vector, weight, query_key, count, exact) for _, row, count, weight, exact in table]
        return found

    def query_key_of(self, key: int) -> str:
        """Return the query key of the memory key at a position."""
        return str(self.growable_names.rows[self.table["query"][key]])

    def same_words(self, *query_keys: str) -> frozenset[str]:
        """Return the query keys of the past queries that have the words of one of these, with any punctuation."""
        bare = [bare_key(one) for one in query_keys]
        others = (name for one in bare for name in self.spellings.get(one, ()))
        return frozenset(name for name in (*bare, *query_keys, *others) if name in self.index_of)

    def exact_of(self, *query_keys: str) -> tuple[Ints, Floats]:
        """Return the documents (m,) that come first for exactly the words of these queries, and their exact ratings.

        Rows ascend; the best rating of a document counts.
        """
        found = [self.index_of[one] for one in self.same_words(*query_keys)]
        keys = self.table[_positions(self.spans.take(found))]
        keys = keys[keys["exact"] > 0]
        keys = keys[np.lexsort((-keys["exact"], keys["row"]))]
        rows, first = np.unique(keys["row"], return_index=True)
        return rows, keys["exact"][first]

    def near(
        self,
        vector: Floats,
        radius: float,
        excluded: Sequence[str] = (),
        corrected: Floats | None = None,
        asked: Sequence[str] = (),
    ) -> tuple[Ints, Floats]:
        """Return the memory keys (m,) of the past queries within the radius of a unit vector (D,), and cosines (m,).

        radius: the least cosine. excluded: query keys: the memory keys of queries with the words of one are left out,
        the anonymous ones too. corrected (D,): another unit vector; the larger cosine counts. asked: the query
        keys of the query; past queries that are about other numbers than each of them (`are_apart`) are left out, since
        encoders hardly tell 5.1 from 5.2.
        Memory keys are ordered by query key, not by age, so forgotten past queries do not affect the order of later
        sums.
        """
        positions, cosine = near_queries(self.vectors, self.sealed, vector, radius)
        if corrected is not None:
            positions, cosine = _nearer((positions, cosine), near_queries(self.vectors, self.sealed, corrected, radius))
        names, spans = self.growable_names.rows[positions].tolist(), self.spans.take(positions.tolist())
        usable = np.flatnonzero(spans).tolist()
        if excluded:
            is_excluded = self._is_of(*excluded)
            usable = [at for at in usable if not is_excluded(names[at])]
        wanted = [numbers_of(one) for one in asked]
        if wanted and all(wanted):
            others = {at: numbers_of(names[at]) for at in usable}
            usable = [at for at in usable if not all(are_apart(one, others[at]) for one in wanted)]
        found = np.asarray(sorted(usable, key=names.__getitem__), np.int64)
        spans = spans[found]
        return _positions(spans), np.repeat(cosine[found], spans & (1 << COUNT_BITS) - 1)

    def of_query(self, keys: Ints, *query_keys: str) -> Mask:
        """Return which of the memory keys at these positions (m,) are of queries with the words of one of these.

        The anonymous ones too, of all that have the text of a query key or of its bare key.
        """
        if not len(keys):
            return np.zeros(0, np.bool_)
        queries, is_own_name = self.table["query"][keys], self._is_of(*query_keys)
        each = np.unique(queries)
        names = self.growable_names.rows[each].tolist()
        own = [at for at, name in zip(each.tolist(), names, strict=True) if is_own_name(name)]
        is_own: Mask = np.isin(queries, own)
        return is_own

    def _is_of(self, *query_keys: str) -> Callable[[str], bool]:
        """Return whether the name of a past query has the words of one of these, also anonymously for any tenant."""
        names = self.same_words(*query_keys)
        anonymous = tuple(anonymous_key(one) for one in {*names, *query_keys, *map(bare_key, query_keys)})
        return lambda name: name in names or name.startswith(anonymous)


def changed_spellings(
    before: ShardedMap[tuple[str, ...]], index_of: Mapping[str, int | None]
) -> ShardedMap[tuple[str, ...]]:
    """Return `Memory.spellings` after a change of `Memory.index_of`; None: the past query is forgotten."""
    after: dict[str, tuple[str, ...] | None] = {}
    for name, index in index_of.items():
        bare = bare_key(name)
        if bare == name:
            continue
        others = {*((after[bare] if bare in after else before.get(bare)) or ()), name}
        after[bare] = tuple(sorted(others - {name} if index is None else others)) or None
    return before.changed(after)


def _nearer(one: tuple[Ints, Floats], other: tuple[Ints, Floats]) -> tuple[Ints, Floats]:
    """Return the positions (n,), ascending, that one of two has, and the larger of their cosines (n,)."""
    positions, at = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    cosine = np.full(len(positions), -np.inf, np.float32)
    np.maximum.at(cosine, at, np.concatenate([one[1], other[1]]))
    return positions, cosine


def _positions(spans: Ints) -> Ints:
    """Return the positions of all memory keys of these spans (n,), span after span."""
    counts = spans & (1 << COUNT_BITS) - 1
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    positions: Ints = np.repeat(spans >> COUNT_BITS, counts) + within
    return positions
