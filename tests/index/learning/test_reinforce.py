"""REINFORCE on explored lists: the gradient of the expected clicks, and the baseline."""

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

from index.learning.reinforce import choice_logs, reinforce_loss
from index.learning.slates import (
    NO_PLACE,
    PRIOR_LISTS,
    SLATE,
    Slate,
    Slates,
    rewards_above_baseline,
    slate_arrays,
    stacked,
)

LOGGED = torch.tensor([[1.0, 0.2, -0.3]], dtype=torch.float64)
LOGITS = torch.tensor([[0.4, 0.6, -0.5]], dtype=torch.float64)
CHANCES, EXAMINATION = (0.1, 0.6, 0.3), (1.0, 0.5, 0.3)
EVERY_ORDER = list(permutations(range(3)))


def slates_of(orders: Sequence[Sequence[int]], rewards: Tensor) -> Slates:
    """Return lists of one query that were logged with LOGGED."""
    query = torch.zeros(len(orders), dtype=torch.int64)
    places, free = torch.tensor(orders), torch.ones(len(orders), 3, dtype=torch.bool)
    logs = choice_logs(LOGGED[query], places, free).cumsum(1)
    return Slates(query, places, free, logs, rewards)


def clicks_of(orders: Sequence[Sequence[int]]) -> Tensor:
    """Return the expected clicks at each position of each order."""
    return torch.tensor([[CHANCES[n] * look for n, look in zip(order, EXAMINATION, strict=True)] for order in orders])


def by_loop(logits: Sequence[float], order: Sequence[int]) -> list[float]:
    logs, left = [], set(range(len(logits)))
    for place in order:
        logs.append(float(np.log(np.exp(logits[place]) / sum(np.exp(logits[one]) for one in left))))
        left.remove(place)
    return logs


def test_the_logs_of_the_choices_agree_with_a_slow_loop() -> None:
    rows = LOGITS[torch.zeros(6, dtype=torch.int64)]
    found = choice_logs(rows, torch.tensor(EVERY_ORDER), torch.ones(6, 3, dtype=torch.bool))
    expected = [by_loop(LOGITS[0].tolist(), order) for order in EVERY_ORDER]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64))


def test_a_kept_document_is_not_chosen_and_empty_slots_are_left_out() -> None:
    logits = torch.tensor([[0.4, 0.6, -0.5, -torch.inf]])
    found = choice_logs(logits, torch.tensor([[1, 2, 0, -1]]), torch.tensor([[False, True, True, False]]))
    assert found[0].tolist() == pytest.approx([0, *by_loop([0.4, -0.5], [1, 0]), 0], abs=1e-6)


def test_the_gradient_of_the_logs_is_right() -> None:
    logits = LOGITS.clone().requires_grad_(True)
    places, free = torch.tensor([[2, 0, 1]]), torch.tensor([[True, True, False]])
    assert torch.autograd.gradcheck(lambda each: choice_logs(each, places, free), (logits,))


def test_the_loss_agrees_with_a_slow_loop() -> None:
    rewards = torch.tensor([[0.5, -0.2, 0.1]], dtype=torch.float64)
    logs, logged = by_loop(LOGITS[0].tolist(), (2, 0, 1)), by_loop(LOGGED[0].tolist(), (2, 0, 1))
    total = 0.0
    for position in range(3):
        ratios = [min(1.1, float(np.exp(sum(logs[: k + 1]) - sum(logged[: k + 1])))) for k in range(3)]
        total -= logs[position] * sum(ratios[k] * float(rewards[0, k]) for k in range(position, 3))
    found = reinforce_loss(LOGITS, slates_of([(2, 0, 1)], rewards), max_ratio=1.1)
    assert float(found) == pytest.approx(total)


@pytest.mark.parametrize("baseline", [0.0, 0.3])
def test_the_expected_gradient_is_the_gradient_of_the_expected_clicks(baseline: float) -> None:
    """The lists of all orders, each with its logged probability, give the exact gradient, with any baseline."""
    rewards = clicks_of(EVERY_ORDER).double()
    slates = slates_of(EVERY_ORDER, rewards - baseline)
    chance = torch.exp(slates.logs[:, -1])
    logits = LOGITS.clone().requires_grad_(True)
    expected = torch.zeros(())
    for at, order in enumerate(EVERY_ORDER):
        one = slates_of([order], rewards[at : at + 1] - baseline)
        expected = expected + chance[at] * reinforce_loss(logits, one, max_ratio=1e9)
    (found,) = torch.autograd.grad(expected, logits)
    rows = logits[torch.zeros(6, dtype=torch.int64)]
    own = torch.exp(choice_logs(rows, torch.tensor(EVERY_ORDER), slates.free).sum(1))
    (truth,) = torch.autograd.grad(-(own * rewards.sum(1)).sum(), logits)
    assert torch.allclose(found, truth, atol=1e-12)


def test_a_better_document_gets_more_probability_and_the_same_seed_gives_the_same_bits() -> None:
    def learned() -> Tensor:
        generator = np.random.default_rng(0)
        chances = [np.exp(sum(by_loop(LOGGED[0].tolist(), order))) for order in EVERY_ORDER]
        orders = [EVERY_ORDER[at] for at in generator.choice(6, size=1000, p=chances)]
        clicks = torch.from_numpy(generator.random((1000, 3))) < clicks_of(orders)
        slates = slates_of(orders, clicks.double() - clicks.double().mean(0))
        logits = torch.zeros((1, 3), dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([logits], lr=0.05)
        for _ in range(60):
            optimiser.zero_grad()
            reinforce_loss(logits, slates).backward()
            optimiser.step()
        return torch.softmax(logits.detach(), 1)[0]

    first, again = learned(), learned()
    assert first[1] > 0.6  # the document with the most clicks
    assert first[1] > first[2] > first[0]
    assert torch.equal(first, again)


# --- Lists as arrays ---


def slate(rows: Sequence[int], clicked: int | None = None, kept: int | None = None) -> Slate:
    return Slate(
        tuple(rows), tuple(row == kept for row in rows), (0.5,) * len(rows), tuple(row == clicked for row in rows)
    )


def test_the_baseline_leaves_the_own_list_out() -> None:
    by_query = [[slate([1, 2], 1), slate([2, 1])], [slate([3, 4], 3)]]
    found = rewards_above_baseline(by_query)
    of_others = (0 + PRIOR_LISTS * 1 / 2) / (1 + PRIOR_LISTS)  # the other list has no click; one of two others has
    assert found[0][0, 0] == pytest.approx(1 - of_others)
    alone = PRIOR_LISTS * (1 / 2) / PRIOR_LISTS
    assert found[1][0, 0] == pytest.approx(1 - alone)
    assert found[1].shape == (1, SLATE)


def test_lists_become_arrays_with_places_and_without_rewards_for_kept_documents() -> None:
    found = slate_arrays([slate([7, 9, 8], clicked=9, kept=9)], np.ones((1, SLATE)), {7: 0, 8: 1, 9: 2})
    assert found.places[0, :4].tolist() == [0, 2, 1, NO_PLACE]
    assert found.free[0, :4].tolist() == [True, False, True, False]
    assert found.rewards[0, :4].tolist() == [1, 0, 1, 0]
    assert found.logs[0, :4] == pytest.approx(np.log([0.5, 0.25, 0.125, 0.125]))
    both = stacked([found, found])
    assert both.query.tolist() == [0, 1]
    assert both.places.shape == (2, SLATE)
