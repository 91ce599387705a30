"""Numbers that documents write with separators of thousands, and queries without, or the other way round."""

from dataclasses import replace

import pytest

from index.words.bm25_index import WordIndex
from index.words.reading_options import ReadingOptions, folded
from index.words.thousands import OtherForm, other_forms
from index.words.tokens import tokens
from index.words.word_search import WordSearcher

TEXTS = [
    "power bank 10,000 mAh",
    "power bank 20.000mAh",
    "slim power bank 10000mAh",
    "heavy power bank 20000 mAh",
    "paper, 1,000 sheets",
    "paper, 500 sheets",
    "a coin of 1984",
    "a town with 1,984 houses",
    "a part with the number 1000-10",
]
TYPOS = ReadingOptions(typos=True)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> WordSearcher:
    index = WordIndex(tmp_path_factory.mktemp("words") / "words", "english")
    index.replace(range(len(TEXTS)), TEXTS)
    index.commit()
    return index.flush()


def forms(text: str) -> list[OtherForm]:
    return list(other_forms(text, [(token, folded(token.text)) for token in tokens(text)]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000 sheets", [OtherForm(0, 0, "1 000"), OtherForm(0, 1, "1 000sheets")]),
        ("1,000 sheets", [OtherForm(0, 1, "1000")]),
        ("of 1.234.567", [OtherForm(1, 3, "1234567")]),
        ("10 000", [OtherForm(0, 1, "10000")]),
        ("10\u202f000", [OtherForm(0, 1, "10000")]),
        ("2’500", [OtherForm(0, 1, "2500")]),
        ("10000mAh", [OtherForm(0, 0, "10 000mah"), OtherForm(0, 0, "10 000 mah")]),
        ("10,000mAh", [OtherForm(0, 1, "10000mah"), OtherForm(0, 1, "10000 mah")]),
        ("123456789", [OtherForm(0, 0, "123 456 789")]),
    ],
)
def test_a_number_has_its_other_form(text: str, expected: list[OtherForm]) -> None:
    assert forms(text) == expected


@pytest.mark.parametrize(
    "text", ["500", "0500", "1, 000", "1-000", "1,5", "1.25", "10,00", "01,000", "1234567890", "mah"]
)
def test_what_is_no_number_of_thousands_has_no_other_form(text: str) -> None:
    assert forms(text) == []


def found(words: WordSearcher, text: str, options: ReadingOptions = TYPOS) -> list[int]:
    return words.search(text, 20, None, options)[0].tolist()


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("10000 mah", {0, 2}),
        ("10000mah", {0, 2}),
        ("10,000 mAh", {0, 2}),
        ("20000 mAh", {1, 3}),
        ("20,000 mah", {1, 3}),
        ("20000mah", {1, 3}),
        ("1000 sheets", {4}),
    ],
)
def test_a_number_finds_documents_with_its_other_form(words: WordSearcher, typed: str, first: set[int]) -> None:
    assert set(found(words, typed)[: len(first)]) == first
    assert words.read(typed, TYPOS).text == typed or typed == "20000mah"


def test_a_number_that_documents_write_otherwise_is_no_mistake(words: WordSearcher) -> None:
    assert words.read("10000 mah", TYPOS).corrections == ()


def test_a_number_keeps_its_form_without_corrections(words: WordSearcher) -> None:
    assert found(words, "2500 sheets", ReadingOptions()) == found(words, "sheets", ReadingOptions())
    exactly = words.read("1000", ReadingOptions())
    never = words.read("1000", replace(TYPOS, uncorrected=frozenset({"1000"})))
    assert exactly.terms == never.terms == (("1000", 1.0),)


def test_a_known_year_is_no_number_with_separators(words: WordSearcher) -> None:
    assert found(words, "1984") == [6]
    assert set(found(words, "1000")) >= {4, 8}
