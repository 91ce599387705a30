"""A generation: one immutable, searchable state of a collection. `index.generation.store` publishes one after the other.

Sees row numbers, vectors and texts to index; ids, SQL and HTTP are not known here. A search holds one generation from
its first step to its last. Rows are numbers that only grow: a replaced document comes back under a new row, so arrays
are appended to beyond what any published generation sees, and nothing that a search reads is ever written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from index.candidates.base import MISSING, SealedIndex
from index.candidates.exact import ExactIndex
from index.memory.memory import Memory
from index.records import Floats, Ints, Key, Mask
from index.storage.checksum_guard import ChecksumGuard, Checksums
from index.storage.growable_array import GrowableArray
from index.storage.vector_file import VectorFile
from index.words.bm25_index import WordSearcher
from index.words.term_matching import Matches, Words, bm25, find_words, match

GROWING = ("key_kind", "key_start", "key_end", "key_sums", "rows", "first_key", "tokens", "first_token")
"""The arrays of a generation that are only appended to."""
ARRAYS = ("keys", *GROWING, "alive")
"""All arrays of documents; memory has its own."""


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
    key_sums: Checksums
    rows: Ints
    first_key: Ints
    tokens: Words
    first_token: Ints
    alive: Mask
    memory: Memory
    sealed: SealedIndex
    words: WordSearcher
    checksum_guard: ChecksumGuard = field(default_factory=ChecksumGuard)
    file: VectorFile | None = None
    growable_arrays: Mapping[str, GrowableArray[Any]] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        """D."""
        return int(self.keys.shape[1])

    @property
    def count(self) -> int:
        """Documents that can be found."""
        return int(self.alive.sum())

    @cached_property
    def key_doc_index(self) -> Ints:
        """The place of the document that owns each key (K,)."""
        return np.repeat(np.arange(len(self.rows)), np.diff(self.first_key))

    @cached_property
    def mean_words(self) -> float:
        """Words of a document in the mean of those that can be found, at least 1."""
        lengths = np.diff(self.first_token)[self.alive]
        return max(1.0, float(lengths.mean())) if len(lengths) else 1.0

    def match(self, query: Words, weight: Floats, doc_indices: Ints) -> tuple[Floats, Matches]:
        """Return BM25 (n,) and matches of a query's words (Q,), of this weight, in the documents at these places."""
        found = find_words(query, self.tokens, self.first_token, doc_indices)
        return bm25(found, weight, self.mean_words), match(found, weight)

    @cached_property
    def _living(self) -> tuple[Mask | None, int]:
        """Return which keys (K,) are alive, None for all, and how many documents can be found by keys."""
        counts = np.diff(self.first_key)
        keys = None if self.alive.all() else np.repeat(self.alive, counts)
        return keys, int(np.count_nonzero(self.alive & (counts > 0)))

    def vectors(self, positions: Ints) -> Floats:
        """Return the keys (n, D) at these positions; raises DamagedKeys if one is not what was saved."""
        return self.checksum_guard.read(self.keys, positions)

    def doc_indices(self, rows: Ints) -> Ints:
        """Return the places of these rows, MISSING for a row that is not here or not alive."""
        if not len(self.rows):
            return np.full(len(rows), MISSING, np.int64)
        doc_index = np.searchsorted(self.rows, rows).clip(0, len(self.rows) - 1)
        return np.where((self.rows[doc_index] == rows) & self.alive[doc_index], doc_index, MISSING)

    def nearest(self, queries: Floats, count: int, allowed: Mask) -> list[Ints]:
        """Return per query (H, D) the places of the `count` documents with the nearest keys, best first.

        allowed (N,) bool. Documents have several keys, so keys are asked for until enough documents are met.
        """
        key_allowed, reachable = self._allowed(allowed)
        usable = len(self.keys) if key_allowed is None else int(np.count_nonzero(key_allowed))
        wanted, asked = min(count, reachable), count * -(-usable // max(1, reachable))
        while True:
            found = self._nearest_keys(queries, min(asked, usable), key_allowed)
            doc_indices = [self._distinct_places(row) for row in found]
            if min(map(len, doc_indices)) >= wanted or asked >= usable:
                return [row[:count] for row in doc_indices]
            asked *= 4

    def _allowed(self, allowed: Mask) -> tuple[Mask | None, int]:
        """Return which keys (K,) belong to these documents, None for all, and how many of the documents have keys."""
        if allowed is self.alive:
            return self._living
        return allowed[self.key_doc_index], int(np.count_nonzero(allowed & (np.diff(self.first_key) > 0)))

    def _distinct_places(self, keys: Ints) -> Ints:
        doc_indices = np.searchsorted(self.first_key, keys[keys != MISSING], side="right") - 1
        _, first = np.unique(doc_indices, return_index=True)
        distinct: Ints = doc_indices[np.sort(first)]
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

    def extended(self, vectors: Floats, more: Mapping[str, Any], alive: Mask, file: VectorFile) -> "Generation":
        """Return a generation with documents behind these: `more` for each array of GROWING, alive (n,).

        vectors (k, D) are written to the file, which has the keys of this one already.
        """
        growable_arrays: dict[str, GrowableArray[Any]] = {}
        arrays: dict[str, Any] = {}
        for name in GROWING:
            seen = getattr(self, name)
            growable_arrays[name] = self.growable_arrays.get(name, GrowableArray(seen)).extended(len(seen), more[name])
            arrays[name] = growable_arrays[name].view
        keys = file.extended(len(self.keys), vectors)
        return replace(
            self, keys=keys, file=file, growable_arrays=growable_arrays, alive=np.append(self.alive, alive), **arrays
        )
