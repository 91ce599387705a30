"""The forms of attention: they agree with a slow loop, are e . k initially, learn, and have search vectors."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from index.learning.losses import listwise_loss
from index.ranking.score_functions import FORMS, Additive, Bilinear, Cosine, Dot, Gaussian, ScaledDot, Score
from index.records import Floats, Ints
from tests.index.numpy_torch import By, differentiable, each_library, moved, tensors
from tests.index.ranking.score_functions_by_hand import BY_HAND

DIM, RANK = 4, 3
every_form = pytest.mark.parametrize("form", FORMS)
absorbing_forms = pytest.mark.parametrize("form", ["bilinear", "dot", "scaled_dot"])


def initial(form: str, heads: int = 1, dim: int = DIM, seed: int = 0) -> Score:
    return FORMS[form](**FORMS[form].initial(dim, RANK, heads, np.random.default_rng(seed)))


def trained(form: str, heads: int = 1, dim: int = DIM, seed: int = 0) -> Score:
    """Return a score with all parameters changed from their initial values, in float64."""
    values = {name: value.astype(float) for name, value in vars(initial(form, heads, dim)).items()}
    return FORMS[form](**moved(values, 0.4, seed))


def vectors(count: int, seed: int, dim: int = DIM, length: float = 1.0) -> Floats:
    """Return float64 rows of this length, or of random lengths if it is 0."""
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * length if length else rows


def all_pairs(queries: int, keys: int) -> tuple[Ints, Ints]:
    return np.repeat(np.arange(queries), keys), np.tile(np.arange(keys), queries)


def scored(score: Any, query: Any, keys: Any) -> Any:
    """Return the scores (B, K, H) of every query with every key, as tensors for tensors."""
    pairs = all_pairs(len(query), len(keys))
    scores = score(query, keys, *(tensors(pairs) if isinstance(query, Tensor) else pairs))
    return scores.reshape(len(query), len(keys), -1)


# --- Agrees with a loop ---


@each_library
@every_form
@pytest.mark.parametrize("heads", [1, 3])
def test_a_form_agrees_with_a_slow_loop(by: By, form: str, heads: int) -> None:
    score, query, keys = trained(form, heads), vectors(2, 1, length=0), vectors(5, 2, length=0)
    scores = scored(by(score), query, keys)
    for h in range(heads):
        values = {name: parameter[h].tolist() for name, parameter in vars(score).items()}
        for b in range(2):
            for k in range(5):
                expected = BY_HAND[form](values, query[b].tolist(), keys[k].tolist())
                assert float(scores[b, k, h]) == pytest.approx(expected, abs=1e-10)


@each_library
@every_form
def test_scores_are_in_the_order_of_the_pairs(by: By, form: str) -> None:
    score, query, keys = by(trained(form, 2)), vectors(3, 1), vectors(6, 2)
    pair_query, pair_key = np.asarray([2, 0, 2, 1, 1]), np.asarray([5, 0, 5, 3, 4])
    some = score(query, keys, pair_query, pair_key)
    assert np.allclose(some, scored(score, query, keys)[pair_query, pair_key], atol=1e-12)


@each_library
@every_form
def test_no_pairs_give_no_scores(by: By, form: str) -> None:
    none = np.empty(0, np.int64)
    assert by(trained(form, 2))(vectors(1, 1), vectors(0, 2), none, none).shape == (0, 2)


# --- Initial parameters ---


@each_library
@every_form
@pytest.mark.parametrize("heads", [1, 4])
def test_initially_every_form_is_the_cosine_of_unit_vectors(by: By, form: str, heads: int) -> None:
    query, keys = vectors(3, 1, 8).astype(np.float32), vectors(7, 2, 8).astype(np.float32)
    scores = scored(by(initial(form, heads, 8)), query, keys)
    assert scores.shape == (3, 7, heads)
    assert scores.dtype == np.float32
    assert np.allclose(scores, (query @ keys.T)[..., None], atol=1e-6)


@each_library
@every_form
def test_the_initial_search_vector_is_the_query(by: By, form: str) -> None:
    query = vectors(3, 1).astype(np.float32)
    asked = by(initial(form, 2)).search_vectors(query)
    assert asked.shape == (3, 2, DIM)
    assert np.allclose(asked, query[:, None], atol=1e-6)


@every_form
def test_the_same_seed_gives_the_same_bits_and_another_does_not(form: str) -> None:
    one, same, other = (list(vars(initial(form, 2, seed=seed)).values()) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@every_form
def test_initial_parameters_do_not_touch_the_global_random_state(form: str) -> None:
    before = np.random.get_state()[1].tolist()
    initial(form)
    assert np.random.get_state()[1].tolist() == before


@every_form
def test_matrices_are_low_rank_and_other_parameters_are_a_few_scalars_per_head(form: str) -> None:
    score = initial(form, 3)
    matrices = {id(parameter) for parameter in score.low_rank()}
    others = [parameter for parameter in vars(score).values() if id(parameter) not in matrices]
    assert len(matrices) + len(others) == len(vars(score))
    assert all(parameter.shape == (3, DIM, RANK) for parameter in score.low_rank())
    assert all(parameter.shape in ((3,), (3, RANK)) for parameter in others)


# --- Gradients ---


@every_form
@pytest.mark.parametrize("heads", [1, 2])
def test_the_gradient_of_a_form_is_right(form: str, heads: int) -> None:
    values, pairs = vars(trained(form, heads)), tensors(all_pairs(2, 3))

    def forward(query: Tensor, keys: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        score = FORMS[form](**dict(zip(values, parameters, strict=True)))
        return score(query, keys, *pairs), score.search_vectors(query)

    inputs = [vectors(2, 1, length=0), vectors(3, 2, length=0), *values.values()]
    assert torch.autograd.gradcheck(forward, [tensors(one).requires_grad_() for one in inputs])


@every_form
def test_the_initial_gradient_is_not_zero(form: str) -> None:
    score, query, keys = (
        differentiable(initial(form, 2)),
        tensors(vectors(2, 1)).float(),
        tensors(vectors(3, 2)).float(),
    )
    (scored(score, query, keys) ** 2).sum().backward()
    assert any(one.grad is not None and bool(one.grad.any()) for one in vars(score).values())


@every_form
def test_zero_vectors_give_finite_scores_and_gradients(form: str) -> None:
    score, query = differentiable(initial(form)), torch.zeros(1, DIM, requires_grad=True)
    keys = torch.zeros(2, DIM, requires_grad=True)
    scores = scored(score, query, keys)
    scores.sum().backward()
    parameters = [query, keys, *vars(score).values()]
    assert bool(torch.isfinite(scores).all())
    assert all(one.grad is None or bool(torch.isfinite(one.grad).all()) for one in parameters)
    assert np.isfinite(scored(initial(form), np.zeros((1, DIM)), np.zeros((2, DIM)))).all()


# --- Learning ---

SHIFTED = 6
"""A toy: key i + 1 is relevant for query i, whose nearest key is key i."""


def fitted(form: str, heads: int, steps: int) -> tuple[list[float], Tensor, Score]:
    """Return the losses, the final scores (B, K) and the form after this many steps of Adam on the toy."""
    keys = tensors(vectors(SHIFTED, 5, 12)).float()
    query = torch.nn.functional.normalize(keys + 0.1 * tensors(vectors(SHIFTED, 6, 12)).float(), dim=1)
    gains = torch.eye(SHIFTED).roll(1, dims=1)
    score, losses = differentiable(initial(form, heads, 12)), []
    optimizer = torch.optim.Adam(vars(score).values(), lr=2e-2)
    for _ in range(steps):
        loss = listwise_loss(10 * scored(score, query, keys).mean(-1), gains)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, scored(score, query, keys).mean(-1).detach(), score


@every_form
@pytest.mark.parametrize("heads", [1, 2])
def test_a_form_learns_the_right_key(form: str, heads: int) -> None:
    answer = torch.arange(1, SHIFTED + 1) % SHIFTED
    _, before, _ = fitted(form, heads, 0)
    assert not bool((before.argmax(1) == answer).any())
    losses, after, _ = fitted(form, heads, 200)
    assert losses[-1] < 0.2 * losses[0]
    assert bool((after.argmax(1) == answer).all())


@every_form
def test_learning_twice_gives_the_same_bits(form: str) -> None:
    one, same = fitted(form, 2, 20)[2], fitted(form, 2, 20)[2]
    assert all(torch.equal(value, vars(same)[name]) for name, value in vars(one).items())


@pytest.mark.parametrize(("form", "name"), [("scaled_dot", "log_scale"), ("gaussian", "log_precision")])
def test_the_scale_of_a_form_is_learned(form: str, name: str) -> None:
    before, after = vars(initial(form))[name], vars(fitted(form, 1, 20)[2])[name].detach().numpy()
    assert float(np.abs(after - before).item()) > 0.01


# --- Search vectors ---


@each_library
@absorbing_forms
def test_search_vectors_of_absorbing_forms_are_their_scores(by: By, form: str) -> None:
    score, query, keys = trained(form, 2), vectors(3, 1), vectors(6, 2, length=0)
    found = np.einsum("bhd,kd->bkh", by(score).search_vectors(query), keys)
    assert np.allclose(found, scored(by(score), query, keys), atol=1e-12)


@each_library
def test_search_vectors_of_the_cosine_leave_out_the_length_of_the_key(by: By) -> None:
    score, query, keys = trained("cosine", 2), vectors(3, 1), vectors(6, 2)
    found = np.einsum("bhd,kd->bkh", by(score).search_vectors(query), keys)
    assert np.allclose(found, scored(by(score), query, keys) * key_lengths(score, keys), atol=1e-12)


@each_library
def test_search_vectors_of_the_gaussian_leave_out_terms_of_the_query_or_the_key_alone(by: By) -> None:
    score, query, keys = trained("gaussian", 2), vectors(3, 1), vectors(6, 2)
    found = np.einsum("bhd,kd->bkh", by(score).search_vectors(query), keys)
    of_key = np.exp(score.log_precision) / 2 * key_lengths(score, keys) ** 2
    rest = scored(by(score), query, keys) + of_key - found
    assert np.allclose(rest, rest[:, :1], atol=1e-12)


def key_lengths(score: Score, keys: Floats) -> Floats:
    """Return |W_k k| (K, H), computed from projected keys."""
    change = np.einsum("hdr,her->hde", score.key_up, score.key_down)
    return np.stack([np.linalg.norm(keys @ (np.eye(DIM) + one).T, axis=1) for one in change], axis=1)


def test_search_vectors_of_the_additive_form_are_its_gradient_at_the_query() -> None:
    score, query = differentiable(trained("additive", 2)), tensors(vectors(1, 1))
    key = query.clone().requires_grad_()
    for h in range(2):
        (gradient,) = torch.autograd.grad(scored(score, query, key)[0, 0, h], key)
        assert torch.allclose(gradient[0], score.search_vectors(query)[0, h], atol=1e-12)


def test_every_form_has_a_name_and_implements_score() -> None:
    assert list(FORMS.values()) == [Bilinear, Dot, ScaledDot, Cosine, Additive, Gaussian]
    assert set(BY_HAND) == set(FORMS)
    assert all(issubclass(one, Score) for one in FORMS.values())
