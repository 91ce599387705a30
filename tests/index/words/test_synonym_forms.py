"""A synonym holds for the forms of its words that have one stem in the language of the collection."""

from dataclasses import replace
from pathlib import Path

import pytest

from index.words.bm25_index import WordIndex
from index.words.reading_options import ReadingOptions, Synonyms
from index.words.word_search import WordSearcher

TEXTS = ["a comfortable sofa", "leather couch", "running shoes", "white trainers", "a garden kettle"]
SYNONYMS = Synonyms(
    {"sofa": ["couch"], "couch": ["sofa"], "running shoe": ["trainer"], "trainer": ["running shoe"]}, "english"
)
OPTIONS = ReadingOptions(typos=True, synonyms=SYNONYMS)


@pytest.fixture
def words(tmp_path: Path) -> WordSearcher:
    index = WordIndex(tmp_path, "english")
    index.replace(range(len(TEXTS)), TEXTS)
    return index.commit()


def others(synonyms: Synonyms, text: str) -> list[str]:
    """Return the replacements of the words of a text."""
    return [other for _, _, other in synonyms.of(text.split())]


@pytest.mark.parametrize(
    ("declared", "form", "rows"),
    [
        ("sofa", "sofas", {0, 1}),
        ("couch", "Couches", {0, 1}),
        ("running shoe", "running shoes", {2, 3}),
        ("trainer", "trainers", {2, 3}),
    ],
)
def test_a_form_of_a_declared_word_or_phrase_finds_what_the_declared_form_finds(
    words: WordSearcher, declared: str, form: str, rows: set[int]
) -> None:
    found, scores = words.search(form, 9, None, OPTIONS)
    assert set(found.tolist()) == rows
    assert scores.tolist() == words.search(declared, 9, None, OPTIONS)[1].tolist()


def test_a_one_way_synonym_holds_for_the_forms_of_its_word_alone(words: WordSearcher) -> None:
    options = replace(OPTIONS, synonyms=Synonyms({"settees": ["couches"]}, "english"))
    assert words.search("settee", 9, None, options)[0].tolist() == [1]
    assert others(Synonyms({"sofas": ["couches"]}, "english"), "couch") == []


def test_other_words_and_the_beginnings_of_words_have_no_synonym(words: WordSearcher) -> None:
    assert others(SYNONYMS, "sof coach shoe running") == []
    assert words.search("couc", 9, None, replace(OPTIONS, prefix=True))[0].tolist() == [1]


def test_a_form_that_is_declared_itself_has_its_own_synonyms_alone() -> None:
    french = Synonyms({"mars": ["planete"], "mariee": ["epouse", "promise", "promises"]}, "french")
    assert others(french, "mars") == ["planete"]
    assert others(french, "mariee") == ["epouse", "promise", "promises"]
    assert others(french, "mariees") == ["planete", "epouse", "promise"], "those of all words with the stem, once each"


def test_a_form_does_not_stand_for_its_own_word() -> None:
    synonyms = Synonyms({"walk": ["stroll"], "walks": ["walk", "strolls"]}, "english")
    assert others(synonyms, "walking") == ["stroll"]


@pytest.mark.parametrize("language", ["none", "thai"])
def test_without_a_stemmer_a_synonym_holds_for_the_declared_form_alone(language: str) -> None:
    synonyms = Synonyms({"sofa": ["couch"]}, language)
    assert (others(synonyms, "sofa"), others(synonyms, "sofas")) == (["couch"], [])


def test_a_form_of_a_declared_word_is_read_as_the_declared_form(words: WordSearcher) -> None:
    options = replace(OPTIONS, synonyms=Synonyms({"ketle": ["sofa"]}, "english"))
    reading = words.read("ketles", options)
    assert (reading.corrections, reading.encoded, reading.remembered) == ((), "sofa", "ketles")


def test_words_without_a_term_do_not_join_the_words_beside_them() -> None:
    assert Synonyms({"sofa": ["couch"]}, "english").of(["", "sofas", ""]) == [(1, 2, "couch")]
