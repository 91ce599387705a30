"""The store of a collection: publishes successive generations, saves the current generation, and opens it again.

Two tasks take seconds in large collections: sealing (adding new keys to the candidate index) and compaction (copying
the living documents of a sparse generation). Both run in the background; writes made meanwhile are carried over.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.candidates.base import MISSING, SealedIndex
from index.candidates.build import read_sealed, seal
from index.errors import DamagedFile
from index.generation.appender import Appender, Block
from index.generation.columns import NAMES, ColumnBuffers, Columns
from index.generation.compaction import carried_over, compact, is_sparse
from index.generation.generation import Generation, IndexedDocument
from index.memory.memory import Memory
from index.records import Mask, MemoryKey
from index.storage.background import Background
from index.storage.checksum_guard import ChecksumGuard
from index.storage.files import MANIFEST, read_manifest, sync_directory, write_manifest
from index.storage.vector_file import VectorFile
from index.words.bm25_index import WordIndex
from index.words.reading_options import EXACTLY, ReadingOptions

TAIL_KEYS = 2048
TAIL_SHARE = 0.1
TAIL_MOST = 10_000
"""New keys are scanned exactly, which takes about a millisecond per search. They are sealed when there are more than
max(TAIL_KEYS, min(TAIL_SHARE of all keys, TAIL_MOST))."""
INLINE_KEYS = 20_000
"""Up to this number of keys, sealing and compaction run within the write and take milliseconds; above it, they run in
the background."""
WAITING_TAIL = 4
"""A write waits for the background task, or seals by itself, when the tail has this many times its allowed length."""
LAST_CARRIED = 1000
"""Maximum number of documents that are carried over to a compacted copy while writes wait, which takes milliseconds."""
FORMAT = 13
"""Version of the saved format; a folder of another version is rebuilt from the documents. Version 1 had no tokens, 2 no
checksums, 3 scanned small sets in half precision, 4 had no values, 5 had no vocabulary, 6 had no title_words and kept
halfwidth Katakana, 7 had no id_order, 8 cut words at combining marks, 9 kept letters in another form, such as `ﬁ`, 10
kept the accents of Greek letters, 11 had no metadata, 12 had no written forms."""
DENSE_FILE = "dense.faiss"
WORDS_FOLDER = "words"


class GenerationStore:
    """Holds the current generation of a collection and makes the next generation from changes. One writer at a time.

    The directory belongs to the store. A directory with a manifest is a complete saved state. The first write removes
    the manifest, which marks the saved state as stale until the next save.
    """

    def __init__(self, directory: Path, dim: int, language: str, reading: ReadingOptions = EXACTLY) -> None:
        self._directory = directory
        self.language = language
        self.words_folder = directory / WORDS_FOLDER
        self._words = WordIndex(self.words_folder, language)
        self._files = 0
        self._appender: Appender | None = None
        """The files and buffers of the current generation; None until the first document."""
        self._lock = threading.Lock()
        """Held while the next generation is made from the current generation."""
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
            reading=reading,
        )

    @classmethod
    def open(
        cls, directory: Path, dim: int, language: str, watermark: int, reading: ReadingOptions = EXACTLY
    ) -> "GenerationStore":
        """Return a saved store. It reads no vector; each vector is compared with its checksum at its first use.

        Raises DamagedFile if the folder is missing, stale, differs from its manifest, or has another format, watermark,
        width or language. The caller then rebuilds the index from the documents.
        """
        manifest = read_manifest(directory)
        facts = {"format": FORMAT, "watermark": watermark, "dim": dim, "language": language}
        stale = {name: manifest.get(name) for name, value in facts.items() if manifest.get(name) != value}
        if stale:
            raise DamagedFile(f"{directory.name}: saved with {stale}, expected {facts}")
        store = cls(directory, dim, language, reading)
        state = store._read_vectors(replace(store.current, watermark=watermark), manifest["vector_files"])
        sealed = read_sealed(directory / DENSE_FILE, partial(state.key_guard.read, state.keys))
        if sealed.count < len(state.keys):
            raise DamagedFile(f"{directory.name}: some keys are not sealed")
        store.current = replace(state, sealed=sealed)
        return store

    def _read_vectors(self, state: Generation, vector_files: Sequence[str]) -> Generation:
        """Return the state with the saved columns and vectors, and open its files for appending."""
        arrays: dict[str, Any] = {name: self._read_array(name) for name in NAMES}
        buffers = ColumnBuffers(Columns(**arrays))
        columns = buffers.columns
        state = replace(state, columns=columns, alive=self._read_array("alive"))
        self._remove_leftovers(vector_files)
        if not vector_files:
            return state
        keys_path, values_path = (self._directory / name for name in vector_files)
        self._files = int(keys_path.stem.rpartition("-")[2])
        key_file, keys = VectorFile.open(keys_path, state.dim, len(columns.key_checksums))
        value_file, values = VectorFile.open(values_path, state.dim, len(columns.rows))
        self._appender = Appender(key_file, value_file, buffers)
        key_guard = ChecksumGuard(columns.key_checksums, f"{self._directory.name}/{keys_path.name}")
        value_guard = ChecksumGuard(columns.value_checksums, f"{self._directory.name}/{values_path.name}")
        files = keys_path, values_path
        return replace(state, keys=keys, values=values, key_guard=key_guard, value_guard=value_guard, files=files)

    def _read_array(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = np.load(self._directory / f"{name}.npy", allow_pickle=False)
        return array

    def save(self, language: str, watermark: int) -> None:
        """Write the current documents and a manifest to the directory, for `open`.

        watermark is the watermark of the last change to documents; memory is not saved. All new keys are sealed first;
        call `seal_tail` before if other threads must not wait for sealing.
        """
        self.seal_tail()
        with self._lock:
            self.current = state = replace(self.current, words=self._words.flush())
            self._words.close()
            files = self._write_arrays(state)
            vector_files: list[str] = []
            if self._appender is not None:
                self._appender.sync(state)
                vector_files = [path.name for path in self._appender.paths]
            facts: dict[str, Any] = {"format": FORMAT, "watermark": watermark, "dim": state.dim, "language": language}
            facts["vector_files"] = vector_files  # keys, then values; empty without documents
            write_manifest(self._directory, files, facts, with_own_checksums=vector_files)

    def _write_arrays(self, state: Generation) -> list[str]:
        """Write the columns and the sealed index; return the names of all files with a checksum in the manifest."""
        arrays = state.columns.by_name() | {"alive": state.alive}
        for name, array in arrays.items():
            np.save(self._directory / f"{name}.npy", array, allow_pickle=False)
        state.sealed.save(self._directory / DENSE_FILE)
        words = [path.name for path in (self._directory / WORDS_FOLDER).iterdir() if _is_saved(path)]
        return [*(f"{name}.npy" for name in arrays), DENSE_FILE, *(f"{WORDS_FOLDER}/{name}" for name in words)]

    def apply(self, watermark: int, added: Sequence[IndexedDocument], removed: Sequence[int] = ()) -> Generation:
        """Publish a generation with these documents added and these rows removed.

        The rows of `added` must be ascending and above all earlier rows. Waits for the background task only if the tail
        would become too long. After an error the current generation is as before, and the words of the failed change
        are forgotten; the caller brings the index up to its documents before the next change.
        """
        new_keys = sum(len(document.keys) for document in added)
        if _tail(self.current) + new_keys > WAITING_TAIL * _allowed_tail(self.current):
            self._background.wait()
        with self._lock:
            self._mark_written()
            try:
                state, appender = self._changed(watermark, added, removed)
            except BaseException:
                self._words.roll_back()
                raise
            self.current = state
            if appender is not None and appender is not self._appender:
                self._replace_appender(appender)
        if is_sparse(state) or _is_tail_long(state):
            self._background.start(self._maintain)
        return state

    def hide(self, removed: Sequence[int]) -> None:
        """Publish a generation without these rows, whose words stay in the index: it needs no disk."""
        with self._lock:
            self.current = replace(self.current, alive=_alive_without(self.current, removed))

    @property
    def is_on_disk(self) -> bool:
        """Whether the files that the next change is written to exist."""
        files = [] if self._appender is None else self._appender.paths
        return self._words.is_on_disk and all(path.is_file() for path in files)

    def remember(self, watermark: int, keys: Iterable[MemoryKey]) -> Generation:
        """Publish a generation with exactly these memory keys."""
        memory = Memory.of(keys, self.current.dim)
        with self._lock:
            self.current = replace(self.current, watermark=watermark, memory=memory)
            return self.current

    def revise(self, watermark: int, keys: Mapping[str, Sequence[MemoryKey]]) -> Generation:
        """Publish a generation in which these query keys have exactly these memory keys; the others are unchanged."""
        memory = self.current.memory.changed(keys)
        with self._lock:
            self.current = replace(self.current, watermark=watermark, memory=memory)
            return self.current

    def configure(self, reading: ReadingOptions) -> None:
        """Publish the current generation with other options for reading queries."""
        with self._lock:
            self.current = replace(self.current, reading=reading)

    def settle(self) -> None:
        """Wait until the background task has ended. Raises its error."""
        self._background.settle()

    def seal_tail(self) -> None:
        """Seal all new keys, so that no search scans a tail. Searches and writes do not wait. Raises DamagedKeys."""
        self.settle()
        if _tail(self.current):
            self._seal(*self._snapshot())

    def close(self) -> None:
        """End the background task and the writer of the word index. The current generation stays searchable."""
        self._background.close()
        self._words.close()

    def _new_appender(self) -> Appender:
        """Return an appender to new, empty files; the caller holds the lock."""
        self._files += 1
        keys, values = (self._directory / f"{name}-{self._files}.f32" for name in ("keys", "values"))
        return Appender.create(keys, values, self.current.dim)

    def _remove_leftovers(self, saved: Sequence[str]) -> None:
        """Remove the vector files of an unfinished compaction: all except the saved files."""
        for pattern in ("keys-*.f32", "values-*.f32"):
            for path in self._directory.glob(pattern):
                if path.name not in saved:
                    path.unlink()

    def _mark_written(self) -> None:
        manifest = self._directory / MANIFEST
        if manifest.exists():
            manifest.unlink()
            sync_directory(self._directory)

    def _changed(
        self, watermark: int, added: Sequence[IndexedDocument], removed: Sequence[int]
    ) -> tuple[Generation, Appender | None]:
        """Return the current generation with these documents added and these rows removed, and its appender.

        The words are committed last: an error before leaves them as they are. Raises DamagedFile if they are not of
        exactly the living documents, or if the files are gone: few words are written to no file, which would not fail.
        """
        if not self.is_on_disk:
            raise DamagedFile(f"{self._directory.name}: the files are missing")
        self._words.replace([document.row for document in added], [document.words for document in added])
        self._words.remove(removed)
        state = self._appended(self.current, added)
        state = replace(state, watermark=watermark, alive=_alive_without(state, removed))
        state, appender = self._maintained_inline(state)
        words = self._words.commit(_mean_words(state.columns))
        if words.count != state.count:
            raise DamagedFile(f"{self._directory.name}/{WORDS_FOLDER}: {words.count} of {state.count} documents")
        return replace(state, words=words), appender

    def _appended(self, state: Generation, added: Sequence[IndexedDocument]) -> Generation:
        if not added:
            return state
        assert not len(state.rows) or added[0].row > state.rows[-1], "rows only grow"
        if self._appender is None:
            self._appender = self._new_appender()
        tokens = [self._words.number(document.words) for document in added]
        title_words = [len(self._words.number(document.title)) for document in added]
        return self._appender.append(state, Block.of(added, tokens, title_words, state.dim))

    def _replace_appender(self, appender: Appender) -> None:
        """Append to other files from now on, and unlink the previous files; the caller holds the lock."""
        before, self._appender = self._appender, appender
        if before is not None:
            before.remove_files()

    def _maintained_inline(self, state: Generation) -> tuple[Generation, Appender | None]:
        """Return the state compacted and sealed, if it has few keys or the tail is too long, and its appender.

        The caller holds the lock, and replaces the appender only once the state is published: if sealing fails, the
        current generation keeps its own files.
        """
        few, appender = len(state.keys) <= INLINE_KEYS, self._appender
        if few and is_sparse(state):
            compaction = compact(state, self._new_appender())
            state, appender = compaction.state, compaction.appender
        if _is_tail_long(state) and (few or _tail(state) > WAITING_TAIL * _allowed_tail(state)):
            state = replace(state, sealed=_sealed(state))
        return state, appender

    def _maintain(self) -> None:
        """Compact and seal, in the background, until neither is necessary."""
        while True:
            state, appender = self._snapshot()
            if is_sparse(state):
                self._compact(state, appender)
            elif _is_tail_long(state):
                self._seal(state, appender)
            else:
                return

    def _snapshot(self) -> tuple[Generation, Appender | None]:
        """Return the current generation and its appender."""
        with self._lock:
            return self.current, self._appender

    def _seal(self, state: Generation, appender: Appender | None) -> None:
        sealed = _sealed(state)
        with self._lock:
            if self._appender is appender and self.current.sealed.count < sealed.count:
                self.current = replace(self.current, sealed=sealed)

    def _compact(self, state: Generation, appender: Appender | None) -> None:
        """Publish the current generation without removed documents. Writes wait only for the last step."""
        with self._lock:
            files = self._new_appender()
        try:
            compaction = compact(state, files)
            if _is_tail_long(compaction.state):
                sealed = _sealed(compaction.state)
                compaction = replace(compaction, state=replace(compaction.state, sealed=sealed))
            while len(self.current.rows) - compaction.seen > LAST_CARRIED:
                compaction = carried_over(compaction, self.current)
            with self._lock:
                assert self._appender is appender, "only the background task compacts so many keys"
                self._mark_written()
                self.current = carried_over(compaction, self.current).state
                self._replace_appender(files)
        finally:
            if self._appender is not files:
                files.remove_files()


def _alive_without(state: Generation, removed: Sequence[int]) -> Mask:
    """Return the mask (N,) of the living documents without these rows."""
    alive = state.alive.copy()
    gone = state.doc_indices(np.asarray(removed, np.int64))
    alive[gone[gone != MISSING]] = False
    return alive


def _mean_words(columns: Columns) -> float:
    """Return the mean number of words of all documents, also of removed ones, as the files count them; at least 1."""
    return max(1.0, len(columns.tokens) / max(1, len(columns.rows)))


def _tail(state: Generation) -> int:
    """Return the number of keys that are not sealed."""
    return len(state.keys) - state.sealed.count


def _allowed_tail(state: Generation) -> float:
    return max(TAIL_KEYS, min(TAIL_SHARE * len(state.keys), TAIL_MOST))


def _is_tail_long(state: Generation) -> bool:
    return _tail(state) > _allowed_tail(state)


def _sealed(state: Generation) -> SealedIndex:
    """Return an index over all keys of a state. The same keys give the same bits, regardless of how they were added."""
    state.key_guard.check_all(state.keys)
    read = partial(state.key_guard.read, state.keys)  # state.key_vectors would keep all earlier indexes in memory
    return seal(state.keys, read, state.sealed)


def _is_saved(path: Path) -> bool:
    """Return whether a file of the word index is saved; lock files are not."""
    return path.is_file() and not path.name.endswith(".lock")
