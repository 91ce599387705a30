"""A generation: an immutable, searchable state of a collection. `generation.store` publishes successive generations.

Sees row numbers, vectors and words; never ids, SQL or HTTP. A search uses a single generation from start to end. Row
numbers only grow: a replaced document gets a new row. The arrays of a generation are views of arrays that the writer
appends to; the viewed part is never written again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from index.candidates.base import MISSING, SealedIndex
from index.candidates.distinct import is_first
from index.candidates.exact import ExactIndex
from index.generation.columns import Columns
from index.generation.document_fields import FieldPairs
from index.memory.memory import Memory
from index.records import Floats, Ints, Key, Mask, MetadataValue
from index.storage.checksum_guard import ChecksumGuard
from index.words.document_signals import document_signals
from index.words.query_words import QueryWords, Source
from index.words.reading_options import EXACTLY, ReadingOptions
from index.words.term_matching import Matches, bm25, documents_with, documents_with_phrases, find_words, match
from index.words.uncorrected_fields import documents_outside, without_corrections
from index.words.visible_words import VisibleWords
from index.words.word_search import WordSearcher
from index.words.word_statistics import WordStatistics

MORE_KEYS = 1 / 8
"""Keys that are retrieved for each document beyond the mean of all documents, because the nearest may have more."""
CLEAR = 0.005
"""Difference of cosines that is beyond the error of a key in 8 bits."""


@dataclass(frozen=True)
class IndexedDocument:
    """A document of the index: row, text for term matching, own keys, value (V,), title, id and metadata.

    The id orders documents with equal scores. Without a value, the document gets the `document_value` of its keys. The
    text for term matching begins with the title.
    """

    row: int
    words: str
    keys: Sequence[Key]
    value: Floats | None = None
    title: str = ""
    id: str = ""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Generation:
    """A searchable state of N documents with K keys. The doc index of a document is its position in `rows`.

    keys (K, D), unit vectors, and values (N, V) are mapped from files; `key_vectors` and `value_vectors` read them and
    compare checksums. alive (N,) bool is False for removed documents. `sealed` indexes the first sealed.count keys; the
    other keys, the tail, are scanned exactly.
    """

    watermark: int
    keys: Floats
    values: Floats
    columns: Columns
    alive: Mask
    memory: Memory
    sealed: SealedIndex
    words: WordSearcher
    key_guard: ChecksumGuard = field(default_factory=ChecksumGuard)
    value_guard: ChecksumGuard = field(default_factory=ChecksumGuard)
    reading: ReadingOptions = EXACTLY
    """How queries are read, where a query does not say it."""
    files: tuple[Path, Path] | None = None
    """The files that the keys and the values are mapped from; None before the first document."""

    @property
    def rows(self) -> Ints:
        """The row number of each document (N,), ascending."""
        return self.columns.rows

    @property
    def dim(self) -> int:
        """D, the width of a key."""
        return int(self.keys.shape[1])

    @property
    def count(self) -> int:
        """The number of living documents."""
        return int(self.alive.sum())

    @cached_property
    def key_doc_index(self) -> Ints:
        """The doc index of the document that owns each key (K,)."""
        return np.repeat(np.arange(len(self.rows)), np.diff(self.columns.first_key))

    @cached_property
    def mean_words(self) -> float:
        """The mean number of words of the living documents, at least 1."""
        lengths = np.diff(self.columns.first_token)[self.alive]
        return max(1.0, float(lengths.mean())) if len(lengths) else 1.0

    @cached_property
    def mean_title_words(self) -> float:
        """The mean number of words of the titles of the living documents."""
        return float(self.columns.title_words[self.alive].mean()) if self.alive.any() else 0.0

    def match(
        self,
        query: QueryWords,
        doc_indices: Ints,
        with_signals: bool = False,
        statistics: WordStatistics | None = None,
    ) -> tuple[Floats, Matches, Floats | None]:
        """Return BM25 by source (n, len(Source)) and the matches of a query's words in the documents (n,).

        with_signals: also return the signals (n, len(SIGNALS)), which trees read. statistics: of the whole collection,
        where the generation has a part of its documents.
        """
        mean_words = self.mean_words if statistics is None else statistics.mean_words
        columns = self.columns
        found = find_words(query, columns.tokens, columns.first_token, doc_indices, columns.title_words)
        if query.uncorrected_fields:
            found = without_corrections(query, found, self.columns.title_words.take(doc_indices))
        signals = None
        if with_signals:
            title_words = self.columns.title_words.take(doc_indices)
            mean_title_words = self.mean_title_words if statistics is None else statistics.mean_title_words
            signals = document_signals(query, found, title_words, mean_title_words)
        return bm25(query, found, mean_words), match(query, found), signals

    def visible_words(self, visible: Mask) -> VisibleWords:
        """Return the words of these documents (N,) bool, for a reader who sees no others."""
        doc_indices = np.flatnonzero(visible & self.alive)
        columns = self.columns
        lengths = np.diff(columns.first_token)[doc_indices]
        words = columns.tokens.take(columns.token_positions(doc_indices))
        return VisibleWords(self.words.postings, self.rows[doc_indices], words, lengths)

    def titled(self, text: str, doc_indices: Ints) -> Mask:
        """Return (n,) bool, True for the documents (n,) whose title has exactly the words of a text, in their order.

        Words are compared as BM25 compares them: case, punctuation and inflection do not count.
        """
        words, columns = self.words.number(text), self.columns
        titled: Mask = (columns.title_words.take(doc_indices) == len(words)) & (len(words) > 0)
        first = columns.first_token.take(doc_indices[titled])
        titled[titled] = (columns.tokens.take(first[:, None] + np.arange(len(words))) == words).all(axis=1)
        return titled

    def documents_with(self, query: QueryWords) -> Mask:
        """Return (N,) bool, True for documents with a word of the query, or a word or phrase that stands for one.

        One of the words of such a phrase is not enough, although it has evidence.
        """
        wanted = query.words if not query.uncorrected_fields else query.words[query.source != Source.CORRECTED]
        if query.parts:
            wanted = wanted[~np.isin(wanted, list(query.parts))]
        found = documents_with(self.columns.tokens, self.columns.first_token, wanted)
        if query.phrases:
            found |= self.documents_with_phrases(query)
        return found | self.documents_with_corrections(query) if query.uncorrected_fields else found

    def documents_with_all(self, query: QueryWords, overlaps: Sequence[bool]) -> Mask:
        """Return (N,) bool, True for documents with every word of the query, or what stands for it, as above.

        overlaps (Q - 1,): whether each two neighbouring words of the query are pairs that share a character. One of the
        two is enough for it: a pair may be the end of one word and the beginning of the next.
        """
        found = self.alive.copy()
        seen: set[int] = set()
        before, slots = found, query.of_query.tolist()
        for slot, begun, continued in zip(slots, [False, *overlaps], [*overlaps, False], strict=bool(slots)):
            if not (begun or continued) and slot in seen:
                continue
            if not found.any():
                break
            seen.add(slot)
            own = self._documents_with_slot(query, slot)
            if begun:
                found &= before | own
            if not (begun and continued):
                found &= own
            before = own
        return found

    def _documents_with_slot(self, query: QueryWords, slot: int) -> Mask:
        """Return (N,) bool, True for documents with a word of the query, given by its slot, or what stands for it."""
        own = (query.slot == slot) | np.isin(query.words, [number for of, number in query.also if of == slot])
        columns = {name: getattr(query, name)[own] for name in ("words", "slot", "factor", "source", "idf")}
        numbers = frozenset(columns["words"].tolist())
        phrases = tuple(phrase for phrase in query.phrases if phrase.number in numbers)
        return self.documents_with(query._replace(**columns, phrases=phrases))

    def documents_with_phrases(self, query: QueryWords) -> Mask:
        """Return (N,) bool, True for documents with a phrase that stands for a word of the query; it has phrases."""
        columns = self.columns
        return documents_with_phrases(columns.tokens, columns.first_token, columns.title_words, query.phrases)

    def documents_with_corrections(self, query: QueryWords) -> Mask:
        """Return (N,) bool, True for documents that contain a corrected word in a field where it matches."""
        corrected = query.words[query.source == Source.CORRECTED]
        columns = self.columns
        return documents_outside(
            query.uncorrected_fields, corrected, columns.tokens, columns.first_token, columns.title_words
        )

    @cached_property
    def found_by_words_only(self) -> Mask:
        """(N,) bool, True for living documents that have words and no vectors. Those without text have neither."""
        only: Mask = self.alive & (np.diff(self.columns.first_key) == 0) & (np.diff(self.columns.first_token) > 0)
        return only

    @cached_property
    def _living(self) -> tuple[Mask | None, int]:
        """Return the mask (K,) of living keys, None if all are alive, and the number of living documents with keys."""
        counts = np.diff(self.columns.first_key)
        keys = None if self.alive.all() else np.repeat(self.alive, counts)
        return keys, int(np.count_nonzero(self.alive & (counts > 0)))

    def key_vectors(self, positions: Ints) -> Floats:
        """Return the keys (n, D) at these positions. Raises DamagedKeys if a key differs from its checksum."""
        return self.key_guard.read(self.keys, positions)

    def value_vectors(self, doc_indices: Ints) -> Floats:
        """Return the values (n, V) of these documents. Raises DamagedKeys if a value differs from its checksum."""
        return self.value_guard.read(self.values, doc_indices)

    def fields_of(self, doc_indices: Ints, owners: Ints) -> FieldPairs:
        """Return the metadata of these documents (n,), whose owners (n,) are given."""
        columns = self.columns
        at = columns.field_positions(doc_indices)
        counts = columns.first_field.take(doc_indices + 1) - columns.first_field.take(doc_indices)
        return FieldPairs(np.repeat(owners, counts), columns.field_keys.take(at), columns.field_numbers.take(at))

    def best_first(self, doc_indices: Ints, scores: Floats) -> Ints:
        """Return the order (n,) of these documents by their scores (n,), best first; equal scores by document id."""
        order: Ints = np.argsort(-scores, kind="stable")
        ordered = scores[order]
        if len(order) > 1 and (ordered[1:] == ordered[:-1]).any():
            order = np.lexsort((doc_indices, self.columns.id_order.take(doc_indices), -scores))
        return order

    def id_order_of(self, rows: Ints) -> NDArray[np.bytes_]:
        """Return bytes (n,) that sort as the ids of these rows do; a neighbour stands for a row that is absent."""
        doc_index = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return self.columns.id_order.take(doc_index)

    def doc_indices(self, rows: Ints) -> Ints:
        """Return the doc indices of these rows, MISSING for a row that is absent or not alive."""
        if not len(self.rows) or not len(rows):
            return np.full(len(rows), MISSING, np.int64)
        doc_index = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where((self.rows[doc_index] == rows) & self.alive[doc_index], doc_index, MISSING)

    def nearest(self, queries: Floats, count: int, allowed: Mask) -> list[Ints]:
        """Return for each query (H, D) the doc indices of the `count` documents with the nearest keys, best first.

        allowed (N,) bool.
        """
        return [doc_indices for doc_indices, _ in self.nearest_with_scores(queries, count, allowed)]

    def nearest_with_scores(self, queries: Floats, count: int, allowed: Mask) -> list[tuple[Ints, Floats]]:
        """Return what `nearest` returns, each with the scores of the nearest keys of the documents.

        allowed (N,) bool. A document has several keys. The first request is for the mean number of keys, and enough for
        nearly all queries. Where it has too few documents, or leaves out keys that are nearly as near as the last
        document, the next request is for the number of keys that the documents have if it is rounded up.
        """
        key_allowed, reachable = self._allowed(allowed)
        usable = len(self.keys) if key_allowed is None else int(np.count_nonzero(key_allowed))
        keys_each, enough = usable / max(1, reachable), min(count, reachable)
        whole = count * math.ceil(keys_each)
        key_count = min(whole, math.ceil(count * (keys_each + MORE_KEYS)))
        while True:
            scores, found = self._nearest_keys(queries, min(key_count, usable), key_allowed)
            lists = [self._distinct_doc_indices(keys) for keys in found]
            if key_count >= usable or all(
                len(places) >= enough and (key_count >= whole or of_keys[places[enough - 1]] - of_keys[-1] >= CLEAR)
                for of_keys, (_, places) in zip(scores, lists, strict=True)
            ):
                break
            key_count = whole if key_count < whole else 4 * key_count
        return [
            (doc_indices[:count], of_keys[places[:count]])
            for of_keys, (doc_indices, places) in zip(scores, lists, strict=True)
        ]

    def _allowed(self, allowed: Mask) -> tuple[Mask | None, int]:
        """Return the mask (K,) of the keys of these documents, None for all, and the number of documents with keys."""
        if allowed is self.alive:
            return self._living
        return allowed[self.key_doc_index], int(np.count_nonzero(allowed & (np.diff(self.columns.first_key) > 0)))

    def _distinct_doc_indices(self, keys: Ints) -> tuple[Ints, Ints]:
        """Return the documents (n,) that own these keys, in the order of their first keys, and the places of those."""
        doc_indices = np.searchsorted(self.columns.first_key, keys[keys != MISSING], side="right") - 1
        order = np.argsort(doc_indices, kind="stable")
        first = np.sort(order[is_first(doc_indices[order])])
        return doc_indices[first], first

    def _nearest_keys(self, queries: Floats, k: int, allowed: Mask | None) -> tuple[Floats, Ints]:
        """Return the scores and positions (H, k) of the nearest allowed keys of sealed keys and tail, best first."""
        if k == 0:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        first = self.sealed.count
        sealed, tail = (None, None) if allowed is None else (allowed[:first], allowed[first:])
        scores, found = self.sealed.search(queries, k, None if sealed is None or sealed.all() else sealed)
        if first < len(self.keys):
            tail_scores, tail_found = ExactIndex(self.keys[first:]).search(queries, k, tail)
            tail_found = np.where(tail_found == MISSING, MISSING, tail_found + first)
            scores, found = np.hstack([scores, tail_scores]), np.hstack([found, tail_found])
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            return np.take_along_axis(scores, order, axis=1), np.take_along_axis(found, order, axis=1)
        return scores, found
