"""Compaction: the documents that are left of a generation, moved together, and what came since carried over to them.

A generation is copied while it is searched and while the next ones are made of it. The copy then follows these, as
often as is wanted: `carried_over` costs what was added since, however large the rest is. Nothing here writes to what a
search may read.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.candidates.build import seal
from index.generation.generation import Generation
from index.records import Floats, Ints
from index.storage.checksum_guard import ChecksumGuard
from index.storage.growable_array import GrowableArray
from index.storage.vector_file import VectorFile

DEAD_SHARE = 0.3
"""Share of deleted keys at which the arrays are compacted."""
DEAD_LEAST = 2048
"""Deleted keys that are not worth it, whatever their share."""
COPIED_AT_ONCE = 8192
"""Keys or documents copied at a time: numpy holds Python's lock for some of it, and searches want that too."""


@dataclass(frozen=True)
class Compaction:
    """The compact state of the first `seen` documents of a generation; `places` (N,) of its documents over there."""

    state: Generation
    doc_indices: Ints
    seen: int


def is_sparse(state: Generation) -> bool:
    """Whether enough keys are of deleted documents that the rest is worth moving together."""
    dead = np.flatnonzero(~state.alive)
    keys = int((state.first_key[dead + 1] - state.first_key[dead]).sum())
    return keys >= DEAD_LEAST and keys > DEAD_SHARE * len(state.keys)


def compact(state: Generation, file: VectorFile) -> Compaction:
    """Return the documents of a generation that are alive, with their keys in this empty file; none is sealed.

    Raises DamagedKeys where a key that is copied is not what was saved.
    """
    doc_indices = np.flatnonzero(state.alive)
    counts, token_counts = np.diff(state.first_key)[doc_indices], np.diff(state.first_token)[doc_indices]
    kept = _spans(state.first_key[doc_indices], counts)
    arrays: dict[str, Any] = {
        "key_kind": state.key_kind[kept],
        "key_start": state.key_start[kept],
        "key_end": state.key_end[kept],
        "key_sums": state.key_sums[kept],
        "rows": state.rows[doc_indices],
        "first_key": np.append(0, np.cumsum(counts)),
        "tokens": _tokens(state, doc_indices, token_counts),
        "first_token": np.append(0, np.cumsum(token_counts)),
    }
    keys = _copied(state, kept, file)
    growable_arrays: dict[str, GrowableArray[Any]] = {
        name: GrowableArray.with_capacity(array) for name, array in arrays.items()
    }  # the next write waits for no copy
    seen: dict[str, Any] = {name: array.view for name, array in growable_arrays.items()}
    compacted = replace(
        state,
        keys=keys,
        alive=np.ones(len(doc_indices), np.bool_),
        sealed=seal(keys[:0], keys.__getitem__),
        checksum_guard=ChecksumGuard(),
        file=file,
        growable_arrays=growable_arrays,
        **seen,
    )
    return Compaction(compacted, doc_indices, len(state.rows))


def carried_over(done: Compaction, now: Generation) -> Compaction:
    """Return the compaction brought up to a later generation of the same arrays: added, deleted, remembered."""
    state, file = done.state, done.state.file
    assert file is not None, "compact has given it one"
    keys, tokens = now.first_key[done.seen], now.first_token[done.seen]
    more = {
        "key_kind": now.key_kind[keys:],
        "key_start": now.key_start[keys:],
        "key_end": now.key_end[keys:],
        "key_sums": now.key_sums[keys:],
        "rows": now.rows[done.seen :],
        "first_key": now.first_key[done.seen + 1 :] + (state.first_key[-1] - keys),
        "tokens": now.tokens[tokens:],
        "first_token": now.first_token[done.seen + 1 :] + (state.first_token[-1] - tokens),
    }
    doc_indices = np.append(done.doc_indices, np.arange(done.seen, len(now.rows)))
    state = state.extended(now.keys[keys:], more, now.alive[done.seen :], file)
    state = replace(state, watermark=now.watermark, alive=now.alive[doc_indices], memory=now.memory, words=now.words)
    return Compaction(state, doc_indices, len(now.rows))


def _copied(state: Generation, kept: Ints, file: VectorFile) -> Floats:
    """Return the keys (n, D) at these positions, written to the file."""
    keys = state.keys[:0]
    for first in range(0, len(kept), COPIED_AT_ONCE):
        keys = file.extended(len(keys), state.vectors(kept[first : first + COPIED_AT_ONCE]))
    return keys


def _tokens(state: Generation, doc_indices: Ints, counts: Ints) -> NDArray[np.uint32]:
    """Return the words of the documents at these places, as numbers, one after the other."""
    parts = [state.tokens[:0]]
    for first in range(0, len(doc_indices), COPIED_AT_ONCE):
        some = slice(first, first + COPIED_AT_ONCE)
        parts.append(state.tokens[_spans(state.first_token[doc_indices[some]], counts[some])])
    return np.concatenate(parts)


def _spans(starts: Ints, counts: Ints) -> Ints:
    """Return the positions start, start + 1, ... of each span, `counts` of them, one span after the other."""
    before = np.cumsum(counts) - counts
    positions: Ints = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return positions
