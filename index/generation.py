"""A generation: one immutable, searchable state of a collection, and the store that publishes the next one.

Sees row numbers, vectors and texts to index; ids, SQL and HTTP are not known here. A search holds one generation from
its first step to its last. Rows are numbers that only grow: a replaced document comes back under a new row, so arrays
are appended to beyond what any published generation sees, and nothing that a search reads is ever written.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from index.candidates.base import MISSING
from index.candidates.exact import ExactIndex
from index.candidates.sealed import SealedIndex, read_sealed, seal
from index.errors import DamagedFile
from index.files import MANIFEST, read_manifest, sync_directory, write_manifest
from index.folding import Folding
from index.lexical import WordIndex, WordSearcher
from index.matching import Matches, Words, bm25, find_words, match
from index.memory import Memory
from index.records import Floats, Ints, Key, Mask, MemoryKey
from index.rooms import Room
from index.vectors import Doubt, Sums, VectorFile, checksums

TAIL_KEYS = 2048
TAIL_SHARE = 0.1
TAIL_MOST = 10_000
"""New keys are scanned exactly until they are this many, or this share of all but no more than the last: a millisecond
of a search. Then they are folded into the sealed index."""
FOLDED_HERE = 20_000
"""Keys up to which folding is done where the write stands, in milliseconds; beyond, behind the scenes."""
TAIL_BORNE = 4
"""Tails, in multiples of the above, beyond which a write waits for the folding, or does it."""
DEAD_SHARE = 0.3
"""Share of deleted keys at which the arrays are compacted."""
GROWING = ("key_kind", "key_start", "key_end", "key_sums", "rows", "first_key", "tokens", "first_token")
"""The arrays of a generation that are only appended to."""
ARRAYS = ("keys", *GROWING, "alive")
"""What is saved of a generation, one file each; memory is read from the database at every start."""
FORMAT = 3
"""Of what is saved; a folder of another format is rebuilt from the documents. 1 had no tokens, 2 no checksums."""
DENSE_FILE = "dense.faiss"
WORDS_FOLDER = "words"
COPIED_AT_ONCE = 65_536
"""Keys moved at a time when arrays are compacted."""


@dataclass(frozen=True)
class IndexedDocument:
    """What the index needs to know of a document: its row, the text that words are found in, its own keys."""

    row: int
    words: str
    keys: Sequence[Key]


@dataclass(frozen=True)
class Generation:
    """One searchable state. A document's place is its position in `rows`; its keys are first_key[n]:first_key[n + 1].

    keys (K, D) unit, a file's, read through `vectors`; key_kind (K,), key_start and key_end (K,) characters; key_sums
    (K,) checksums; rows (N,) ascending; first_key (N + 1,); tokens (T,) the words of all documents as numbers,
    first_token (N + 1,) where each begins; alive (N,) bool. `sealed` indexes the first sealed.count keys, the rest is
    the exact tail. `file` and `rooms` are where the next generation appends.
    """

    watermark: int
    keys: Floats
    key_kind: Ints
    key_start: Ints
    key_end: Ints
    key_sums: Sums
    rows: Ints
    first_key: Ints
    tokens: Words
    first_token: Ints
    alive: Mask
    memory: Memory
    sealed: SealedIndex
    words: WordSearcher
    doubt: Doubt = field(default_factory=Doubt)
    file: VectorFile | None = None
    rooms: Mapping[str, Room[Any]] = field(default_factory=dict)

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

    def match(self, query: Words, weight: Floats, places: Ints) -> tuple[Floats, Matches]:
        """Return BM25 (n,) and matches of a query's words (Q,), of this weight, in the documents at these places."""
        found = find_words(query, self.tokens, self.first_token, places)
        return bm25(found, weight, self.mean_words), match(found, weight)

    @cached_property
    def _living(self) -> tuple[Mask | None, int]:
        """Return which keys (K,) are alive, None for all, and how many documents can be found by keys."""
        counts = np.diff(self.first_key)
        keys = None if self.alive.all() else np.repeat(self.alive, counts)
        return keys, int(np.count_nonzero(self.alive & (counts > 0)))

    def vectors(self, positions: Ints) -> Floats:
        """Return the keys (n, D) at these positions; raises DamagedKeys if one is not what was saved."""
        return self.doubt.read(self.keys, positions)

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
        key_allowed, reachable = self._allowed(allowed)
        wanted, asked = min(count, reachable), count * max(2, -(-len(self.keys) // max(1, reachable)))
        while True:
            found = self._nearest_keys(queries, min(asked, len(self.keys)), key_allowed)
            places = [self._distinct_places(row) for row in found]
            if min(map(len, places)) >= wanted or asked >= len(self.keys):
                return [row[:count] for row in places]
            asked *= 4

    def _allowed(self, allowed: Mask) -> tuple[Mask | None, int]:
        """Return which keys (K,) belong to these documents, None for all, and how many of the documents have keys."""
        if allowed is self.alive:
            return self._living
        return allowed[self.key_place], int(np.count_nonzero(allowed & (np.diff(self.first_key) > 0)))

    def _distinct_places(self, keys: Ints) -> Ints:
        places = np.searchsorted(self.first_key, keys[keys != MISSING], side="right") - 1
        _, first = np.unique(places, return_index=True)
        distinct: Ints = places[np.sort(first)]
        return distinct

    def _nearest_keys(self, queries: Floats, k: int, allowed: Mask | None) -> Ints:
        """Return the positions (H, k) of the nearest allowed keys, sealed and tail together, best first."""
        if k == 0:
            return np.empty((len(queries), 0), np.int64)
        cut = self.sealed.count
        sealed, tail = (None, None) if allowed is None else (allowed[:cut], allowed[cut:])
        scores, found = self.sealed.search(queries, k, None if sealed is None or sealed.all() else sealed)
        if cut < len(self.keys):
            tail_scores, tail_found = ExactIndex(self.keys[cut:]).search(queries, k, tail)
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
        self._files = 0
        self._lock = threading.Lock()
        """Held by whoever makes the next generation of the current one."""
        self._folding = Folding()
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
        arrays["rooms"] = {name: Room.spacious(arrays[name]) for name in GROWING}  # the first write waits for no copy
        arrays |= {name: room.seen for name, room in arrays["rooms"].items()}
        if manifest["keys_file"]:
            path = directory / manifest["keys_file"]
            store._files = int(path.stem.rpartition("-")[2])
            arrays["file"], arrays["keys"] = VectorFile.open(path, dim, len(arrays["key_sums"]))
            arrays["doubt"] = Doubt(arrays["key_sums"], f"{directory.name}/{path.name}")
        state = replace(store.current, watermark=watermark, **arrays)
        sealed = read_sealed(directory / DENSE_FILE, partial(state.doubt.read, state.keys))
        state.doubt.check_all(state.keys, first=sealed.count)  # every search reads the whole tail
        store.current = replace(state, sealed=sealed)
        return store

    def save(self, language: str, watermark: int) -> None:
        """Write the current documents to the directory, described by a manifest, so that `open` finds them.

        watermark is that of the last change to documents; memory is not saved here.
        """
        self.settle()
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

        added must have rows above all rows so far, ascending.
        """
        if _tail(self.current) + sum(len(one.keys) for one in added) > TAIL_BORNE * _most_tail(self.current):
            self._folding.wait()
        with self._lock:
            self._mark_written()
            self._words.replace([document.row for document in added], [document.words for document in added])
            self._words.remove(removed)
            before = self.current
            state = self._appended(before, added)
            alive = state.alive.copy()
            gone = state.places(np.asarray(removed, np.int64))
            alive[gone[gone != MISSING]] = False
            state = replace(state, watermark=watermark, alive=alive, words=self._words.commit())
            state = self._folded(self._compacted(state))
            self.current = state
            if before.file is not None and before.file is not state.file:
                before.file.path.unlink()
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
        """Wait until what is being folded behind the scenes is folded; raises what went wrong with it."""
        self._folding.settle()

    def close(self) -> None:
        """End the word index's writer and the folding; the current generation stays searchable."""
        self._folding.close()
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
        rooms: dict[str, Room[Any]] = {}
        arrays: dict[str, Any] = {}
        for name in GROWING:
            seen = getattr(state, name)
            rooms[name] = state.rooms.get(name, Room(seen)).extended(len(seen), more[name])
            arrays[name] = rooms[name].seen
        file = state.file or self._new_file(state.dim)
        alive = np.append(state.alive, np.ones(len(added), np.bool_))
        keys_now = file.extended(len(state.keys), vectors)
        return replace(state, keys=keys_now, file=file, rooms=rooms, alive=alive, **arrays)

    def _new_file(self, dim: int) -> VectorFile:
        self._files += 1
        return VectorFile(self._directory / f"keys-{self._files}.f32", dim)

    def _compacted(self, state: Generation) -> Generation:
        dead = int(np.diff(state.first_key)[~state.alive].sum())
        if dead <= DEAD_SHARE * len(state.keys) or dead < TAIL_KEYS:
            return state
        keep = np.flatnonzero(state.alive[state.key_place])
        file, keys = self._new_file(state.dim), state.keys[:0]
        for first in range(0, len(keep), COPIED_AT_ONCE):
            keys = file.extended(len(keys), state.vectors(keep[first : first + COPIED_AT_ONCE]))
        counts, token_counts = np.diff(state.first_key)[state.alive], np.diff(state.first_token)
        return replace(
            state,
            keys=keys,
            key_kind=state.key_kind[keep],
            key_start=state.key_start[keep],
            key_end=state.key_end[keep],
            key_sums=state.key_sums[keep],
            rows=state.rows[state.alive],
            first_key=np.append(0, np.cumsum(counts)),
            tokens=state.tokens[np.repeat(state.alive, token_counts)],
            first_token=np.append(0, np.cumsum(token_counts[state.alive])),
            alive=np.ones(int(state.alive.sum()), np.bool_),
            sealed=seal(keys[:0], keys.__getitem__),
            doubt=Doubt(),
            file=file,
            rooms={},
        )

    def _folded(self, state: Generation) -> Generation:
        """Return the state with its tail folded in where that is due now; where it takes long, it is done behind."""
        if _tail(state) <= _most_tail(state):
            return state
        if len(state.keys) <= FOLDED_HERE or _tail(state) > TAIL_BORNE * _most_tail(state):
            return replace(state, sealed=_sealed(state))
        self._folding.start(partial(self._fold_behind, state))
        return state

    def _fold_behind(self, state: Generation) -> None:
        sealed = _sealed(state)
        with self._lock:
            compacted = self.current.file is not state.file
            if not compacted and self.current.sealed.count < sealed.count:
                self.current = replace(self.current, sealed=sealed)


def _tail(state: Generation) -> int:
    return len(state.keys) - state.sealed.count


def _most_tail(state: Generation) -> float:
    return max(TAIL_KEYS, min(TAIL_SHARE * len(state.keys), TAIL_MOST))


def _sealed(state: Generation) -> SealedIndex:
    """Return an index over all keys of a state, equal to the bit however it came about."""
    state.doubt.check_all(state.keys)
    read = partial(state.doubt.read, state.keys)  # not state.vectors, which would keep all earlier indexes
    return seal(state.keys, read, state.sealed)


def _kept(path: Path) -> bool:
    """Whether a file of the word index is part of its state: its lock files are not."""
    return path.is_file() and not path.name.endswith(".lock")
