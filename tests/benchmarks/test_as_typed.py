"""The benchmarks of queries as people type them run on small documents with the hashing encoder."""

import pytest

from benchmarks.as_typed import languages, letters, spelling
from benchmarks.as_typed.word_engines import Fts5, Tantivy, Trigrams, ngrams, stems
from benchmarks.collections import TestSet
from index.encoding.hashing_encoder import HashingEncoder
from index.records import Document

DOCUMENTS = [Document("a", "copies a folder", "copytree"), Document("b", "reads a dictionary", "reader")]
TEXTS = [(one.id, f"{one.title}\n{one.text}") for one in DOCUMENTS]


def test_every_mistake_differs_from_its_meaning_and_has_answers() -> None:
    mistakes = spelling.read_mistakes()
    assert len(mistakes) == 150 == len({one.typed for one in mistakes})
    assert all(one.typed != one.meant and one.answers for one in mistakes)


def test_spelling_is_measured_for_every_engine() -> None:
    mistakes = [spelling.Mistake("dictonary", "dictionary", frozenset("b"))]
    found = spelling.figures(DOCUMENTS, mistakes, HashingEncoder())
    assert found["engines"]["ours"] == {"typed": 1.0, "meant": 1.0}
    assert found["engines"]["SQLite FTS5"] == {"typed": 0.0, "meant": 1.0}
    assert found["engines"]["tantivy, fuzzy"]["typed"] == 1.0


def test_word_engines_complete_the_last_word() -> None:
    for engine in (Fts5(TEXTS), Tantivy(TEXTS)):
        assert engine.search("copies a fol", 1, prefix=True) == ["a"]
        assert engine.search("dict", 1, prefix=True) == ["b"]
        assert engine.search("", 1, prefix=True) == []
    assert Tantivy(TEXTS).search("dict ", 1, prefix=True) == []


def test_letters_are_typed_until_the_document_is_found() -> None:
    texts = [letters.Typing("copytree", frozenset("a")), letters.Typing("nowhere", frozenset("b"))]
    asked: list[str] = []

    def search(text: str, count: int) -> list[str]:
        asked.append(text)
        return ["a"] if len(text) >= 4 else []

    found = letters.measure(search, texts)
    assert asked[:8] == ["copytree"[:at] for at in range(1, 9)]
    assert found["keystrokes"] == (4 + 8) / 2
    assert found["mrr"] == {3: 0.0, 5: 0.5, 8: 1.0}


def test_titles_want_their_document_and_queries_the_relevant_ones() -> None:
    documents = [{"id": "a", "title": "Tree", "text": ""}, {"id": "b", "title": "Tree", "text": ""}]
    one = TestSet("set", documents, {"1": "a tree", "2": "nothing"}, {}, {"1": {"a": 1, "b": 0}, "2": {"a": 0}})
    found = letters.typings(one, 5)
    assert found["titles"] == [letters.Typing("Tree", frozenset("ab"))]
    assert found["queries"] == [letters.Typing("a tree", frozenset("a"))]


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_every_language_has_sixty_documents_and_forty_queries_with_answers(language: str) -> None:
    documents, queries = languages.read_documents(language), languages.read_queries(language)
    ids = {one.id for one in documents}
    assert len(documents) == len(ids) == 60
    assert all(one.title and one.text for one in documents)
    assert len({one.text for one in queries}) == len(queries) == 40
    assert all(one.answers and one.answers <= ids for one in queries)
    assert any(one.kind == languages.UNFINISHED for one in queries)


def test_languages_are_measured_for_every_system() -> None:
    documents = [Document("a", "Die Laterne", "Platz"), Document("b", "Geschirrspüler und Salz", "Küche")]
    queries = [
        languages.Asked("Straßenlaterne", "compound", frozenset("a")),
        languages.Asked("geschirrsp", languages.UNFINISHED, frozenset("b")),
    ]
    found = languages.figures(documents, queries, "german", HashingEncoder())
    assert (found["documents"], found["queries"]) == (2, 2)
    ours = found["systems"]["ours, language german, words alone"]
    assert ours == {"first": 1.0, "mrr": 1.0, "kinds": {"compound": 1.0, languages.UNFINISHED: 1.0}}
    english = found["systems"]["ours, language english, words alone"]
    assert english["kinds"] == {"compound": 0.0, languages.UNFINISHED: 1.0}
    assert found["systems"]["SQLite FTS5, unicode61"]["mrr"] == 0.5
    assert found["systems"]["SQLite FTS5, trigram"]["first"] == 1.0
    assert languages.table("german", found).row_count == len(found["systems"])


def test_the_rank_of_the_first_answer_in_ten_is_measured() -> None:
    asked = [languages.Asked("x", "a", frozenset({"4"})), languages.Asked("y", "b", frozenset({"1", "2"}))]
    found = languages.measured(lambda text, count, prefix: [str(at) for at in range(1, count + 1)], asked)
    assert found == {"first": 0.5, "mrr": (1 / 4 + 1) / 2, "kinds": {"a": 0.0, "b": 1.0}}


def test_other_tokenizers_cut_other_words() -> None:
    texts = [("a", "Laternen am Platz"), ("b", "図書館の時間")]
    assert Trigrams(texts).search("laterne", 1) == ["a"]
    assert Trigrams(texts).search("straßenlaterne", 1) == ["a"]
    assert Trigrams(texts).search("図書", 1) == []
    assert Tantivy(texts, stems("german")).search("laterne", 1, fuzzy=False) == ["a"]
    assert Tantivy(texts, ngrams(2, 2)).search("図書", 1, fuzzy=False) == ["b"]
