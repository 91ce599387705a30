"""The normalisers: their weights are a distribution over the candidates and the null slot."""

import math

import numpy as np
import pytest
import torch

from index.ranking.normalisers import NORMALISERS, Normaliser, one_hot, softmax, uniform
from tests.index.numpy_torch import By, each_library, tensors

every_normaliser = pytest.mark.parametrize("name", NORMALISERS)

LOGITS = np.asarray([[1.0, 3.0, -2.0, 0.5], [9.0, 9.0, -1.0, -4.0]])
MASK = np.asarray([[True, True, False, True], [False, True, True, True]])
"""Two queries with two candidates each; the null slot is last, and the padding differs."""


def by_hand(name: str, logits: list[float], mask: list[bool]) -> list[float]:
    """Return the weights of one query, computed by loops."""
    doc_indices = [at for at, real in enumerate(mask) if real]
    share = dict.fromkeys(range(len(logits)), 0.0)
    if name == "softmax":
        total = sum(math.exp(logits[at]) for at in doc_indices)
        share |= {at: math.exp(logits[at]) / total for at in doc_indices}
    elif name == "one_hot":
        share[max(doc_indices, key=lambda at: logits[at])] = 1.0
    else:
        share |= {at: 1 / len(doc_indices) for at in doc_indices}
    return list(share.values())


@each_library
@every_normaliser
def test_a_normaliser_agrees_with_a_slow_loop(by: By, name: str) -> None:
    weights = by(NORMALISERS[name])(LOGITS, MASK)
    for b in range(2):
        assert weights[b].tolist() == pytest.approx(by_hand(name, LOGITS[b].tolist(), MASK[b].tolist()))


@each_library
@every_normaliser
@pytest.mark.parametrize("seed", range(5))
def test_weights_are_never_negative_and_sum_to_one(by: By, name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    logits, mask = 50 * random.standard_normal((8, 12), np.float32), random.random((8, 12)) < 0.5
    mask[:, -1] = True
    weights = by(NORMALISERS[name])(logits, mask)
    assert bool((weights >= 0).all())
    assert weights.sum(1).tolist() == pytest.approx([1.0] * 8, abs=1e-6)
    assert bool((weights[~mask] == 0).all())


@each_library
@every_normaliser
def test_without_candidates_the_null_slot_has_all_the_weight(by: By, name: str) -> None:
    mask = np.asarray([[False, False, True]])
    assert by(NORMALISERS[name])(np.asarray([[-math.inf, 5.0, -3.0]]), mask).tolist() == [[0.0, 0.0, 1.0]]


@each_library
@every_normaliser
def test_permuting_candidates_permutes_weights(by: By, name: str) -> None:
    order = [2, 0, 3, 1]
    normaliser = by(NORMALISERS[name])
    straight, shuffled = normaliser(LOGITS, MASK), normaliser(LOGITS[:, order], MASK[:, order])
    assert np.allclose(shuffled, straight[:, order], atol=1e-15)


@each_library
@every_normaliser
def test_the_same_logits_give_the_same_bits(by: By, name: str) -> None:
    normaliser = by(NORMALISERS[name])
    assert np.array_equal(normaliser(LOGITS, MASK), normaliser(LOGITS.copy(), MASK.copy()))


@each_library
def test_one_hot_selects_the_first_among_equals(by: By) -> None:
    everything = np.ones((1, 5), bool)
    assert by(one_hot)(np.asarray([[1.0, 4.0, 4.0, 2.0, 4.0]]), everything).tolist() == [[0, 1, 0, 0, 0]]


@each_library
def test_uniform_does_not_depend_on_the_logits(by: By) -> None:
    assert np.array_equal(by(uniform)(LOGITS, MASK), by(uniform)(-7 * LOGITS, MASK))


@each_library
@pytest.mark.parametrize(("temperature", "limit"), [(1e-3, one_hot), (1e9, uniform)])
def test_softmax_tends_to_one_hot_at_low_and_to_uniform_at_high_temperature(
    by: By, temperature: float, limit: Normaliser
) -> None:
    assert np.allclose(by(softmax)(LOGITS / temperature, MASK), by(limit)(LOGITS, MASK), atol=1e-7)


def test_the_gradient_of_softmax_is_right() -> None:
    assert torch.autograd.gradcheck(lambda logits: softmax(logits, tensors(MASK)), (tensors(LOGITS).requires_grad_(),))


def test_softmax_learns_the_right_candidate() -> None:
    logits, losses = torch.zeros(1, 4, requires_grad=True), []
    for _ in range(50):
        loss = -softmax(logits, torch.ones(1, 4, dtype=torch.bool))[0, 2].log()
        (gradient,) = torch.autograd.grad(loss, logits)
        logits = (logits - gradient).detach().requires_grad_()
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("normaliser", [one_hot, uniform])
def test_one_hot_and_uniform_have_no_gradient(normaliser: Normaliser) -> None:
    """Training therefore always uses softmax."""
    weights = normaliser(tensors(LOGITS).requires_grad_(), tensors(MASK))
    assert not weights.requires_grad
