"""The ranking function: it is what is written by hand, its weights are attention weights, its gradients are right."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import lambertw
from torch import Tensor

from index.attention import DENSE, EVIDENCE, AttentionHead, HeadConfig, pool_values, soft_maximum, without_keys
from tests.index.attention_by_hand import (
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
    beta=(0.3, 0.6, 0.2, 0.5, 0.15, 0.25, 0.35, 0.4),
    inverse_temperature=3.0,
    null=(0.75, 0.6, 0.4),
    sharpness=5.0,
    memory_gain=1.5,
    memory_sharpness=4.0,
)
QUERIES = [random_documents(seed, count, DIM) for seed, count in ((1, 5), (2, 3), (3, 1))]
"""Three queries with five, three and one candidates: the shorter rows are padded."""
E = torch.tensor([random_unit(np.random.default_rng(seed), DIM) for seed in (4, 5, 6)])


def trained(config: HeadConfig, seed: int = 0) -> AttentionHead:
    """Return a head whose every parameter has moved away from birth."""
    head = AttentionHead(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return head


# --- At birth ---


def test_an_untrained_head_is_the_hybrid_score_written_by_hand() -> None:
    attention = AttentionHead(CONFIG)(E, flatten(QUERIES, DIM))
    for b, documents in enumerate(QUERIES):
        logits = [logit_by_hand(CONFIG, E[b].tolist(), document) for document in documents]
        assert attention.logits[b, : len(logits)].tolist() == pytest.approx(logits, abs=1e-5)
        weights = weights_by_hand(CONFIG, logits)
        assert attention.weights[b, : len(logits)].tolist() == pytest.approx(weights[:-1], abs=1e-6)
        assert float(attention.weights[b, -1].detach()) == pytest.approx(weights[-1], abs=1e-6)


def test_an_untrained_head_matches_keys_with_the_query_itself() -> None:
    projected = AttentionHead(replace(CONFIG, heads=3)).search_vectors(E)
    assert projected.shape == (3, 3, DIM)
    for h in range(3):
        assert torch.equal(projected[:, h], E)


def test_two_heads_born_with_the_same_seed_are_the_same_bits() -> None:
    one, same, other = AttentionHead(CONFIG), AttentionHead(CONFIG), AttentionHead(replace(CONFIG, seed=1))
    assert torch.equal(one.score.down, same.score.down)
    assert not torch.equal(one.score.down, other.score.down)


def test_birth_does_not_touch_the_global_random_state() -> None:
    before = torch.random.get_rng_state()
    AttentionHead(CONFIG)
    assert torch.equal(before, torch.random.get_rng_state())


# --- Weights and parts ---


def test_weights_are_a_distribution_over_candidates_and_the_null_slot() -> None:
    weights = trained(CONFIG)(E, flatten(QUERIES, DIM)).weights
    assert weights.shape == (3, 6)
    assert bool((weights >= 0).all())
    assert weights.sum(1).tolist() == pytest.approx([1.0] * 3, abs=1e-6)
    assert bool((weights[:, -1] > 0).all())


def test_with_no_candidate_at_all_the_null_slot_has_all_the_weight() -> None:
    attention = AttentionHead(CONFIG)(E[:1], flatten([[]], DIM))
    assert attention.weights.tolist() == [[1.0]]


def test_the_parts_of_a_candidate_add_up_to_its_logit() -> None:
    attention = trained(CONFIG)(E, flatten(QUERIES, DIM))
    assert attention.parts.shape == (3, 5, len(EVIDENCE))
    for b, documents in enumerate(QUERIES):
        for n in range(len(documents)):
            parts = attention.parts[b, n].tolist()
            assert math.fsum(parts) == pytest.approx(float(attention.logits[b, n].detach()), abs=1e-5)


def test_a_slot_that_is_no_candidate_has_no_weight() -> None:
    attention = trained(CONFIG)(E, flatten(QUERIES, DIM))
    assert attention.weights[1, 3:5].tolist() == [0.0, 0.0]
    assert attention.logits[1, 3:5].tolist() == [-math.inf, -math.inf]


def test_a_query_is_answered_alike_alone_and_in_a_batch() -> None:
    head = trained(replace(CONFIG, heads=2))
    together = head(E, flatten(QUERIES, DIM))
    for b, documents in enumerate(QUERIES):
        alone = head(E[b : b + 1], flatten([documents], DIM))
        n = len(documents)
        assert torch.allclose(together.logits[b, :n], alone.logits[0, :n], atol=1e-5)
        assert torch.allclose(together.weights[b, -1], alone.weights[0, -1], atol=1e-6)


def test_permuting_candidates_permutes_weights() -> None:
    head, order = trained(CONFIG), [3, 0, 4, 1, 2]
    straight = head(E[:1], flatten(QUERIES[:1], DIM))
    shuffled = head(E[:1], flatten([[QUERIES[0][n] for n in order]], DIM))
    assert torch.allclose(shuffled.weights[0, :-1], straight.weights[0, order], atol=1e-6)
    assert torch.allclose(shuffled.parts[0], straight.parts[0, order], atol=1e-5)


def test_a_hot_temperature_averages_and_a_cold_one_looks_up() -> None:
    documents = [ToyDocument([(PASSAGE, E[b].tolist())]) for b in range(3)]
    config = replace(CONFIG, null=(0.0, 1.0, 0.0), beta=only(passage=1.0))
    hot = AttentionHead(replace(config, inverse_temperature=1e-6))(E[:1], flatten([documents], DIM)).weights
    assert hot[0].tolist() == pytest.approx([0.25] * 4, abs=1e-5)
    cold = AttentionHead(replace(config, inverse_temperature=1e6))(E[:1], flatten([documents], DIM)).weights
    assert cold[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_document_above_the_offset_of_the_null_slot_outweighs_it() -> None:
    head = AttentionHead(replace(CONFIG, beta=only(words=1.0), null=(0.5 * CONFIG.inverse_temperature, 1.0, 0.0)))
    weights = head(E[:2], flatten([[ToyDocument([], words=0.6)], [ToyDocument([], words=0.4)]], DIM)).weights.detach()
    assert float(weights[0, 0]) > float(weights[0, 1])
    assert float(weights[1, 0]) < float(weights[1, 1])


# --- Keys ---


def test_absorbing_the_projection_into_the_query_equals_projecting_every_key() -> None:
    """(W_q e).(W_k k) = (W_k^T W_q e).k, so keys can stay as they were encoded."""
    head = trained(replace(CONFIG, heads=2))
    keys = torch.randn(6, DIM, generator=torch.Generator().manual_seed(1))
    for h in range(2):
        projected_keys = keys @ (
            torch.eye(DIM) + head.score.up[h] @ head.score.down[h].T
        )  # W_q = 1, W_k = (1 + U V^T)^T
        absorbed = head.search_vectors(E)[:, h] @ keys.T
        assert torch.allclose(absorbed, E @ projected_keys.T, atol=1e-5)


def test_several_heads_are_pooled_apart_and_each_query_weighs_them() -> None:
    head, documents = trained(replace(CONFIG, heads=3)), QUERIES[0]
    dense = head.dense(E[:1], flatten([documents], DIM))[0]
    votes = [math.exp(dot(E[0].tolist(), gate)) for gate in head.head_gate.T.tolist()]
    sharpness = head.log_sharpness.exp().tolist()[PASSAGE]
    projected = head.search_vectors(E[:1])[0].tolist()
    for n, document in enumerate(documents):
        passages = [key for kind, key in document.keys if kind == PASSAGE]
        if passages:
            pooled = [soft_maximum_by_hand([dot(q, key) for key in passages], sharpness) for q in projected]
            expected = dot(votes, pooled) / sum(votes)
            assert float(dense[n, PASSAGE].detach()) == pytest.approx(expected, abs=1e-5)


def test_a_document_without_a_title_is_scored_there_by_its_passages() -> None:
    key, other = E[0].tolist(), E[1].tolist()
    untitled, titled = ToyDocument([(PASSAGE, key)]), ToyDocument([(TITLE, other), (PASSAGE, key), (SENTENCE, other)])
    dense = AttentionHead(CONFIG).dense(E[:1], flatten([[untitled, titled]], DIM))[0]
    assert dense[0].tolist() == pytest.approx([1.0] * DENSE, abs=1e-6)
    assert dense[1].tolist() == pytest.approx([dot(key, other), 1.0, dot(key, other)], abs=1e-6)


def test_a_document_without_keys_has_no_dense_evidence() -> None:
    attention = AttentionHead(CONFIG)(E[:1], flatten([[ToyDocument([], words=1.0), *QUERIES[0]]], DIM))
    expected = CONFIG.inverse_temperature * CONFIG.beta[EVIDENCE.index("words")]
    assert attention.parts[0, 0].tolist() == pytest.approx(list(only(words=expected)))


def test_repeating_the_keys_of_a_document_changes_nothing() -> None:
    head = trained(CONFIG)
    repeated = [replace(document, keys=list(document.keys) * 7) for document in QUERIES[0]]
    once, often = head(E[:1], flatten(QUERIES[:1], DIM)), head(E[:1], flatten([repeated], DIM))
    assert torch.allclose(once.logits, often.logits, atol=1e-5)


# --- The soft maximum ---


def pooled(scores: list[float], sharpness: float) -> float:
    segment = torch.zeros(len(scores), dtype=torch.int64)
    value, _ = soft_maximum(torch.tensor(scores, dtype=torch.float64)[:, None], segment, 1, sharpness)
    return float(value)


@pytest.mark.parametrize("scores", [[0.3], [0.9, 0.2], [-0.5, -0.1, -0.9], [0.4, 0.4, 0.1], [-1.0, 1.0]])
def test_the_soft_maximum_lies_between_the_mean_and_the_best_key_and_tends_to_it(scores: list[float]) -> None:
    values = [pooled(scores, sharpness) for sharpness in (1e-9, 0.5, 2, 8, 32, 1e4)]
    assert values[0] == pytest.approx(sum(scores) / len(scores), abs=1e-6)
    assert values == sorted(values)
    assert all(value <= max(scores) + 1e-12 for value in values)
    assert values[-1] == pytest.approx(max(scores))


@pytest.mark.parametrize("count", [2, 10, 100])
def test_the_soft_maximum_lies_below_the_best_key_by_no_more_than_lamberts_w_says(count: int) -> None:
    bound = float(lambertw((count - 1) / math.e).real) / 20
    shortfalls = [1 - pooled([1.0] + [1 - distance / 500] * (count - 1), 20) for distance in range(500)]
    assert max(shortfalls) == pytest.approx(bound, rel=1e-3)
    assert max(shortfalls) <= bound


def test_the_soft_maximum_agrees_with_a_loop_over_segments() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(12, 2, generator=generator, dtype=torch.float64)
    segment = torch.tensor([3, 0, 3, 1, 1, 1, 0, 5, 3, 0, 5, 3])
    value, present = soft_maximum(scores, segment, 6, sharpness=2.5)
    assert present.tolist() == [True, True, False, True, False, True]
    for s in range(6):
        for h in range(2):
            own = scores[segment == s, h].tolist()
            assert float(value[s, h]) == pytest.approx(soft_maximum_by_hand(own, 2.5) if own else 0.0)


def test_the_soft_maximum_survives_scores_whose_exponentials_overflow() -> None:
    assert pooled([900.0, 899.0, -900.0], 20.0) == pytest.approx(900.0, abs=1e-6)


def test_the_gradient_of_the_soft_maximum_is_right() -> None:
    scores = torch.randn(7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    segment = torch.tensor([0, 2, 2, 0, 3, 2, 3])
    assert torch.autograd.gradcheck(lambda s: soft_maximum(s, segment, 4, 3.0)[0], (scores,))


# --- Gradients ---


@pytest.mark.parametrize("heads", [1, 2])
def test_the_gradient_with_respect_to_every_parameter_is_right(heads: int) -> None:
    head = trained(replace(CONFIG, heads=heads)).double()
    candidates = flatten(QUERIES, DIM, torch.float64)
    names = [name for name, _ in head.named_parameters()]
    real = torch.cat([candidates.mask, torch.ones(3, 1, dtype=torch.bool)], dim=1)

    def forward(query: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        values = dict(zip(names, parameters, strict=True))
        attention = torch.func.functional_call(head, values, (query, candidates))
        return attention.logits[real], attention.weights

    parameters = [parameter.detach().clone().requires_grad_() for parameter in head.parameters()]
    assert len(parameters) == 10
    assert torch.autograd.gradcheck(forward, (E.double().requires_grad_(), *parameters))


def test_padding_gives_no_gradient_that_is_not_a_number() -> None:
    head = AttentionHead(CONFIG)
    attention = head(E, flatten(QUERIES, DIM))
    (attention.weights**2).sum().backward()
    assert all(bool(torch.isfinite(one.grad).all()) for one in head.parameters() if one.grad is not None)


def test_the_gradient_of_attention_is_the_covariance_of_its_keys() -> None:
    """d/dq sum_n alpha_n k_n = Cov_alpha[k] where keys are values (d2l.ai 11.1, exercise 2); the null key is zero."""
    config = replace(CONFIG, beta=only(passage=1.0), inverse_temperature=1.0, null=(0.25, 1.0, 0.0))
    head = AttentionHead(config).double()
    keys = torch.randn(5, DIM, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    candidates = flatten([[ToyDocument([(PASSAGE, key.tolist())]) for key in keys]], DIM, torch.float64)

    def answer(query: Tensor) -> Tensor:
        return pool_values(head(query[None], candidates).weights, keys[None])[0]

    query = E[0].double()
    weights = head(query[None], candidates).weights[0].detach()
    with_null = torch.cat([keys, torch.zeros(1, DIM, dtype=torch.float64)])
    covariance = torch.cov(with_null.T, correction=0, aweights=weights)
    assert torch.allclose(torch.autograd.functional.jacobian(answer, query), covariance, atol=1e-12)


# --- Memory ---


def remembering(*memory: tuple[float, float], gain: float = 1.0) -> Tensor:
    """Return the logits of two documents without other evidence, the first of which has this memory, and of null."""
    config = replace(CONFIG, memory_gain=gain)
    documents = [ToyDocument([], memory=memory), ToyDocument([])]
    return AttentionHead(config)(E[:1], flatten([documents], DIM)).logits[0].detach()


def test_a_confirmed_past_query_raises_its_document_and_no_other() -> None:
    logits, without = remembering((1.0, 1.0)), remembering()
    assert float(logits[0]) == pytest.approx(3.0 * 0.4 * math.log(2))
    assert torch.equal(logits[1], without[1])
    assert float(without[0]) == 0.0


def test_a_rejected_past_query_lowers_its_document_by_as_much() -> None:
    raised, lowered = remembering((0.9, 1.0)), remembering((0.9, -1.0))
    assert float(lowered[0]) == -float(raised[0]) < 0
    assert torch.equal(lowered[1], raised[1])


def test_a_like_and_an_equal_dislike_cancel() -> None:
    assert float(remembering((0.9, 1.0), (0.9, -1.0))[0]) == 0.0


def test_memory_fades_with_distance() -> None:
    near, far, opposite = (float(remembering((cosine, 1.0))[0]) for cosine in (1.0, 0.8, -1.0))
    assert near > far > opposite > 0


def test_each_further_confirmation_adds_less() -> None:
    once, twice, thrice = (float(remembering(*[(1.0, 1.0)] * times)[0]) for times in (1, 2, 3))
    assert 0 < thrice - twice < twice - once < once


# --- The answer ---


def test_the_answer_is_the_weighted_mean_of_the_values() -> None:
    weights, values = torch.tensor([[0.5, 0.2, 0.3]]), torch.tensor([[[2.0, 0.0], [0.0, 5.0]]])
    assert pool_values(weights, values).tolist() == [[1.0, 1.0]]


def test_the_answer_of_the_null_slot_is_zero() -> None:
    assert pool_values(torch.tensor([[0.0, 0.0, 1.0]]), torch.ones(1, 2, 2)).tolist() == [[0.0, 0.0]]


def test_dense_evidence_that_was_computed_before_gives_the_same_attention() -> None:
    head, candidates = trained(CONFIG), flatten(QUERIES, DIM)
    with torch.no_grad():
        head.hop.zero_()
    keyless = without_keys(candidates)
    assert keyless.keys.shape == (0, DIM)
    assert torch.equal(head(E, candidates).logits, head.attend(head.dense(E, candidates), keyless).logits)
