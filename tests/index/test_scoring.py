"""The forms of attention: each is what is written by hand, is e . k at birth, learns, and says what to ask an index."""

import pytest
import torch
from torch import Tensor

from index.losses import listwise_loss
from index.scoring import FORMS, Additive, Bilinear, Cosine, Dot, Gaussian, ScaledDot, Score
from tests.index.scoring_by_hand import BY_HAND

DIM, RANK = 4, 3
every_form = pytest.mark.parametrize("form", FORMS)
absorbing_forms = pytest.mark.parametrize("form", ["bilinear", "dot", "scaled_dot"])


def born(form: str, heads: int = 1, dim: int = DIM, seed: int = 0) -> Score:
    return FORMS[form](dim, RANK, heads, torch.Generator().manual_seed(seed))


def trained(form: str, heads: int = 1, dim: int = DIM, seed: int = 0) -> Score:
    """Return a score whose every parameter has moved away from birth, in float64."""
    score, generator = born(form, heads, dim), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in score.parameters():
            parameter += 0.4 * torch.randn(parameter.shape, generator=generator)
    return score.double()


def vectors(count: int, seed: int, dim: int = DIM, length: float = 1.0) -> Tensor:
    """Return float64 rows of this length, or of lengths of their own where it is 0."""
    rows = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1) * length if length else rows


def all_pairs(queries: int, keys: int) -> tuple[Tensor, Tensor]:
    return torch.arange(queries).repeat_interleave(keys), torch.arange(keys).repeat(queries)


def scored(score: Score, query: Tensor, keys: Tensor) -> Tensor:
    """Return the scores (B, K, H) of every query with every key."""
    scores: Tensor = score(query, keys, *all_pairs(len(query), len(keys)))
    return scores.view(len(query), len(keys), score.heads)


# --- Agrees with a loop ---


@every_form
@pytest.mark.parametrize("heads", [1, 3])
def test_a_form_is_what_is_written_by_hand(form: str, heads: int) -> None:
    score, query, keys = trained(form, heads), vectors(2, 1, length=0), vectors(5, 2, length=0)
    scores = scored(score, query, keys)
    for h in range(heads):
        values = {name: parameter[h].tolist() for name, parameter in score.named_parameters()}
        for b in range(2):
            for k in range(5):
                expected = BY_HAND[form](values, query[b].tolist(), keys[k].tolist())
                assert float(scores[b, k, h].detach()) == pytest.approx(expected, abs=1e-10)


@every_form
def test_pairs_are_scored_in_the_order_in_which_they_are_asked_for(form: str) -> None:
    score, query, keys = trained(form, 2), vectors(3, 1), vectors(6, 2)
    pair_query, pair_key = torch.tensor([2, 0, 2, 1, 1]), torch.tensor([5, 0, 5, 3, 4])
    some = score(query, keys, pair_query, pair_key)
    assert torch.allclose(some, scored(score, query, keys)[pair_query, pair_key], atol=1e-12)


@every_form
def test_no_pair_gives_no_score(form: str) -> None:
    none = torch.empty(0, dtype=torch.int64)
    assert trained(form, 2)(vectors(1, 1), vectors(0, 2), none, none).shape == (0, 2)


# --- At birth ---


@every_form
@pytest.mark.parametrize("heads", [1, 4])
def test_at_birth_every_form_is_the_cosine_of_unit_vectors(form: str, heads: int) -> None:
    query, keys = vectors(3, 1, 8).float(), vectors(7, 2, 8).float()
    scores = scored(born(form, heads, 8), query, keys)
    assert scores.shape == (3, 7, heads)
    assert torch.allclose(scores, (query @ keys.T)[..., None].expand_as(scores), atol=1e-6)


@every_form
def test_at_birth_an_index_is_asked_with_the_query_itself(form: str) -> None:
    query = vectors(3, 1).float()
    asked = born(form, 2).search_vectors(query)
    assert torch.allclose(asked, query[:, None].expand(3, 2, DIM), atol=1e-6)


@every_form
def test_the_same_seed_gives_the_same_bits_and_another_does_not(form: str) -> None:
    one, same, other = (list(born(form, 2, seed=seed).parameters()) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@every_form
def test_birth_does_not_touch_the_global_random_state(form: str) -> None:
    before = torch.random.get_rng_state()
    born(form)
    assert torch.equal(before, torch.random.get_rng_state())


@every_form
def test_matrices_are_low_rank_and_the_rest_is_a_few_numbers_per_head(form: str) -> None:
    score = born(form, 3)
    matrices = {id(parameter) for parameter in score.low_rank()}
    others = [parameter for parameter in score.parameters() if id(parameter) not in matrices]
    assert len(matrices) + len(others) == len(list(score.parameters()))
    assert all(parameter.shape == (3, DIM, RANK) for parameter in score.low_rank())
    assert all(parameter.shape in ((3,), (3, RANK)) for parameter in others)


# --- Gradients ---


@every_form
@pytest.mark.parametrize("heads", [1, 2])
def test_the_gradient_of_a_form_is_right(form: str, heads: int) -> None:
    score, pairs = trained(form, heads), all_pairs(2, 3)
    names = [name for name, _ in score.named_parameters()]

    def forward(query: Tensor, keys: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        values = dict(zip(names, parameters, strict=True))
        asked = torch.func.functional_call(Asking(score), {f"score.{k}": v for k, v in values.items()}, (query,))
        return torch.func.functional_call(score, values, (query, keys, *pairs)), asked

    inputs = [vectors(2, 1, length=0), vectors(3, 2, length=0), *(one.detach() for one in score.parameters())]
    assert torch.autograd.gradcheck(forward, [one.clone().requires_grad_() for one in inputs])


class Asking(torch.nn.Module):
    """Its forward is `search_vectors`, so that a gradient can be taken of it."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def forward(self, query: Tensor) -> Tensor:
        return self.score.search_vectors(query)


@every_form
def test_a_form_can_leave_birth(form: str) -> None:
    score = born(form, 2)
    (scored(score, vectors(2, 1).float(), vectors(3, 2).float()) ** 2).sum().backward()
    assert any(parameter.grad is not None and bool(parameter.grad.any()) for parameter in score.parameters())


@every_form
def test_vectors_of_no_length_give_finite_scores_and_gradients(form: str) -> None:
    score, query, keys = born(form), torch.zeros(1, DIM, requires_grad=True), torch.zeros(2, DIM, requires_grad=True)
    scores = scored(score, query, keys)
    scores.sum().backward()
    parameters = [query, keys, *score.parameters()]
    assert bool(torch.isfinite(scores).all())
    assert all(one.grad is None or bool(torch.isfinite(one.grad).all()) for one in parameters)


# --- Learning ---

SHIFTED = 6
"""A toy: query i is answered by key i + 1, while its nearest key is key i."""


def fitted(form: str, heads: int, steps: int) -> tuple[list[float], Tensor, Score]:
    """Return the losses, the final scores (B, K) and the form after steps of Adam on the toy."""
    keys = vectors(SHIFTED, 5, 12).float()
    query = torch.nn.functional.normalize(keys + 0.1 * vectors(SHIFTED, 6, 12).float(), dim=1)
    gains = torch.eye(SHIFTED).roll(1, dims=1)
    score, losses = born(form, heads, 12), []
    optimizer = torch.optim.Adam(score.parameters(), lr=2e-2)
    for _ in range(steps):
        loss = listwise_loss(10 * scored(score, query, keys).mean(-1), gains)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, scored(score, query, keys).mean(-1).detach(), score


@every_form
@pytest.mark.parametrize("heads", [1, 2])
def test_a_form_learns_which_key_answers(form: str, heads: int) -> None:
    answer = torch.arange(1, SHIFTED + 1) % SHIFTED
    _, before, _ = fitted(form, heads, 0)
    assert not bool((before.argmax(1) == answer).any())
    losses, after, _ = fitted(form, heads, 200)
    assert losses[-1] < 0.2 * losses[0]
    assert bool((after.argmax(1) == answer).all())


@every_form
def test_learning_twice_gives_the_same_bits(form: str) -> None:
    one, same = fitted(form, 2, 20)[2], fitted(form, 2, 20)[2]
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))


@pytest.mark.parametrize(("form", "name"), [("scaled_dot", "log_scale"), ("gaussian", "log_precision")])
def test_the_scale_of_a_form_is_learned(form: str, name: str) -> None:
    before, after = born(form).get_parameter(name), fitted(form, 1, 20)[2].get_parameter(name)
    assert float((after - before).abs().detach()) > 0.01


# --- What an index is asked ---


@absorbing_forms
def test_search_vectors_of_absorbing_forms_are_their_scores(form: str) -> None:
    score, query, keys = trained(form, 2), vectors(3, 1), vectors(6, 2, length=0)
    found = torch.einsum("bhd,kd->bkh", score.search_vectors(query), keys)
    assert torch.allclose(found, scored(score, query, keys), atol=1e-12)


def test_search_vectors_of_the_cosine_leave_out_the_length_of_the_key() -> None:
    score, query, keys = trained("cosine", 2), vectors(3, 1), vectors(6, 2)
    found = torch.einsum("bhd,kd->bkh", score.search_vectors(query), keys)
    assert torch.allclose(found, scored(score, query, keys) * key_lengths(score, keys), atol=1e-12)


def test_search_vectors_of_the_gaussian_leave_out_what_is_of_the_query_or_the_key_alone() -> None:
    score, query, keys = trained("gaussian", 2), vectors(3, 1), vectors(6, 2)
    found = torch.einsum("bhd,kd->bkh", score.search_vectors(query), keys)
    of_key = score.get_parameter("log_precision").exp() / 2 * key_lengths(score, keys) ** 2
    rest = scored(score, query, keys) + of_key - found
    assert torch.allclose(rest, rest[:, :1].expand_as(rest), atol=1e-12)


def key_lengths(score: Score, keys: Tensor) -> Tensor:
    """Return |W_k k| (K, H), every key being projected."""
    up, down = score.get_parameter("key_up"), score.get_parameter("key_down")
    change = torch.einsum("hdr,her->hde", up, down)
    return torch.stack([(keys @ (torch.eye(DIM) + one).T).norm(dim=1) for one in change], dim=1)


def test_search_vectors_of_the_additive_form_are_its_gradient_at_the_query() -> None:
    score, query = trained("additive", 2), vectors(1, 1)
    key = query.clone().requires_grad_()
    for h in range(2):
        (gradient,) = torch.autograd.grad(scored(score, query, key)[0, 0, h], key)
        assert torch.allclose(gradient[0], score.search_vectors(query)[0, h], atol=1e-12)


def test_every_form_has_a_name_and_stands_behind_one_interface() -> None:
    assert list(FORMS.values()) == [Bilinear, Dot, ScaledDot, Cosine, Additive, Gaussian]
    assert set(BY_HAND) == set(FORMS)
    assert all(issubclass(one, Score) for one in FORMS.values())
