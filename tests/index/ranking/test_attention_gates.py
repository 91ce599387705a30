"""The gates of a head: weights per kind of evidence, weights per head, and the sharpness of pooling."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from index.ranking.attention import (
    DENSE,
    EVIDENCE,
    PASSAGE,
    AttentionHead,
    HeadConfig,
    initial_parameters,
    without_keys,
)
from index.ranking.normalisers import NORMALISERS
from index.ranking.score_functions import FORMS
from index.ranking.word_evidence import PEAK_DEPTH, query_facts
from index.records import FACTS
from tests.index.numpy_torch import By, each_library, moved, tensors, trainable
from tests.index.ranking.attention_by_hand import (
    ToyDocument,
    flatten,
    logit_by_hand,
    random_documents,
    random_unit,
    soft_maximum_by_hand,
)

DIM = 4
HEAD = HeadConfig(dim=DIM, rank=2, beta=(0.3, 0.6, 0.2, 0.5, 0.15, 0.25, 0.35, 0.45, 0.1, 0.4), inverse_temperature=3.0)
QUERIES = [random_documents(seed, 4, DIM) for seed in (1, 2)]
E = np.asarray([random_unit(np.random.default_rng(seed), DIM) for seed in (4, 5)], np.float32)
SHARE = st.floats(0, 1, width=32)
FACT = st.tuples(*[SHARE] * len(FACTS))


def gated(scale: float, config: HeadConfig = HEAD) -> AttentionHead:
    """Return a head with random gates."""
    at_random = np.random.default_rng(0).normal(size=(len(FACTS), len(EVIDENCE)))
    return AttentionHead(config).changed(kind_gate=scale * at_random)


# --- Gates of kinds ---


@each_library
@settings(deadline=None)
@given(facts=FACT)
def test_initially_every_query_has_exactly_the_initial_weights(by: By, facts: tuple[float, ...]) -> None:
    head = AttentionHead(HEAD)
    assert np.array_equal(by(head).kind_weights(np.asarray([facts], np.float32))[0], head.beta)


@each_library
@settings(deadline=None)
@given(facts=FACT, scale=st.floats(0, 1000))
def test_a_gate_multiplies_by_a_factor_between_one_over_e_and_e(by: By, facts: tuple[float, ...], scale: float) -> None:
    head = gated(scale)
    gates = (by(head).kind_weights(np.asarray([facts], np.float32))[0] / head.beta).tolist()
    assert all(1 / math.e - 1e-5 <= gate <= math.e + 1e-5 for gate in gates)


@each_library
def test_neutral_facts_do_not_change_the_weights(by: By) -> None:
    head = gated(1.0)
    assert np.array_equal(by(head).kind_weights(np.full((1, len(FACTS)), 0.5, np.float32))[0], head.beta)


@each_library
def test_gated_logits_agree_with_a_slow_loop(by: By) -> None:
    facts = [[0.9, 0.2, 0.7], [0.1, 1.0, 0.0]]
    head = gated(0.5)
    attention = by(head)(E, flatten(QUERIES, DIM, facts=facts))
    for b, documents in enumerate(QUERIES):
        gates = []
        for part in range(len(EVIDENCE)):
            learned = head.kind_gate[:, part].tolist()
            known = [(2 * fact - 1) * gate for fact, gate in zip(facts[b], learned, strict=True)]
            gates.append(math.exp(math.tanh(sum(known))))
        expected = [logit_by_hand(HEAD, E[b].tolist(), document, gates) for document in documents]
        assert attention.logits[b, :-1].tolist() == pytest.approx(expected, abs=1e-4)


def test_the_gradient_of_the_gates_is_right() -> None:
    facts = torch.rand(3, len(FACTS), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values = trainable(gated(0.5), torch.float64).parameters_by_name()

    def weights(gate: Tensor, known: Tensor) -> Tensor:
        found: Tensor = AttentionHead(gated(0.5).config, values | {"kind_gate": gate}).kind_weights(known)
        return found

    gate = values["kind_gate"].detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(weights, (gate, facts.requires_grad_()))


# --- The facts of a query ---


def test_the_facts_of_a_query_are_its_length_its_rarest_word_and_its_peak() -> None:
    part_number = query_facts(np.asarray([11.0], np.float32), np.asarray([9.0, 1.0], np.float32))
    question = query_facts(np.full(12, 2.0, np.float32), np.full(PEAK_DEPTH, 7.0, np.float32))
    assert part_number.tolist() == pytest.approx([math.log(2) / math.log(65), 11 / 12, 1 - 10 / 90])
    assert question.tolist() == pytest.approx([math.log(13) / math.log(65), 2 / 12, 0.0], abs=1e-6)


@given(weights=st.lists(st.floats(0, 30, width=32), max_size=200), scores=st.lists(st.floats(0, 90, width=32)))
def test_facts_are_between_0_and_1_for_any_query(weights: list[float], scores: list[float]) -> None:
    best_first = np.asarray(sorted(scores, reverse=True), np.float32)
    facts = query_facts(np.asarray(weights, np.float32), best_first)
    assert facts.shape == (len(FACTS),)
    assert all(0 <= fact <= 1 for fact in facts.tolist())


# --- Gates of heads, sharpness of pooling ---


@each_library
def test_the_head_gate_selects_a_head_for_each_query(by: By) -> None:
    config, candidates = replace(HEAD, heads=2), flatten([[ToyDocument([(PASSAGE, [0, 1, 0, 0])])]], DIM)
    values = initial_parameters(config)
    values["score.up"][1, 1, 0] = 1.0  # the second head adds 1 to the second axis
    values["score.down"][1, :, 0] = 1.0
    first, second = np.eye(DIM, dtype=np.float32)[[0]], np.eye(DIM, dtype=np.float32)[[2]]
    assert float(by(AttentionHead(config, values)).dense(first, candidates)[0, 0, PASSAGE]) == pytest.approx(0.5)
    values["head_gate"][0, 0] = values["head_gate"][2, 1] = 50.0
    head = by(AttentionHead(config, values))
    asked = [float(head.dense(query, candidates)[0, 0, PASSAGE]) for query in (first, second)]
    assert asked == pytest.approx([0.0, 1.0])


@each_library
def test_each_kind_is_pooled_with_its_own_sharpness(by: By) -> None:
    keys, sharpness = [random_unit(np.random.default_rng(seed), DIM) for seed in range(4)], [0.5, 5.0, 50.0]
    head = by(AttentionHead(HEAD).changed(log_sharpness=np.log(sharpness)))
    document = ToyDocument([(kind, key) for kind in range(DENSE) for key in keys])
    scores = [float(E[0] @ np.asarray(key)) for key in keys]
    dense = head.dense(E[:1], flatten([[document]], DIM))[0, 0].tolist()
    assert dense == pytest.approx([soft_maximum_by_hand(scores, one) for one in sharpness], abs=1e-5)
    assert dense == sorted(dense)
    assert dense[2] <= max(scores) + 1e-6


def test_the_loss_increases_the_sharpness_if_the_best_key_is_more_informative_than_the_mean() -> None:
    head, (best, *others) = trainable(AttentionHead(replace(HEAD, sharpness=1.0))), [[0, -1, 0, 0], [-1.0, 0, 0, 0]]
    right = ToyDocument([(PASSAGE, [1.0, 0, 0, 0]), *((PASSAGE, other) for other in [best, *others])])
    wrong = ToyDocument([(PASSAGE, [0.2, 0, 0, 0.98])])
    logits = head(torch.tensor([[1.0, 0, 0, 0]]), tensors(flatten([[right, wrong]], DIM))).logits[0, :2]
    (-torch.log_softmax(logits, 0)[0]).backward()
    assert head.log_sharpness.grad is not None
    assert float(head.log_sharpness.grad[PASSAGE]) < 0


# --- Keys, forms, normalisers ---


@each_library
@settings(deadline=None)
@given(seed=st.integers(0, 50), times=st.integers(1, 6), hop=st.sampled_from([0.0, 0.4]))
def test_repeating_the_keys_of_any_document_changes_no_logit(by: By, seed: int, times: int, hop: float) -> None:
    config, documents = replace(HEAD, heads=2), random_documents(seed, 4, DIM)
    head = by(AttentionHead(config, moved(initial_parameters(config), 0.3, seed)).changed(hop=hop))
    repeated = [replace(document, keys=list(document.keys) * times) for document in documents]
    once, often = (head(E[:1], flatten([each], DIM)).logits for each in (documents, repeated))
    assert np.allclose(once, often, atol=1e-4)


@each_library
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [1, 3])
def test_initially_every_form_ranks_as_the_hybrid_search(by: By, form: str, heads: int) -> None:
    candidates = flatten(QUERIES, DIM)
    plain = by(AttentionHead(HEAD))(E, candidates)
    attention = by(AttentionHead(replace(HEAD, form=form, heads=heads)))(E, candidates)
    assert np.allclose(attention.logits, plain.logits, atol=1e-4)
    assert np.array_equal((-attention.logits).argsort(), (-plain.logits).argsort())


@each_library
@pytest.mark.parametrize("normaliser", NORMALISERS)
def test_a_normaliser_changes_the_weights_and_no_logit(by: By, normaliser: str) -> None:
    candidates = flatten([QUERIES[0], QUERIES[1][:2]], DIM)
    plain = by(AttentionHead(HEAD))(E, candidates)
    attention = by(AttentionHead(replace(HEAD, normaliser=normaliser)))(E, candidates)
    assert np.array_equal(attention.logits, plain.logits)
    mask = np.concatenate([candidates.mask, np.ones((2, 1), bool)], 1)
    assert np.array_equal(attention.weights, by(NORMALISERS[normaliser])(plain.logits, mask))
    assert attention.weights.sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert attention.weights[1, 2:4].tolist() == [0.0, 0.0]


def test_candidates_without_keys_free_their_memory() -> None:
    candidates = flatten([random_documents(1, 9, DIM)], DIM)
    let_go, of_torch = without_keys(candidates), without_keys(tensors(candidates))
    assert candidates.keys.nbytes > 0
    assert (let_go.keys.nbytes, let_go.keys.base) == (0, None)
    assert of_torch.keys.untyped_storage().nbytes() == 0
