"""A logged list is replayed under the attention of a model."""

from itertools import permutations

import numpy as np
import pytest

from index.ranking.replay import ABSENT, Policy, policy, replayed

LOGITS, ATTENTION = np.array([1.0, 0.0, -0.5]), np.array([0.6, 0.3, 0.1])
OF = Policy(LOGITS, ATTENTION, np.array([0.45, 0.3, 0.25]))
ALL_FREE = np.ones((1, 3), np.bool_)


def places(*of: int) -> np.ndarray:
    return np.array([of], np.int64)


def test_a_replay_agrees_with_a_slow_loop() -> None:
    for order in permutations(range(3)):
        found = replayed(OF, places(*order), ALL_FREE)
        left, total = {0, 1, 2}, 0.0
        for position, place in enumerate(order):
            powers = {one: np.exp(LOGITS[one]) for one in left}
            mean = sum(powers[one] * ATTENTION[one] for one in left) / sum(powers.values())
            total += np.log(powers[place] / sum(powers.values()))
            assert found.logs[0, position] == pytest.approx(total)
            assert found.expected[0, position] == pytest.approx(mean)
            assert found.predicted[0, position] == ATTENTION[place]
            assert found.start[0, position] == OF.start[position]
            left.remove(place)


def test_the_probabilities_of_all_lists_sum_to_one() -> None:
    orders = np.array(list(permutations(range(3))), np.int64)
    assert np.exp(replayed(OF, orders, np.ones(orders.shape, np.bool_)).logs[:, -1]).sum() == pytest.approx(1)


def test_an_absent_document_makes_its_prefix_impossible_and_keeps_the_start() -> None:
    found = replayed(OF, places(1, ABSENT, 0), ALL_FREE)
    assert np.isfinite(found.logs[0, 0])
    assert np.isneginf(found.logs[0, 1:]).all()
    assert found.predicted[0, 1] == 0
    assert found.start[0].tolist() == OF.start.tolist()
    assert np.isfinite(found.expected).all()


def test_a_document_that_keeps_its_place_changes_no_probability() -> None:
    found = replayed(OF, places(ABSENT, 1, 0), np.array([[False, True, True]]))
    alone = replayed(OF, places(1, 0, ABSENT), np.array([[True, True, False]]))
    assert found.logs[0].tolist() == [0.0, *alone.logs[0, :2]]
    assert found.start[0].tolist() == [0.0, *OF.start[:2]]
    assert alone.logs[0, 2] == alone.logs[0, 1]


def test_a_list_longer_than_the_candidates_has_finite_attention() -> None:
    of_four = Policy(LOGITS, ATTENTION, np.array([*OF.start, 0.0]))
    found = replayed(of_four, np.array([[0, 1, 2, ABSENT]]), np.array([[True, True, True, False]]))
    assert found.logs[0, 3] == found.logs[0, 2]
    assert found.expected[0, 3] == 0


def test_the_start_is_the_mean_attention_at_each_position_of_the_samples() -> None:
    found = policy(LOGITS, ATTENTION, 4, np.random.default_rng(0))
    expected = np.exp(LOGITS) @ ATTENTION / np.exp(LOGITS).sum()
    assert abs(found.start[0] - expected) < 0.12
    assert found.start[:3].sum() == pytest.approx(1)
    assert found.start[3] == 0
    again = policy(LOGITS, ATTENTION, 4, np.random.default_rng(0))
    assert again.start.tobytes() == found.start.tobytes()
