"""A search: the ranking, its weights, and an explanation that adds up to the logit."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig
from index.ranking.explanation import explain_keys, explain_parts
from index.ranking.retrieval import Mode, Query
from index.ranking.search import Ranking, project, search
from index.records import KeyKind, MemoryKey
from index.words.analyzers import analyzer_for
from tests.index.fixtures import ENCODER, generation_of, passages, remembered, store_of, vector_of, written
from tests.index.ranking.attention_by_hand import dot
from tests.index.words.term_matching_by_hand import matches_by_hand

TEXTS = {
    1: ("Deleting folders", "To remove a folder and all files in it, use rmtree."),
    2: ("Copying folders", "To copy a folder and all files in it, use copytree."),
    3: (None, "Read a file line by line with a loop over the open file."),
    4: ("Sorting", "Sort a list of records by one field with a key function."),
    5: ("Regular expressions", "Find all matches of a pattern in a text."),
    6: (None, "Copper prices fell."),
}
DOCUMENTS = [written(row, text, title) for row, (title, text) in TEXTS.items()]
CONFIG = HeadConfig(
    dim=ENCODER.dim,
    rank=4,
    beta=(0.3, 0.7, 0.1, 0.5, 0.05, 0.15, 0.25, 0.5, 0.35, 0.4),
    inverse_temperature=10.0,
    null=(4.0, 1.0, 0.0),
    sharpness=8.0,
    memory_gain=1.0,
    memory_sharpness=10.0,
)
HEAD = AttentionHead(CONFIG)
TEXT = "how do I delete a folder"


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return remembering(tmp_path)


def remembering(directory: Path, *memory: MemoryKey) -> Generation:
    return generation_of(directory, DOCUMENTS, memory)


def query(text: str = TEXT, mode: Mode = Mode.HYBRID, count: int = 10) -> Query:
    return Query(text, vector_of(text), mode=mode, count=count)


def ranked(generation: Generation, ranking: Ranking) -> list[int]:
    return generation.rows[ranking.doc_indices].tolist()


def same_bits(one: Ranking, other: Ranking) -> bool:
    arrays = ("doc_indices", "logits", "weights", "parts")
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in arrays) and (
        one.null_weight == other.null_weight
    )


def trained(heads: int = 1) -> AttentionHead:
    """Return a head with changed parameters."""
    head = AttentionHead(HeadConfig(dim=ENCODER.dim, rank=4, heads=heads, sharpness=CONFIG.sharpness))
    up = 0.3 * np.random.default_rng(1).standard_normal(head.score.up.shape, np.float32)
    return AttentionHead(head.config, head.parameters_by_name() | {"score.up": up})


# --- The ranking ---


def test_the_best_document_comes_first(generation: Generation) -> None:
    ranking = search(generation, HEAD, query("remove a folder with rmtree"))
    assert ranked(generation, ranking)[0] == 1
    assert ranking.logits.tolist() == sorted(ranking.logits.tolist(), reverse=True)
    assert ranking.weights.tolist() == sorted(ranking.weights.tolist(), reverse=True)


@pytest.mark.parametrize("mode", list(Mode))
def test_weights_and_null_weight_sum_to_one(generation: Generation, mode: Mode) -> None:
    ranking = search(generation, HEAD, query(mode=mode))
    assert len(ranking.doc_indices) > 0
    assert math.fsum(ranking.weights.tolist()) + ranking.null_weight == pytest.approx(1.0, abs=1e-6)
    assert 0 < ranking.null_weight < 1


@pytest.mark.parametrize("mode", list(Mode))
def test_the_parts_of_a_hit_add_up_to_its_logit(tmp_path: Path, mode: Mode) -> None:
    generation = remembering(tmp_path, remembered(1, 3, TEXT))
    ranking = search(generation, trained(heads=2), query(mode=mode))
    for position, logit in enumerate(ranking.logits.tolist()):
        parts = explain_parts(ranking, position)
        assert list(parts) == list(EVIDENCE)
        assert math.fsum(parts.values()) == pytest.approx(logit, abs=1e-4)


def test_a_mode_has_parts_of_its_own_evidence_only(tmp_path: Path) -> None:
    generation = remembering(tmp_path, remembered(1, 1, TEXT))
    present = {}
    for mode in Mode:
        parts = search(generation, HEAD, query(mode=mode)).parts
        present[mode] = {name for name, column in zip(EVIDENCE, parts.T, strict=True) if column.any()}
    assert present[Mode.WORDS] == {"words", "coverage", "proximity", "phrase"}
    assert present[Mode.DENSE] == {"title", "passage", "sentence"}
    assert present[Mode.HYBRID] == set(EVIDENCE) - {"corrected", "completed"}


def test_the_untrained_order_agrees_with_the_hybrid_score_by_hand(generation: Generation) -> None:
    words = dict(zip(*(side.tolist() for side in generation.words.search(TEXT, 10)), strict=True))
    analyzer, read = analyzer_for("none"), generation.words.read(TEXT).words
    asked = analyzer.analyze(TEXT)
    weight = dict(zip(asked, read.weight[read.of_query].tolist(), strict=True))
    assert len(read.of_query) == len(asked) == 6
    expected = {}
    for row, (title, text) in TEXTS.items():
        matches = matches_by_hand(asked, weight, analyzer.analyze(f"{title or ''}\n{text}"))
        passage = float(vector_of(text) @ vector_of(TEXT))
        heading = float(vector_of(title) @ vector_of(TEXT)) if title else passage
        share = words.get(row, 0.0) / max(words.values())
        dense = 0.3 * heading + 0.7 * passage + 0.1 * passage
        expected[row] = 10.0 * (dense + 0.5 * share + dot((0.05, 0.15, 0.25), matches))
    ranking = search(generation, HEAD, query())
    assert dict(zip(ranked(generation, ranking), ranking.logits.tolist(), strict=True)) == pytest.approx(
        expected, abs=1e-4
    )


def test_ties_are_ordered_by_doc_index(tmp_path: Path) -> None:
    same = [passages(row, "cat", vector_of("cat")) for row in (3, 7, 8, 9)]
    generation = generation_of(tmp_path, same)
    ranking = search(generation, HEAD, query("cat"))
    assert len(set(ranking.logits.tolist())) == 1
    assert ranked(generation, ranking) == [3, 7, 8, 9]


@pytest.mark.parametrize("mode", list(Mode))
def test_an_empty_collection_can_be_searched(tmp_path: Path, mode: Mode) -> None:
    ranking = search(generation_of(tmp_path, []), HEAD, query(mode=mode))
    assert (len(ranking.doc_indices), ranking.null_weight, ranking.entropy) == (0, 1.0, 0.0)


def test_a_filter_is_applied(generation: Generation) -> None:
    allowed = np.isin(generation.rows, [4, 6])
    ranking = search(generation, HEAD, Query(TEXT, vector_of(TEXT), allowed=allowed))
    assert sorted(ranked(generation, ranking)) == [4, 6]


def test_the_same_search_gives_the_same_bits_alone_and_among_many(tmp_path: Path) -> None:
    generation = remembering(tmp_path, remembered(1, 3, TEXT), remembered(2, 5, "a pattern"))
    queries = [query(text) for text in (TEXT, "a pattern", "copper", "sort files")] * 10
    alone = [search(generation, HEAD, one) for one in queries]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: search(generation, HEAD, one), queries))
    assert all(same_bits(one, other) for one, other in zip(alone, together, strict=True))


def test_entropy_is_low_when_one_document_has_the_weight_and_high_when_all_share_it(generation: Generation) -> None:
    ranking = search(generation, HEAD, query())
    weights = [*ranking.weights.tolist(), ranking.null_weight]
    assert ranking.entropy == pytest.approx(-math.fsum(w * math.log(w) for w in weights), abs=1e-5)
    cold, hot = (
        search(generation, AttentionHead(replace(CONFIG, inverse_temperature=t, null=(0.0, 1.0, 0.0))), query())
        for t in (1000.0, 0.001)
    )
    assert cold.entropy < 0.1 < 1.9 < hot.entropy == pytest.approx(math.log(7), abs=1e-3)
    assert (cold.temperature, hot.temperature) == pytest.approx((0.001, 1000.0))


def test_project_agrees_with_the_head() -> None:
    head = trained(heads=3)
    vector = vector_of(TEXT)
    assert np.array_equal(project(HEAD, vector), vector[None])
    expected = head.search_vectors(vector[None])[0]
    assert np.array_equal(project(head, vector), expected)
    assert project(head, vector).shape == (3, ENCODER.dim)


# --- Memory ---


def test_memory_raises_the_document_that_was_confirmed(tmp_path: Path) -> None:
    without = search(remembering(tmp_path / "without"), HEAD, query())
    generation = remembering(tmp_path / "with", remembered(1, 6, TEXT))
    with_memory = search(generation, HEAD, query())
    doc_index = int(generation.doc_indices(np.asarray([6]))[0])
    gained = with_memory.logits[with_memory.doc_indices == doc_index] - without.logits[without.doc_indices == doc_index]
    assert gained.tolist() == pytest.approx([10.0 * 0.4 * math.log(2)], abs=1e-4)
    others = [dict(zip(r.doc_indices.tolist(), r.logits.tolist(), strict=True)) for r in (without, with_memory)]
    assert all(one.pop(doc_index) for one in others)
    assert others[0] == pytest.approx(others[1], abs=1e-5)


def test_removing_memory_restores_the_bits_of_the_earlier_ranking(tmp_path: Path) -> None:
    store = store_of(tmp_path, DOCUMENTS)
    keys = [remembered(1, 3, TEXT), remembered(2, 6, "deleting a folder", weight=0.5)]
    before = search(store.remember(2, keys), HEAD, query())
    during = search(store.remember(3, [*keys, remembered(3, 5, TEXT), remembered(4, 3, TEXT)]), HEAD, query())
    after = search(store.remember(4, keys), HEAD, query())
    assert not same_bits(before, during)
    assert same_bits(before, after)


def test_memory_outside_the_radius_changes_no_bit_of_a_ranking(tmp_path: Path) -> None:
    without = search(remembering(tmp_path / "without"), HEAD, query())
    far = [remembered(number, 6, text) for number, text in enumerate(["copper prices", "sort a list", "x y z"])]
    assert all(float(key.vector @ vector_of(TEXT)) < 0.5 for key in far)
    assert same_bits(without, search(remembering(tmp_path / "with", *far), HEAD, query()))


# --- The explanation ---


def test_the_keys_of_a_hit_explain_its_dense_parts(tmp_path: Path) -> None:
    long = passages(1, "", *(vector_of(text) for _, text in TEXTS.values()))
    generation, head = generation_of(tmp_path, [long]), trained()
    ranking = search(generation, head, query())
    shares = explain_keys(generation, head, query(), ranking, 0)
    assert [(share.start, share.end) for share in shares] == [(10 * i, 10 * i + 9) for i in range(6)]
    assert {share.kind for share in shares} == {KeyKind.PASSAGE}
    assert math.fsum(share.share for share in shares) == pytest.approx(1.0)
    assert max(shares, key=lambda share: share.score) == max(shares, key=lambda share: share.share)
    pooled = math.fsum(share.share * share.score for share in shares)
    scale = float(np.exp(head.log_inverse_temperature) * head.beta[EVIDENCE.index("passage")])
    assert scale * pooled == pytest.approx(explain_parts(ranking, 0)["passage"], abs=1e-4)


def test_shares_sum_to_one_per_kind(generation: Generation) -> None:
    ranking = search(generation, HEAD, query())
    position = ranked(generation, ranking).index(1)
    title, passage = explain_keys(generation, HEAD, query(), ranking, position)
    assert (title.kind, title.share, title.end) == (KeyKind.TITLE, 1.0, len("Deleting folders"))
    assert (passage.kind, passage.share) == (KeyKind.PASSAGE, 1.0)
    assert passage.score == pytest.approx(float(vector_of(TEXTS[1][1]) @ vector_of(TEXT)), abs=1e-6)


def test_past_queries_that_confirm_a_hit_are_among_its_keys(tmp_path: Path) -> None:
    near = "how do I delete a folder quickly"
    generation = remembering(
        tmp_path, remembered(11, 5, TEXT), remembered(12, 1, "copper"), remembered(13, 5, near, -0.5)
    )
    ranking = search(generation, HEAD, query())
    position = ranked(generation, ranking).index(5)
    past = [share for share in explain_keys(generation, HEAD, query(), ranking, position) if share.query_key]
    assert [(share.query_key, share.confirmations) for share in past] == [(TEXT, 1), (near, 1)]
    assert [share.kind for share in past] == [KeyKind.QUERY] * 2
    assert [share.score for share in past] == pytest.approx([1.0, float(vector_of(near) @ vector_of(TEXT))])
    weights = [1.0, -0.5 * math.exp(10.0 * (past[1].score - 1))]
    assert [share.share for share in past] == pytest.approx([w / sum(map(abs, weights)) for w in weights], rel=1e-4)
    other = ranked(generation, ranking).index(4)
    assert not [share for share in explain_keys(generation, HEAD, query(), ranking, other) if share.query_key]


def test_the_explanation_of_a_search_by_words_has_no_keys(generation: Generation) -> None:
    one = query("delete a folder", mode=Mode.WORDS)
    assert explain_keys(generation, HEAD, one, search(generation, HEAD, one), 0) == []


@pytest.mark.parametrize("sharpness", [30.0, 5000.0])
def test_shares_are_finite_at_any_sharpness(tmp_path: Path, sharpness: float) -> None:
    generation = generation_of(tmp_path, [passages(1, "", vector_of(TEXT), -vector_of(TEXT), vector_of("copper"))])
    head = AttentionHead(replace(CONFIG, sharpness=sharpness))
    shares = explain_keys(generation, head, query(), search(generation, head, query()), 0)
    assert [share.share for share in shares] == pytest.approx([1.0, 0.0, 0.0], abs=1e-5)
    assert shares[0].score == pytest.approx(1.0, abs=1e-5)
    assert all(math.isfinite(share.score) for share in shares)


def test_with_several_heads_the_shares_still_explain_the_part(tmp_path: Path) -> None:
    long = passages(1, "", *(vector_of(text) for _, text in TEXTS.values()))
    generation, head = generation_of(tmp_path, [long]), trained(heads=3)
    ranking = search(generation, head, query())
    shares = explain_keys(generation, head, query(), ranking, 0)
    pooled = math.fsum(share.share * share.score for share in shares)
    scale = float(np.exp(head.log_inverse_temperature) * head.beta[EVIDENCE.index("passage")])
    assert math.fsum(share.share for share in shares) == pytest.approx(1.0)
    assert scale * pooled == pytest.approx(explain_parts(ranking, 0)["passage"], abs=1e-4)
