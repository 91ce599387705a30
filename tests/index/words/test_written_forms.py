"""Corrections and completions have the accents with which the documents write their words."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from index.words.bm25_index import RECENT_DOCUMENTS, WordIndex
from index.words.reading_options import ReadingOptions
from index.words.word_reader import WordDescriber, WordReader
from index.words.word_search import WordSearcher
from index.words.written_forms import most_frequent, written_terms

READING = ReadingOptions(typos=True, prefix=True)


def read(searcher: WordSearcher, text: str) -> tuple[str, str]:
    """Return a query as it is corrected and completed, and as it is encoded."""
    reading = searcher.read(text, READING)
    return reading.text, reading.encoded


@pytest.fixture
def index(tmp_path: Path) -> WordIndex:
    return WordIndex(tmp_path, "german")


def add(index: WordIndex, *texts: str, first: int = 0) -> WordSearcher:
    index.replace(range(first, first + len(texts)), texts)
    return index.commit()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("A plain text", []),
        ("Über GRÖSSE, größe und Größe", ["grosse/grösse", "grosse/größe", "uber/über"]),
        ("gro\u0308\u00dfe", ["grosse/größe"]),  # decomposed
        ("kırmızı İstanbul", ["kirmizi/kırmızı"]),
        ("όλα Ёлка", ["ολα/όλα", "елка/ёлка"]),
        ("ﬁnden ½ 東京都 ไม่", []),  # letters in another form, and pairs of characters
        ("ö" * 101, []),  # too long for a word
        ("na\u00adïve n\u034faïve", ["naive/naïve"]),  # invisible characters
    ],
)
def test_words_that_folding_changes_have_terms(text: str, terms: Sequence[str]) -> None:
    assert written_terms(text) == terms


@pytest.mark.parametrize(
    ("count", "forms", "written"),
    [
        (3, [], "livre"),
        (3, [("livre/livré", 1)], "livre"),
        (4, [("livre/livré", 2)], "livré"),
        (5, [("livre/livré", 2), ("livre/lívre", 2)], "livré"),
    ],
)
def test_the_most_frequent_form_is_written(count: int, forms: list[tuple[str, int]], written: str) -> None:
    assert most_frequent("livre", count, forms) == written


def test_corrections_and_completions_have_accents(index: WordIndex) -> None:
    words = add(index, "Passwort zurücksetzen", "Konto löschen")
    assert read(words, "passwort zurüksetzen") == ("passwort zurücksetzen",) * 2
    assert read(words, "konto löshcen jetzt") == ("konto löschen jetzt",) * 2
    assert read(words, "konto losche") == ("konto löschen",) * 2
    assert read(words, "kontolöschen") == ("konto löschen",) * 2
    assert words.read("kont\u00ado löshcen", READING).corrections == (("löshcen", "löschen"),)
    assert words.read("lösh\u00adcen jetzt", READING).corrections[0] == ("lösh\u00adcen", "löschen"), "as it was typed"
    assert read(words, "konto loschen") == ("konto loschen",) * 2  # a word of the documents stays as it is typed


def test_forms_are_counted_in_files_and_in_recent_documents_without_removed_ones(index: WordIndex) -> None:
    add(index, *["Konto loschen"] * RECENT_DOCUMENTS, "noch eines")
    words = add(index, "Konto löschen", first=RECENT_DOCUMENTS + 1)
    assert read(words, "konto löshcen")[0] == "konto loschen"
    words = add(index, *["Konto löschen"] * RECENT_DOCUMENTS, first=RECENT_DOCUMENTS + 1)
    assert read(words, "konto löshcen")[0] == "konto löschen"
    index.remove(range(RECENT_DOCUMENTS + 1, 2 * RECENT_DOCUMENTS + 1))
    assert read(index.commit(), "konto löshcen")[0] == "konto loschen"


def test_a_reader_has_the_forms_of_the_writer(index: WordIndex, tmp_path: Path) -> None:
    add(index, "Konto löschen")
    index.flush()
    words = add(index, "Passwort zurücksetzen", first=1)
    reader = WordReader(tmp_path, "german").read(WordDescriber().described(words))
    for text in ("konto löshcen", "passwort zurüksetzen"):
        assert read(reader, text) == read(words, text)
        assert "ü" in read(reader, text)[0] or "ö" in read(reader, text)[0]
