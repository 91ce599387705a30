"""Exploration samples an order from the attention and knows the probability of each choice."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from index.ranking.exploration import choice_logs, explore, mixture_probabilities, sampled_order

LOGITS = np.array([2.0, 1.0, 0.5, -1.0])
NONE_KEPT = np.zeros(4, np.bool_)


def by_hand(order: tuple[int, ...], share: float) -> list[float]:
    """Return the probability of the first k places of an order, for each k, with a slow loop."""
    own, sample, found = 1.0, 1.0, []
    for position, place in enumerate(order):
        left = [np.exp(LOGITS[other]) for other in order[position:]]
        sample *= np.exp(LOGITS[place]) / sum(left)
        own *= float(place == position)
        found.append((1 - share) * own + share * sample)
    return found


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 3, 2), (3, 2, 1, 0)])
def test_the_probabilities_agree_with_a_slow_loop(order: tuple[int, ...], share: float) -> None:
    places = np.array(order)
    found = mixture_probabilities(choice_logs(LOGITS[places]), places == np.arange(4), share)
    assert np.allclose(np.cumprod(found), by_hand(order, share), rtol=1e-12)


def test_the_probabilities_of_all_orders_sum_to_one() -> None:
    assert sum(by_hand(order, 0.3)[-1] for order in permutations(range(4))) == pytest.approx(1)


def test_an_order_comes_as_often_as_its_probability_says() -> None:
    generator = np.random.default_rng(0)
    draws = 20_000
    drawn = [explore(LOGITS, NONE_KEPT, 0.4, generator) for _ in range(draws)]
    seen = Counter(tuple(one.order.tolist()) for one in drawn)
    for order in permutations(range(4)):
        expected = by_hand(order, 0.4)[-1]
        assert abs(seen[order] / draws - expected) < 4 * (expected * (1 - expected) / draws) ** 0.5 + 1e-3
    assert abs(sum(one.sampled for one in drawn) / draws - 0.4) < 0.02


def test_kept_hits_keep_their_place_and_have_probability_one() -> None:
    kept = np.array([False, True, False, False])
    for seed in range(50):
        found = explore(LOGITS, kept, 1.0, np.random.default_rng(seed))
        assert sorted(found.order.tolist()) == [0, 1, 2, 3]
        assert (found.order[1], found.probabilities[1]) == (1, 1.0)
        assert found.probabilities[3] == 1.0  # the last free hit has no other place
        free = [place for place in found.order.tolist() if place != 1]
        first = np.exp(LOGITS[free[0]]) / np.exp(LOGITS[[0, 2, 3]]).sum()
        assert found.probabilities[0] == pytest.approx(first)


def test_without_a_sample_the_order_is_as_it_was_and_has_the_probability_of_the_mixture() -> None:
    found = next(
        one for one in (explore(LOGITS, NONE_KEPT, 0.1, np.random.default_rng(seed)) for seed in range(50))
        if not one.sampled
    )  # fmt: skip
    assert found.order.tolist() == [0, 1, 2, 3]
    assert np.allclose(np.cumprod(found.probabilities), by_hand((0, 1, 2, 3), 0.1))


def test_a_long_list_with_distant_logits_has_finite_probabilities() -> None:
    logits = -np.arange(1000.0)
    found = explore(logits, np.zeros(1000, np.bool_), 1.0, np.random.default_rng(1))
    assert np.isfinite(found.probabilities).all()
    assert (found.probabilities > 0).all()
    assert (found.probabilities <= 1).all()


@pytest.mark.parametrize("count", [0, 1])
def test_a_list_without_a_choice_is_left_as_it_is(count: int) -> None:
    found = explore(np.zeros(count), np.zeros(count, np.bool_), 0.5, np.random.default_rng(0))
    assert found.order.tolist() == list(range(count))
    assert found.probabilities.tolist() == [1.0] * count


def test_the_same_seed_gives_the_same_bits() -> None:
    orders = [sampled_order(LOGITS, np.random.default_rng(7)).tobytes() for _ in range(2)]
    assert orders[0] == orders[1]
