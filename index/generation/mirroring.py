"""Generations in another process: what is new since an earlier generation, and the generation made from it.

One process writes; others map its vectors, and copies of its columns, from append-only files, so that each further
process has little memory of its own. What is small, such as removed documents and memory keys, is in the changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.candidates.base import SealedIndex
from index.candidates.build import read_sealed
from index.errors import DamagedFile
from index.generation.columns import NAMES, OFFSETS, Columns
from index.generation.generation import Generation
from index.memory.memory import KEY, Memory
from index.memory.mirroring import MemoryChange, change, follows, mirrored, vectors_to_write
from index.records import Floats
from index.storage.checksum_guard import ChecksumGuard
from index.storage.shared_rows import MappedRows, SharedRows
from index.words.reading_options import ReadingOptions
from index.words.word_reader import OtherCommit, WordDescriber, WordReader
from index.words.word_search import WordSearcher

Change = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""A change as JSON and arrays, for `index.storage.frames`."""
PER_DOCUMENT = ("rows", "value_checksums", "title_words", "id_order")
PER_PAIR = ("field_keys", "field_numbers")
WORDS_OF = "tokens"


@dataclass(frozen=True)
class Files:
    """Where a generation is stored: keys and values, None without documents, and the folder of the word index."""

    keys: Path | None
    values: Path | None
    words: Path
    language: str


class GenerationFeed:
    """The writing side, for generations whose vectors are in the same files. Another feed begins with other files."""

    def __init__(self, folder: Path, files: Files, state: Generation) -> None:
        """Write what the readers of `state` need to a new folder. It may take as long as a copy of all columns."""
        folder.mkdir(mode=0o700, parents=True)
        self.folder = folder
        self.files = files
        self._columns = {name: SharedRows(folder / f"{name}.rows") for name in NAMES}
        self._memories = 0
        self._memory_vectors = self._new_memory_vectors()
        self._sealed: tuple[SealedIndex, str] | None = None
        self._sealed_files = 0
        self._words = WordDescriber()
        self.published: Generation | None = None
        self._append_columns(state)
        self.write_sealed(state.sealed)
        self._base = state

    def base(self) -> Change:
        """Return the change that makes the first generation from nothing."""
        files = {
            "keys": None if self.files.keys is None else str(self.files.keys),
            "values": None if self.files.values is None else str(self.files.values),
            "columns": str(self.folder),
            "words": str(self.files.words),
            "language": self.files.language,
            "dim": self._base.dim,
        }
        head, arrays = self.change(self._base)
        return head | {"files": files}, arrays

    def change(self, state: Generation) -> Change:
        """Return what a later generation has more than the one of the last call. Raises OSError for a full disk."""
        before, self.published = self.published, state
        self._append_columns(state)
        head: dict[str, Any] = {
            "watermark": state.watermark,
            "counts": [len(state.rows), len(state.keys), len(state.columns.tokens), len(state.columns.field_keys)],
        }
        arrays: dict[str, NDArray[Any]] = {"dead": _newly_dead(before, state)}
        if before is None or before.words is not state.words:
            head["words"] = self._words.described(state.words)
        if before is None or before.memory is not state.memory:
            memory, more = self._memory_change(None if before is None else before.memory, state.memory)
            head["memory"], arrays = memory, arrays | more
        if self._sealed is not None and self._sealed[0] is not getattr(before, "sealed", None):
            head["sealed"] = self._sealed[1]
        if self._sealed is not None:
            self.published = replace(state, sealed=self._sealed[0])
        return head, arrays

    def has_sealed(self, sealed: SealedIndex) -> bool:
        """Return whether the candidate index was written."""
        return self._sealed is not None and self._sealed[0] is sealed

    def write_sealed(self, sealed: SealedIndex) -> None:
        """Write a candidate index, which may take long; the next change names it."""
        self._sealed_files += 1
        name = f"dense-{self._sealed_files}.faiss"
        sealed.save(self.folder / name)
        before, self._sealed = self._sealed, (sealed, name)
        if before is not None:
            (self.folder / before[1]).unlink(missing_ok=True)

    def _new_memory_vectors(self) -> SharedRows:
        self._memories += 1
        return SharedRows(self.folder / f"memory-{self._memories}.rows")

    def _append_columns(self, state: Generation) -> None:
        for name, column in state.columns.by_name().items():
            self._columns[name].append(column[self._columns[name].count :])

    def _memory_change(self, before: Memory | None, memory: Memory) -> Change:
        if before is not None and not follows(before, memory):
            before, earlier = None, self._memory_vectors
            self._memory_vectors = self._new_memory_vectors()
            earlier.path.unlink(missing_ok=True)
        changed = change(before, memory)
        for vectors in vectors_to_write(memory, self._memory_vectors.count):
            self._memory_vectors.append(vectors)
        head = {
            "is_whole": before is None,
            "vectors": self._memory_vectors.path.name,
            "count": len(memory.vectors),
            "names": list(changed.names),
        }
        table = changed.table.view(np.uint8).reshape(len(changed.table), KEY.itemsize)
        return head, {"memory_table": table, "memory_positions": changed.positions, "memory_spans": changed.spans}


def _newly_dead(before: Generation | None, state: Generation) -> NDArray[np.int64]:
    """Return the doc indices of the documents that are removed in a generation and were not in the one before."""
    if before is None:
        return np.flatnonzero(~state.alive)
    if before.alive is state.alive:
        return np.empty(0, np.int64)
    known = len(before.alive)
    gone = np.flatnonzero(before.alive & ~state.alive[:known])
    return np.append(gone, np.flatnonzero(~state.alive[known:]) + known)


class GenerationMirror:
    """The reading side: makes each generation from the one before and a change.

    Changes come in order and none is left out. `current` is None while a file that a change names is gone, because the
    writer has replaced it meanwhile: a later change names another.
    """

    def __init__(self, head: Mapping[str, Any]) -> None:
        """head: of the first change. Raises OtherCommit if the word index is gone."""
        files = head["files"]
        self._folder, self._dim = Path(files["columns"]), files["dim"]
        self._keys = None if files["keys"] is None else _vectors(Path(files["keys"]), self._dim)
        self._values = None if files["values"] is None else _vectors(Path(files["values"]), self._dim)
        self._column_rows = {
            name: MappedRows(self._folder / f"{name}.rows", array.dtype)
            for name, array in Columns.empty().by_name().items()
        }
        self._reader = WordReader(Path(files["words"]), files["language"])
        self._memory_vectors: MappedRows | None = None
        self._guards: tuple[ChecksumGuard, ChecksumGuard] | None = None
        self._alive = np.empty(0, np.bool_)
        self._memory: Memory | None = None
        self._sealed: SealedIndex | None = None
        self._words: WordSearcher | None = None
        self.current: Generation | None = None

    def apply(self, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], reading: ReadingOptions) -> None:
        """Apply a change. Raises DamagedFile if the files of all changes of this mirror are gone."""
        documents, key_count, tokens, pairs = head["counts"]
        columns = self._columns(documents, key_count, tokens, pairs)
        empty = np.empty((0, self._dim), np.float32)
        keys = empty if self._keys is None else self._keys.first(key_count)
        values = empty if self._values is None else self._values.first(documents)
        if self._guards is None:  # later rows were written by the process that runs
            self._guards = (
                ChecksumGuard(columns.key_checksums, "keys"),
                ChecksumGuard(columns.value_checksums, "values"),
            )
        added = np.ones(documents - len(self._alive), np.bool_)
        if len(added) or len(arrays["dead"]):
            self._alive = np.append(self._alive, added)
            self._alive[arrays["dead"]] = False
        if "sealed" in head:
            self._sealed = self._read_sealed(head["sealed"], self._guards[0], keys)
        if "memory" in head:
            self._memory = self._changed_memory(head["memory"], arrays)
        if "words" in head:
            self._words = self._read_words(head["words"])
        self.current = None
        if self._sealed is not None and self._memory is not None and self._words is not None:
            self.current = Generation(
                watermark=head["watermark"],
                keys=keys,
                values=values,
                columns=columns,
                alive=self._alive,
                memory=self._memory,
                sealed=self._sealed,
                words=self._words,
                key_guard=self._guards[0],
                value_guard=self._guards[1],
                reading=reading,
            )

    def configure(self, reading: ReadingOptions) -> None:
        """Use other options for reading queries."""
        if self.current is not None:
            self.current = replace(self.current, reading=reading)

    def _columns(self, documents: int, keys: int, tokens: int, pairs: int) -> Columns:
        counts = dict.fromkeys(NAMES, keys) | dict.fromkeys(PER_PAIR, pairs)
        counts |= dict.fromkeys(PER_DOCUMENT, documents) | dict.fromkeys(OFFSETS, documents + 1) | {WORDS_OF: tokens}
        return Columns(**{name: self._column_rows[name].first(count) for name, count in counts.items()})

    def _read_sealed(self, name: str, guard: ChecksumGuard, keys: Floats) -> SealedIndex | None:
        try:
            return read_sealed(self._folder / name, partial(guard.read, keys))
        except RuntimeError:  # of the library, for a missing file
            return None

    def _read_words(self, described: dict[str, Any]) -> WordSearcher | None:
        try:
            return self._reader.read(described)
        except OtherCommit:
            return None

    def _changed_memory(self, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Memory | None:
        before = None if head["is_whole"] else self._memory
        if before is None and not head["is_whole"]:
            return None
        path = self._folder / head["vectors"]
        if self._memory_vectors is None or self._memory_vectors.path != path:
            self._memory_vectors = _vectors(path, self._dim)
        table = np.ascontiguousarray(arrays["memory_table"]).reshape(-1).view(KEY)
        changed = MemoryChange(head["names"], table, arrays["memory_positions"], arrays["memory_spans"])
        try:
            return mirrored(before, changed, self._memory_vectors.first(head["count"]))
        except DamagedFile:
            return None


def _vectors(path: Path, dim: int) -> MappedRows:
    return MappedRows(path, np.dtype(np.float32), (dim,))
