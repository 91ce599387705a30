"""The ranking function: it agrees with a slow loop, its weights are a distribution, its gradients are right."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import lambertw
from torch import Tensor

from index.learning.torch_head import trainable_head
from index.ranking.attention import (
    DENSE,
    EVIDENCE,
    AttentionHead,
    HeadConfig,
    initial_parameters,
    without_keys,
)
from index.ranking.normalisers import pool_values, soft_maximum
from index.records import Floats
from tests.index.numpy_torch import By, each_library, moved, tensors, trainable
from tests.index.ranking.attention_by_hand import (
    PASSAGE,
    SENTENCE,
    TITLE,
    ToyDocument,
    dot,
    flatten,
    logit_by_hand,
    only,
    random_documents,
    random_unit,
    soft_maximum_by_hand,
    weights_by_hand,
)

DIM = 4
CONFIG = HeadConfig(
    dim=DIM,
    rank=2,
    beta=(0.3, 0.6, 0.2, 0.5, 0.15, 0.25, 0.35, 0.45, 0.1, 0.4),
    inverse_temperature=3.0,
    null=(0.75, 0.6, 0.4),
    sharpness=5.0,
    memory_gain=1.5,
    memory_sharpness=4.0,
)
QUERIES = [random_documents(seed, count, DIM) for seed, count in ((1, 5), (2, 3), (3, 1))]
"""Three queries with five, three and one candidates: the shorter rows are padded."""
E = np.asarray([random_unit(np.random.default_rng(seed), DIM) for seed in (4, 5, 6)], np.float32)


def trained(config: HeadConfig, seed: int = 0) -> AttentionHead:
    """Return a head with all parameters but the null slot changed from their initial values."""
    values = initial_parameters(config)
    return AttentionHead(config, moved(values, 0.3, seed) | {"null": values["null"]})


# --- Initial parameters ---


@each_library
def test_an_untrained_head_is_the_hybrid_score_written_by_hand(by: By) -> None:
    attention = by(AttentionHead(CONFIG))(E, flatten(QUERIES, DIM))
    for b, documents in enumerate(QUERIES):
        logits = [logit_by_hand(CONFIG, E[b].tolist(), document) for document in documents]
        assert attention.logits[b, : len(logits)].tolist() == pytest.approx(logits, abs=1e-5)
        weights = weights_by_hand(CONFIG, logits)
        assert attention.weights[b, : len(logits)].tolist() == pytest.approx(weights[:-1], abs=1e-6)
        assert float(attention.weights[b, -1]) == pytest.approx(weights[-1], abs=1e-6)


@each_library
def test_the_search_vector_of_an_untrained_head_is_the_query(by: By) -> None:
    projected = by(AttentionHead(replace(CONFIG, heads=3))).search_vectors(E)
    assert projected.shape == (3, 3, DIM)
    for h in range(3):
        assert np.array_equal(projected[:, h], E)


def test_two_initial_heads_with_the_same_seed_have_the_same_bits() -> None:
    one, same, other = AttentionHead(CONFIG), AttentionHead(CONFIG), AttentionHead(replace(CONFIG, seed=1))
    assert np.array_equal(one.score.down, same.score.down)
    assert not np.array_equal(one.score.down, other.score.down)


def test_initial_parameters_do_not_touch_the_global_random_state() -> None:
    before, of_numpy = torch.random.get_rng_state(), np.random.get_state()[1].tolist()
    AttentionHead(CONFIG)
    trainable_head(CONFIG)
    assert torch.equal(before, torch.random.get_rng_state())
    assert np.random.get_state()[1].tolist() == of_numpy


# --- Weights and parts ---


@each_library
def test_weights_are_a_distribution_over_candidates_and_the_null_slot(by: By) -> None:
    weights = by(trained(CONFIG))(E, flatten(QUERIES, DIM)).weights
    assert weights.shape == (3, 6)
    assert bool((weights >= 0).all())
    assert weights.sum(1).tolist() == pytest.approx([1.0] * 3, abs=1e-6)
    assert bool((weights[:, -1] > 0).all())


@each_library
def test_without_candidates_the_null_slot_has_all_the_weight(by: By) -> None:
    attention = by(AttentionHead(CONFIG))(E[:1], flatten([[]], DIM))
    assert attention.weights.tolist() == [[1.0]]


@each_library
def test_the_parts_of_a_candidate_add_up_to_its_logit(by: By) -> None:
    attention = by(trained(CONFIG))(E, flatten(QUERIES, DIM))
    assert attention.parts.shape == (3, 5, len(EVIDENCE))
    for b, documents in enumerate(QUERIES):
        for n in range(len(documents)):
            parts = attention.parts[b, n].tolist()
            assert math.fsum(parts) == pytest.approx(float(attention.logits[b, n]), abs=1e-5)


@each_library
def test_an_empty_slot_has_no_weight(by: By) -> None:
    attention = by(trained(CONFIG))(E, flatten(QUERIES, DIM))
    assert attention.weights[1, 3:5].tolist() == [0.0, 0.0]
    assert attention.logits[1, 3:5].tolist() == [-math.inf, -math.inf]


@each_library
def test_a_query_gets_the_same_attention_alone_and_in_a_batch(by: By) -> None:
    head = by(trained(replace(CONFIG, heads=2)))
    together = head(E, flatten(QUERIES, DIM))
    for b, documents in enumerate(QUERIES):
        alone = head(E[b : b + 1], flatten([documents], DIM))
        n = len(documents)
        assert np.allclose(together.logits[b, :n], alone.logits[0, :n], atol=1e-5)
        assert np.allclose(together.weights[b, -1], alone.weights[0, -1], atol=1e-6)


@each_library
def test_permuting_candidates_permutes_weights(by: By) -> None:
    head, order = by(trained(CONFIG)), [3, 0, 4, 1, 2]
    straight = head(E[:1], flatten(QUERIES[:1], DIM))
    shuffled = head(E[:1], flatten([[QUERIES[0][n] for n in order]], DIM))
    assert np.allclose(shuffled.weights[0, :-1], straight.weights[0, order], atol=1e-6)
    assert np.allclose(shuffled.parts[0], straight.parts[0, order], atol=1e-5)


@each_library
def test_a_high_temperature_averages_and_a_low_temperature_selects_the_best(by: By) -> None:
    documents = [ToyDocument([(PASSAGE, E[b].tolist())]) for b in range(3)]
    config = replace(CONFIG, null=(0.0, 1.0, 0.0), beta=only(passage=1.0))
    hot = by(AttentionHead(replace(config, inverse_temperature=1e-6)))(E[:1], flatten([documents], DIM)).weights
    assert hot[0].tolist() == pytest.approx([0.25] * 4, abs=1e-5)
    cold = by(AttentionHead(replace(config, inverse_temperature=1e6)))(E[:1], flatten([documents], DIM)).weights
    assert cold[0].tolist() == [1.0, 0.0, 0.0, 0.0]


@each_library
def test_a_document_above_the_offset_of_the_null_slot_outweighs_it(by: By) -> None:
    head = AttentionHead(replace(CONFIG, beta=only(words=1.0), null=(0.5 * CONFIG.inverse_temperature, 1.0, 0.0)))
    weights = by(head)(E[:2], flatten([[ToyDocument([], words=0.6)], [ToyDocument([], words=0.4)]], DIM)).weights
    assert float(weights[0, 0]) > float(weights[0, 1])
    assert float(weights[1, 0]) < float(weights[1, 1])


# --- Keys ---


@each_library
def test_absorbing_the_projection_into_the_query_equals_projecting_every_key(by: By) -> None:
    """(W_q e).(W_k k) = (W_k^T W_q e).k, so stored keys need not change."""
    head = trained(replace(CONFIG, heads=2))
    keys = np.random.default_rng(1).normal(size=(6, DIM))
    for h in range(2):
        projected_keys = keys @ (np.eye(DIM) + head.score.up[h] @ head.score.down[h].T)  # W_q = 1, W_k = (1 + U V^T)^T
        absorbed = by(head).search_vectors(E)[:, h] @ keys.T
        assert np.allclose(absorbed, E @ projected_keys.T, atol=1e-5)


@each_library
def test_heads_are_pooled_separately_and_weighted_by_the_query(by: By) -> None:
    head, documents = trained(replace(CONFIG, heads=3)), QUERIES[0]
    dense = by(head).dense(E[:1], flatten([documents], DIM))[0]
    votes = [math.exp(dot(E[0].tolist(), gate)) for gate in head.head_gate.T.tolist()]
    sharpness = np.exp(head.log_sharpness).tolist()[PASSAGE]
    projected = by(head).search_vectors(E[:1])[0].tolist()
    for n, document in enumerate(documents):
        passages = [key for kind, key in document.keys if kind == PASSAGE]
        if passages:
            pooled = [soft_maximum_by_hand([dot(q, key) for key in passages], sharpness) for q in projected]
            expected = dot(votes, pooled) / sum(votes)
            assert float(dense[n, PASSAGE]) == pytest.approx(expected, abs=1e-5)


@each_library
def test_the_title_score_of_a_document_without_a_title_is_its_passage_score(by: By) -> None:
    key, other = E[0].tolist(), E[1].tolist()
    untitled, titled = ToyDocument([(PASSAGE, key)]), ToyDocument([(TITLE, other), (PASSAGE, key), (SENTENCE, other)])
    dense = by(AttentionHead(CONFIG)).dense(E[:1], flatten([[untitled, titled]], DIM))[0]
    assert dense[0].tolist() == pytest.approx([1.0] * DENSE, abs=1e-6)
    assert dense[1].tolist() == pytest.approx([dot(key, other), 1.0, dot(key, other)], abs=1e-6)


@each_library
def test_a_document_without_keys_has_no_dense_evidence(by: By) -> None:
    attention = by(AttentionHead(CONFIG))(E[:1], flatten([[ToyDocument([], words=1.0), *QUERIES[0]]], DIM))
    expected = CONFIG.inverse_temperature * CONFIG.beta[EVIDENCE.index("words")]
    assert attention.parts[0, 0].tolist() == pytest.approx(list(only(words=expected)))


@each_library
def test_repeating_the_keys_of_a_document_changes_nothing(by: By) -> None:
    head = by(trained(CONFIG))
    repeated = [replace(document, keys=list(document.keys) * 7) for document in QUERIES[0]]
    once, often = head(E[:1], flatten(QUERIES[:1], DIM)), head(E[:1], flatten([repeated], DIM))
    assert np.allclose(once.logits, often.logits, atol=1e-5)


# --- The soft maximum ---


def pooled(by: By, scores: list[float], sharpness: float) -> float:
    segment = np.zeros(len(scores), np.int64)
    value, _ = by(soft_maximum)(np.asarray(scores)[:, None], segment, 1, sharpness)
    return float(value[0, 0])


@each_library
@pytest.mark.parametrize("scores", [[0.3], [0.9, 0.2], [-0.5, -0.1, -0.9], [0.4, 0.4, 0.1], [-1.0, 1.0]])
def test_the_soft_maximum_lies_between_the_mean_and_the_best_key_and_tends_to_it(by: By, scores: list[float]) -> None:
    values = [pooled(by, scores, sharpness) for sharpness in (1e-9, 0.5, 2, 8, 32, 1e4)]
    assert values[0] == pytest.approx(sum(scores) / len(scores), abs=1e-6)
    assert values == sorted(values)
    assert all(value <= max(scores) + 1e-12 for value in values)
    assert values[-1] == pytest.approx(max(scores))


@each_library
@pytest.mark.parametrize("count", [2, 10, 100])
def test_the_soft_maximum_is_below_the_best_key_by_at_most_the_lambert_w_bound(by: By, count: int) -> None:
    bound = float(lambertw((count - 1) / math.e).real) / 20
    shortfalls = [1 - pooled(by, [1.0] + [1 - distance / 500] * (count - 1), 20) for distance in range(500)]
    assert max(shortfalls) == pytest.approx(bound, rel=1e-3)
    assert max(shortfalls) <= bound


@each_library
def test_the_soft_maximum_agrees_with_a_loop_over_segments(by: By) -> None:
    scores = np.random.default_rng(0).normal(size=(12, 2))
    segment = np.asarray([3, 0, 3, 1, 1, 1, 0, 5, 3, 0, 5, 3])
    value, present = by(soft_maximum)(scores, segment, 6, 2.5)
    assert present.tolist() == [True, True, False, True, False, True]
    for s in range(6):
        for h in range(2):
            own = scores[segment == s, h].tolist()
            assert float(value[s, h]) == pytest.approx(soft_maximum_by_hand(own, 2.5) if own else 0.0)


@each_library
def test_the_soft_maximum_is_finite_for_scores_whose_exponentials_overflow(by: By) -> None:
    assert pooled(by, [900.0, 899.0, -900.0], 20.0) == pytest.approx(900.0, abs=1e-6)


def test_the_gradient_of_the_soft_maximum_is_right() -> None:
    scores = torch.randn(7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    segment = torch.tensor([0, 2, 2, 0, 3, 2, 3])
    assert torch.autograd.gradcheck(lambda s: soft_maximum(s, segment, 4, 3.0)[0], (scores,))


# --- Gradients ---


@pytest.mark.parametrize("heads", [1, 2])
def test_the_gradient_with_respect_to_every_parameter_is_right(heads: int) -> None:
    config = replace(CONFIG, heads=heads)
    values = trainable(trained(config), torch.float64).parameters_by_name()
    fixed = {name: values.pop(name).detach() for name in ("hop", "null", "context")}
    candidates = tensors(flatten(QUERIES, DIM, np.float64))
    query = torch.tensor(E, dtype=torch.float64, requires_grad=True)
    real = torch.cat([candidates.mask, torch.ones(3, 1, dtype=torch.bool)], dim=1)

    def forward(query: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        head = AttentionHead(config, dict(zip(values, parameters, strict=True)) | fixed)
        attention = head(query, candidates)
        return attention.logits[real], attention.weights

    assert len(values) == 10
    assert torch.autograd.gradcheck(forward, (query, *values.values()))


def test_padding_gives_no_nan_gradient() -> None:
    head = trainable(AttentionHead(CONFIG))
    attention = head(tensors(E), tensors(flatten(QUERIES, DIM)))
    (attention.weights**2).sum().backward()
    assert all(
        bool(torch.isfinite(one.grad).all()) for one in head.parameters_by_name().values() if one.grad is not None
    )


def test_the_gradient_of_attention_is_the_covariance_of_its_keys() -> None:
    """d/dq sum_n alpha_n k_n = Cov_alpha[k] where keys are values (d2l.ai 11.1, exercise 2); the null key is zero."""
    config = replace(CONFIG, beta=only(passage=1.0), inverse_temperature=1.0, null=(0.25, 1.0, 0.0))
    head = trainable(AttentionHead(config), torch.float64)
    keys = torch.randn(5, DIM, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    candidates = tensors(flatten([[ToyDocument([(PASSAGE, key.tolist())]) for key in keys]], DIM, np.float64))

    def answer(query: Tensor) -> Tensor:
        return pool_values(head(query[None], candidates).weights, keys[None])[0]

    query = torch.tensor(E[0], dtype=torch.float64)
    weights = head(query[None], candidates).weights[0].detach()
    with_null = torch.cat([keys, torch.zeros(1, DIM, dtype=torch.float64)])
    covariance = torch.cov(with_null.T, correction=0, aweights=weights)
    assert torch.allclose(torch.autograd.functional.jacobian(answer, query), covariance, atol=1e-12)


# --- Memory ---


def remembering(by: By, *memory: tuple[float, float], gain: float = 1.0) -> Floats:
    """Return the logits of two documents without other evidence, the first with this memory, and of the null slot."""
    config = replace(CONFIG, memory_gain=gain)
    documents = [ToyDocument([], memory=memory), ToyDocument([])]
    logits: Floats = by(AttentionHead(config))(E[:1], flatten([documents], DIM)).logits[0]
    return logits


@each_library
def test_a_confirmed_past_query_raises_only_its_document(by: By) -> None:
    logits, without = remembering(by, (1.0, 1.0)), remembering(by)
    assert float(logits[0]) == pytest.approx(3.0 * 0.4 * math.log(2))
    assert np.array_equal(logits[1], without[1])
    assert float(without[0]) == 0.0


@each_library
def test_a_rejected_past_query_lowers_its_document_by_as_much(by: By) -> None:
    raised, lowered = remembering(by, (0.9, 1.0)), remembering(by, (0.9, -1.0))
    assert float(lowered[0]) == -float(raised[0]) < 0
    assert np.array_equal(lowered[1], raised[1])


@each_library
def test_a_like_and_an_equal_dislike_cancel(by: By) -> None:
    assert float(remembering(by, (0.9, 1.0), (0.9, -1.0))[0]) == 0.0


@each_library
def test_memory_fades_with_distance(by: By) -> None:
    near, far, opposite = (float(remembering(by, (cosine, 1.0))[0]) for cosine in (1.0, 0.8, -1.0))
    assert near > far > opposite > 0


@each_library
def test_each_further_confirmation_adds_less(by: By) -> None:
    once, twice, thrice = (float(remembering(by, *[(1.0, 1.0)] * times)[0]) for times in (1, 2, 3))
    assert 0 < thrice - twice < twice - once < once


# --- The answer ---


@each_library
def test_the_answer_is_the_weighted_mean_of_the_values(by: By) -> None:
    weights, values = np.asarray([[0.5, 0.2, 0.3]]), np.asarray([[[2.0, 0.0], [0.0, 5.0]]])
    assert by(pool_values)(weights, values).tolist() == [[1.0, 1.0]]


@each_library
def test_the_answer_of_the_null_slot_is_zero(by: By) -> None:
    assert by(pool_values)(np.asarray([[0.0, 0.0, 1.0]]), np.ones((1, 2, 2))).tolist() == [[0.0, 0.0]]


@each_library
def test_precomputed_dense_evidence_gives_the_same_attention(by: By) -> None:
    head, candidates = by(trained(CONFIG).changed(hop=0.0)), flatten(QUERIES, DIM)
    keyless = by(without_keys)(candidates)
    assert keyless.keys.shape == (0, DIM)
    assert np.array_equal(head(E, candidates).logits, head.attend(head.dense(E, candidates), keyless).logits)


@each_library
def test_the_logits_of_candidates_are_those_of_the_attention_without_the_null_slot(by: By) -> None:
    candidates = flatten([[], *QUERIES], DIM)
    queries = np.concatenate([E[:1], E])
    for hop in (0.0, 0.4):
        head = by(trained(CONFIG).changed(hop=hop))
        logits = head.candidate_logits(head.dense_after_hop(queries, candidates), candidates)
        assert np.array_equal(logits, head(queries, candidates).logits[:, :-1])
        assert np.isneginf(logits[0]).all()
