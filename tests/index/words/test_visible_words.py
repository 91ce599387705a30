"""The words of the documents that a reader sees: the same as those of an index of these documents alone."""

from pathlib import Path

import numpy as np
import pytest

from index.words.bm25_index import WordIndex
from index.words.reading_options import ReadingOptions
from index.words.visible_words import VisibleWords
from index.words.word_search import WordSearcher

TEXTS = [
    "a kettle of steel",
    "steel kettles and a teapot",
    "a kettel is a brand of crisps",
    "crisps with salt, 1,000 bags",
    "a tea pot of iron",
    "ironing boards",
]
OPTIONS = ReadingOptions(typos=True, prefix=True)


def visible(words: WordSearcher, rows: list[int]) -> VisibleWords:
    numbers = [words.number(TEXTS[row]) for row in rows]
    lengths = np.asarray([len(one) for one in numbers], np.int64)
    return VisibleWords(words.postings, np.asarray(rows, np.int64), np.concatenate(numbers), lengths)


def index_of(directory: Path, rows: list[int]) -> WordIndex:
    index = WordIndex(directory, "english")
    index.replace(rows, [TEXTS[row] for row in rows])
    return index


@pytest.fixture(params=["written", "recent", "both"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> WordSearcher:
    """All texts: in files, among the recent documents, or partly."""
    index = index_of(tmp_path / "shared", list(range(len(TEXTS))))
    index.replace([9], ["a kettle that is gone"])
    index.commit()
    if request.param == "written":
        index.flush()
    if request.param == "both":
        index.remove([1, 4])
        index.commit()
        index.flush()
        index.replace([1, 4], [TEXTS[1], TEXTS[4]])
    index.remove([9])
    return index.commit()


ROWS = pytest.mark.parametrize("rows", [[0, 1], [0, 1, 3, 4], [2, 3], [5], list(range(len(TEXTS)))])


@ROWS
def test_counts_are_those_of_an_index_of_these_documents(shared: WordSearcher, tmp_path: Path, rows: list[int]) -> None:
    alone = index_of(tmp_path / "alone", rows).commit().postings
    seen = visible(shared, rows)
    assert seen.documents == alone.documents
    for term in ("kettl", "kettel", "steel", "iron", "crisp", "absent", "kettl steel", "1 000"):
        assert seen.frequency("words", term) == alone.frequency("words", term), term
    for term in ("kettle", "kettles", "kettel", "tea pot", "teapot", "absent"):
        assert seen.frequency("surface", term) == alone.frequency("surface", term), term
    for prefix in ("", "k", "ket", "i", "x"):
        assert seen.with_prefix("surface", prefix) == alone.with_prefix("surface", prefix), prefix
    assert seen.idf(1) == alone.idf(1)


@ROWS
@pytest.mark.parametrize("text", ["kettel", "stel", "tea pot", "teapot", "iro", "ketle cris", "1000 bags", "steel"])
def test_a_query_is_read_as_in_a_collection_of_these_documents(
    shared: WordSearcher, tmp_path: Path, rows: list[int], text: str
) -> None:
    alone = index_of(tmp_path / "alone", rows).commit().read(text, OPTIONS)
    read = shared.of_reader("a", lambda: visible(shared, rows)).read(text, OPTIONS)
    assert (read.corrections, read.text, read.encoded, read.remembered, read.unfinished) == (
        alone.corrections,
        alone.text,
        alone.encoded,
        alone.remembered,
        alone.unfinished,
    )
    assert set(read.words.words.tolist()) == set(alone.words.words.tolist())
    assert read.trust == alone.trust


def test_the_words_of_a_reader_are_asked_for_once_and_not_shared(shared: WordSearcher) -> None:
    asked: list[str] = []

    def seen(name: str, rows: list[int]) -> VisibleWords:
        asked.append(name)
        return visible(shared, rows)

    for name, rows in (("a", [0]), ("b", [2]), ("a", [0]), ("b", [2])):
        read = shared.of_reader(name, lambda name=name, rows=rows: seen(name, rows)).read("kettel", OPTIONS)
        assert read.corrections == ((("kettel", "kettle"),) if name == "a" else ())
    assert asked == ["a", "b"]


def test_the_words_of_readers_together_are_bounded(shared: WordSearcher, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def seen(name: str) -> VisibleWords:
        asked.append(name)
        return visible(shared, [0, 1])

    monkeypatch.setattr("index.words.word_search.MOST_SEEN", 2 * visible(shared, [0, 1]).length)
    for name in "abacab":
        shared.of_reader(name, lambda name=name: seen(name))
    assert asked == ["a", "b", "c", "b"], "c took the place of b, which searched first"


def test_a_word_keeps_its_weight_among_all_documents(shared: WordSearcher) -> None:
    options = ReadingOptions(typos=True)
    of_reader = shared.of_reader("a", lambda: visible(shared, [0])).read("steel kettle", options)
    assert of_reader.words.weight.tolist() == shared.read("steel kettle", options).words.weight.tolist()


def test_a_reader_who_sees_nothing_reads_words_as_they_are(shared: WordSearcher) -> None:
    nothing = VisibleWords(shared.postings, np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.int64))
    read = shared.of_reader("a", lambda: nothing).read("kettel", OPTIONS)
    assert (read.text, read.corrections) == ("kettel", ())


@pytest.mark.parametrize("text", ["steel ket", "1000 steel", "crisps ba"])
def test_completions_and_numbers_keep_their_weight_among_all_documents(shared: WordSearcher, text: str) -> None:
    of_reader = shared.of_reader("b", lambda: visible(shared, list(range(len(TEXTS))))).read(text, OPTIONS)
    assert of_reader.words.weight.tolist() == shared.read(text, OPTIONS).words.weight.tolist()
    few = shared.of_reader("c", lambda: visible(shared, [0, 3])).read(text, OPTIONS)
    assert min(few.words.weight) >= min(of_reader.words.weight)
