"""Candidates: retrieval by keys, by words and by memory, and the arrays assembled for attention."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import MEMORY_RADIUS, CandidateSet, Mode, Query, assemble, retrieve, with_vectors
from index.records import LEXICAL, EncodedQuery, Floats, MemoryKey
from index.words.query_words import number_words
from tests.index.fixtures import (
    ENCODER,
    generation_of,
    passages,
    random_vectors,
    remembered,
    store_of,
    unit,
    vector_of,
    written,
)
from tests.index.ranking.attention_by_hand import only
from tests.index.words.term_matching_by_hand import matches_by_hand

X, Y, Z = np.eye(3, dtype=np.float32)
BM25 = LEXICAL.index("words")
DOCUMENTS = [
    passages(1, "cat", X),
    passages(2, "dog", unit(1, 1, 0)),
    passages(3, "cat dog", Y),
    passages(4, "copper", Z, unit(0, 1, 1)),
    passages(5, "wordless"),
]
NEAR = unit(1, 0.1, 0)
FAR = unit(MEMORY_RADIUS - 0.01, 0, (1 - (MEMORY_RADIUS - 0.01) ** 2) ** 0.5)
"""Past queries a little inside and a little outside the radius of X."""


def generation_with(directory: Path, *memory: MemoryKey) -> Generation:
    return generation_of(directory, DOCUMENTS, memory, dim=3)


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return generation_with(tmp_path)


def found(
    generation: Generation,
    vector: Floats,
    text: str = "",
    count: int = 2,
    mode: Mode = Mode.HYBRID,
    allowed: list[int] | None = None,
    extra: list[int] | None = None,
) -> CandidateSet:
    """Return the candidates of a query; allowed and extra are rows."""
    mask = None if allowed is None else np.isin(generation.rows, allowed)
    doc_indices = None if extra is None else generation.doc_indices(np.asarray(extra))
    return retrieve(generation, Query(text, vector, mode, count, mask), vector[None], doc_indices)


def rows(generation: Generation, candidates: CandidateSet) -> list[int]:
    return generation.rows[candidates.doc_indices].tolist()


# --- Candidates ---


def test_candidates_are_those_with_near_keys_and_those_with_the_words(generation: Generation) -> None:
    assert rows(generation, found(generation, X, "copper", count=1)) == [1, 4]
    assert rows(generation, found(generation, X, "", count=2)) == [1, 2]
    assert rows(generation, found(generation, X, "wordless", count=1)) == [1, 5]


def test_a_mode_uses_its_own_evidence_only(generation: Generation) -> None:
    assert rows(generation, found(generation, X, "copper", count=1, mode=Mode.DENSE)) == [1]
    words = found(generation, X, "copper", count=1, mode=Mode.WORDS)
    assert rows(generation, words) == [4]
    assert words.words.tolist() == [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]  # one word has no neighbour
    dense = found(generation, X, "cat", mode=Mode.DENSE)
    assert not dense.words.any()
    assert dense.facts.tolist() == [0.5, 0.5, 0.5]  # neutral facts: a dense search ignores the words


def encoded(generation: Generation, text: str, known: float) -> Query:
    """Return a query whose text is encoded as X, with this share of known tokens."""
    query = Query(text, np.zeros(3, np.float32), encoded=False)
    reading = generation.words.read(text)
    return with_vectors(query, reading, lambda _: EncodedQuery(X, known), has_memory=True)


def test_dense_evidence_counts_by_the_share_of_known_tokens(generation: Generation) -> None:
    query = encoded(generation, "copper", 0.5)
    assert query.vector.tolist() == X.tolist()
    assert retrieve(generation, query, query.vector[None]).trust == 0.5
    assert retrieve(generation, replace(query, mode=Mode.DENSE), query.vector[None]).trust == 1


def test_a_text_of_unknown_tokens_has_no_dense_evidence_and_no_memory(tmp_path: Path) -> None:
    generation = generation_with(tmp_path, remembered(1, 2, X))
    query = encoded(generation, "copper", 0.0)
    assert not query.encoded
    assert not query.vector.any()
    candidates = retrieve(generation, query, query.vector[None])
    assert rows(generation, candidates) == [4]
    assert candidates.trust == 0
    assert len(candidates.memory_key) == 0
    assert len(retrieve(generation, encoded(generation, "copper", 1.0), X[None]).memory_key) == 1


def test_candidates_are_distinct_and_ascending(generation: Generation) -> None:
    candidates = found(generation, unit(0, 1, 0.1), "cat dog copper wordless", count=5)
    assert rows(generation, candidates) == [1, 2, 3, 4, 5]
    assert all(len(getattr(candidates, name)) == 5 for name in ("doc_indices", "words"))


def test_each_head_retrieves_its_own_candidates(generation: Generation) -> None:
    candidates = retrieve(generation, Query("", X, count=1), np.stack([X, Z]))
    assert rows(generation, candidates) == [1, 4]


def test_required_documents_are_always_candidates(generation: Generation) -> None:
    candidates = found(generation, X, "cat", count=1, extra=[4, 1])
    assert rows(generation, candidates) == [1, 4]


def test_a_count_of_zero_retrieves_nothing(generation: Generation) -> None:
    assert rows(generation, found(generation, X, "cat", count=0)) == []
    assert rows(generation, found(generation, X, "cat", count=0, extra=[3])) == [3]


# --- Words ---


def test_words_are_bm25_over_the_best_score_for_every_candidate(generation: Generation) -> None:
    candidates = found(generation, Z, "cat dog", count=5)
    found_rows, scores = generation.words.search("cat dog", 5)
    assert found_rows.tolist() == [3, 1, 2]
    best, *rest = scores.tolist()
    assert rows(generation, candidates) == [1, 2, 3, 4]
    assert candidates.words[:, BM25].tolist() == pytest.approx([rest[0] / best, rest[1] / best, 1.0, 0.0])


def test_a_document_found_by_keys_alone_has_word_evidence(generation: Generation) -> None:
    candidates = found(generation, X, "cat dog", count=1)
    assert rows(generation, candidates) == [1, 3]
    assert 0 < candidates.words[0, BM25] < candidates.words[1, BM25] == pytest.approx(1.0)


def test_a_query_without_known_words_has_no_word_evidence(generation: Generation) -> None:
    assert not found(generation, X, "nowhere").words.any()


def test_term_matching_is_computed_for_every_candidate(tmp_path: Path) -> None:
    texts = ["red cat bowl", "bowl red cat", "cat red", "dog", "red dog cat"]
    generation = generation_of(tmp_path, [passages(row, text, X) for row, text in enumerate(texts)], dim=3)
    candidates = found(generation, X, "red cat bowl", count=5)
    words = generation.words.read("red cat bowl").words
    weight = dict(zip(words.words.tolist(), words.weight.tolist(), strict=True))
    asked = words.words[words.of_query].tolist()
    expected = [matches_by_hand(asked, weight, number_words(text.split()).tolist()) for text in texts]
    assert rows(generation, candidates) == list(range(5))
    assert np.allclose(candidates.words[:, BM25 + 1 : BM25 + 4], expected, atol=1e-6)
    coverage, _, phrase = candidates.words[:, BM25 + 1 : BM25 + 4].T.tolist()
    assert coverage[0] == coverage[1] == phrase[0] == 1.0
    assert 0 == phrase[2] < phrase[1] < 1


def test_the_facts_of_a_query_come_from_its_words_and_best_scores(tmp_path: Path) -> None:
    generation = generation_of(tmp_path, [passages(row, f"common word{row}", X) for row in range(12)], dim=3)
    facts = {text: found(generation, X, text).facts.tolist() for text in ("word3", "common", "common " * 9)}
    length, rarest, peaked = (dict(zip(facts, column, strict=True)) for column in zip(*facts.values(), strict=True))
    assert length["word3"] == length["common"] < length["common " * 9]
    assert rarest["word3"] > rarest["common"] == rarest["common " * 9]
    assert peaked["word3"] > 0.8 > 0.1 > peaked["common"]


# --- Filters ---


def test_a_filter_applies_to_keys_words_and_memory(tmp_path: Path) -> None:
    generation = generation_with(tmp_path, remembered(1, 1, X), remembered(2, 3, X))
    candidates = found(generation, X, "cat copper", count=5, allowed=[2, 3])
    assert rows(generation, candidates) == [2, 3]
    assert candidates.memory_key.tolist() == [1]
    assert rows(generation, found(generation, X, "cat", allowed=[])) == []


def test_a_filtered_search_has_as_many_candidates_as_requested(tmp_path: Path) -> None:
    vectors = random_vectors(200, 8, seed=1)
    documents = [passages(row, "cat " * (1 + row % 7), vectors[row]) for row in range(200)]
    generation = generation_of(tmp_path, documents, dim=8)
    allowed = list(range(0, 200, 20))
    for mode in (Mode.DENSE, Mode.WORDS):
        candidates = found(generation, vectors[3], "cat", count=10, mode=mode, allowed=allowed)
        assert rows(generation, candidates) == allowed


def test_removed_documents_are_not_candidates(tmp_path: Path) -> None:
    store = store_of(tmp_path, DOCUMENTS, 3)
    store.remember(2, [remembered(1, 1, X), remembered(2, 3, X)])
    generation = store.apply(3, [], removed=[1])
    candidates = found(generation, X, "cat", count=5)
    assert rows(generation, candidates) == [2, 3, 4]
    assert candidates.memory_key.tolist() == [1]
    assert max(candidates.words[:, BM25]) == candidates.words[1, BM25] == pytest.approx(1.0)
    assert rows(generation, found(generation, X, "cat", count=5, allowed=[1, 2])) == [2]


# --- Memory ---


def test_the_document_of_a_near_past_query_is_a_candidate(tmp_path: Path) -> None:
    generation = generation_with(tmp_path, remembered(1, 4, NEAR, weight=0.7))
    candidates = found(generation, X, count=1)
    assert rows(generation, candidates) == [1, 4]
    assert candidates.memory_key.tolist() == [0]
    assert candidates.memory_candidate.tolist() == [1]
    assert candidates.memory_cosine.tolist() == pytest.approx([float(NEAR @ X)])
    assert candidates.memory_weight.tolist() == pytest.approx([0.7])


def test_a_past_query_outside_the_radius_changes_no_bit(tmp_path: Path) -> None:
    without = generation_with(tmp_path / "without", remembered(2, 3, NEAR))
    outside = generation_with(tmp_path / "with", remembered(1, 4, FAR), remembered(2, 3, NEAR), remembered(3, 1, -X))
    one, other = found(without, X, "cat"), found(outside, X, "cat")
    assert one.memory_key.tolist() == [0]
    assert other.memory_key.tolist() == [1]
    for name in ("doc_indices", "words", "facts", "memory_candidate", "memory_cosine", "memory_weight"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.parametrize("mode", [Mode.DENSE, Mode.WORDS])
def test_memory_is_used_in_hybrid_searches_only(tmp_path: Path, mode: Mode) -> None:
    generation = generation_with(tmp_path, remembered(1, 4, X))
    assert found(generation, X, "cat", count=1, mode=mode).memory_key.tolist() == []
    assert rows(generation, found(generation, X, "dog", count=1, mode=mode)) in ([1], [2])


def test_the_memory_of_an_excluded_query_is_left_out(tmp_path: Path) -> None:
    keys = [
        remembered(1, 4, X, query_key="own"),
        remembered(2, 3, X, query_key="other"),
        remembered(3, 2, X, query_key="own"),
    ]
    generation = generation_with(tmp_path, *keys)
    candidates = retrieve(generation, Query("", X, count=1, excluded_query="own"), X[None])
    assert rows(generation, candidates) == [1, 3]
    assert generation.memory.query_key_of(candidates.memory_key[0]) == "other"
    everything = retrieve(generation, Query("", X, count=1, excluded_query="none of these"), X[None])
    assert rows(generation, everything) == [1, 2, 3, 4]


def test_memory_of_an_absent_document_is_left_out(tmp_path: Path) -> None:
    generation = generation_with(tmp_path, remembered(1, 99, X))
    assert found(generation, X, count=1).memory_key.tolist() == []
    empty = generation_of(tmp_path / "empty", [], [remembered(1, 1, X)], dim=3)
    assert found(empty, X, "cat").doc_indices.tolist() == []


# --- Assembled arrays ---


def test_every_candidate_has_all_its_keys(generation: Generation) -> None:
    found_rows = found(generation, X, "copper wordless")
    assert rows(generation, found_rows) == [1, 2, 4, 5]
    candidates = assemble(generation, [found_rows])
    keys = [candidates.keys[candidates.pair_key[candidates.pair_slot == slot]].tolist() for slot in range(4)]
    expected = [[X], [unit(1, 1, 0)], [Z, unit(0, 1, 1)], []]
    assert keys == [[vector.tolist() for vector in vectors] for vectors in expected]


def test_a_document_found_by_words_alone_has_exact_dense_evidence(generation: Generation) -> None:
    head = AttentionHead(HeadConfig(dim=3, rank=2, beta=only(passage=1.0), inverse_temperature=1.0))
    query = unit(1, 2, 0)
    candidates = found(generation, query, "cat", count=1)
    logits = head(query[None], assemble(generation, [candidates])).logits[0]
    assert rows(generation, candidates) == [1, 2]
    assert logits[:2].tolist() == pytest.approx([float(query @ X), float(query @ unit(1, 1, 0))])


def test_a_search_by_words_gives_attention_no_keys(generation: Generation) -> None:
    candidates = assemble(generation, [found(generation, X, "cat", mode=Mode.WORDS)], with_keys=False)
    assert (len(candidates.keys), len(candidates.pair_slot)) == (0, 0)
    assert candidates.words.shape == (1, 2, len(LEXICAL))


def test_queries_with_different_numbers_of_candidates_share_one_grid(tmp_path: Path) -> None:
    generation = generation_with(tmp_path, remembered(1, 4, Z), remembered(2, 3, X))
    queries = [(X, "cat dog", 3), (Z, "", 1), (-Y, "nowhere", 0)]
    sets = [found(generation, vector, text, count) for vector, text, count in queries]
    together = assemble(generation, sets)
    width = max(len(one.doc_indices) for one in sets)
    assert together.mask.sum(1).tolist() == [len(one.doc_indices) for one in sets]
    assert len(np.unique(together.keys, axis=0)) == len(together.keys)
    for b, one in enumerate(sets):
        alone = assemble(generation, [one])
        n = len(one.doc_indices)
        assert np.array_equal(together.words[b, :n], alone.words[0])
        mine = together.pair_query == b
        assert np.array_equal(together.pair_slot[mine] - b * width, alone.pair_slot)
        assert np.array_equal(together.pair_kind[mine], alone.pair_kind)
        assert np.array_equal(together.keys[together.pair_key[mine]], alone.keys[alone.pair_key])
        own = together.memory_slot // width == b
        assert np.array_equal(together.memory_slot[own] - b * width, alone.memory_slot)
        assert np.array_equal(together.memory_cosine[own], alone.memory_cosine)


def test_assemble_accepts_no_queries_and_no_candidates(generation: Generation) -> None:
    for sets in ([], [found(generation, X, count=0)]):
        candidates = assemble(generation, sets)
        assert candidates.mask.shape == (len(sets), 0)
        assert candidates.words.shape == (len(sets), 0, len(LEXICAL))
        assert candidates.facts.shape == (len(sets), 3)
        assert all(len(getattr(candidates, field.name)) == 0 for field in fields(candidates)[:5])


def test_the_last_candidates_by_words_do_not_depend_on_the_files(tmp_path: Path) -> None:
    """The word library rounds lengths, and its mean length counts deleted documents until it merges its files."""
    chance = np.random.default_rng(0)
    words = [f"word{n}" for n in range(12)]
    texts = [" ".join(chance.choice(words, chance.integers(41, 80))) for _ in range(300)]
    documents = [replace(written(2 * row, text), id=f"{row * 37 % 301}") for row, text in enumerate(texts, 1)]
    deleted = [written(2 * row + 1, "gone") for row in range(1, 300)]
    at_once = generation_of(tmp_path / "at once", documents)
    store = store_of(tmp_path / "by parts", sorted([*documents, *deleted], key=lambda one: one.row))
    by_parts = store.apply(2, [], [one.row for one in deleted])
    for text in ("word1 word2", "word3 word4 word5", "word6", "word7 word8 word9 word10"):
        query = Query(text, vector_of(text), Mode.WORDS, 20)
        one, other = (retrieve(each, query, np.empty((0, ENCODER.dim), np.float32)) for each in (at_once, by_parts))
        assert at_once.rows[one.doc_indices].tolist() == by_parts.rows[other.doc_indices].tolist(), text
        assert np.array_equal(one.words, other.words)
    store.close()
