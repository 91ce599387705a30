"""What a coordinator keeps of the words of a collection: for all readers together, and for each."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from index.filters.conditions import In
from index.generation.generation import Generation
from index.partitions.merged_words import PartTotals, frequencies_in
from index.words.reading_options import ReadingOptions
from service.http.access import OWNER, Caller
from service.partitions import collection_words
from service.partitions.calls import Calls
from service.partitions.collection_words import CollectionWords, WordsOfCollections
from service.partitions.messages import State, Wanted, Words
from tests.index.fixtures import generation_of, written

SORTED_TERMS = ("with_prefix", "words", "")


class AnsweringCalls(Calls):
    """Calls of one partition in this process. It notes what is asked."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self.asked: list[tuple[Any, ...]] = []
        self.state: State = (1, 1)
        self.while_asking: Callable[[], object] = lambda: None
        """Runs once, before the next answer to `words`."""

    def all(self, request: str, *arguments: Any) -> list[Any]:
        about = arguments[1:]
        self.asked.append((request, *about))
        if request == "words":
            run, self.while_asking = self.while_asking, lambda: None
            run()
            return [
                Words(
                    self.state, PartTotals.of(self._generation), frequencies_in(self._generation.words.postings, *about)
                )
            ]
        postings = self._generation.words.postings
        about = tuple(one for one in about if not isinstance(one, Caller))
        if request == "seen_documents":
            return [postings.documents]
        return [frequencies_in(postings, *about) if request == "frequencies" else postings.with_prefix(*about)]

    def requests(self) -> list[str]:
        """Return the requests since the last call of this."""
        found = [request for request, *_ in self.asked]
        self.asked.clear()
        return found


@pytest.fixture
def calls(tmp_path: Path) -> AnsweringCalls:
    texts = ("der Kaufvertrag", "ein Vertrag", "der Kauf", "Mietvertrag")
    return AnsweringCalls(generation_of(tmp_path, [written(row, text) for row, text in enumerate(texts)]))


def searched(words: WordsOfCollections, reader: str | None, text: str, newest: State = (1, 1)) -> CollectionWords:
    """Read a query as a search of a key with this filter does."""
    caller = OWNER if reader is None else replace(OWNER, filter=reader, condition=In("tenant", (reader,)))
    found = words.of(Wanted(1, 1, 1, 1), "german", newest, text, caller)
    found.read(text, ReadingOptions(compounds=True))
    return found


def test_readers_share_what_is_of_no_query(calls: AnsweringCalls) -> None:
    words = WordsOfCollections(calls)
    for reader in (None, "tenant = a", "tenant = b"):
        assert searched(words, reader, "Vertrag").read("Vertrag", ReadingOptions())[1].idf
    assert calls.asked.count(SORTED_TERMS) == 1
    assert calls.requests().count("words") == 1


def test_readers_share_no_counts(calls: AnsweringCalls) -> None:
    words = WordsOfCollections(calls)
    asked = {}
    for reader in (None, "tenant = a", "tenant = b"):
        searched(words, reader, "Garten")
        asked[reader] = calls.requests().count("frequencies")
        searched(words, reader, "Garten")
        assert not calls.requests()
    assert asked["tenant = a"] == asked["tenant = b"] > 0


def test_the_readers_that_searched_last_are_kept(calls: AnsweringCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_words, "READERS", 2)
    words = WordsOfCollections(calls)
    for reader in ("a", "b", "a", "c"):
        searched(words, reader, "Garten")
    calls.requests()
    searched(words, "a", "Garten")
    searched(words, "c", "Garten")
    assert not calls.requests()
    searched(words, "b", "Garten")
    assert calls.requests()


def test_nothing_of_an_earlier_state_is_kept(calls: AnsweringCalls) -> None:
    words = WordsOfCollections(calls)
    before = [ref(searched(words, reader, "Vertrag").postings) for reader in (None, "a", "b")]
    calls.state = (1, 2)
    searched(words, "a", "Vertrag", newest=(1, 2))
    gc.collect()
    assert [one() for one in before] == [None, None, None]


def test_searches_that_ask_at_once_share_one_answer(calls: AnsweringCalls) -> None:
    words, meanwhile = WordsOfCollections(calls), []
    calls.while_asking = lambda: meanwhile.append(searched(words, "a", "Vertrag"))
    searched(words, "b", "Vertrag")
    assert calls.asked.count(SORTED_TERMS) == 1
    calls.requests()
    assert searched(words, "a", "Vertrag") is meanwhile[0]
    assert not calls.requests()
