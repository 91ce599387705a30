"""The store that publishes one generation of a collection after the other, keeps them in files, and opens these again.

Folding new keys into the sealed index and copying the living from among the dead take seconds where keys are many: both
are done behind the scenes, and what is written meanwhile is carried over.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from index.candidates.base import MISSING, SealedIndex
from index.candidates.build import read_sealed, seal
from index.errors import DamagedFile
from index.generation.compaction import carried_over, compact, is_sparse
from index.generation.generation import ARRAYS, GROWING, Generation, IndexedDocument
from index.memory.memory import Memory
from index.records import MemoryKey
from index.storage.background import Background
from index.storage.checksum_guard import ChecksumGuard, checksums
from index.storage.files import MANIFEST, read_manifest, sync_directory, write_manifest
from index.storage.growable_array import GrowableArray
from index.storage.vector_file import VectorFile
from index.words.bm25_index import WordIndex

TAIL_KEYS = 2048
TAIL_SHARE = 0.1
TAIL_MOST = 10_000
"""New keys are scanned exactly until they are this many, or this share of all but no more than the last: a millisecond
of a search. Then they are folded into the sealed index."""
TENDED_HERE = 20_000
"""Keys up to which folding and compacting are done where the write stands, in milliseconds; beyond, behind."""
TAIL_BORNE = 4
"""Tails, in multiples of the above, beyond which a write waits for what is done behind the scenes, or folds."""
CARRIED_AT_LAST = 1000
"""Documents carried over to compacted arrays while writes wait: milliseconds. More are carried before."""
FORMAT = 4
"""Of what is saved; a folder of another format is rebuilt from the documents. 1 had no tokens, 2 no checksums, 3
scanned small sets in half precision."""
DENSE_FILE = "dense.faiss"
WORDS_FOLDER = "words"


class GenerationStore:
    """Holds the current generation of one collection and makes the next from what changed. One writer at a time.

    directory belongs to the store. With a manifest it is a complete saved state; the first write takes the manifest
    away, so that a folder that was written to and not saved again is known to be stale.
    """

    def __init__(self, directory: Path, dim: int, language: str) -> None:
        self._directory = directory
        self._words = WordIndex(directory / WORDS_FOLDER, language)
        self._files = 0
        self._lock = threading.Lock()
        """Held by whoever makes the next generation of the current one."""
        self._background = Background()
        empty = np.empty((0, dim), np.float32)
        none = np.empty(0, np.int64)
        arrays: dict[str, Any] = {"keys": empty, "key_kind": none, "key_start": none, "key_end": none, "rows": none}
        arrays |= {"first_key": np.zeros(1, np.int64), "first_token": np.zeros(1, np.int64)}
        arrays |= {"tokens": np.empty(0, np.uint32), "key_sums": np.empty(0, np.uint64), "alive": np.empty(0, np.bool_)}
        self.current = Generation(
            watermark=0,
            memory=Memory.of([], dim),
            sealed=seal(empty, empty.__getitem__),
            words=self._words.searcher(),
            **arrays,
        )

    @classmethod
    def open(cls, directory: Path, dim: int, language: str, watermark: int) -> "GenerationStore":
        """Return the store as it was saved. Sealed keys are not read: each is compared when a search first wants it.

        Raises DamagedFile when it is missing, was written to since, differs from its manifest, or is of another
        watermark, width or language: whoever owns the documents then rebuilds it.
        """
        manifest = read_manifest(directory)
        facts = {"format": FORMAT, "watermark": watermark, "dim": dim, "language": language}
        stale = {name: manifest.get(name) for name, value in facts.items() if manifest.get(name) != value}
        if stale:
            raise DamagedFile(f"{directory.name}: saved with {stale}, wanted {facts}")
        store = cls(directory, dim, language)
        arrays: dict[str, Any] = {name: np.load(directory / f"{name}.npy", allow_pickle=False) for name in ARRAYS[1:]}
        arrays["growable_arrays"] = {
            name: GrowableArray.with_capacity(arrays[name]) for name in GROWING
        }  # the first write waits for no copy
        arrays |= {name: array.view for name, array in arrays["growable_arrays"].items()}
        store._remove_leftovers(manifest["keys_file"])
        if manifest["keys_file"]:
            path = directory / manifest["keys_file"]
            store._files = int(path.stem.rpartition("-")[2])
            arrays["file"], arrays["keys"] = VectorFile.open(path, dim, len(arrays["key_sums"]))
            arrays["checksum_guard"] = ChecksumGuard(arrays["key_sums"], f"{directory.name}/{path.name}")
        state = replace(store.current, watermark=watermark, **arrays)
        sealed = read_sealed(directory / DENSE_FILE, partial(state.checksum_guard.read, state.keys))
        if sealed.count < len(state.keys):
            raise DamagedFile(f"{directory.name}: keys that are not sealed")
        store.current = replace(state, sealed=sealed)
        return store

    def save(self, language: str, watermark: int) -> None:
        """Write the current documents to the directory, described by a manifest, so that `open` finds them.

        watermark is that of the last change to documents; memory is not saved here. No new keys are left unfolded: see
        `fold`, which whoever must not keep others waiting calls before.
        """
        self.fold()
        with self._lock:
            self._words.close()
            state = self.current
            for name in ARRAYS[1:]:
                np.save(self._directory / f"{name}.npy", getattr(state, name), allow_pickle=False)
            state.sealed.save(self._directory / DENSE_FILE)
            keys = []
            if state.file is not None:
                state.file.sync(len(state.keys))
                keys = [state.file.path.name]
            there = (self._directory / WORDS_FOLDER).iterdir()
            words = [f"{WORDS_FOLDER}/{path.name}" for path in there if _kept(path)]
            facts = {"format": FORMAT, "watermark": watermark, "dim": state.dim, "language": language}
            facts["keys_file"] = "".join(keys)
            names = [*(f"{name}.npy" for name in ARRAYS[1:]), DENSE_FILE, *words]
            write_manifest(self._directory, names, facts, with_own_checksums=keys)

    def apply(self, watermark: int, added: Sequence[IndexedDocument], removed: Sequence[int] = ()) -> Generation:
        """Publish a generation with these documents added and these rows removed.

        added must have rows above all rows so far, ascending. Waits for what is done behind the scenes only where too
        many new keys would gather meanwhile.
        """
        if _tail(self.current) + sum(len(one.keys) for one in added) > TAIL_BORNE * _most_tail(self.current):
            self._background.wait()
        with self._lock:
            self._mark_written()
            self._words.replace([document.row for document in added], [document.words for document in added])
            self._words.remove(removed)
            state = self._appended(self.current, added)
            alive = state.alive.copy()
            gone = state.doc_indices(np.asarray(removed, np.int64))
            alive[gone[gone != MISSING]] = False
            state = replace(state, watermark=watermark, alive=alive, words=self._words.commit())
            state = self._tended_here(state)
            self._publish(state)
        if is_sparse(state) or _is_tail_long(state):
            self._background.start(self._tend)
        return state

    def remember(self, watermark: int, keys: Iterable[MemoryKey]) -> Generation:
        """Publish a generation with exactly these query keys as its memory."""
        memory = Memory.of(keys, self.current.dim)
        with self._lock:
            self.current = replace(self.current, watermark=watermark, memory=memory)
            return self.current

    def revise(self, watermark: int, keys: Mapping[str, Sequence[MemoryKey]]) -> Generation:
        """Publish a generation whose memory has exactly these keys of these sources, and of others what it had."""
        memory = self.current.memory.changed(keys)
        with self._lock:
            self.current = replace(self.current, watermark=watermark, memory=memory)
            return self.current

    def settle(self) -> None:
        """Wait until what is done behind the scenes is done; raises what went wrong with it."""
        self._background.settle()

    def fold(self) -> None:
        """Fold all new keys in, so that no search scans a tail; nobody else waits. Raises DamagedKeys."""
        self.settle()
        if _tail(self.current):
            self._fold(self.current)

    def close(self) -> None:
        """End the word index's writer and what is done behind the scenes; the current generation stays searchable."""
        self._background.close()
        self._words.close()

    def _remove_leftovers(self, keys_file: str) -> None:
        """Remove the files of keys that a process which was killed was compacting to: all but the one in use."""
        for path in self._directory.glob("keys-*.f32"):
            if path.name != keys_file:
                path.unlink()

    def _mark_written(self) -> None:
        manifest = self._directory / MANIFEST
        if manifest.exists():
            manifest.unlink()
            sync_directory(self._directory)

    def _appended(self, state: Generation, added: Sequence[IndexedDocument]) -> Generation:
        if not added:
            return state
        assert not len(state.rows) or added[0].row > state.rows[-1], "rows only grow"
        keys = [key for document in added for key in document.keys]
        vectors = np.asarray([key.vector for key in keys], np.float32).reshape(len(keys), state.dim)
        tokens = [self._words.number(document.words) for document in added]
        more = {
            "key_kind": [int(key.kind) for key in keys],
            "key_start": [key.start for key in keys],
            "key_end": [key.end for key in keys],
            "key_sums": checksums(vectors),
            "rows": [document.row for document in added],
            "first_key": state.first_key[-1] + np.cumsum([len(document.keys) for document in added]),
            "tokens": np.concatenate(tokens),
            "first_token": state.first_token[-1] + np.cumsum([len(one) for one in tokens]),
        }
        return state.extended(vectors, more, np.ones(len(added), np.bool_), state.file or self._new_file(state.dim))

    def _new_file(self, dim: int) -> VectorFile:
        """Return an empty file for keys; the caller holds the lock."""
        self._files += 1
        return VectorFile(self._directory / f"keys-{self._files}.f32", dim)

    def _publish(self, state: Generation) -> None:
        """Make this the current generation, and let the file go that it has no keys in; the caller holds the lock."""
        before, self.current = self.current, state
        if before.file is not None and before.file is not state.file:
            before.file.path.unlink(missing_ok=True)

    def _tended_here(self, state: Generation) -> Generation:
        """Return the state compacted and folded where that is due and cannot be done behind the scenes.

        What takes milliseconds is done where the write stands, and so is the folding of more keys than are borne.
        """
        few = len(state.keys) <= TENDED_HERE
        if few and is_sparse(state):
            state = compact(state, self._new_file(state.dim)).state
        if _is_tail_long(state) and (few or _tail(state) > TAIL_BORNE * _most_tail(state)):
            state = replace(state, sealed=_sealed(state))
        return state

    def _tend(self) -> None:
        """Compact and fold, behind the scenes, until neither is due."""
        while True:
            state = self.current
            if is_sparse(state):
                self._compact(state)
            elif _is_tail_long(state):
                self._fold(state)
            else:
                return

    def _fold(self, state: Generation) -> None:
        sealed = _sealed(state)
        with self._lock:
            compacted = self.current.file is not state.file
            if not compacted and self.current.sealed.count < sealed.count:
                self.current = replace(self.current, sealed=sealed)

    def _compact(self, state: Generation) -> None:
        """Publish the current generation without the documents that were removed, whatever comes meanwhile."""
        with self._lock:
            file = self._new_file(state.dim)
        try:
            compaction = compact(state, file)
            if _is_tail_long(compaction.state):
                sealed = _sealed(compaction.state)
                compaction = replace(compaction, state=replace(compaction.state, sealed=sealed))
            while len(self.current.rows) - compaction.seen > CARRIED_AT_LAST:
                compaction = carried_over(compaction, self.current)
            with self._lock:
                assert self.current.file is state.file, "nobody else compacts so many keys"
                self._mark_written()
                self._publish(carried_over(compaction, self.current).state)
        finally:
            if self.current.file is not file:
                file.path.unlink()


def _tail(state: Generation) -> int:
    return len(state.keys) - state.sealed.count


def _most_tail(state: Generation) -> float:
    return max(TAIL_KEYS, min(TAIL_SHARE * len(state.keys), TAIL_MOST))


def _is_tail_long(state: Generation) -> bool:
    return _tail(state) > _most_tail(state)


def _sealed(state: Generation) -> SealedIndex:
    """Return an index over all keys of a state, equal to the bit however it came about."""
    state.checksum_guard.check_all(state.keys)
    read = partial(state.checksum_guard.read, state.keys)  # not state.vectors, which would keep all earlier indexes
    return seal(state.keys, read, state.sealed)


def _kept(path: Path) -> bool:
    """Whether a file of the word index is part of its state: its lock files are not."""
    return path.is_file() and not path.name.endswith(".lock")
