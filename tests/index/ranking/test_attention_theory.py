"""Properties of attention from theory that the parts of this search must have; `docs/math.md` names each equation."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from index.ranking.normalisers import NORMALISERS, one_hot, pool_values, uniform
from index.ranking.score_functions import FORMS, Bilinear, Dot, Gaussian, ScaledDot, Score
from index.records import Floats
from tests.index.numpy_torch import By, arrays, differentiable, each_library, tensors
from tests.index.numpy_torch import moved as moved_away
from tests.index.ranking.attention_by_hand import Vector, dot

DIM, KEYS = 5, 7
every_form = pytest.mark.parametrize("form", FORMS)
every_normaliser = pytest.mark.parametrize("normaliser", NORMALISERS)


def initial(form: type[Score], dim: int = DIM, rank: int = 3, heads: int = 1) -> Score:
    values = form.initial(dim, rank, heads, np.random.default_rng(0))
    return form(**{name: value.astype(float) for name, value in values.items()})


def moved(form: type[Score], heads: int = 1) -> Score:
    """Return a score with all parameters changed from their initial values."""
    return form(**moved_away(vars(initial(form, heads=heads)), 0.4, seed=1))


def rows(count: int, seed: int, unit: bool = False) -> Floats:
    drawn = np.random.default_rng(seed).normal(size=(count, DIM))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True) if unit else drawn


def scored(score: Any, query: Any, keys: Any) -> Any:
    """Return the scores (K, H) of one query (D,) with every key, as tensors for tensors."""
    pairs = np.zeros(len(keys), np.int64), np.arange(len(keys))
    return score(query[None], keys, *(tensors(pairs) if isinstance(query, Tensor) else pairs))


def attended(by: By, logits: Floats, normaliser: str = "softmax") -> Floats:
    """Return the weights (1, K+1) of logits (K,), the null slot last and masked, so that only keys get weight."""
    mask = np.asarray([[True] * len(logits) + [False]])
    weights: Floats = by(NORMALISERS[normaliser])(np.append(logits, 0.0).astype(logits.dtype)[None], mask)
    return weights


def attended_in_torch(logits: Tensor) -> Tensor:
    """Return the weights of `attended` as tensors with gradients."""
    mask = torch.tensor([[True] * len(logits) + [False]])
    weights: Tensor = NORMALISERS["softmax"](torch.cat([logits, logits.new_zeros(1)])[None], mask)
    return weights


# --- Weights ---


@each_library
@every_form
@every_normaliser
def test_weights_of_any_form_and_normaliser_are_a_distribution(by: By, form: str, normaliser: str) -> None:
    for head in scored(by(moved(FORMS[form], heads=2)), rows(1, 2)[0], rows(KEYS, 3)).T:
        weights = attended(by, head, normaliser)
        assert bool((weights >= 0).all())
        assert float(weights.sum()) == pytest.approx(1)


@each_library
@every_form
@every_normaliser
def test_permuting_keys_permutes_weights_and_leaves_the_answer(by: By, form: str, normaliser: str) -> None:
    score, query, keys, values = by(moved(FORMS[form])), rows(1, 2)[0], rows(KEYS, 3), rows(KEYS, 4)
    order = [3, 6, 0, 2, 1, 5, 4]
    straight = attended(by, scored(score, query, keys)[:, 0], normaliser)
    shuffled = attended(by, scored(score, query, keys[order])[:, 0], normaliser)
    assert np.allclose(shuffled[0, :-1], straight[0, order], atol=1e-12)
    answer = by(pool_values)(straight, values[None])
    assert np.allclose(by(pool_values)(shuffled, values[order][None]), answer, atol=1e-12)


@each_library
@every_form
def test_a_low_temperature_selects_the_best_and_a_high_temperature_averages(by: By, form: str) -> None:
    logits = scored(by(moved(FORMS[form])), rows(1, 2)[0], rows(KEYS, 3))[:, 0]
    values, everything = rows(KEYS, 4), np.asarray([[True] * KEYS + [False]])
    padded = np.append(logits, 0.0)[None]
    cold, hot = attended(by, 1e6 * logits), attended(by, 1e-9 * logits)
    assert np.allclose(cold, by(one_hot)(padded, everything), atol=1e-9)
    assert np.allclose(hot, by(uniform)(padded, everything), atol=1e-8)
    assert np.allclose(by(pool_values)(cold, values[None])[0], values[logits.argmax()], atol=1e-8)
    assert np.allclose(by(pool_values)(hot, values[None])[0], values.mean(0), atol=1e-8)


# --- The gradient ---


def test_the_gradient_of_attention_is_the_covariance_of_its_keys() -> None:
    """d/dq sum_j alpha_j k_j = sum_j alpha_j k_j k_j^T - mean mean^T with keys for values (d2l.ai 11.1, exercise 2)."""
    keys, score = tensors(rows(KEYS, 3)), differentiable(initial(Dot))

    def answer(query: Tensor) -> Tensor:
        return pool_values(attended_in_torch(scored(score, query, keys)[:, 0]), keys[None])[0]

    query = tensors(rows(1, 2)[0])
    alpha = attended_in_torch(scored(score, query, keys)[:, 0]).detach()[0, :-1]
    mean = alpha @ keys
    second = torch.stack([a * torch.outer(k, k) for a, k in zip(alpha, keys, strict=True)]).sum(0)
    jacobian = torch.autograd.functional.jacobian(answer, query)
    assert torch.allclose(jacobian, second - torch.outer(mean, mean), atol=1e-12)
    assert bool((torch.linalg.eigvalsh(jacobian) > -1e-12).all())


def test_a_trained_form_multiplies_the_covariance_by_its_projections() -> None:
    """d/de sum_j alpha_j k_j = T Cov_alpha[k] W_k^T W_q, by the chain rule."""
    keys, score, temperature = tensors(rows(KEYS, 3)), differentiable(moved(Dot)), 3.0

    def answer(query: Tensor) -> Tensor:
        return pool_values(attended_in_torch(temperature * scored(score, query, keys)[:, 0]), keys[None])[0]

    query = tensors(rows(1, 2)[0])
    alpha = attended_in_torch(temperature * scored(score, query, keys)[:, 0]).detach()[0, :-1]
    covariance = torch.cov(keys.T, correction=0, aweights=alpha)
    of_query, of_key = tensors(matrices(moved(Dot)))
    jacobian = torch.autograd.functional.jacobian(answer, query)
    assert torch.allclose(jacobian, temperature * covariance @ of_key.T @ of_query, atol=1e-12)


def test_the_gradient_vanishes_where_one_key_has_all_the_weight() -> None:
    keys, score = tensors(rows(KEYS, 3, unit=True)), differentiable(initial(Dot))
    query = (1e4 * keys[2]).requires_grad_()
    answer = pool_values(attended_in_torch(scored(score, query, keys)[:, 0]), keys[None])
    (gradient,) = torch.autograd.grad(answer.sum(), query)
    assert float(gradient.abs().max()) == pytest.approx(0, abs=1e-12)


def matrices(score: Score) -> tuple[Floats, Floats]:
    """Return W_q and W_k (D, D) of the first head."""
    up, down, key_up, key_down = (vars(score)[name][0] for name in ("up", "down", "key_up", "key_down"))
    return np.eye(DIM) + up @ down.T, np.eye(DIM) + key_up @ key_down.T


# --- Forms are related ---


@each_library
def test_absorbing_the_projection_into_the_query_equals_projecting_every_key(by: By) -> None:
    """(W_q e).(W_k k) = (W_k^T W_q e).k, so stored keys need not change."""
    score, query, keys = moved(Dot), rows(1, 2)[0], rows(KEYS, 3)
    of_query, of_key = matrices(score)
    both_sides = (keys @ of_key.T) @ (of_query @ query)
    assert np.allclose(scored(by(score), query, keys)[:, 0], both_sides, atol=1e-12)
    assert np.allclose(keys @ by(score).search_vectors(query[None])[0, 0], both_sides, atol=1e-12)
    assert np.allclose(by(score).search_vectors(query[None])[0, 0], of_key.T @ of_query @ query, atol=1e-12)


@each_library
@pytest.mark.parametrize("temperature", [0.5, 1.0, 20.0])
def test_the_gaussian_kernel_of_unit_keys_is_dot_product_attention(by: By, temperature: float) -> None:
    """-|q - k|^2 / 2 = q.k - |q|^2/2 - |k|^2/2; terms that are equal for all keys do not change a softmax."""
    query, keys = rows(1, 2)[0], rows(KEYS, 3, unit=True)
    kernel = np.exp(-temperature * ((query - keys) ** 2).sum(1) / 2)
    for form in (Gaussian, Dot, Bilinear):
        weights = attended(by, temperature * scored(by(initial(form)), query, keys)[:, 0])[0, :-1]
        assert np.allclose(weights, kernel / kernel.sum(), atol=1e-12)


@each_library
def test_for_keys_of_different_lengths_gaussian_and_dot_attention_differ(by: By) -> None:
    query, keys = rows(1, 2)[0], rows(KEYS, 3)
    kernel = np.exp(-((query - keys) ** 2).sum(1) / 2)
    gaussian, product = (attended(by, scored(by(initial(form)), query, keys)[:, 0])[0, :-1] for form in (Gaussian, Dot))
    assert np.allclose(gaussian, kernel / kernel.sum(), atol=1e-12)
    assert not np.allclose(gaussian, product, atol=1e-2)


@each_library
def test_gaussian_attention_is_nadaraya_watson_regression(by: By) -> None:
    """f(x) = sum_j K(x - x_j) y_j / sum_j K(x - x_j) (d2l.ai 11.2); T is the precision of the kernel."""
    points, precision = np.linspace(0, 5, 20), 4.0
    answers, asked = 2 * np.sin(points) + points, 2.3
    score = initial(Gaussian, dim=1)
    logits = precision * scored(by(score), np.asarray([asked]), points[:, None])[:, 0]
    estimate = by(pool_values)(attended(by, logits), answers[None, :, None]).item()
    kernel = [math.exp(-precision * (asked - float(x)) ** 2 / 2) for x in points]
    by_hand = sum(k * float(y) for k, y in zip(kernel, answers, strict=True)) / sum(kernel)
    assert estimate == pytest.approx(by_hand)
    assert estimate == pytest.approx(2 * math.sin(asked) + asked, abs=0.2)


@each_library
def test_scaling_by_the_root_of_the_width_makes_the_variance_of_a_dot_product_one(by: By) -> None:
    """q.k of D independent components of variance 1 has variance D (Vaswani et al. 2017, footnote 4)."""
    dim, random = 256, np.random.default_rng(0)
    query, keys = (random.normal(size=(count, dim)) for count in (1, 4000))
    score = ScaledDot(**vars(initial(ScaledDot, dim=dim)) | {"log_scale": np.zeros(1)})
    assert float(scored(by(initial(Dot, dim=dim)), query[0], keys).var()) == pytest.approx(dim, rel=0.15)
    assert float(scored(by(score), query[0], keys).var()) == pytest.approx(1, rel=0.15)


# --- Attention as a database, and as self-attention ---


@each_library
def test_attention_with_a_key_of_the_database_returns_its_value(by: By) -> None:
    keys, values = np.eye(DIM), rows(DIM, 4)
    for j in range(DIM):
        logits = scored(by(initial(Dot)), keys[j], keys)[:, 0]
        assert np.array_equal(by(pool_values)(attended(by, logits, "one_hot"), values[None])[0], values[j])
        assert np.allclose(by(pool_values)(attended(by, logits, "uniform"), values[None])[0], values.mean(0))


TOKENS = [
    [0.43, 0.15, 0.89],
    [0.55, 0.87, 0.66],
    [0.57, 0.85, 0.64],
    [0.22, 0.58, 0.33],
    [0.77, 0.25, 0.10],
    [0.05, 0.80, 0.55],
]
"""Six embeddings of width 3, one per word of a sentence: the worked example of many introductions to self-attention."""
WIDTH = 2
ASKED = 1


def projections() -> tuple[Floats, Floats, Floats]:
    """Return W_query, W_key, W_value (3, 2), sampled in this order with seed 123."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        of_query, of_key, of_value = (torch.rand(3, WIDTH) for _ in range(3))
    return arrays((of_query, of_key, of_value))


def through(token: Vector, matrix: Floats) -> list[float]:
    """Return x W of one token, one sum per column."""
    return [dot(token, column) for column in matrix.T.tolist()]


def self_attention_by_hand() -> tuple[list[float], list[float], list[float]]:
    """Return the scores, weights and context vector of the second token, computed by loops."""
    of_query, of_key, of_value = projections()
    query = through(TOKENS[ASKED], of_query)
    omega = [dot(query, through(token, of_key)) for token in TOKENS]
    exponentials = [math.exp(score / math.sqrt(WIDTH)) for score in omega]
    weights = [one / sum(exponentials) for one in exponentials]
    values = [through(token, of_value) for token in TOKENS]
    context = [sum(weight * value[c] for weight, value in zip(weights, values, strict=True)) for c in range(WIDTH)]
    return omega, weights, context


def scaled_by_the_root(dim: int) -> Score:
    """Return the scaled dot product of Vaswani et al. 2017: its scale is 1."""
    values = ScaledDot.initial(dim, dim, 1, np.random.default_rng(0))
    return ScaledDot(**values | {"log_scale": np.zeros(1, np.float32)})


@each_library
def test_self_attention_of_six_tokens_agrees_with_a_slow_loop(by: By) -> None:
    omega, by_hand, context = self_attention_by_hand()
    of_query, of_key, of_value = projections()
    tokens = np.asarray(TOKENS, np.float32)
    query, keys, values = tokens[ASKED] @ of_query, tokens @ of_key, tokens @ of_value
    logits = scored(by(scaled_by_the_root(WIDTH)), query, keys)[:, 0]
    weights = attended(by, logits)
    assert (logits * math.sqrt(WIDTH)).tolist() == pytest.approx(omega, abs=1e-6)
    assert weights[0, :-1].tolist() == pytest.approx(by_hand, abs=1e-6)
    assert by(pool_values)(weights, values[None])[0].tolist() == pytest.approx(context, abs=1e-6)


def test_self_attention_of_six_tokens_gives_the_published_figures() -> None:
    omega, weights, context = self_attention_by_hand()
    assert omega == pytest.approx([1.2705, 1.8524, 1.8111, 1.0795, 0.5577, 1.5440], abs=5e-5)
    assert weights == pytest.approx([0.1500, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820], abs=5e-5)
    assert context == pytest.approx([0.3061, 0.8210], abs=5e-5)


@each_library
def test_self_attention_of_six_tokens_needs_no_projected_keys(by: By) -> None:
    """W_key is absorbed into the query's side: q_h = e + U V^T e with 1 + U V^T = W_key W_query^T."""
    omega, _, _ = self_attention_by_hand()
    of_query, of_key, _ = projections()
    one = np.eye(3, dtype=np.float32)
    score = Bilinear(up=(of_key @ of_query.T - one)[None], down=one[None])
    tokens = np.asarray(TOKENS, np.float32)
    assert scored(by(score), tokens[ASKED], tokens)[:, 0].tolist() == pytest.approx(omega, abs=1e-6)
