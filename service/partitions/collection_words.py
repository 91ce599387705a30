"""The words of a collection whose documents are in partitions, for reading queries."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from index.partitions.merged_words import MergedPostings
from index.words.analyzers import analyzer_for
from index.words.reading_options import ReadingOptions
from index.words.spaces import forms_of
from index.words.tokens import spaced
from index.words.vocabulary import Vocabulary
from index.words.word_search import Reading, read
from index.words.word_statistics import WordStatistics
from service.partitions.calls import Calls
from service.partitions.messages import State, Wanted

MOST_COLLECTIONS = 1000
"""Collections whose words are kept."""
READERS = 64
"""Readers with counts of their own, in all collections together: those that searched last."""


@dataclass(frozen=True)
class CollectionWords:
    """The words of one state of the partitions.

    states: of each partition, None for one that was away. documents: of each partition, None for one that was away.
    missing: partitions whose counts are missing.
    """

    states: tuple[State | None, ...]
    documents: tuple[int | None, ...]
    postings: MergedPostings
    vocabulary: Vocabulary
    missing: set[int]

    def read(self, text: str, options: ReadingOptions) -> tuple[Reading, WordStatistics]:
        """Return the reading of a query, and the statistics of the collection for its terms."""
        self.postings.learn(_terms(text, self.vocabulary.stems))
        reading = read(text, options, self.vocabulary)
        return reading, self.postings.statistics(reading, self.vocabulary.listed_count)

    def apart(self) -> "CollectionWords":
        """Return the same words for one reader: only the totals, the sorted terms and what is missing are shared."""
        postings = self.postings.apart()
        return replace(self, postings=postings, vocabulary=self.vocabulary.apart(postings))

    def is_as_new_as(self, newest: State) -> bool:
        """Return whether each partition that answered had reached this state."""
        return all(one is None or one >= newest for one in self.states)

    def is_whole_of(self, states: Sequence[State | None]) -> bool:
        """Return whether these are the states of the partitions, and no counts are missing."""
        return not self.missing and tuple(states) == self.states

    def is_of(self, states: Sequence[State | None]) -> bool:
        """Return whether these are the states of the partitions; a partition that is away differs from none."""
        return all(new is None or new == known for new, known in zip(states, self.states, strict=True))


class WordsOfCollections:
    """The words of each collection, asked for again when its documents have changed.

    Each reader (`ReadingOptions.reader`) has counts of its own: a faster answer would tell what another reader typed.
    What is of no query is shared: the totals, and the sorted terms, which are as large as the vocabulary.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._known: dict[int, tuple[str, CollectionWords]] = {}
        self._of_readers: dict[tuple[int, str], CollectionWords] = {}
        """The words of each reader, of the states in `_known` alone; the last that searched is the last."""

    def of(self, wanted: Wanted, language: str, newest: State, text: str, reader: str | None) -> CollectionWords:
        """Return the words of a collection, as they were asked for last, unless its documents have changed since.

        newest: the state of its documents that the coordinator knows. text: a query, whose terms are asked for.
        """
        with self._lock:
            known = self._known.get(wanted.collection)
            if known is not None and known[0] == language and known[1].is_as_new_as(newest):
                return self._of_reader(wanted.collection, known[1], reader)
        return self.renewed(wanted, language, text, reader)

    def renewed(self, wanted: Wanted, language: str, text: str, reader: str | None) -> CollectionWords:
        """Ask for the words of a collection again, with the counts of the terms of a query, and return them."""
        analyzer = analyzer_for(language)
        asked = _terms(text, analyzer.analyze)
        with self._lock:
            before = self._known.get(wanted.collection)
        found = self._calls.all("words", wanted, asked)
        present = [one for one in found if one is not None]
        missing = {number for number, one in enumerate(found) if one is None}
        postings = MergedPostings(
            [one.totals for one in present],
            lambda asked: self._counted(missing, wanted, "frequencies", asked),
            lambda field, prefix: self._counted(missing, wanted, "with_prefix", field, prefix),
        )
        words = CollectionWords(
            states=tuple(None if one is None else one.state for one in found),
            documents=tuple(None if one is None else one.totals.documents for one in found),
            postings=postings,
            vocabulary=Vocabulary(postings, analyzer_for("none"), analyzer),
            missing=missing,
        )
        with self._lock:
            known = self._known.get(wanted.collection)
            if known is None or known is before or known[0] != language or not known[1].is_whole_of(words.states):
                self._keep(wanted.collection, language, words)
            else:
                words = known[1]  # another search has asked meanwhile
            own = self._of_reader(wanted.collection, words, reader)
        own.postings.know(asked, [one.counts for one in present])
        return own

    def forget(self, collection: int) -> None:
        """Ask for the words of a collection again at the next search."""
        with self._lock:
            self._known.pop(collection, None)
            self._forget_readers(collection)

    def _keep(self, collection: int, language: str, words: CollectionWords) -> None:
        """Keep the words of a collection instead of those of an earlier state. The caller holds the lock."""
        if len(self._known) >= MOST_COLLECTIONS:  # deleted collections are among them
            self._known.clear()
            self._of_readers.clear()
        self._known[collection] = (language, words)
        self._forget_readers(collection)

    def _forget_readers(self, collection: int) -> None:
        """Drop the words of readers, which hold the sorted terms of their state. The caller holds the lock."""
        self._of_readers = {of: words for of, words in self._of_readers.items() if of[0] != collection}

    def _of_reader(self, collection: int, words: CollectionWords, reader: str | None) -> CollectionWords:
        """Return the words that are kept for a collection as one reader uses them. The caller holds the lock."""
        if reader is None:
            return words
        own = self._of_readers.pop((collection, reader), None) or words.apart()
        self._of_readers[collection, reader] = own
        if len(self._of_readers) > READERS:
            del self._of_readers[next(iter(self._of_readers))]
        return own

    def _counted(self, missing: set[int], wanted: Wanted, request: str, *arguments: Any) -> list[Any]:
        """Return the counts of the partitions, and add those that do not answer to the missing ones."""
        found = self._calls.all(request, wanted, *arguments)
        missing.update(number for number, one in enumerate(found) if one is None)
        return [one for one in found if one is not None]


def _terms(text: str, stems: Callable[[str], Sequence[str]]) -> list[tuple[str, str]]:
    """Return the distinct terms of a query with their field, and the other forms of its words."""
    terms = [("words", term) for term in dict.fromkeys(stems(spaced(text)))]
    return [*terms, *(("surface", form) for form in dict.fromkeys(forms_of(text)))]
