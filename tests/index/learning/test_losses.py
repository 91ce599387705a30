"""The losses: they agree with slow loops, their gradients are right, and propensities remove the effect of position."""

import math

import pytest
import torch
from torch import Tensor

from index.learning.losses import listwise_loss, session_loss

MISSING = -math.inf
LOGITS = torch.tensor([[1.0, -0.5, 2.0], [0.3, 0.1, MISSING], [4.0, 1.0, 0.0]], dtype=torch.float64)
GAINS = torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
LOG_PROPENSITY = torch.tensor([[0.0, -0.5, -0.8], [-0.5, 0.0, 0.0], [0.0, -0.5, -0.8]], dtype=torch.float64)


def loss_by_hand(logits: Tensor, gains: Tensor, log_propensity: Tensor) -> float:
    """Return the mean of -sum_n y_n log alpha_n over queries with a gain."""
    losses = []
    for row, gain, shift in zip(logits.tolist(), gains.tolist(), log_propensity.tolist(), strict=True):
        if sum(gain) > 0:
            exponentials = [math.exp(logit + s) for logit, s in zip(row, shift, strict=True)]
            shares = [one / sum(exponentials) for one in exponentials]
            losses.append(-sum(g / sum(gain) * math.log(a) for g, a in zip(gain, shares, strict=True) if g > 0))
    return sum(losses) / len(losses)


def test_the_loss_agrees_with_a_loop_over_queries_and_documents() -> None:
    expected = loss_by_hand(LOGITS, GAINS, torch.zeros_like(LOGITS))
    assert float(listwise_loss(LOGITS, GAINS)) == pytest.approx(expected)
    expected = loss_by_hand(LOGITS, GAINS, LOG_PROPENSITY)
    assert float(listwise_loss(LOGITS, GAINS, LOG_PROPENSITY)) == pytest.approx(expected)


def test_equal_logits_have_the_loss_log_n() -> None:
    assert float(listwise_loss(torch.zeros(1, 8), torch.eye(8)[:1])) == pytest.approx(math.log(8))


def test_confident_logits_have_a_low_loss_if_right_and_a_high_loss_if_wrong() -> None:
    logits = torch.tensor([[50.0, 0.0]])
    assert float(listwise_loss(logits, torch.tensor([[1.0, 0.0]]))) == pytest.approx(0.0, abs=1e-6)
    assert float(listwise_loss(logits, torch.tensor([[0.0, 1.0]]))) == pytest.approx(50.0)


def test_only_the_shares_of_the_gains_count() -> None:
    assert float(listwise_loss(LOGITS, 7 * GAINS)) == pytest.approx(float(listwise_loss(LOGITS, GAINS)))


def test_a_query_without_gain_is_left_out() -> None:
    assert float(listwise_loss(LOGITS, GAINS)) == pytest.approx(float(listwise_loss(LOGITS[:2], GAINS[:2])))
    logits = LOGITS.clone().requires_grad_()
    listwise_loss(logits, GAINS).backward()
    assert logits.grad is not None
    assert logits.grad[2].tolist() == [0.0, 0.0, 0.0]


def test_without_any_gain_there_is_no_loss() -> None:
    assert float(listwise_loss(LOGITS, torch.zeros_like(GAINS))) == 0.0
    assert float(listwise_loss(LOGITS[:0], GAINS[:0])) == 0.0


def test_the_gradient_is_right() -> None:
    logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    gains = torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    shift = -torch.rand(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda one: listwise_loss(one, gains, shift), (logits,))


def test_an_empty_slot_has_gradient_zero_and_not_nan() -> None:
    free = torch.tensor([[0.3, 0.1, 9.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[False, False, True]])
    listwise_loss(free.masked_fill(mask, MISSING), torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)).backward()
    assert free.grad is not None
    assert bool(torch.isfinite(free.grad).all())
    assert float(free.grad[0, 2]) == 0.0


def learned(aware: bool) -> list[float]:
    """Return the shares that three documents learn from a click log with a strong bias towards the first position.

    Their true shares are 1/6, 2/6, 3/6; positions are examined with probability 1, .4, .1. Nine of ten times they were
    shown worst first, else best first. Gains are the expected clicks: examination times relevance.
    """
    relevance, examination = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.4, 0.1])
    worst_first, best_first = examination, examination.flip(0)
    propensity = torch.stack([worst_first] * 9 + [best_first])
    clicks = propensity * relevance
    logits = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = listwise_loss(logits.expand(10, 3), clicks, propensity.log() if aware else None)
        loss.backward()
        return loss

    optimizer.step(closure)
    return torch.softmax(logits.detach(), 0).tolist()


def test_propensities_recover_relevance_from_a_biased_click_log() -> None:
    assert learned(aware=True) == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=1e-3)


def test_without_propensities_the_same_log_gives_the_logged_order() -> None:
    shares = learned(aware=False)
    assert shares[0] > shares[2]


def test_clicks_of_several_lists_pooled_by_their_examinations_recover_relevance() -> None:
    """Nine lists worst first and one best first, as one example: expected clicks are examinations times relevance."""
    relevance, examination = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.4, 0.1])
    examined = 9 * examination + examination.flip(0)
    logits = relevance.log()[None].requires_grad_()
    (gradient,) = torch.autograd.grad(listwise_loss(logits, (examined * relevance)[None], examined.log()[None]), logits)
    assert gradient.abs().max() < 1e-6
    (biased,) = torch.autograd.grad(listwise_loss(logits, (examined * relevance)[None]), logits)
    assert float(biased[0, 0]) < -0.1  # the worst document, shown on top, would be raised


# --- Sessions ---

SOLVED = torch.tensor([[0.1, 0.0, 1.0], [0.05, 0.1, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)


def test_the_session_loss_agrees_with_a_loop_over_queries_and_documents() -> None:
    losses = []
    for row, chances in zip(LOGITS.tolist()[:2], SOLVED.tolist()[:2], strict=True):
        exponentials = [math.exp(logit) for logit in row]
        weights = [one / sum(exponentials) for one in exponentials]
        losses.append(-math.log(sum(weight * chance for weight, chance in zip(weights, chances, strict=True))))
    assert float(session_loss(LOGITS, SOLVED)) == pytest.approx(sum(losses) / 2)


def test_without_a_solved_session_there_is_no_session_loss() -> None:
    assert float(session_loss(LOGITS, torch.zeros_like(SOLVED))) == 0.0
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    session_loss(logits, SOLVED).backward()
    assert logits.grad is not None
    assert logits.grad[2].tolist() == [0.0, 0.0, 0.0]


def test_a_session_solved_by_the_only_candidate_has_loss_zero() -> None:
    logits = torch.tensor([[50.0, 0.0]])
    assert float(session_loss(logits, torch.tensor([[1.0, 0.0]]))) == pytest.approx(0.0, abs=1e-6)
    assert float(session_loss(logits, torch.tensor([[0.0, 1.0]]))) == pytest.approx(50.0)


def test_the_gradient_of_the_session_loss_is_right() -> None:
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda one: session_loss(one, SOLVED), (logits,))


def test_an_empty_slot_has_no_gradient_from_a_session() -> None:
    free = torch.tensor([[0.3, 0.1, 9.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[False, False, True]])
    session_loss(free.masked_fill(mask, MISSING), torch.tensor([[1.0, 0.1, 0.0]], dtype=torch.float64)).backward()
    assert free.grad is not None
    assert bool(torch.isfinite(free.grad).all())
    assert float(free.grad[0, 2]) == 0.0


def test_sessions_identify_the_solving_document_without_its_label() -> None:
    """Three solved sessions showed different pairs of four documents; only document 2 was in all of them."""
    solved = torch.tensor([[0.1, 0.0, 0.1, 0.0], [0.0, 0.1, 0.1, 0.0], [0.0, 0.0, 0.1, 0.1]])
    logits = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = session_loss(logits.expand(3, 4), solved)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)
    assert float(torch.softmax(logits.detach(), 0)[2]) > 0.9


def test_a_query_counts_with_its_confidence() -> None:
    confidence = torch.tensor([1.0, 0.25, 0.5][: len(LOGITS)])
    each = [float(listwise_loss(LOGITS[at : at + 1], GAINS[at : at + 1])) for at in range(len(LOGITS))]
    counted = [at for at in range(len(LOGITS)) if float(GAINS[at].sum()) > 0]
    weights = [float(confidence[at]) for at in counted]
    expected = sum(weight * each[at] for weight, at in zip(weights, counted, strict=True)) / sum(weights)
    assert float(listwise_loss(LOGITS, GAINS, confidence=confidence)) == pytest.approx(expected)
