"""The benchmarks of queries as people type them run on small documents with the hashing encoder."""

from benchmarks.as_typed import letters, spelling
from benchmarks.as_typed.word_engines import Fts5, Tantivy
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
