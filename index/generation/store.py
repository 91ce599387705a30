"""The store of a collection: publishes one generation after another, saves the current one, and opens it again.

Two tasks take seconds where keys are many: sealing new keys into the candidate index, and copying the living documents
of a sparse generation. Both run in the background, and writes made meanwhile are carried over.
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
from index.generation.appender import Appender, Block
from index.generation.columns import NAMES, ColumnBuffers, Columns
from index.generation.compaction import carried_over, compact, is_sparse
from index.generation.generation import Generation, IndexedDocument
from index.memory.memory import Memory
from index.records import MemoryKey
from index.storage.background import Background
from index.storage.checksum_guard import ChecksumGuard
from index.storage.files import MANIFEST, read_manifest, sync_directory, write_manifest
from index.storage.vector_file import VectorFile
from index.words.bm25_index import WordIndex

TAIL_KEYS = 2048
TAIL_SHARE = 0.1
TAIL_MOST = 10_000
"""New keys are scanned exactly until they are TAIL_KEYS, or TAIL_SHARE of all keys but at most TAIL_MOST: a millisecond
of a search. Then they are sealed."""
TENDED_HERE = 20_000
"""Keys up to which sealing and compaction run within the write, in milliseconds; above, they run in the background."""
TAIL_BORNE = 4
"""A write waits for the background task, or seals by itself, once the tail is this many times as long as is allowed."""
CARRIED_AT_LAST = 1000
"""Documents carried over to compacted arrays while writes wait, which takes milliseconds."""
FORMAT = 5
"""Format of a saved state; a folder of another format is rebuilt from the documents. Format 1 had no tokens, 2 no
checksums, 3 scanned small sets in half precision, 4 had no values."""
DENSE_FILE = "dense.faiss"
WORDS_FOLDER = "words"


class GenerationStore:
    """Holds the current generation of one collection and makes the next one from changes. One writer at a time.

    The directory belongs to the store. With a manifest it is a complete saved state; the first write removes the
    manifest, so that a folder that was written to and not saved again is known to be stale.
    """

    def __init__(self, directory: Path, dim: int, language: str) -> None:
        self._directory = directory
        self._words = WordIndex(directory / WORDS_FOLDER, language)
        self._files = 0
        self._appender: Appender | None = None
        """Files and buffers behind the current generation; None until the first document."""
        self._lock = threading.Lock()
        """Held while the next generation is made from the current one."""
        self._background = Background()
        empty = np.empty((0, dim), np.float32)
        self.current = Generation(
            watermark=0,
            keys=empty,
            values=empty,
            columns=Columns.empty(),
            alive=np.empty(0, np.bool_),
            memory=Memory.of([], dim),
            sealed=seal(empty, empty.__getitem__),
            words=self._words.searcher(),
        )

    @classmethod
    def open(cls, directory: Path, dim: int, language: str, watermark: int) -> "GenerationStore":
        """Return the store as it was saved. No vector is read: each is compared with its checksum at its first use.

        Raises DamagedFile when the folder is missing, was written to since, differs from its manifest, or has another
        watermark, width or language: the owner of the documents then rebuilds the index.
        """
        manifest = read_manifest(directory)
        facts = {"format": FORMAT, "watermark": watermark, "dim": dim, "language": language}
        stale = {name: manifest.get(name) for name, value in facts.items() if manifest.get(name) != value}
        if stale:
            raise DamagedFile(f"{directory.name}: saved with {stale}, wanted {facts}")
        store = cls(directory, dim, language)
        arrays: dict[str, Any] = {name: np.load(directory / f"{name}.npy", allow_pickle=False) for name in NAMES}
        buffers = ColumnBuffers(Columns(**arrays))
        columns = buffers.columns
        state = replace(
            store.current,
            watermark=watermark,
            columns=columns,
            alive=np.load(directory / "alive.npy", allow_pickle=False),
        )
        store._remove_leftovers(manifest["vector_files"])
        if manifest["vector_files"]:
            keys_path, values_path = (directory / name for name in manifest["vector_files"])
            store._files = int(keys_path.stem.rpartition("-")[2])
            key_file, keys = VectorFile.open(keys_path, dim, len(columns.key_checksums))
            value_file, values = VectorFile.open(values_path, dim, len(columns.rows))
            store._appender = Appender(key_file, value_file, buffers)
            key_guard = ChecksumGuard(columns.key_checksums, f"{directory.name}/{keys_path.name}")
            value_guard = ChecksumGuard(columns.value_checksums, f"{directory.name}/{values_path.name}")
            state = replace(state, keys=keys, values=values, key_guard=key_guard, value_guard=value_guard)
        sealed = read_sealed(directory / DENSE_FILE, partial(state.key_guard.read, state.keys))
        if sealed.count < len(state.keys):
            raise DamagedFile(f"{directory.name}: keys that are not sealed")
        store.current = replace(state, sealed=sealed)
        return store

    def save(self, language: str, watermark: int) -> None:
        """Write the current documents to the directory, described by a manifest, so that `open` finds them.

        watermark is that of the last change to documents; memory is not saved here. All new keys are sealed first; call
        `seal_tail` before where others must not wait for that.
        """
        self.seal_tail()
        with self._lock:
            self._words.close()
            state = self.current
            arrays = state.columns.by_name() | {"alive": state.alive}
            for name, array in arrays.items():
                np.save(self._directory / f"{name}.npy", array, allow_pickle=False)
            state.sealed.save(self._directory / DENSE_FILE)
            vector_files: list[str] = []
            if self._appender is not None:
                self._appender.sync(state)
                vector_files = [path.name for path in self._appender.paths]
            present = (self._directory / WORDS_FOLDER).iterdir()
            words = [f"{WORDS_FOLDER}/{path.name}" for path in present if _is_saved(path)]
            facts: dict[str, Any] = {"format": FORMAT, "watermark": watermark, "dim": state.dim, "language": language}
            facts["vector_files"] = vector_files  # keys, then values; none without a document
            names = [*(f"{name}.npy" for name in arrays), DENSE_FILE, *words]
            write_manifest(self._directory, names, facts, with_own_checksums=vector_files)

    def apply(self, watermark: int, added: Sequence[IndexedDocument], removed: Sequence[int] = ()) -> Generation:
        """Publish a generation with these documents added and these rows removed.

        The rows of `added` must be ascending and above all rows so far. Waits for the background task only where too
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
            self.current = state
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
        """Publish a generation whose memory has exactly these keys for these query keys, and is otherwise unchanged."""
        memory = self.current.memory.changed(keys)
        with self._lock:
            self.current = replace(self.current, watermark=watermark, memory=memory)
            return self.current

    def settle(self) -> None:
        """Wait until the background task has ended; raises its error."""
        self._background.settle()

    def seal_tail(self) -> None:
        """Seal all new keys, so that no search scans a tail; nothing else waits meanwhile. Raises DamagedKeys."""
        self.settle()
        if _tail(self.current):
            self._seal(*self._snapshot())

    def close(self) -> None:
        """End the background task and the word index's writer; the current generation stays searchable."""
        self._background.close()
        self._words.close()

    def _new_appender(self) -> Appender:
        """Return an appender to new, empty files; the caller holds the lock."""
        self._files += 1
        keys, values = (self._directory / f"{what}-{self._files}.f32" for what in ("keys", "values"))
        return Appender.create(keys, values, self.current.dim)

    def _remove_leftovers(self, saved: Sequence[str]) -> None:
        """Remove vector files of a compaction that a killed process did not finish: all but the saved ones."""
        for pattern in ("keys-*.f32", "values-*.f32"):
            for path in self._directory.glob(pattern):
                if path.name not in saved:
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
        if self._appender is None:
            self._appender = self._new_appender()
        tokens = [self._words.number(document.words) for document in added]
        return self._appender.append(state, Block.of(added, tokens, state.dim))

    def _replace_appender(self, appender: Appender) -> None:
        """Append to other files from now on, and remove the names of the files before; the caller holds the lock."""
        before, self._appender = self._appender, appender
        if before is not None:
            before.remove_files()

    def _tended_here(self, state: Generation) -> Generation:
        """Return the state compacted and sealed where that is due and takes milliseconds, or where the tail is too long.

        The caller holds the lock.
        """
        few = len(state.keys) <= TENDED_HERE
        if few and is_sparse(state):
            compaction = compact(state, self._new_appender())
            self._replace_appender(compaction.appender)
            state = compaction.state
        if _is_tail_long(state) and (few or _tail(state) > TAIL_BORNE * _most_tail(state)):
            state = replace(state, sealed=_sealed(state))
        return state

    def _tend(self) -> None:
        """Compact and seal, in the background, until neither is due."""
        while True:
            state, appender = self._snapshot()
            if is_sparse(state):
                self._compact(state, appender)
            elif _is_tail_long(state):
                self._seal(state, appender)
            else:
                return

    def _snapshot(self) -> tuple[Generation, Appender | None]:
        """Return the current generation, and the appender whose files hold its vectors."""
        with self._lock:
            return self.current, self._appender

    def _seal(self, state: Generation, appender: Appender | None) -> None:
        sealed = _sealed(state)
        with self._lock:
            if self._appender is appender and self.current.sealed.count < sealed.count:
                self.current = replace(self.current, sealed=sealed)

    def _compact(self, state: Generation, appender: Appender | None) -> None:
        """Publish the current generation without removed documents; writes go on until the last step."""
        with self._lock:
            files = self._new_appender()
        try:
            compaction = compact(state, files)
            if _is_tail_long(compaction.state):
                sealed = _sealed(compaction.state)
                compaction = replace(compaction, state=replace(compaction.state, sealed=sealed))
            while len(self.current.rows) - compaction.seen > CARRIED_AT_LAST:
                compaction = carried_over(compaction, self.current)
            with self._lock:
                assert self._appender is appender, "only the background task compacts so many keys"
                self._mark_written()
                self.current = carried_over(compaction, self.current).state
                self._replace_appender(files)
        finally:
            if self._appender is not files:
                files.remove_files()


def _tail(state: Generation) -> int:
    """Return the number of keys that are not sealed."""
    return len(state.keys) - state.sealed.count


def _most_tail(state: Generation) -> float:
    return max(TAIL_KEYS, min(TAIL_SHARE * len(state.keys), TAIL_MOST))


def _is_tail_long(state: Generation) -> bool:
    return _tail(state) > _most_tail(state)


def _sealed(state: Generation) -> SealedIndex:
    """Return an index over all keys of a state; the same keys give the same bits, however they were added."""
    state.key_guard.check_all(state.keys)
    read = partial(state.key_guard.read, state.keys)  # state.key_vectors would keep all earlier indexes in memory
    return seal(state.keys, read, state.sealed)


def _is_saved(path: Path) -> bool:
    """Return whether a file of the word index is part of its state; its lock files are not."""
    return path.is_file() and not path.name.endswith(".lock")
