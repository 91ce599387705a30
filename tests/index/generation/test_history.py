"""The same content gives the same ranking, whatever the history of writes that led to it, also after a restart."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.generation.generation import Generation, IndexedDocument
from index.generation.store import GenerationStore
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Mode, Query
from index.ranking.search import search
from index.records import Key, KeyKind
from index.words.reading_options import ReadingOptions
from tests.index.fixtures import ENCODER, vector_of

TEXTS = (
    "copper wire",
    "copper pot",
    "iron pot and iron lid",
    "a wire of tin",
    "tin",
    "copper",
    "a text of copper and tin",
)
QUERIES = ("copper", "tin wire", "iron pot", "coper", "wir", "zinc")
READING = ReadingOptions(typos=True, prefix=True)
HEAD = AttentionHead(HeadConfig(ENCODER.dim))
IDS = ("b", "a", "d", "c", "f", "e")
Ranked = list[tuple[str, float]]

CHANGES = st.lists(st.tuples(st.sampled_from(IDS), st.none() | st.sampled_from(TEXTS)), min_size=1, max_size=14)
"""Pairs of an id and its new text; None deletes the document."""


def document(row: int, id: str, text: str) -> IndexedDocument:
    return IndexedDocument(row, text, [Key(KeyKind.PASSAGE, vector_of(text), 0, len(text))], id=id)


class Written:
    """A store, and the rows of its documents."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = GenerationStore(directory, ENCODER.dim, "english", READING)
        self.rows: dict[str, int] = {}
        self.ids: dict[int, str] = {}

    def change(self, id: str, text: str | None) -> None:
        before, row = self.rows.pop(id, None), len(self.ids)
        self.ids[row] = id
        if text is not None:
            self.rows[id] = row
        added = [] if text is None else [document(row, id, text)]
        self.store.apply(row + 1, added, [] if before is None else [before])

    def reopened(self) -> Generation:
        self.store.save("english", 1)
        self.store.close()
        return GenerationStore.open(self.directory, ENCODER.dim, "english", 1, READING).current

    def rankings(self, generation: Generation) -> list[Ranked]:
        return [self._ranking(generation, text, mode) for text in QUERIES for mode in (Mode.HYBRID, Mode.WORDS)]

    def _ranking(self, generation: Generation, text: str, mode: Mode) -> Ranked:
        found = search(generation, HEAD, Query(text, vector_of(text), mode))
        ids = (self.ids[row] for row in generation.rows[found.doc_indices].tolist())
        return list(zip(ids, found.logits.tolist(), strict=True))


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES)
def test_every_history_with_the_same_content_gives_the_same_ranking(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str | None]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    lived, fresh = Written(folder / "lived"), Written(folder / "fresh")
    content: dict[str, str] = {}
    for id, text in changes:
        lived.change(id, text)
        content.pop(id, None)
        if text is not None:
            content[id] = text
    for id, text in sorted(content.items()):
        fresh.change(id, text)
    wanted = fresh.rankings(fresh.store.current)
    same(lived.rankings(lived.store.current), wanted)
    same(lived.rankings(lived.reopened()), wanted)
    fresh.store.close()


def same(found: list[Ranked], wanted: list[Ranked]) -> None:
    """Assert that the documents are in the same order, with the same logits to 1e-5."""
    for one, other in zip(found, wanted, strict=True):
        assert [id for id, _ in one] == [id for id, _ in other]
        np.testing.assert_allclose([logit for _, logit in one], [logit for _, logit in other], rtol=1e-5, atol=1e-6)


def test_words_of_deleted_documents_are_no_corrections_and_no_completions(tmp_path: Path) -> None:
    written = Written(tmp_path / "one")
    for id, text in (("a", "copper wire"), ("b", "iron pot"), ("c", "iron lid")):
        written.change(id, text)
    written.change("a", None)
    vocabulary = written.store.current.words.vocabulary
    assert vocabulary.near("coper", 1) == []
    assert list(vocabulary.beginning("w")) == []
    assert [vocabulary.count(word) for word in ("copper", "iron")] == [0, 2]


def test_equal_scores_are_in_the_order_of_the_ids(tmp_path: Path) -> None:
    written = Written(tmp_path / "one")
    for id in ("the same beginning 2", "b", "the same beginning 1", "a"):
        written.change(id, "copper wire")
    (found,) = [written._ranking(written.store.current, "copper", Mode.HYBRID)]
    ids = [id for id, _ in found]
    assert ids[:2] == ["a", "b"]
    assert set(ids[2:]) == {"the same beginning 1", "the same beginning 2"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_cut_through_equal_scores_keeps_the_first_ids(tmp_path: Path, count: int) -> None:
    written = Written(tmp_path / "one")
    for id in ("d", "b", "c", "a"):
        written.change(id, "copper wire")
    generation = written.store.current
    reading = generation.words.read("copper")
    rows, _ = generation.words.find(reading, count, id_order=generation.id_order_of)
    assert sorted(written.ids[row] for row in rows.tolist()) == ["a", "b", "c"][:count]
