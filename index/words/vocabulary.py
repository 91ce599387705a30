"""The vocabulary of a collection: its words as documents write them, in lower case and without accents, with counts.

A view of one commit of the word index. It finds the words that begin with some letters, and the words few edits away.
All counts are of living documents. The files hold deleted documents until a merge, and the library's own frequencies
count them; so while there are any, the living documents of a word are counted.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any

import tantivy
from rapidfuzz import process
from rapidfuzz.distance import OSA

CACHED_PREFIXES = 256
CACHED_STEMS = 10_000
CACHED_COUNTS = 10_000
CACHED_WORDS = 256
"""Words whose near words are cached: a part of a compound is looked up more than once."""

Counted = tuple[str, int]
"""A word, and the number of documents that contain it."""


class Vocabulary:
    """The words of one commit; safe to share between threads."""

    def __init__(
        self,
        searcher: tantivy.Searcher,
        schema: tantivy.Schema,
        surface: tantivy.TextAnalyzer,
        analyzer: tantivy.TextAnalyzer,
        deleted: int = 0,
    ) -> None:
        """surface analyzes the field `surface`, without stems; analyzer analyzes the field `words`.

        deleted: the number of deleted documents that the files hold.
        """
        self._searcher = searcher
        self.deleted = deleted
        self._surface = surface
        self._analyzer = analyzer
        self._stems = lru_cache(CACHED_STEMS)(lambda word: tuple(analyzer.analyze(word)))
        # not a method: a cache of a method keeps its object, and with it the files of old commits, until a collection
        beginning = lru_cache(CACHED_PREFIXES)(lambda prefix: _with_prefix(searcher, "surface", prefix, deleted))
        self._beginning = beginning
        self._near = lru_cache(CACHED_WORDS)(lambda word, edits: _near(word, edits, beginning))
        self._frequency = lru_cache(CACHED_COUNTS)(
            lambda field, term: _frequency(searcher, schema, field, term, deleted)
        )
        self._backwards: list[tuple[str, int]] | None = None

    def stems(self, text: str) -> tuple[str, ...]:
        """Return the terms of the index for a text."""
        return self._stems(text)

    def folded(self, word: str) -> str:
        """Return a word as the vocabulary writes it, empty if it is not a single word."""
        parts = self._surface.analyze(word)
        return str(parts[0]) if len(parts) == 1 else ""

    def idf(self, count: int) -> float:
        """Return the BM25 idf of a word that `count` documents contain."""
        return _idf(count, self.documents)

    @property
    def documents(self) -> int:
        """The number of documents."""
        return int(self._searcher.num_docs)

    def term_count(self, term: str) -> int:
        """Return the number of documents with a term of the index, a stem."""
        return self._frequency("words", term)

    def library_idf(self, term: str) -> float:
        """Return the idf with which the library scores a term of the index: deleted documents count in it."""
        count = int(self._searcher.doc_freq("words", term))
        return _idf(count, self.documents + self.deleted)

    def count(self, word: str) -> int:
        """Return the number of documents with a word of the vocabulary."""
        return self._frequency("surface", word)

    def beginning(self, prefix: str) -> Sequence[Counted]:
        """Return the words that begin with a prefix, the most frequent first."""
        found: list[Counted] = self._beginning(prefix)
        return found

    def ending(self, suffix: str) -> list[Counted]:
        """Return the terms of the index, stems, that end with a suffix, the most frequent first.

        The first call sorts all terms.
        """
        if self._backwards is None:
            terms = _with_prefix(self._searcher, "words", "", self.deleted)
            self._backwards = sorted((term[::-1], count) for term, count in terms)
        start, backwards = bisect_left(self._backwards, (suffix[::-1], 0)), suffix[::-1]
        run = takewhile(lambda one: one[0].startswith(backwards), islice(self._backwards, start, None))
        return sorted(((term[::-1], count) for term, count in run), key=lambda one: -one[1])

    def near(self, word: str, edits: int) -> list[tuple[int, str, int]]:
        """Return (edits, word, count) of the words at most `edits` away, the nearest first, then the most frequent.

        An edit inserts, removes or replaces a letter, or exchanges two adjacent letters (optimal string alignment,
        Boytsov 2011). People rarely mistype the first letter: words with the same first letter are tried first, then
        those that begin with the second letter, then all, with one edit.
        """
        found: list[tuple[int, str, int]] = self._near(word, edits)
        return found

    def near_prefix(self, prefix: str, edits: int) -> list[tuple[int, str, int]]:
        """Return (edits, word, count) of the words whose beginning is at most `edits` away from a prefix.

        Only words with the same first letter are tried.
        """
        counted = self._beginning(prefix[:1])
        best: dict[str, tuple[int, int]] = {}
        for length in range(max(2, len(prefix) - edits), len(prefix) + edits + 1):
            starts = [word[:length] for word, _ in counted]
            for _, distance, at in process.extract(prefix, starts, scorer=OSA.distance, score_cutoff=edits, limit=None):
                word, count = counted[at]
                best[word] = min(best.get(word, (edits, count)), (int(distance), count))
        return sorted(
            ((distance, word, count) for word, (distance, count) in best.items()),
            key=lambda one: (one[0], -one[2], one[1]),
        )


def _idf(count: int, documents: int) -> float:
    return math.log(1 + (documents - count + 0.5) / (count + 0.5))


def _frequency(searcher: tantivy.Searcher, schema: tantivy.Schema, field: str, term: str, deleted: int) -> int:
    """Return the number of living documents with a term of a field."""
    count = int(searcher.doc_freq(field, term))
    if not deleted or not count:
        return count
    having = tantivy.Query.term_query(schema, field, term, "basic")
    found: Any = searcher.search(having, limit=1, count=True)  # the stub lacks its count
    return int(found.count)


def _with_prefix(searcher: tantivy.Searcher, field: str, prefix: str, deleted: int) -> list[Counted]:
    """Return the terms of a field that begin with a prefix, with their living documents, the most frequent first."""
    living = tantivy.Query.all_query() if deleted else None
    return searcher.terms_with_prefix(field, prefix, filter_query=living)


def _near(word: str, edits: int, beginning: Callable[[str], Sequence[Counted]]) -> list[tuple[int, str, int]]:
    for prefix in dict.fromkeys((word[:1], word[1:2], "")):
        counted = beginning(prefix)
        choices = [one for one, _ in counted]
        most = edits if prefix == word[:1] else 1
        found = process.extract(word, choices, scorer=OSA.distance, score_cutoff=most, limit=None)
        if found:
            return sorted(
                ((int(distance), choice, counted[at][1]) for choice, distance, at in found),
                key=lambda one: (one[0], -one[2], one[1]),
            )
    return []
