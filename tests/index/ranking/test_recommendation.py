"""Recommendation: attention of a document over the documents that a user liked and disliked."""

import math
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation, IndexedDocument
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.recommendation import (
    AVERSION,
    LEAST_EACH,
    SHARPNESS,
    Taste,
    explain_taste,
    pooled,
    recommend,
)
from index.ranking.search import Ranked
from index.records import Floats, Ints, Key, KeyKind
from tests.index.fixtures import generation_of, passages, random_vectors, unit

DIM = 8
HEAD = AttentionHead(HeadConfig(dim=DIM, rank=2))


def near(direction: int, spread: int = DIM - 1, amount: float = 0.0) -> Floats:
    """Return a unit vector in a direction, turned by an amount to another direction."""
    vector = np.zeros(DIM, np.float32)
    vector[direction], vector[spread] = 1.0, amount
    return unit(*vector)


def collection(directory: Path, count: int = 60) -> Generation:
    """Return documents 0 to count - 1 with random values of one passage each."""
    vectors = random_vectors(count, DIM, 3)
    return generation_of(directory, [passages(row, "word", vector) for row, vector in enumerate(vectors)], dim=DIM)


def ints(*numbers: int) -> Ints:
    return np.asarray(numbers, np.int64)


def logits_of(found: Ranked) -> dict[int, float]:
    return dict(zip(found.doc_indices.tolist(), found.logits.tolist(), strict=True))


def by_hand(value: Floats, liked: Floats, sharpness: float) -> float:
    cosines = [math.fsum(float(a) * float(b) for a, b in zip(value, one, strict=True)) for one in liked]
    weights = [math.exp(sharpness * cosine) for cosine in cosines]
    return math.fsum(w * c for w, c in zip(weights, cosines, strict=True)) / math.fsum(weights)


@pytest.mark.parametrize("sharpness", [0.0, 2.0, 10.0])
def test_the_evidence_agrees_with_a_slow_loop(sharpness: float) -> None:
    values, liked = random_vectors(7, DIM, 1), random_vectors(4, DIM, 2)
    evidence, shares = pooled(values @ liked.T, sharpness)
    expected = [by_hand(value, liked, sharpness) for value in values]
    assert evidence.tolist() == pytest.approx(expected, abs=1e-5)
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * 7, abs=1e-6)


def test_the_evidence_is_between_the_mean_and_the_largest_cosine() -> None:
    values, liked = random_vectors(20, DIM, 1), random_vectors(5, DIM, 2)
    cosines = values @ liked.T
    soft, _ = pooled(cosines, SHARPNESS)
    assert (soft >= cosines.mean(axis=1) - 1e-5).all()
    assert (soft <= cosines.max(axis=1) + 1e-5).all()
    assert pooled(cosines, 1e4)[0] == pytest.approx(cosines.max(axis=1), abs=1e-3)
    assert pooled(cosines, 0.0)[0] == pytest.approx(cosines.mean(axis=1), abs=1e-5)


def test_without_liked_documents_the_evidence_is_zero() -> None:
    evidence, shares = pooled(np.empty((3, 0), np.float32), SHARPNESS)
    assert evidence.tolist() == [0.0, 0.0, 0.0]
    assert shares.shape == (3, 0)


def test_logits_agree_with_a_slow_loop_over_the_collection(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    taste = Taste(ints(3, 7, 20), ints(5, 9))
    found = recommend(generation, HEAD, taste, 60)
    values = np.asarray(generation.values)
    expected = {}
    for doc in set(range(60)) - {3, 7, 20, 5, 9}:
        like, dislike = (by_hand(values[doc], values[one], SHARPNESS) for one in (taste.liked, taste.disliked))
        expected[doc] = 25.0 * (like - AVERSION * max(0.0, dislike - like))
    assert logits_of(found) == pytest.approx(expected, abs=1e-3)
    assert found.logits.tolist() == sorted(found.logits.tolist(), reverse=True)


def test_the_parts_sum_to_the_logit_and_the_weights_to_one(tmp_path: Path) -> None:
    found = recommend(collection(tmp_path), HEAD, Taste(ints(1, 2), ints(4)), 30)
    assert found.parts.sum(axis=1).tolist() == pytest.approx(found.logits.tolist(), abs=1e-5)
    assert math.fsum(found.weights.tolist()) + found.null_weight == pytest.approx(1.0, abs=1e-6)
    assert 0 < found.null_weight < 1
    assert 0 < found.entropy < math.log(60)


def test_the_same_request_gives_the_same_bits_for_every_number_of_candidates(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    few, many = (recommend(generation, HEAD, Taste(ints(1, 2), ints(4)), count) for count in (5, 60))
    assert len(few.doc_indices) < len(many.doc_indices)
    assert logits_of(few).items() <= logits_of(many).items()
    assert recommend(generation, HEAD, Taste(ints(1, 2), ints(4)), 60).weights.tobytes() == many.weights.tobytes()


def test_liked_disliked_and_excluded_documents_never_come_back(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    allowed = np.arange(60) % 2 == 0
    found = recommend(generation, HEAD, Taste(ints(2, 4), ints(6, 7)), 60, allowed)
    assert set(found.doc_indices.tolist()) == set(range(0, 60, 2)) - {2, 4, 6}


def test_the_filter_restricts_before_candidates_are_chosen(tmp_path: Path) -> None:
    """The two allowed documents are the farthest from the liked document."""
    documents = [passages(row, "word", near(0, amount=0.1 * row)) for row in range(80)]
    generation = generation_of(tmp_path, documents, dim=DIM)
    allowed = np.arange(80) >= 78
    assert recommend(generation, HEAD, Taste(ints(0)), 5, allowed).doc_indices.tolist() == [78, 79]


def test_a_document_near_any_of_two_interests_is_found(tmp_path: Path) -> None:
    """The mean of the two liked documents is nearer to the documents between them."""
    between = [passages(10 + n, "word", unit(1, 1, *[0.0] * 5, 0.1 * n)) for n in range(40)]
    documents = [passages(0, "word", near(0)), passages(1, "word", near(1)), passages(2, "word", near(1, amount=0.1))]
    generation = generation_of(tmp_path, [*documents, *between], dim=DIM)
    found = recommend(generation, HEAD, Taste(ints(0, 1)), 10)
    assert found.doc_indices[0] == 2


def test_a_document_near_the_mean_of_many_is_found(tmp_path: Path) -> None:
    """Every liked document has LEAST_EACH nearer neighbours than the document between them."""
    random = np.random.default_rng(0)
    liked = [near(direction) for direction in range(4)]
    around = [
        unit(*(one + random.normal(0, 0.05, DIM).astype(np.float32))) for one in liked for _ in range(LEAST_EACH + 5)
    ]
    vectors = [*liked, unit(1, 1, 1, 1, 0, 0, 0, 0), *around]
    documents = [passages(row, "word", vector) for row, vector in enumerate(vectors)]
    generation = generation_of(tmp_path, documents, dim=DIM)
    assert 4 in recommend(generation, HEAD, Taste(ints(0, 1, 2, 3)), 10).doc_indices


def test_a_dislike_moves_its_neighbour_down(tmp_path: Path) -> None:
    """The neighbour is nearer to the disliked than to the liked document."""
    vectors = [near(0), near(0, 1, 0.45), near(0, 2, 0.5), near(0, 1, 0.8)]
    generation = generation_of(tmp_path, [passages(n, "word", one) for n, one in enumerate(vectors)], dim=DIM)
    assert recommend(generation, HEAD, Taste(ints(0)), 10).doc_indices.tolist()[:2] == [1, 2]
    disliked = recommend(generation, HEAD, Taste(ints(0), ints(3)), 10)
    assert disliked.doc_indices.tolist() == [2, 1]
    assert disliked.parts[0, 1] == 0 > disliked.parts[1, 1]


def test_an_explanation_names_the_documents_with_their_shares(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    taste = Taste(ints(3, 7, 20), ints(5))
    found = recommend(generation, HEAD, taste, 60)
    shares = explain_taste(generation, taste, int(found.doc_indices[0]))
    assert [one.part for one in shares] == ["like", "like", "like", "dislike"]
    assert {one.doc_index for one in shares[:3]} == {3, 7, 20}
    assert [one.share for one in shares[:3]] == sorted((one.share for one in shares[:3]), reverse=True)
    like = 25.0 * math.fsum(one.share * one.cosine for one in shares[:3])
    assert like == pytest.approx(float(found.parts[0, 0]), abs=1e-4)
    assert shares[3].share == pytest.approx(1.0)


def test_a_liked_document_without_a_vector_is_no_evidence(tmp_path: Path) -> None:
    documents = [passages(n, "word", vector) for n, vector in enumerate(random_vectors(9, DIM, 5))]
    generation = generation_of(tmp_path, [*documents, IndexedDocument(9, "word", [])], dim=DIM)
    with_both, with_one = (recommend(generation, HEAD, Taste(liked), 20) for liked in (ints(2, 9), ints(2)))
    assert logits_of(with_both) == logits_of(with_one)
    assert [one.doc_index for one in explain_taste(generation, Taste(ints(2, 9)), 0)] == [2]
    alone = recommend(generation, HEAD, Taste(ints(9)), 20)
    assert (len(alone.doc_indices), alone.null_weight) == (0, 1.0)


def test_a_collection_of_liked_documents_alone_has_no_recommendation(tmp_path: Path) -> None:
    key = Key(KeyKind.PASSAGE, near(0), 0, 4)
    generation = generation_of(tmp_path, [IndexedDocument(0, "word", [key])], dim=DIM)
    found = recommend(generation, HEAD, Taste(ints(0)), 20)
    assert (len(found.doc_indices), found.null_weight) == (0, 1.0)
