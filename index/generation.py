"""A generation: one immutable, searchable state of a collection, and the store that publishes the next one.

Sees row numbers, vectors and texts to index; ids, SQL and HTTP are not known here. A search holds one generation from
its first step to its last. Rows are numbers that only grow: a replaced document comes back under a new row, so arrays
are appended to beyond what any published generation sees, and nothing that a search reads is ever written.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from index.candidates.base import MISSING
from index.candidates.exact import ExactIndex
from index.candidates.faiss import FaissIndex
from index.errors import DamagedFile
from index.files import MANIFEST, read_manifest, sync_directory, write_manifest
from index.lexical import WordIndex, WordSearcher
from index.matching import Words
from index.memory import Memory
from index.records import Floats, Ints, Key, Mask, MemoryKey

TAIL_SHARE = 0.1
TAIL_KEYS = 2048
"""New keys are scanned exactly until they are this many, or this share of the whole; then all are indexed anew."""
DEAD_SHARE = 0.3
"""Share of deleted keys at which the arrays are compacted."""
ARRAYS = ("keys", "key_kind", "key_start", "key_end", "rows", "first_key", "tokens", "first_token", "alive")
"""The arrays of a generation that are saved, one file each; memory is read from the database at every start."""
FORMAT = 2
"""Of what is saved; a folder of another format is rebuilt from the documents. 1 had no tokens."""
DENSE_FILE = "dense.faiss"
WORDS_FOLDER = "words"


@dataclass(frozen=True)
class IndexedDocument:
    """What the index needs to know of a document: its row, the text that words are found in, its own keys."""

    row: int
    words: str
    keys: Sequence[Key]


@dataclass(frozen=True)
class Generation:
    """One searchable state. A document's place is its position in `rows`; its keys are first_key[n]:first_key[n + 1].

    keys (K, D) unit; key_kind (K,), key_start and key_end (K,) characters; rows (N,) ascending; first_key (N + 1,);
    tokens (T,) the words of all documents as numbers, first_token (N + 1,) where each begins; alive (N,) bool.
    `sealed` indexes the first sealed.count keys, the rest is the exact tail.
    """

    watermark: int
    keys: Floats
    key_kind: Ints
    key_start: Ints
    key_end: Ints
    rows: Ints
    first_key: Ints
    tokens: Words
    first_token: Ints
    alive: Mask
    memory: Memory
    sealed: FaissIndex
    words: WordSearcher

    @property
    def dim(self) -> int:
        """D."""
        return int(self.keys.shape[1])

    @property
    def count(self) -> int:
        """Documents that can be found."""
        return int(self.alive.sum())

    @cached_property
    def key_place(self) -> Ints:
        """The place of the document that owns each key (K,)."""
        return np.repeat(np.arange(len(self.rows)), np.diff(self.first_key))

    @cached_property
    def mean_words(self) -> float:
        """Words of a document in the mean of those that can be found, at least 1."""
        lengths = np.diff(self.first_token)[self.alive]
        return max(1.0, float(lengths.mean())) if len(lengths) else 1.0

    def places(self, rows: Ints) -> Ints:
        """Return the places of these rows, MISSING for a row that is not here or not alive."""
        if not len(self.rows):
            return np.full(len(rows), MISSING, np.int64)
        place = np.searchsorted(self.rows, rows).clip(0, len(self.rows) - 1)
        return np.where((self.rows[place] == rows) & self.alive[place], place, MISSING)

    def nearest(self, queries: Floats, count: int, allowed: Mask) -> list[Ints]:
        """Return per query (H, D) the places of the `count` documents with the nearest keys, best first.

        allowed (N,) bool. Documents have several keys, so keys are asked for until enough documents are met.
        """
        key_allowed = allowed[self.key_place]
        reachable = int(np.count_nonzero(allowed & (np.diff(self.first_key) > 0)))
        wanted, asked = min(count, reachable), count * max(2, -(-len(self.keys) // max(1, reachable)))
        while True:
            found = self._nearest_keys(queries, min(asked, len(self.keys)), key_allowed)
            places = [self._distinct_places(row) for row in found]
            if min(map(len, places)) >= wanted or asked >= len(self.keys):
                return [row[:count] for row in places]
            asked *= 4

    def _distinct_places(self, keys: Ints) -> Ints:
        places = self.key_place[keys[keys != MISSING]]
        _, first = np.unique(places, return_index=True)
        distinct: Ints = places[np.sort(first)]
        return distinct

    def _nearest_keys(self, queries: Floats, k: int, allowed: Mask) -> Ints:
        """Return the positions (H, k) of the nearest allowed keys, sealed and tail together, best first."""
        if k == 0:
            return np.empty((len(queries), 0), np.int64)
        cut = self.sealed.count
        all_allowed = bool(allowed[:cut].all())
        scores, found = self.sealed.search(queries, k, None if all_allowed else allowed[:cut])
        if cut < len(self.keys):
            tail_scores, tail_found = ExactIndex(self.keys[cut:]).search(queries, k, allowed[cut:])
            tail_found = np.where(tail_found == MISSING, MISSING, tail_found + cut)
            scores, found = np.hstack([scores, tail_scores]), np.hstack([found, tail_found])
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            return np.take_along_axis(found, order, axis=1)
        return found


class GenerationStore:
    """Holds the current generation of one collection and makes the next from what changed. One writer at a time.

    directory belongs to the store. With a manifest it is a complete saved state; the first write takes the manifest
    away, so that a folder that was written to and not saved again is known to be stale.
    """

    def __init__(self, directory: Path, dim: int, language: str) -> None:
        self._directory = directory
        self._words = WordIndex(directory / WORDS_FOLDER, language)
        empty = np.empty((0, dim), np.float32)
        none = np.empty(0, np.int64)
        self.current = Generation(
            watermark=0,
            keys=empty,
            key_kind=none,
            key_start=none,
            key_end=none,
            rows=none,
            first_key=np.zeros(1, np.int64),
            tokens=np.empty(0, np.uint32),
            first_token=np.zeros(1, np.int64),
            alive=np.empty(0, np.bool_),
            memory=Memory.of([], dim),
            sealed=FaissIndex(empty),
            words=self._words.searcher(),
        )
        self._buffer = self.current.keys

    @classmethod
    def open(cls, directory: Path, dim: int, language: str, watermark: int) -> "GenerationStore":
        """Return the store as it was saved.

        Raises DamagedFile when it is missing, was written to since, differs from its manifest, or is of another
        watermark, width or language: whoever owns the documents then rebuilds it.
        """
        manifest = read_manifest(directory)
        facts = {"format": FORMAT, "watermark": watermark, "dim": dim, "language": language}
        stale = {name: manifest.get(name) for name, value in facts.items() if manifest.get(name) != value}
        if stale:
            raise DamagedFile(f"{directory.name}: saved with {stale}, wanted {facts}")
        store = cls(directory, dim, language)
        arrays = {name: np.load(directory / f"{name}.npy", allow_pickle=False) for name in ARRAYS}
        sealed = FaissIndex.load(directory / DENSE_FILE)
        store.current = replace(store.current, watermark=watermark, sealed=sealed, **arrays)
        store._buffer = store.current.keys
        return store

    def save(self, language: str, watermark: int) -> None:
        """Write the current documents to the directory, described by a manifest, so that `open` finds them.

        watermark is that of the last change to documents; memory is not saved here.
        """
        self._words.close()
        for name in ARRAYS:
            np.save(self._directory / f"{name}.npy", getattr(self.current, name), allow_pickle=False)
        self.current.sealed.save(self._directory / DENSE_FILE)
        words = [f"{WORDS_FOLDER}/{path.name}" for path in (self._directory / WORDS_FOLDER).iterdir() if _kept(path)]
        facts = {"format": FORMAT, "watermark": watermark, "dim": self.current.dim, "language": language}
        write_manifest(self._directory, [*(f"{name}.npy" for name in ARRAYS), DENSE_FILE, *words], facts)

    def apply(self, watermark: int, added: Sequence[IndexedDocument], removed: Sequence[int] = ()) -> Generation:
        """Publish a generation with these documents added and these rows removed.

        added must have rows above all rows so far, ascending.
        """
        self._mark_written()
        self._words.replace([document.row for document in added], [document.words for document in added])
        self._words.remove(removed)
        state = self._appended(self.current, added)
        alive = state.alive.copy()
        gone = state.places(np.asarray(removed, np.int64))
        alive[gone[gone != MISSING]] = False
        state = replace(state, watermark=watermark, alive=alive, words=self._words.commit())
        self.current = self._sealed(self._compacted(state))
        return self.current

    def remember(self, watermark: int, keys: Iterable[MemoryKey]) -> Generation:
        """Publish a generation with exactly these query keys as its memory."""
        memory = Memory.of(keys, self.current.dim)
        self.current = replace(self.current, watermark=watermark, memory=memory)
        return self.current

    def revise(self, watermark: int, keys: Mapping[str, Sequence[MemoryKey]]) -> Generation:
        """Publish a generation whose memory has exactly these keys of these sources, and of others what it had."""
        memory = self.current.memory.changed(keys)
        self.current = replace(self.current, watermark=watermark, memory=memory)
        return self.current

    def close(self) -> None:
        """End the word index's writer; the current generation stays searchable."""
        self._words.close()

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
        counts = [len(document.keys) for document in added]
        tokens = [self._words.number(document.words) for document in added]
        return replace(
            state,
            keys=self._extended(state.keys, keys),
            key_kind=np.append(state.key_kind, [int(key.kind) for key in keys]).astype(np.int64),
            key_start=np.append(state.key_start, [key.start for key in keys]).astype(np.int64),
            key_end=np.append(state.key_end, [key.end for key in keys]).astype(np.int64),
            rows=np.append(state.rows, [document.row for document in added]).astype(np.int64),
            first_key=_continued(state.first_key, counts),
            tokens=np.concatenate([state.tokens, *tokens]),
            first_token=_continued(state.first_token, [len(one) for one in tokens]),
            alive=np.append(state.alive, np.ones(len(added), np.bool_)),
        )

    def _extended(self, keys: Floats, added: Sequence[Key]) -> Floats:
        """Return keys (K + added, D) as a view of a buffer that doubles: older generations see their own rows only."""
        total = len(keys) + len(added)
        if keys.base is not self._buffer or total > len(self._buffer):
            self._buffer = np.empty((max(256, 2 * total), keys.shape[1]), np.float32)
            self._buffer[: len(keys)] = keys
        for place, key in enumerate(added, len(keys)):
            self._buffer[place] = key.vector
        return self._buffer[:total]

    def _compacted(self, state: Generation) -> Generation:
        dead = int(np.diff(state.first_key)[~state.alive].sum())
        if dead <= DEAD_SHARE * len(state.keys) or dead < TAIL_KEYS:
            return state
        keep = state.alive[state.key_place]
        counts = np.diff(state.first_key)[state.alive]
        token_counts = np.diff(state.first_token)
        compact = replace(
            state,
            keys=state.keys[keep],
            key_kind=state.key_kind[keep],
            key_start=state.key_start[keep],
            key_end=state.key_end[keep],
            rows=state.rows[state.alive],
            first_key=_continued(np.zeros(1, np.int64), counts),
            tokens=state.tokens[np.repeat(state.alive, token_counts)],
            first_token=_continued(np.zeros(1, np.int64), token_counts[state.alive]),
            alive=np.ones(int(state.alive.sum()), np.bool_),
            sealed=FaissIndex(np.empty((0, state.dim), np.float32)),
        )
        self._buffer = compact.keys
        return compact

    def _sealed(self, state: Generation) -> Generation:
        tail = len(state.keys) - state.sealed.count
        if tail <= max(TAIL_KEYS, TAIL_SHARE * len(state.keys)):
            return state
        return replace(state, sealed=FaissIndex(state.keys))


def _continued(first: Ints, counts: Sequence[int] | Ints) -> Ints:
    """Return first (N + 1,) with the places where these further documents begin."""
    return np.append(first, first[-1] + np.cumsum(counts)).astype(np.int64)


def _kept(path: Path) -> bool:
    """Whether a file of the word index is part of its state: its lock files are not."""
    return path.is_file() and not path.name.endswith(".lock")
