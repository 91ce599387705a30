"""Two matrices about hits: words of the query by keys, by occlusion, and parts of the logit by documents."""

from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.ranking import heatmaps
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig
from index.ranking.explanation import explain_keys, explain_parts
from index.ranking.retrieval import Mode, Query
from index.ranking.search import Ranking, search
from index.ranking.trees import Trees
from index.records import Floats
from tests.index.fixtures import ENCODER, generation_of, passages, random_vectors, vector_of, written
from tests.index.ranking.attention_by_hand import dot

TEXT = "copy a folder with all files"
DOCUMENTS = [
    written(1, "To copy a folder and all files in it, use copytree.", "Copying folders"),
    written(2, "Read a file line by line with a loop.", "Reading files"),
    written(3, "Copper prices fell."),
]
RANKS = [0, 1, 2]
UNTRAINED = AttentionHead(HeadConfig(dim=ENCODER.dim))


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return generation_of(tmp_path, DOCUMENTS)


def asked(text: str = TEXT) -> Query:
    return Query(text, vector_of(text), count=10)


def vectors_without(text: str = TEXT) -> Floats:
    """Return the vectors of a text without each of its words, zeros for an empty text."""
    texts = heatmaps.without_each(text, heatmaps.words_of_query(text))
    return np.stack([vector_of(one) if one else np.zeros(ENCODER.dim, np.float32) for one in texts])


def moved(form: str = "bilinear", heads: int = 1) -> AttentionHead:
    """Return a head whose matrices and head gate differ from the initial values."""
    head = AttentionHead(HeadConfig(dim=ENCODER.dim, rank=4, heads=heads, form=form))
    random = np.random.default_rng(2)
    changed = {
        name: (value + 0.2 * random.standard_normal(value.shape)).astype(np.float32)
        for name, value in head.parameters_by_name().items()
        if name.startswith("score.") or name == "head_gate"
    }
    return AttentionHead(head.config, head.parameters_by_name() | changed)


def matrix(generation: Generation, head: AttentionHead, text: str = TEXT) -> tuple[Ranking, heatmaps.WordsByKeys]:
    query = asked(text)
    ranking = search(generation, head, query)
    return ranking, heatmaps.words_by_keys(generation, head, query, ranking, RANKS, vectors_without(text), 8)


# --- The words ---


def test_each_word_is_left_out_once_and_spaces_close() -> None:
    words = heatmaps.words_of_query("Copy  a folder!")
    assert [("Copy  a folder!"[one.start : one.end], one.start) for one in words] == [
        ("Copy", 0),
        ("a", 6),
        ("folder", 8),
    ]
    assert heatmaps.without_each("Copy  a folder!", words) == ["a folder!", "Copy folder!", "Copy a !"]


def test_nothing_is_left_of_a_single_word() -> None:
    assert heatmaps.without_each("oak?", heatmaps.words_of_query("oak?")) == [""]
    assert heatmaps.without_each("?", heatmaps.words_of_query("?")) == []


def test_words_of_a_script_without_spaces_are_pairs_of_characters() -> None:
    words = heatmaps.words_of_query("日本語")
    assert [(one.start, one.end) for one in words] == [(0, 2), (1, 3)]
    assert heatmaps.without_each("日本語", words) == ["語", "日"]


# --- Words by keys ---


def test_cells_equal_a_slow_loop_over_cosines(generation: Generation) -> None:
    ranking, found = matrix(generation, UNTRAINED)
    texts = heatmaps.without_each(TEXT, heatmaps.words_of_query(TEXT))
    assert found.cells.shape == (6, len(found.keys)) == (6, 5)
    for column, (rank, key) in enumerate(found.keys):
        document = DOCUMENTS[int(generation.rows[ranking.doc_indices[rank]]) - 1]
        (vector,) = [one.vector for one in document.keys if one.kind is key.kind]
        whole = dot(vector_of(TEXT).tolist(), vector.tolist())
        assert found.cosines[column] == pytest.approx(whole, abs=1e-6)
        for row, text in enumerate(texts):
            without = dot(vector_of(text).tolist(), vector.tolist())
            assert found.cells[row, column] == pytest.approx(whole - without, abs=1e-6)


def test_a_cell_is_positive_where_the_word_raises_the_score() -> None:
    scores = np.asarray([[0.8, 0.1], [0.3, 0.2], [0.8, -0.4]], np.float32)
    assert heatmaps.occlusion(scores) == pytest.approx(np.asarray([[0.5, -0.1], [0.0, 0.5]]))


def test_the_cell_of_a_single_word_is_the_whole_cosine(generation: Generation) -> None:
    _, found = matrix(generation, UNTRAINED, "folders")
    assert found.cells.tolist() == [found.cosines.tolist()]


@pytest.mark.parametrize("form", ["bilinear", "additive", "gaussian"])
def test_the_scores_of_a_trained_head_are_its_own(generation: Generation, form: str) -> None:
    """The column of the whole query has the scores that an explanation shows."""
    head, query = moved(form), asked()
    ranking, found = matrix(generation, head)
    shown = [
        (rank, key.kind, key.score) for rank in RANKS for key in explain_keys(generation, head, query, ranking, rank)
    ]
    mine = [(rank, key.kind, score) for (rank, key), score in zip(found.keys, found.cosines.tolist(), strict=True)]
    assert [one[:2] for one in mine] == [one[:2] for one in shown]
    assert [one[2] for one in mine] == pytest.approx([one[2] for one in shown], abs=1e-5)
    assert np.abs(found.cosines - matrix(generation, UNTRAINED)[1].cosines).max() > 0.01


def test_several_heads_are_averaged_by_their_gate() -> None:
    head, queries, keys = moved(heads=3), random_vectors(2, ENCODER.dim, 5), random_vectors(4, ENCODER.dim, 6)
    scores = heatmaps.key_scores(head, queries, keys)
    for b, query in enumerate(queries):
        gate = np.exp(query @ head.head_gate)
        vectors = head.search_vectors(query[None])[0]
        for k, key in enumerate(keys):
            by_hand = sum(g * dot(v.tolist(), key.tolist()) for g, v in zip(gate / gate.sum(), vectors, strict=True))
            assert scores[b, k] == pytest.approx(by_hand, abs=1e-5)


def test_with_a_second_hop_all_queries_move_by_the_same_difference(generation: Generation) -> None:
    head = UNTRAINED.changed(hop=0.5)
    ranking, found = matrix(generation, head)
    assert np.abs(ranking.asked - vector_of(TEXT)).max() > 0.01
    _, still = matrix(generation, UNTRAINED)
    same = {(rank, key.kind): column for column, (rank, key) in enumerate(still.keys)}
    columns = [same[rank, key.kind] for rank, key in found.keys]
    assert ranking.doc_indices.tolist() == search(generation, UNTRAINED, asked()).doc_indices.tolist()
    assert found.cells == pytest.approx(still.cells[:, columns], abs=1e-5)
    assert np.abs(found.cosines - still.cosines[columns]).max() > 0.01


def test_the_keys_with_the_largest_shares_are_shown_in_reading_order(tmp_path: Path) -> None:
    vectors = random_vectors(12, ENCODER.dim, 3)
    generation = generation_of(tmp_path, [passages(1, "many", *vectors)])
    query = Query("many", vectors[7], count=10)
    ranking = search(generation, UNTRAINED, query)
    keys = [key for _, key in heatmaps.strongest_keys(generation, UNTRAINED, ranking, [0], heatmaps.keys_of_each(1))]
    every = explain_keys(generation, UNTRAINED, query, ranking, 0)
    kept = sorted(every, key=lambda key: -key.share)[: heatmaps.MAX_KEYS_PER_HIT]
    assert keys == sorted(kept, key=lambda key: key.start)
    assert 70 in [key.start for key in keys]


def test_ten_hits_have_at_most_forty_keys(tmp_path: Path) -> None:
    documents = [passages(row, "many", *random_vectors(6, ENCODER.dim, row)) for row in range(1, 11)]
    generation = generation_of(tmp_path, documents)
    ranking = search(generation, UNTRAINED, Query("many", vector_of("many"), count=10))
    keys = heatmaps.strongest_keys(generation, UNTRAINED, ranking, range(10), heatmaps.keys_of_each(10))
    assert [rank for rank, _ in keys] == [rank for rank in range(10) for _ in range(4)]
    assert len(keys) == heatmaps.MAX_KEYS


def test_no_hits_give_a_matrix_without_columns(generation: Generation) -> None:
    query = asked()
    ranking = search(generation, UNTRAINED, query)
    found = heatmaps.words_by_keys(generation, UNTRAINED, query, ranking, [], vectors_without(), 8)
    assert (found.cells.shape, found.cosines.shape) == ((6, 0), (0,))


# --- Parts by documents ---


@pytest.mark.parametrize("mode", Mode)
def test_the_parts_of_a_document_sum_to_its_logit(generation: Generation, mode: Mode) -> None:
    query = Query(TEXT, vector_of(TEXT), mode=mode, count=10)
    ranking = search(generation, UNTRAINED, query)
    ranks = range(len(ranking.logits))
    names, cells = heatmaps.parts_by_documents(ranking, ranks)
    assert names == EVIDENCE
    assert cells.sum(axis=0) == pytest.approx(ranking.logits, abs=1e-4)
    for rank in ranks:
        assert dict(zip(names, cells[:, rank].tolist(), strict=True)) == explain_parts(ranking, rank)


def test_trees_are_a_part_of_their_own(generation: Generation) -> None:
    one = Trees(np.zeros((1, 3), np.float32), np.zeros((1, 3), np.float32), np.full((1, 8), 0.5, np.float32))
    ranking = search(generation, UNTRAINED.grown(one), asked())
    names, cells = heatmaps.parts_by_documents(ranking, RANKS)
    assert names == (*EVIDENCE, "trees")
    assert cells[-1].tolist() == [0.5] * 3
