"""The vocabulary of a collection: its words as documents write them, in lower case and without accents, with counts.

A view of one commit of the word index. It finds the words that begin with some letters, and the words few edits away.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from typing import Protocol

from index.words.analyzers import Analyzer
from index.words.near_words import Near, WordsByLength
from index.words.postings import Counted
from index.words.written_forms import SEPARATOR, most_frequent

FREQUENT_SHARE = 0.1
"""A word in a larger share of the documents is frequent. Spaces and corrections are not guessed by frequent words."""
LEAST_FREQUENT = 2
"""A word in at most so many documents is not frequent, also where there are few documents."""
CACHED_PREFIXES = 256
MOST_WORDS_OF_READER = 20_000
"""Words that a view of one reader keeps for all prefixes together (`Vocabulary.of_reader`): there are many readers."""
CACHED_STEMS = 10_000
CACHED_COUNTS = 10_000
CACHED_WORDS = 256
"""Words whose near words are cached: a part of a compound is looked up more than once."""


class Counts(Protocol):
    """The documents with each term, in one word index (`index.words.postings`) or in several."""

    @property
    def documents(self) -> int:
        """The number of documents."""

    def idf(self, count: int) -> float:
        """Return the BM25 idf of a word that `count` documents contain."""

    def frequency(self, field: str, term: str) -> int:
        """Return the number of documents with a term of a field; with all words of a term that has spaces."""

    def learn(self, asked: Sequence[tuple[str, str]]) -> None:
        """Get the counts of these pairs of field and term together, where each costs a call to other machines."""

    def with_prefix(self, field: str, prefix: str) -> list[Counted]:
        """Return the terms of a field that begin with a prefix, with their documents, the most frequent first."""


class Vocabulary:
    """The words of one commit; safe to share between threads."""

    def __init__(self, postings: Counts, surface: Analyzer, analyzer: Analyzer, seen: Counts | None = None) -> None:
        """surface analyzes the field `surface`, without stems; analyzer analyzes the field `words`.

        seen: the words of the documents that a reader sees, who then sees no other word, keeps at most
        MOST_WORDS_OF_READER for all prefixes together, and shares no cache that tells what was looked up; None: of all.
        """
        self._all_postings, self._postings = postings, seen or postings
        self._surface = surface
        self._analyzer = analyzer
        most_words = None if seen is None else MOST_WORDS_OF_READER
        postings = self._postings
        self._stems = lru_cache(CACHED_STEMS)(lambda word: tuple(analyzer.analyze(word)))
        # not a method: a cache of a method keeps its object, and with it the files of old commits, until a collection
        beginning = _cached(most_words, lambda prefix: postings.with_prefix("surface", prefix))
        self._beginning = beginning
        self._written = _cached(most_words, lambda prefix: postings.with_prefix("written", prefix))
        by_length = lru_cache(CACHED_PREFIXES)(lambda prefix: WordsByLength(beginning(prefix)))
        self._by_length = by_length
        self._near = lru_cache(CACHED_WORDS)(lambda word, edits: _near(word, edits, by_length))
        self._frequency = lru_cache(CACHED_COUNTS)(postings.frequency)
        in_all = lru_cache(CACHED_COUNTS)(self._all_postings.frequency)
        self._frequency_in_all = in_all if self._sees_some else self._frequency
        self._backwards = lru_cache(1)(
            lambda: sorted((term[::-1], count) for term, count in postings.with_prefix("words", ""))
        )

    def of_reader(self, seen: Counts, postings: Counts | None = None) -> "Vocabulary":
        """Return the vocabulary of a reader who sees only some of the documents.

        They share the sorted terms of all documents, which take long to make and are of no query, and the stems of
        words. postings: the counts of all documents, where they have caches too; None for those of this vocabulary.
        """
        postings = self._all_postings if postings is None else postings
        other = Vocabulary(postings, self._surface, self._analyzer, seen)
        other._stems, other._backwards = self._stems, self._backwards
        return other

    def stems(self, text: str) -> tuple[str, ...]:
        """Return the terms of the index for a text."""
        return self._stems(text)

    def folded(self, word: str) -> str:
        """Return a word as the vocabulary writes it, empty if it is not a single word."""
        parts = self._surface.analyze(word)
        return str(parts[0]) if len(parts) == 1 else ""

    def idf_together(self, words: Sequence[str], count: int) -> float:
        """Return the BM25 idf of words of which `count` documents contain one, among all documents as `term_idf`."""
        postings = self._all_postings
        if self._sees_some:
            postings.learn([("surface", word) for word in words])
            count = sum(postings.frequency("surface", word) for word in words)
        return postings.idf(min(count, postings.documents))

    def term_idf(self, term: str) -> float:
        """Return the BM25 idf of a term of the index, a stem, among all documents, also for a reader who sees some."""
        listed = self.listed_count(term)
        return self._all_postings.idf(self._frequency_in_all("words", term) if listed is None else listed)

    def count_in_all(self, terms: str) -> int:
        """Return the number of documents with all of these terms, with spaces between them, also for a reader."""
        return self._frequency_in_all("words", terms)

    def idf_of(self, count: int) -> float:
        """Return the BM25 idf of what so many of all documents have."""
        return self._all_postings.idf(count)

    @property
    def documents(self) -> int:
        """The number of documents."""
        return self._postings.documents

    def term_count(self, term: str) -> int:
        """Return the number of documents with a term of the index, a stem."""
        listed = None if self._sees_some else self.listed_count(term)
        return self._frequency("words", term) if listed is None else listed

    @property
    def _sees_some(self) -> bool:
        """Whether this is the vocabulary of a reader."""
        return self._postings is not self._all_postings

    def listed_count(self, term: str) -> int | None:
        """Return the documents with a term, of all, from the terms that `ending` has sorted; None where it has not."""
        if not self._backwards.cache_info().currsize:
            return None
        terms, backwards = self._backwards(), term[::-1]
        at = bisect_left(terms, (backwards, 0))
        return terms[at][1] if at < len(terms) and terms[at][0] == backwards else None

    def learn(self, terms: Sequence[str]) -> None:
        """Get together what `term_count` returns for each of these terms."""
        self._postings.learn([("words", term) for term in terms])

    def count(self, word: str) -> int:
        """Return the number of documents with a word of the vocabulary."""
        return self._frequency("surface", word)

    def counts(self, words: Sequence[str]) -> list[int]:
        """Return the number of documents with each of these words of the vocabulary."""
        self._postings.learn([("surface", word) for word in words])
        return [self.count(word) for word in words]

    def is_frequent(self, word: str) -> bool:
        """Return whether a word of the vocabulary is in many documents."""
        return is_frequent(self.count(word), self.documents)

    def count_together(self, first: str, second: str) -> int:
        """Return the number of documents with both words of the vocabulary, wherever they stand."""
        return self._frequency("surface", f"{first} {second}")

    def beginning(self, prefix: str) -> Sequence[Counted]:
        """Return the words that begin with a prefix, the most frequent first."""
        return self._beginning(prefix)

    def written(self, text: str) -> str:
        """Return words of the vocabulary, with spaces between them, as documents write them: with accents."""
        words = text.split(" ")
        return " ".join(most_frequent(word, self.count(word), self._written(word + SEPARATOR)) for word in words)

    def ending(self, suffix: str) -> list[Counted]:
        """Return the terms of the index, stems, that end with a suffix, the most frequent first.

        The first call sorts all terms.
        """
        terms, backwards = self._backwards(), suffix[::-1]
        start = bisect_left(terms, (backwards, 0))
        run = takewhile(lambda one: one[0].startswith(backwards), islice(terms, start, None))
        found = [(term[::-1], count) for term, count in run]
        if self._sees_some:
            self.learn([term for term, _ in found])
            found = [(term, count) for term, _ in found if (count := self._postings.frequency("words", term))]
        return sorted(found, key=lambda one: -one[1])

    def near(self, word: str, edits: int) -> list[Near]:
        """Return (edits, word, count) of the words at most `edits` away, the nearest first, then the most frequent.

        People rarely mistype the first letter: words with the same first letter are tried first. Where
        none of them is one edit away, those that begin with the second letter are tried too, then all, with one edit.
        """
        found: list[Near] = self._near(word, edits)
        return found

    def near_prefix(self, prefix: str, edits: int) -> list[Near]:
        """Return (edits, word, count) of the words whose beginning is at most `edits` away from a prefix.

        Only words with the same first letter are tried.
        """
        near = self._by_length(prefix[:1]).near_prefix(prefix, edits)
        return sorted(near, key=lambda one: (one[0], -one[2], one[1]))


def is_frequent(count: int, documents: int) -> bool:
    """Return whether a word in `count` of the documents is frequent."""
    return count > max(LEAST_FREQUENT, FREQUENT_SHARE * documents)


def _cached(most: int | None, found: Callable[[str], Sequence[Counted]]) -> Callable[[str], Sequence[Counted]]:
    """Return a function with the same results, which it keeps for the last prefixes: at most `most` words, if not None.

    Safe to call from several threads.
    """
    if most is None:
        return lru_cache(CACHED_PREFIXES)(found)
    kept: dict[str, Sequence[Counted]] = {}
    lock = threading.Lock()

    def of(prefix: str) -> Sequence[Counted]:
        with lock:
            known = kept.pop(prefix, None)
        words = found(prefix) if known is None else known
        with lock:
            kept[prefix] = words
            while len(kept) > CACHED_PREFIXES or sum(map(len, kept.values())) > most:
                del kept[next(iter(kept))]
        return words

    return of


def _near(word: str, edits: int, beginning: Callable[[str], WordsByLength]) -> list[Near]:
    found: set[Near] = set()
    for prefix in dict.fromkeys((word[:1], word[1:2], "")):
        found.update(beginning(prefix).near(word, edits if prefix == word[:1] else 1))
        if any(distance <= 1 for distance, _, _ in found):
            break
    return sorted(found, key=lambda one: (one[0], one[1][:1] != word[:1], -one[2], one[1]))
