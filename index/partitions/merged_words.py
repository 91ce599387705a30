"""The words of a collection whose documents are in parts: counts of the parts are added up.

`Vocabulary` reads them as it reads the word index of a single generation, so a query is read in the same way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from index.generation.generation import Generation
from index.words.postings import Counted, bm25_idf
from index.words.vocabulary import Counts
from index.words.word_search import Reading
from index.words.word_statistics import WordStatistics

MOST_KNOWN = 100_000
"""Counts that are kept."""
MOST_KNOWN_OF_READER = 20_000
"""Counts that are kept for one reader (`MergedPostings.apart`): there are many readers."""


@dataclass(frozen=True)
class PartTotals:
    """Sums over the documents of a part, which means of the collection are made of."""

    documents: int
    words: int
    title_words: int

    @classmethod
    def of(cls, generation: Generation) -> "PartTotals":
        """Return the sums of a generation."""
        lengths = np.diff(generation.columns.first_token)[generation.alive]
        titles = generation.columns.title_words[generation.alive]
        return cls(len(lengths), int(lengths.sum()), int(titles.sum()))


class Asking(NamedTuple):
    """How all parts are asked; the results have an element for each part."""

    frequencies: Callable[[Sequence[tuple[str, str]]], Sequence[Sequence[int]]]
    """Pairs of field and term -> the number of documents with each."""
    with_prefix: Callable[[str, str], Sequence[Sequence[Counted]]]
    """A field and a prefix -> the terms that begin with it, with their documents."""


class MergedCounts:
    """The counts of the word indexes of all parts, of one state of them. It caches what it asked.

    Two threads may ask for the same term at once; both get the same count.
    """

    def __init__(self, ask: Asking, documents: Callable[[], int], most_known: int) -> None:
        """documents: returns the number of documents; called once, when it is needed."""
        self._ask = ask
        self._count_documents = documents
        self._known: dict[tuple[str, str], int] = {}
        self._most = most_known

    @cached_property
    def documents(self) -> int:
        """The number of documents."""
        return self._count_documents()

    def idf(self, count: int) -> float:
        """Return the BM25 idf of a word that `count` documents contain."""
        return bm25_idf(count, self.documents)

    def know(
        self, asked: Sequence[tuple[str, str]], counts: Sequence[Sequence[int]], kept: Sequence[tuple[str, str]] = ()
    ) -> list[int]:
        """Take the counts of these pairs of field and term, of each part, and return their sums.

        kept: pairs that stay known where the counts become too many.
        """
        total: list[int] = np.sum([list(of_part) for of_part in counts] or [[0] * len(asked)], 0).tolist()
        known = self._known
        if len(known) + len(asked) > self._most:
            self._known = {one: known[one] for one in kept if one in known}
        self._known.update(zip(asked, total, strict=True))
        return total

    def learn(self, asked: Sequence[tuple[str, str]]) -> None:
        """Ask for the counts of these pairs of field and term together, where they are not known."""
        unknown = [one for one in dict.fromkeys(asked) if one not in self._known]
        if unknown:
            self.know(unknown, self._ask.frequencies(unknown), asked)

    def frequency(self, field: str, term: str) -> int:
        """Return the number of documents with a term of a field."""
        count = self._known.get((field, term))
        if count is None:
            asked = [(field, term)]
            return self.know(asked, self._ask.frequencies(asked))[0]
        return count

    def with_prefix(self, field: str, prefix: str) -> list[Counted]:
        """Return the terms of a field that begin with a prefix, with their documents, the most frequent first."""
        total: dict[str, int] = {}
        for counted in self._ask.with_prefix(field, prefix):
            for term, count in counted:
                total[term] = total.get(term, 0) + count
        return sorted(total.items(), key=lambda one: (-one[1], one[0]))


class MergedPostings(MergedCounts):
    """What a vocabulary needs of the word indexes of all parts, with the statistics of the collection."""

    def __init__(self, totals: Sequence[PartTotals], ask: Asking, most_known: int = MOST_KNOWN) -> None:
        documents = sum(one.documents for one in totals)
        super().__init__(ask, lambda: documents, most_known)
        self._totals = totals

    def apart(self) -> "MergedPostings":
        """Return the same words whose counts do not tell what was asked for here: it has none yet."""
        return MergedPostings(self._totals, self._ask, MOST_KNOWN_OF_READER)

    def statistics(self, reading: Reading, listed: Callable[[str], int | None]) -> WordStatistics:
        """Return the statistics of the collection for the terms of a reading.

        listed: returns the count of a term where it is at hand, as `Vocabulary.listed_count` does.
        """
        terms = {term for term, _ in (*reading.terms, *reading.corrected_terms)}
        counts = {term: listed(term) for term in sorted(terms)}
        self.learn([("words", term) for term, count in counts.items() if count is None])
        documents = max(1, self.documents)
        return WordStatistics(
            mean_words=max(1.0, sum(one.words for one in self._totals) / documents),
            mean_title_words=sum(one.title_words for one in self._totals) / documents,
            idf={
                term: self.idf(self.frequency("words", term) if count is None else count)
                for term, count in counts.items()
            },
        )


def frequencies_in(counts: Counts, asked: Sequence[tuple[str, str]]) -> list[int]:
    """Return the number of documents of a part with each of these pairs of field and term."""
    counts.learn(asked)
    return [counts.frequency(field, term) for field, term in asked]
