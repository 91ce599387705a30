"""The words of a collection whose documents are in partitions, for reading queries."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from index.partitions.merged_words import MOST_KNOWN_OF_READER, Asking, MergedCounts, MergedPostings
from index.words.analyzers import analyzer_for
from index.words.reading_options import ReadingOptions
from index.words.spaces import forms_of
from index.words.tokens import spaced
from index.words.vocabulary import Vocabulary
from index.words.word_search import Reading, read
from index.words.word_statistics import WordStatistics
from service.http.access import Caller
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
    missing: partitions whose counts are missing. seen: the counts of a reader who sees only some of the documents.
    """

    states: tuple[State | None, ...]
    documents: tuple[int | None, ...]
    postings: MergedPostings
    vocabulary: Vocabulary
    missing: set[int]
    seen: MergedCounts | None = None

    def read(self, text: str, options: ReadingOptions) -> tuple[Reading, WordStatistics]:
        """Return the reading of a query, and the statistics of the collection for its terms."""
        terms = _terms(text, self.vocabulary.stems)
        self.postings.learn(terms)
        if self.seen is not None:
            self.seen.learn(terms)
        reading = read(text, options, self.vocabulary)
        return reading, self.postings.statistics(reading, self.vocabulary.listed_count)

    def of_reader(self, seen: MergedCounts) -> "CollectionWords":
        """Return the words as one reader uses them: only the totals, the sorted terms and what is missing are shared.

        seen: the words of the documents that the reader sees.
        """
        postings = self.postings.apart()
        return replace(self, postings=postings, vocabulary=self.vocabulary.of_reader(seen, postings), seen=seen)

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

    Each filter of keys has counts of its own, of the documents that pass it: other words correct and complete nothing,
    and a faster answer would tell what another reader typed.
    What is of no query is shared: the totals, and the sorted terms, which are as large as the vocabulary.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._known: dict[int, tuple[str, CollectionWords]] = {}
        self._of_readers: dict[tuple[int, str], CollectionWords] = {}
        """The words of each reader, of the states in `_known` alone; the last that searched is the last."""

    def of(self, wanted: Wanted, language: str, newest: State, text: str, caller: Caller) -> CollectionWords:
        """Return the words of a collection, as they were asked for last, unless its documents have changed since.

        newest: the state of its documents that the coordinator knows. text: a query, whose terms are asked for.
        """
        with self._lock:
            known = self._known.get(wanted.collection)
            if known is not None and known[0] == language and known[1].is_as_new_as(newest):
                return self._of_reader(wanted, known[1], caller)
        return self.renewed(wanted, language, text, caller)

    def renewed(self, wanted: Wanted, language: str, text: str, caller: Caller) -> CollectionWords:
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
            Asking(
                lambda asked: self._counted(missing, wanted, "frequencies", asked),
                lambda field, prefix: self._counted(missing, wanted, "with_prefix", field, prefix),
            ),
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
            own = self._of_reader(wanted, words, caller)
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

    def _of_reader(self, wanted: Wanted, words: CollectionWords, caller: Caller) -> CollectionWords:
        """Return the words that are kept for a collection as one reader uses them. The caller holds the lock."""
        if caller.filter is None:
            return words
        name = (wanted.collection, caller.filter)
        own = self._of_readers.pop(name, None) or words.of_reader(self._seen_by(wanted, words.missing, caller))
        self._of_readers[name] = own
        if len(self._of_readers) > READERS:
            del self._of_readers[next(iter(self._of_readers))]
        return own

    def _seen_by(self, wanted: Wanted, missing: set[int], caller: Caller) -> MergedCounts:
        """Return the counts of the documents that a reader sees."""
        ask = Asking(
            lambda asked: self._counted(missing, wanted, "frequencies", asked, caller),
            lambda field, prefix: self._counted(missing, wanted, "with_prefix", field, prefix, caller),
        )
        return MergedCounts(
            ask, lambda: sum(self._counted(missing, wanted, "seen_documents", caller)), MOST_KNOWN_OF_READER
        )

    def _counted(self, missing: set[int], wanted: Wanted, request: str, *arguments: Any) -> list[Any]:
        """Return the counts of the partitions, and add those that do not answer to the missing ones."""
        found = self._calls.all(request, wanted, *arguments)
        missing.update(number for number, one in enumerate(found) if one is None)
        return [one for one in found if one is not None]


def _terms(text: str, stems: Callable[[str], Sequence[str]]) -> list[tuple[str, str]]:
    """Return the distinct terms of a query with their field, and the other forms of its words."""
    terms = [("words", term) for term in dict.fromkeys(stems(spaced(text)))]
    return [*terms, *(("surface", form) for form in dict.fromkeys(forms_of(text)))]
