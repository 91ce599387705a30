"""The margins of few events agree with exact limits of Poisson counts, and intervals of rare clicks hold."""

import numpy as np
import pytest
from scipy.stats import chi2

from index.evaluation.off_policy import Doubles, Replay, compared
from index.evaluation.rare_events import FEW_EVENTS, least_margins

LISTS = 200


def clicks(count: int) -> Doubles:
    """Return rewards of lists of one position, with this many clicks."""
    return (np.arange(LISTS) < count).astype(float)[:, None]


def replay_of(ratios: Doubles) -> Replay:
    nothing = np.zeros_like(ratios)
    return Replay(ratios, nothing, nothing, nothing)


@pytest.mark.parametrize("count", [0, 1, 7, FEW_EVENTS - 1])
def test_equal_weights_have_the_exact_limits_of_a_poisson_count(count: int) -> None:
    below, above = least_margins(clicks(count), np.full((LISTS, 1), 2.0))
    lower = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    upper = chi2.ppf(0.975, 2 * count + 2) / 2
    assert below * LISTS == pytest.approx(2 * (count - lower))
    assert above * LISTS == pytest.approx(2 * (upper - count))


def test_many_events_have_no_margins_unless_few_of_them_carry_the_sum() -> None:
    weights = np.ones((LISTS, 1))
    assert least_margins(clicks(FEW_EVENTS), weights) == (0.0, 0.0)
    weights[0] = 30.0
    assert min(least_margins(clicks(FEW_EVENTS), weights)) > 0


def test_weights_whose_squares_are_0_in_floating_point_are_no_error() -> None:
    assert max(least_margins(clicks(3), np.full((LISTS, 1), 1e-200))) < 1e-190


def test_events_of_both_signs_reach_to_both_sides() -> None:
    weights = np.where(np.arange(LISTS) % 2, 1.0, -1.0)[:, None]
    below, above = least_margins(clicks(0), weights)
    assert below == above == pytest.approx(chi2.ppf(0.975, 2) / 2 / LISTS)
    assert least_margins(clicks(9), weights * 0) == (0.0, 0.0)  # two equal policies
    assert least_margins(clicks(2 * FEW_EVENTS), weights) == (0.0, 0.0)
    assert min(least_margins(clicks(2 * FEW_EVENTS - 2), weights)) > 0


def test_an_estimate_without_a_click_has_an_interval_with_a_width() -> None:
    ratios = np.ones((LISTS, 1))
    shifted = np.where(np.arange(LISTS) % 2, 1.1, 0.9)[:, None]
    found = compared(clicks(0), replay_of(ratios), replay_of(shifted), LISTS)
    for side, by_name in found.items():
        for one in by_name.values():
            assert one.interval is not None
            assert one.mean == 0 < one.interval[1]
            assert (one.interval[0] < 0) == (side == "difference")


@pytest.mark.parametrize("rate", [0.002, 0.02, 0.1])
def test_intervals_of_rare_clicks_hold(rate: float) -> None:
    generator, runs = np.random.default_rng(0), 200
    truths, inside = {"a": rate, "b": rate, "difference": 0.0}, dict.fromkeys(("a", "b", "difference"), 0)
    for _ in range(runs):
        skewed = generator.lognormal(-0.5, 1.0, (LISTS, 1))  # mean 1
        rewards = (generator.random((LISTS, 1)) < rate).astype(float)
        found = compared(rewards, replay_of(np.ones((LISTS, 1))), replay_of(skewed), LISTS / 3)
        for side, truth in truths.items():
            low, high = found[side]["ips"].interval or (-np.inf, np.inf)
            inside[side] += low <= truth <= high
    assert min(inside.values()) >= 0.93 * runs
