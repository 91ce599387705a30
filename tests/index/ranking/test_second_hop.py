"""The second hop: the query moves towards the values of its candidates. Off initially, selected if it finds more."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor

from index.generation.generation import Generation
from index.learning.examples import Feedback
from index.learning.model_selection import RECIPES
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.explanation import explain_keys
from index.ranking.normalisers import NORMALISERS
from index.ranking.retrieval import Mode, Query
from index.ranking.search import search
from index.records import Floats
from tests.index.fixtures import generation_of, passages, random_vectors, unit
from tests.index.learning_fixtures import ALL_FOLDS, CONFIG, INITIAL, run
from tests.index.numpy_torch import By, each_library, tensors, trainable
from tests.index.ranking.attention_by_hand import PASSAGE, ToyDocument, flatten, only, random_documents, random_unit

DIM = 4
HEAD = HeadConfig(dim=DIM, rank=2, heads=2, inverse_temperature=3.0)
QUERIES = [random_documents(seed, count, DIM) for seed, count in ((1, 5), (2, 3))]
E = np.asarray([random_unit(np.random.default_rng(seed), DIM) for seed in (4, 5)], np.float32)


def hopping(config: HeadConfig, hop: float) -> AttentionHead:
    return AttentionHead(config).changed(hop=hop)


# --- The function ---


@each_library
def test_a_hop_of_zero_gives_the_bits_of_a_single_hop(by: By) -> None:
    head, candidates = by(hopping(HEAD, 0.0)), flatten(QUERIES, DIM)
    once = head.attend(head.dense(E, candidates), candidates)
    twice = head(E, candidates)
    assert np.array_equal(head.hopped(E, once.logits[:, :-1], candidates), E)
    assert np.array_equal(twice.logits, once.logits)
    assert np.array_equal(twice.weights, once.weights)


@each_library
def test_the_query_moves_towards_the_weighted_unit_means_of_passages(by: By) -> None:
    head, candidates = by(hopping(HEAD, 0.3)), flatten(QUERIES, DIM)
    logits = head.candidate_logits(head.dense(E, candidates), candidates)
    drawn = head.hopped(E, logits, candidates)
    for b, documents in enumerate(QUERIES):
        expected = E[b].astype(float)
        shares = softmax(logits[b, : len(documents)])  # over the candidates without the null slot
        for n, document in enumerate(documents):
            keys = [np.asarray(key) for kind, key in document.keys if kind == PASSAGE]
            if keys:
                mean = np.sum(keys, axis=0)
                expected = expected + 0.3 * float(shares[n]) * mean / np.linalg.norm(mean)
        assert drawn[b].tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    again = head.attend(head.dense(drawn, candidates), candidates)
    assert np.array_equal(head(E, candidates).logits, again.logits)


@each_library
def test_a_document_with_value_zero_does_not_move_the_query(by: By) -> None:
    head, candidates = by(hopping(HEAD, 0.4)), flatten([[ToyDocument([])]], DIM)
    logits = head.candidate_logits(head.dense(E[:1], candidates), candidates)
    assert head.hopped(E[:1], logits, candidates).tolist() == E[:1].tolist()


@each_library
def test_the_stored_values_are_pooled_and_not_the_keys(by: By) -> None:
    head, candidates = by(hopping(HEAD, 1.0)), flatten([[ToyDocument([(PASSAGE, [0, 1.0, 0, 0])])]], DIM)
    candidates = replace(candidates, values=np.asarray([[[0, 0, 0, 7.0]]], np.float32))
    logits = head.candidate_logits(head.dense(E[:1], candidates), candidates)
    moved = head.hopped(E[:1], logits, candidates)[0]
    assert moved.tolist() == pytest.approx([*E[0, :3], E[0, 3] + 7.0])


@each_library
def test_the_null_slot_does_not_move_the_query(by: By) -> None:
    """The null slot is calibrated after the hop is selected; calibration must not change the results of the hop."""
    candidates = flatten(QUERIES, DIM)
    logits = [
        by(hopping(replace(HEAD, null=null), 0.4))(E, candidates).logits for null in ((16.0, 1, 0), (-9.0, 0.5, 3))
    ]
    assert np.array_equal(logits[0][:, :-1], logits[1][:, :-1])


@each_library
def test_a_query_without_candidates_in_a_batch_does_not_move(by: By) -> None:
    candidates = flatten([[], QUERIES[0]], DIM)
    head = by(hopping(HEAD, 0.4))
    drawn = head.hopped(E, head.candidate_logits(head.dense(E, candidates), candidates), candidates)
    assert drawn[0].tolist() == E[0].tolist()
    assert drawn[1].tolist() != E[1].tolist()


@each_library
@pytest.mark.parametrize("normaliser", NORMALISERS)
def test_queries_without_candidates_do_not_move(by: By, normaliser: str) -> None:
    attention = by(hopping(replace(HEAD, normaliser=normaliser), 0.4))(E, flatten([[], []], DIM))
    assert attention.weights.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("hop", [0.1, 0.4])
def test_the_gradient_with_respect_to_the_hop_is_right(hop: float) -> None:
    values = trainable(AttentionHead(HEAD), torch.float64).parameters_by_name()
    candidates = tensors(flatten(QUERIES, DIM, np.float64))
    query = torch.tensor(E, dtype=torch.float64)
    real = torch.cat([candidates.mask, torch.ones(2, 1, dtype=torch.bool)], dim=1)

    def logits(g: Tensor) -> Tensor:
        found: Tensor = AttentionHead(HEAD, values | {"hop": g})(query, candidates).logits
        return found[real]

    g = torch.tensor(hop, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(logits, (g,))
    assert float(torch.autograd.grad(logits(g).square().sum(), g)[0]) != 0


# --- The search ---

X = unit(1, 0, 0, 0)
FIRST = unit(1, 1, 0, 0)
BESIDE_IT = unit(0.2, 1, 0, 0)
"""Near the first answer, and farther from the query X than irrelevant documents."""
OTHERS = [unit(0.3, 0, 1, 0), unit(0.3, 0, 0, 1), unit(0.3, 0, -1, 0), unit(0.3, 0, 0, -1)]


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    vectors = [FIRST, BESIDE_IT, *OTHERS]
    return generation_of(tmp_path, [passages(row, f"word{row}", each) for row, each in enumerate(vectors)], dim=4)


def found(generation: Generation, hop: float, mode: Mode = Mode.HYBRID, text: str = "") -> tuple[list[int], Floats]:
    head = hopping(replace(INITIAL, dim=4, rank=2, beta=only(passage=1.0, words=0.4)), hop)
    ranking = search(generation, head, Query(text, X, mode, count=2))
    return generation.rows[ranking.doc_indices].tolist(), ranking.asked


def test_only_the_second_hop_finds_the_neighbour_of_the_first_answer(generation: Generation) -> None:
    before, asked = found(generation, 0.0)
    after, drawn = found(generation, 0.6)
    assert before[0] == after[0] == 0
    assert 1 not in before
    assert after[1] == 1
    assert set(before) <= set(after)
    assert asked.tolist() == X.tolist()
    assert float(drawn @ BESIDE_IT) > float(asked @ BESIDE_IT)


def test_a_search_by_words_has_no_second_hop(generation: Generation) -> None:
    assert found(generation, 0.4, Mode.WORDS, "word3")[0] == found(generation, 0.0, Mode.WORDS, "word3")[0] == [3]
    assert found(generation, 0.4, Mode.WORDS, "word3")[1].tolist() == X.tolist()


def test_a_search_without_candidates_does_not_move_the_query(tmp_path: Path) -> None:
    rows, asked = found(generation_of(tmp_path, [], dim=4), 0.4)
    assert (rows, asked.tolist()) == ([], X.tolist())


def test_the_keys_of_a_hit_are_explained_by_the_moved_query(generation: Generation) -> None:
    head = hopping(replace(INITIAL, dim=4, rank=2, beta=only(passage=1.0), inverse_temperature=1.0), 0.4)
    query = Query("", X, count=2)
    ranking = search(generation, head, query)
    for position, doc_index in enumerate(ranking.doc_indices.tolist()):
        (key,) = explain_keys(generation, head, query, ranking, position)
        assert key.score == pytest.approx(float(ranking.asked @ generation.keys[doc_index]), abs=1e-5)
        assert key.score == pytest.approx(ranking.logits[position], abs=1e-5)


# --- The choice ---

WIDTH, CLUSTERS, CROWD = 48, 30, 240


def clustered(folder: Path) -> tuple[Generation, Floats]:
    """Return clusters of a document near its query and a neighbour far from the query, and other documents."""
    queries, beside = random_vectors(CLUSTERS, WIDTH, seed=1), random_vectors(CLUSTERS, WIDTH, seed=2)
    entries = [unit(*(query + other)) for query, other in zip(queries, beside, strict=True)]
    far = [unit(*(other - 0.35 * query)) for query, other in zip(queries, beside, strict=True)]
    crowd = random_vectors(CROWD, WIDTH, seed=3)
    documents = [passages(row, "", vector) for row, vector in enumerate([*entries, *far, *crowd])]
    return generation_of(folder, documents, dim=WIDTH), queries


@pytest.mark.parametrize("wanted", [True, False])
def test_a_fit_selects_the_second_hop_only_if_it_finds_more(tmp_path: Path, wanted: bool) -> None:
    generation, queries = clustered(tmp_path)
    random, feedback = np.random.default_rng(4), []
    for number in range(90):
        at = number % CLUSTERS
        vector = unit(*(queries[at] + 0.02 * random.normal(size=WIDTH)))
        gains = {at: 1.0, CLUSTERS + at: 1.0} if wanted else {at: 1.0}
        feedback.append(Feedback(f"query {number}", "", vector, gains))
    champion = AttentionHead(replace(INITIAL, dim=WIDTH, inverse_temperature=20.0, beta=only(passage=1.0)))
    config = replace(CONFIG, cross_validation_queries=ALL_FOLDS, candidates=20)
    fitted, _ = run(generation, feedback, config, champion, recipes=RECIPES[:1])
    hop = fitted.report["hop"]
    recall = {name: measures["R@100"] for name, measures in hop["tried"].items()}
    assert fitted.report["recipe"]["recipe"] == "initial"
    assert fitted.report["head"]["hop"] == pytest.approx(hop["chosen"])
    if wanted:
        assert hop["chosen"] > 0
        assert recall[f"{hop['chosen']:g}"] > recall["0"] + 0.1
        assert fitted.report["held_out"]["R@100"]["difference"] > 0.1
    else:
        assert hop["chosen"] == 0
        assert not fitted.head.hops
