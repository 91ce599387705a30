"""German participles and their verbs stand for each other, where the collection has the verb."""

from pathlib import Path

import pytest

from index.words.bm25_index import WordIndex
from index.words.reading_options import ReadingOptions
from index.words.word_search import WordSearcher

TEXTS = [
    "Ein Konto löschen",
    "Die Kündigung eines Vertrags",
    "Vom Newsletter abmelden",
    "Das Programm wurde installiert",
    "Ein Buch verlängern",
    "Gelöschte Dateien im Papierkorb",
    "Adresse ändern",
    "Sie zeigt sich im Licht",
    "Ein Sofa bestellen",
    "Fotos hochladen",
    *(f"Seite {number} von vielen" for number in range(12)),
]
GERMAN = ReadingOptions(typos=True, participles=True, compounds=True)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> WordSearcher:
    index = WordIndex(tmp_path_factory.mktemp("words") / "words", "german")
    index.replace(range(len(TEXTS)), TEXTS)
    return index.flush() if index.commit() else index.searcher()


def found(words: WordSearcher, text: str) -> list[int]:
    return words.search(text, 5, None, GERMAN)[0].tolist()


@pytest.mark.parametrize(
    ("typed", "documents"),
    [
        ("gelöscht", {0, 5}),
        ("gelöschtes", {0, 5}),
        ("löschen", {0, 5}),
        ("Löschung", {0, 5}),
        ("gekündigt", {1}),
        ("abgemeldet", {2}),
        ("installieren", {3}),
        ("verlängert", {4}),
        ("geändert", {6}),
        ("bestellt", {8}),
        ("bestellte", {8}),
        ("hochgeladen", {9}),
        ("angemeldeter Vertrag gekündigt", {1}),
    ],
)
def test_a_participle_and_its_verb_find_each_other(words: WordSearcher, typed: str, documents: set[int]) -> None:
    assert set(found(words, typed)) == documents
    assert words.read(typed, GERMAN).corrections == ()  # an unknown participle is no mistake


@pytest.mark.parametrize("typed", ["Gesicht", "gebeten", "Bericht", "Gewicht"])
def test_a_word_whose_verb_no_document_has_is_no_participle(words: WordSearcher, typed: str) -> None:
    assert words.read(typed, GERMAN).words.exact


def test_without_the_option_there_are_no_such_forms(words: WordSearcher) -> None:
    assert words.search("gekündigt", 5)[0].tolist() == []


def test_a_noun_that_looks_like_a_verb_keeps_its_weight(tmp_path: Path) -> None:
    texts = ["Ein Rechen aus Holz", *(f"Das ist gerecht, Nummer {number}" for number in range(5)), *TEXTS]
    index = WordIndex(tmp_path / "words", "german")
    index.replace(range(len(texts)), texts)
    made = index.flush() if index.commit() else index.searcher()
    assert found(made, "Rechen")[0] == 0
    read = made.read("Rechen", GERMAN).words
    assert read.weight.tolist() == pytest.approx([made.vocabulary.term_idf("rech")])
