"""A memory in another process: what changed since an earlier memory, and the memory after that change.

Vectors and names are appended to shared rows and to the change; memory keys and spans are in the change. A repacked
memory has no relation to the memory before it, and is sent as a whole. Rows and changes are written to files, so the
names and the vectors of past queries that are forgotten already are in neither.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.memory.memory import COUNT_BITS, FORGOTTEN, Memory, changed_spellings
from index.memory.near_queries import sealed_queries
from index.records import Floats, Ints, Mask
from index.storage.growable_array import GrowableArray
from index.storage.paged_numbers import PagedNumbers
from index.storage.sharded_map import ShardedMap

WRITTEN_AT_ONCE = 1 << 14
"""Vectors that are copied at a time. Bounds the memory."""


@dataclass(frozen=True)
class MemoryChange:
    """What a memory has more than an earlier one: names of new past queries, new memory keys, and changed spans.

    names: FORGOTTEN for those that are. positions (n,) and spans (n,) are of the past queries whose memory keys
    changed, also of the new ones.
    """

    names: Sequence[str]
    table: NDArray[np.void]
    positions: Ints
    spans: Ints


def follows(before: Memory, now: Memory) -> bool:
    """Return whether a memory was made from another by appending, so that `change` tells all."""
    return before.packing is now.packing


def change(before: Memory | None, now: Memory) -> MemoryChange:
    """Return what `now` has more than `before`, which it follows; None: all of it."""
    size, keys = (0, 0) if before is None else (len(before.vectors), len(before.table))
    positions = now.spans.differing(PagedNumbers() if before is None else before.spans)
    names = now.growable_names.rows[size : len(now.vectors)].copy()
    names[_forgotten(now, size)] = FORGOTTEN
    return MemoryChange(names.tolist(), now.table[keys:], positions, now.spans.take(positions.tolist()))


def vectors_to_write(memory: Memory, first: int) -> Iterator[Floats]:
    """Yield the vectors (n, D) from a past query on. Remembered ones stand in for those of forgotten past queries.

    A search does not read the stand-ins. They are no zeros, because an index is trained on the vectors.
    """
    forgotten = _forgotten(memory, first)
    for start in range(first, len(memory.vectors), WRITTEN_AT_ONCE):
        vectors = memory.vectors[start : start + WRITTEN_AT_ONCE]
        hidden = forgotten[start - first :][: len(vectors)]
        if hidden.any():
            vectors = vectors.copy()
            vectors[hidden] = np.resize(vectors[~hidden], vectors[hidden].shape)  # zeros, if all are forgotten
        yield vectors


def _forgotten(memory: Memory, first: int) -> Mask:
    """Return which of the past queries (n,) from one on are forgotten."""
    size = len(memory.vectors)
    spans = memory.spans.take(range(first, size)) if first else memory.spans.all(size)
    return np.asarray(spans == 0)


def mirrored(before: Memory | None, changed: MemoryChange, vectors: Floats) -> Memory:
    """Return the memory after a change. vectors (S, D): of all its past queries, the new ones too."""
    if before is None:
        before = Memory.of([], vectors.shape[1])
    size, keys = len(before.vectors), len(before.table)
    names = before.growable_names.extended(size, changed.names)
    table = before.growable_table.extended(keys, changed.table)
    numbers = dict(zip(changed.positions.tolist(), changed.spans.tolist(), strict=True))
    changed_index = _changed_index(before.index_of, names, numbers)
    index_of = before.index_of.changed(changed_index)
    growable_vectors: GrowableArray[np.float32] = GrowableArray(vectors)
    return Memory(
        vectors=vectors,
        count=len(index_of),
        growable_names=names,
        spans=before.spans.changed(numbers),
        table=table.rows[: keys + len(changed.table)],
        living=0,
        index_of=index_of,
        spellings=changed_spellings(before.spellings, changed_index),
        sealed=sealed_queries(vectors, before.sealed),
        growable_vectors=growable_vectors,
        growable_table=table,
        packing=before.packing,
    )


def _changed_index(
    before: ShardedMap[int], names: GrowableArray[np.object_], spans: dict[int, int]
) -> dict[str, int | None]:
    """Return query key -> past query where that changed with these spans; a span of 0 is forgotten."""
    changed: dict[str, int | None] = {}
    for position, span in sorted(spans.items()):
        name = names.rows[position]
        if span & (1 << COUNT_BITS) - 1:
            changed[name] = position
        elif changed.get(name, before.get(name)) == position:
            changed[name] = None
    return changed
