"""Compaction: the documents of a generation that are alive, copied together, followed by what was added since.

A generation is copied while it is searched and while later generations are made from it. `carried_over` then brings
the copy up to a later generation; its cost depends on what was added since, not on the size of the collection. Nothing
here writes to what a search may read.
"""

from dataclasses import dataclass, replace

import numpy as np

from index.candidates.build import seal
from index.generation.appender import Appender, Block
from index.generation.columns import Columns
from index.generation.generation import Generation
from index.records import Ints
from index.storage.checksum_guard import ChecksumGuard

DEAD_SHARE = 0.3
"""Share of removed keys from which on a generation is compacted."""
DEAD_LEAST = 2048
"""Removed keys from which on a generation is compacted."""
COPIED_AT_ONCE = 8192
"""Documents copied at a time. numpy holds Python's lock during a copy, and searches need that lock."""


@dataclass(frozen=True)
class Compaction:
    """The compact copy of the first `seen` documents of a generation.

    doc_indices (n,) are the copied documents' indices in that generation; appender holds the files of the copy.
    """

    state: Generation
    appender: Appender
    doc_indices: Ints
    seen: int


def is_sparse(state: Generation) -> bool:
    """Return whether enough keys belong to removed documents that a compaction is due."""
    dead = len(state.columns.key_positions(np.flatnonzero(~state.alive)))
    return dead >= DEAD_LEAST and dead > DEAD_SHARE * len(state.keys)


def compact(state: Generation, appender: Appender) -> Compaction:
    """Copy the documents that are alive to an empty appender; no key of the copy is sealed.

    Raises DamagedKeys where a vector to copy differs from its checksum.
    """
    doc_indices = np.flatnonzero(state.alive)
    keys = state.keys[:0]
    copy = replace(
        state,
        keys=keys,
        values=state.values[:0],
        columns=Columns.empty(),
        alive=state.alive[:0],
        sealed=seal(keys, keys.__getitem__),
        key_guard=ChecksumGuard(),
        value_guard=ChecksumGuard(),
    )
    for first in range(0, len(doc_indices), COPIED_AT_ONCE):
        copy = appender.append(copy, _block(state, doc_indices[first : first + COPIED_AT_ONCE]))
    return Compaction(copy, appender, doc_indices, len(state.rows))


def carried_over(done: Compaction, now: Generation) -> Compaction:
    """Return the compaction brought up to a later generation: its added and removed documents, memory and words."""
    added = np.arange(done.seen, len(now.rows))
    doc_indices = np.append(done.doc_indices, added)
    state = done.appender.append(done.state, _block(now, added))
    state = replace(state, watermark=now.watermark, alive=now.alive[doc_indices], memory=now.memory, words=now.words)
    return Compaction(state, done.appender, doc_indices, len(now.rows))


def _block(state: Generation, doc_indices: Ints) -> Block:
    columns = state.columns.taken(doc_indices)
    vectors = state.key_vectors(state.columns.key_positions(doc_indices))
    return Block(columns, vectors, state.value_vectors(doc_indices), state.alive[doc_indices])
