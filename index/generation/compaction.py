"""Compaction: a contiguous copy of the living documents of a generation.

A generation is copied while it is searched and while later generations are made from it. `carried_over` then brings the
copy up to a later generation; its cost depends on the documents added since, not on the size of the collection.
Compaction never writes to arrays that a search may read.
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
"""A generation is compacted when more than this share of its keys or of its documents is removed."""
LEAST_DEAD = 2048
"""Least number of removed keys, or documents, for a compaction."""
COPY_DOCUMENTS = 8192
"""Documents per copy step. numpy holds Python's global lock during a copy, and searches need that lock."""


@dataclass(frozen=True)
class Compaction:
    """The compact copy of the first `seen` documents of a generation.

    doc_indices (n,) are the doc indices of the copied documents in that generation; appender has the files of the copy.
    """

    state: Generation
    appender: Appender
    doc_indices: Ints
    seen: int


def is_sparse(state: Generation) -> bool:
    """Return whether a generation has enough removed documents, or keys of removed documents, for a compaction."""
    removed = np.flatnonzero(~state.alive)
    keys = int(np.diff(state.columns.first_key)[removed].sum())
    return _is_large_share(keys, len(state.keys)) or _is_large_share(len(removed), len(state.alive))


def _is_large_share(removed: int, total: int) -> bool:
    return removed >= LEAST_DEAD and removed > DEAD_SHARE * total


def compact(state: Generation, appender: Appender) -> Compaction:
    """Copy the living documents to an empty appender; no key of the copy is sealed.

    Raises DamagedKeys if a vector differs from its checksum.
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
        files=appender.paths,
    )
    for first in range(0, len(doc_indices), COPY_DOCUMENTS):
        copy = appender.append(copy, _block(state, doc_indices[first : first + COPY_DOCUMENTS]))
    return Compaction(copy, appender, doc_indices, len(state.rows))


def carried_over(done: Compaction, now: Generation) -> Compaction:
    """Return the compaction updated to a later generation: added and removed documents, memory and words."""
    added = np.arange(done.seen, len(now.rows))
    doc_indices = np.append(done.doc_indices, added)
    state = done.appender.append(done.state, _block(now, added))
    state = replace(state, watermark=now.watermark, alive=now.alive[doc_indices], memory=now.memory, words=now.words)
    return Compaction(state, done.appender, doc_indices, len(now.rows))


def _block(state: Generation, doc_indices: Ints) -> Block:
    columns = state.columns.taken(doc_indices)
    vectors = state.key_vectors(state.columns.key_positions(doc_indices))
    return Block(columns, vectors, state.value_vectors(doc_indices), state.alive[doc_indices])
