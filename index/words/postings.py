"""One commit of the word index: its files, the documents that were added since they were written, and removed rows.

All counts are of living documents. The library's own frequencies also count deleted documents, which the files hold
until a merge, and rows that are removed but not yet deleted in the files. While there are any, living documents are
counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tantivy

from index.words.recent_words import RecentView

Counted = tuple[str, int]
"""A term, and the number of documents that contain it."""
Factors = Sequence[tuple[str, float]]
"""Terms of the index, and how much each counts."""


@dataclass(frozen=True)
class Postings:
    """An immutable view; safe to share between threads.

    deleted: the number of deleted documents that the files hold. hidden: the rows that are in the files and were
    removed since. mean_length: the mean number of words of a document, for the scores of recent documents.
    """

    files: tantivy.Searcher
    schema: tantivy.Schema
    deleted: int
    hidden: frozenset[int]
    recent: RecentView
    mean_length: float
    opstamp: int = 0
    """The number of the commit that wrote the files; merges keep it."""

    @property
    def documents(self) -> int:
        """The number of documents."""
        return int(self.files.num_docs) - len(self.hidden) + self.recent.documents

    @property
    def are_counts_exact(self) -> bool:
        """Whether the files hold exactly the documents, so that the library's frequencies are right."""
        return not (self.deleted or self.hidden or self.recent.documents)

    def idf(self, count: int) -> float:
        """Return the BM25 idf of a word that `count` documents contain."""
        return bm25_idf(count, self.documents)

    def library_count(self, term: str, field: str = "words") -> int:
        """Return the number of documents in the files with a term, by default a stem, as the library counts them."""
        return int(self.files.doc_freq(field, term))

    def library_idf(self, count: int) -> float:
        """Return the idf with which the library scores a stem that it counts in so many documents."""
        return bm25_idf(count, self._in_files)

    def frequency(self, field: str, term: str) -> int:
        """Return the number of documents with a term of a field; with all words of a term that has spaces."""
        if " " in term:
            words = term.split(" ")
            count = min(self.library_count(word, field) for word in words)
        else:
            words, count = [term], self.library_count(term, field)
        if count and (self.deleted or self.hidden or len(words) > 1):
            count = self.count_of_all(field, words)
        return count + self.recent.frequency(field, term)

    def count_of_all(self, field: str, words: Sequence[str], among: tantivy.Query | None = None) -> int:
        """Return the number of documents in the files with all of these words. among: only of these documents."""
        wanted = [tantivy.Query.term_query(self.schema, field, word, "basic") for word in words]
        wanted += [] if among is None else [among]
        having = tantivy.Query.boolean_query([(tantivy.Occur.Must, one) for one in wanted])
        found: Any = self.files.search(self.without_hidden(having), limit=1, count=True)  # the stub lacks its count
        return int(found.count)

    def learn(self, asked: Sequence[tuple[str, str]]) -> None:
        """Do nothing: counts are at hand."""

    def with_prefix(self, field: str, prefix: str) -> list[Counted]:
        """Return the terms of a field that begin with a prefix, with their documents, the most frequent first."""
        living = self.without_hidden(tantivy.Query.all_query()) if self.deleted or self.hidden else None
        found = self.files.terms_with_prefix(field, prefix, filter_query=living)
        recent = self.recent.with_prefix(field, prefix)
        if not recent:
            return found
        for term, count in found:
            recent[term] = recent.get(term, 0) + count
        return sorted(recent.items(), key=lambda one: (-one[1], one[0]))

    def without_hidden(self, query: tantivy.Query) -> tantivy.Query:
        """Return a query for the same documents of the files without the hidden rows."""
        if self._hidden_rows is None:
            return query
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.MustNot, self._hidden_rows)])

    def stored_rows(self, rows: Sequence[int]) -> list[int]:
        """Return which of these rows the files hold, hidden or not."""
        if not rows or not self.files.num_docs:
            return []
        wanted = tantivy.Query.term_set_query(self.schema, "row", list(rows))
        hits = self.files.search(wanted, limit=len(rows), count=False).hits
        found: list[Any] = self.files.fast_field_values("row", [address for _, address in hits])
        return [int(row) for row in found]

    def search_recent(self, weighted: Factors) -> dict[int, float]:
        """Return row -> BM25 score of the recent documents with one of these terms; a weight is idf times a factor."""
        weights: dict[str, float] = {}
        for term, weight in weighted:
            weights[term] = weights.get(term, 0.0) + weight
        return self.recent.search(weights, self.mean_length)

    @cached_property
    def _in_files(self) -> int:
        return int(self.files.num_docs) + self.deleted

    @cached_property
    def _hidden_rows(self) -> tantivy.Query | None:
        return tantivy.Query.term_set_query(self.schema, "row", sorted(self.hidden)) if self.hidden else None


def bm25_idf(count: int, documents: int) -> float:
    """Return the idf of a word that `count` of these documents contain (Robertson and Zaragoza 2009)."""
    return math.log(1 + (documents - count + 0.5) / (count + 0.5))
