"""The words of the documents that a reader sees, with the counts of these documents alone.

A vocabulary of them corrects and completes queries by the words of these documents: no other word is shown or known.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import tantivy

from index.records import Ints
from index.words.postings import Counted, Postings, bm25_idf
from index.words.query_words import QueryWords, Words, number_words
from index.words.recent_words import RecentView
from index.words.term_matching import find_positions

MOST_KNOWN = 20_000
"""Counts that are kept: there are many readers."""


class VisibleWords:
    """The counts of one commit of a word index for one reader. Two threads may count the same term; both get its count.

    Counts of stems come from the words of the documents as numbers, because a query for rows takes milliseconds.
    """

    def __init__(self, postings: Postings, rows: Ints, words: Words, lengths: Ints) -> None:
        """rows (n,): of the documents. words (T,): their words, as `index.words.query_words.number_words` numbers them,
        document after document. lengths (n,): the number of words of each document."""
        self._postings, self._rows, self._words = postings, rows, words
        self._ends = np.cumsum(lengths)
        self._known: dict[str, int] = {}

    @property
    def documents(self) -> int:
        """The number of documents."""
        return len(self._rows)

    @property
    def length(self) -> int:
        """The number of words of all documents, four bytes of memory each."""
        return len(self._words)

    def idf(self, count: int) -> float:
        """Return the BM25 idf of a word that `count` of the documents contain."""
        return bm25_idf(count, self.documents)

    def frequency(self, field: str, term: str) -> int:
        """Return the number of documents with a term of a field; with all words of a term that has spaces."""
        if field == "words" and " " not in term:
            known = self._known.get(term)
            return self._counted([term])[term] if known is None else known
        words = term.split(" ")
        count = min(self._postings.library_count(word, field) for word in words)
        if count:
            count = self._postings.count_of_all(field, words, self._is_visible)
        return count + self._recent.frequency(field, term)

    def learn(self, asked: Sequence[tuple[str, str]]) -> None:
        """Count the documents with each of these stems together, where that is not known."""
        terms = [term for field, term in asked if field == "words" and " " not in term]
        known = self._known
        if unknown := sorted({term for term in terms if term not in known}):
            self._counted(unknown)

    def _counted(self, unknown: Sequence[str]) -> dict[str, int]:
        """Count the documents with each of these stems, and keep the counts."""
        numbers, number = np.unique(number_words(unknown), return_inverse=True)
        position, word = find_positions(self._words, QueryWords.of(numbers, np.ones(len(numbers), np.float32)))
        # numbers of 16 bits are sorted fast
        order = np.argsort(word.astype(np.uint16) if len(numbers) <= 1 << 16 else word, kind="stable")
        word, document = word[order], np.searchsorted(self._ends, position, side="right")[order]
        is_first = np.append(True, (word[1:] != word[:-1]) | (document[1:] != document[:-1]))[: len(word)]
        counts = np.bincount(word[is_first], minlength=len(numbers))
        found: dict[str, int] = dict(zip(unknown, counts[number].tolist(), strict=True))
        known = self._known  # another thread may replace it: the counts that it loses are made again
        self._known = found if len(known) + len(found) > MOST_KNOWN else {**known, **found}
        return found

    def with_prefix(self, field: str, prefix: str) -> list[Counted]:
        """Return the terms of a field that begin with a prefix, with their documents, the most frequent first."""
        counted = dict(self._postings.files.terms_with_prefix(field, prefix, filter_query=self._is_visible))
        for term, count in self._recent.with_prefix(field, prefix).items():
            counted[term] = counted.get(term, 0) + count
        return sorted(counted.items(), key=lambda one: (-one[1], one[0]))

    @cached_property
    def _is_visible(self) -> tantivy.Query:
        return tantivy.Query.term_set_query(self._postings.schema, "row", self._rows.tolist())

    @cached_property
    def _recent(self) -> RecentView:
        """The recent documents that the reader sees."""
        recent = self._postings.recent
        positions = recent.positions
        visible = set(self._rows.tolist())
        return replace(recent, gone=recent.gone | {at for row, at in positions.items() if row not in visible})
