"""The estimators of a policy that was not live agree with slow loops and are unbiased; their intervals cover."""

from dataclasses import fields, replace

import numpy as np
import pytest

from benchmarks.exploration import Log, coverage, estimates, mean_weights, policies, simulated_log, summary, world
from index.evaluation.off_policy import (
    Doubles,
    Estimate,
    Replay,
    compared,
    doubly_robust,
    estimate,
    fitted_rewards,
    importance_sampled,
    self_normalised,
    with_rewards,
)

LISTS, POSITIONS = 181, 3


def replay_of(seed: int) -> tuple[Doubles, Replay]:
    """Return rewards and a replay of random numbers."""
    generator = np.random.default_rng(seed)
    rewards = (generator.random((LISTS, POSITIONS)) < 0.3).astype(float)
    ratios, *others = generator.gamma(1.0, size=(4, LISTS, POSITIONS))
    return rewards, Replay(ratios, *others)


def test_importance_sampling_agrees_with_a_slow_loop() -> None:
    rewards, replay = replay_of(0)
    total = 0.0
    for row in range(LISTS):
        for position in range(POSITIONS):
            total += replay.ratios[row, position] * rewards[row, position]
    assert importance_sampled(rewards, replay).mean() == pytest.approx(total / LISTS)


def test_self_normalisation_agrees_with_a_slow_loop_and_has_the_spread_of_the_jackknife() -> None:
    rewards, replay = replay_of(1)

    def by_loop(kept: list[int]) -> float:
        total = 0.0
        for position in range(POSITIONS):
            weights = [replay.ratios[row, position] for row in kept]
            weighted = [replay.ratios[row, position] * rewards[row, position] for row in kept]
            total += sum(weighted) / sum(weights)
        return total

    values = self_normalised(rewards, replay)
    everything = list(range(LISTS))
    assert values.mean() == pytest.approx(by_loop(everything))
    left_out = [by_loop([row for row in everything if row != one]) for one in everything]
    jackknife = np.std(left_out) * (LISTS - 1) / LISTS**0.5
    assert values.std(ddof=1) / LISTS**0.5 == pytest.approx(jackknife, rel=0.15)


def test_doubly_robust_agrees_with_a_slow_loop() -> None:
    rewards, replay = replay_of(2)
    total = 0.0
    for row in range(LISTS):
        above = 1.0
        for position in range(POSITIONS):
            start, expected = replay.start[row, position], replay.expected[row, position]
            error = rewards[row, position] - replay.predicted[row, position]
            total += start + above * (expected - start) + replay.ratios[row, position] * error
            above = replay.ratios[row, position]
    assert doubly_robust(rewards, replay).mean() == pytest.approx(total / LISTS)


def test_a_policy_that_is_the_logging_policy_has_the_logged_mean() -> None:
    rewards, replay = replay_of(3)
    same = Replay(np.ones_like(rewards), replay.predicted, replay.predicted, replay.predicted)
    found = compared(rewards, same, same, LISTS)
    for by_name in found["a"].values():
        assert by_name.mean == pytest.approx(rewards.sum(axis=1).mean())
        assert by_name.effective_sample_size == pytest.approx(LISTS)
    for by_name in found["difference"].values():
        assert (by_name.mean, by_name.interval) == (0.0, (0.0, 0.0))


def test_an_interval_is_given_if_a_third_of_the_sampled_lists_carries_the_weight() -> None:
    rewards, replay = replay_of(3)
    for carrying, given in ((LISTS // 3, False), (LISTS // 3 + 1, True)):
        ratios = np.zeros_like(rewards)
        ratios[:carrying] = LISTS / carrying
        of = Replay(ratios, replay.predicted, replay.expected, replay.start)
        same = Replay(np.ones_like(rewards), replay.predicted, replay.predicted, replay.predicted)
        found = compared(rewards, same, of, LISTS)
        assert {one.interval is not None for one in found["a"].values()} == {True}
        others = [one for side in ("b", "difference") for one in found[side].values()]
        assert {one.interval is not None for one in others} == {given}
        assert {one.reason is None for one in others} == {given}


def test_an_estimate_without_an_interval_says_why() -> None:
    values = np.array([0.0, 0.0, 0.0, 4.0])
    assert estimate(values, 50.9, 153.0).as_dict() == {
        "mean": 1.0,
        "low": None,
        "high": None,
        "impressions": 4,
        "effective_sample_size": 50.9,
        "reliable": False,
        "reason": "few searches carry the weight: the effective sample size is 50.9, and an interval needs 51.0",
    }
    given = estimate(values, 51.0, 153.0).as_dict()
    assert (given["reliable"], given["reason"]) == (True, None)
    assert given["low"] < given["mean"] < given["high"]


def test_an_interval_needs_an_effective_sample_size_of_50() -> None:
    values = np.array([0.0, 1.0])
    assert estimate(values, 49.9, 60.0).interval is None
    assert estimate(values, 50.0, 60.0).interval is not None


def test_a_policy_that_shares_no_prefix_has_the_effective_sample_size_zero() -> None:
    rewards, replay = replay_of(4)
    none = Replay(np.zeros_like(rewards), replay.predicted, replay.expected, replay.start)
    assert none.effective_sample_size == 0
    assert self_normalised(rewards, none).mean() == 0


def test_the_reward_model_finds_its_coefficients_and_no_list_predicts_itself() -> None:
    generator = np.random.default_rng(5)
    examination, attention = np.array([1.0, 0.6, 0.4]), generator.random((LISTS, POSITIONS))
    rewards = examination * (0.1 + 0.5 * attention)
    found = fitted_rewards(rewards, attention, examination)
    assert np.allclose(found, [0.1, 0.5])
    predicted = with_rewards(rewards, dict.fromkeys(("predicted", "expected", "start"), attention), found, examination)
    assert np.allclose(predicted.predicted, rewards)
    changed = rewards.copy()
    changed[0] += 5
    after = fitted_rewards(changed, attention, examination)
    assert np.array_equal(after[0], found[0])  # its own reward does not move its own prediction
    assert not np.allclose(after[1], found[1])


def test_an_estimate_has_the_interval_of_student() -> None:
    found = estimate(np.array([0.0, 1.0, 2.0, 3.0]), 100.0, 100.0)
    assert (found.mean, found.impressions) == (1.5, 4)
    assert found.interval is not None
    assert found.interval[1] - found.mean == pytest.approx(3.1824 * 1.29099 / 2, rel=1e-4)


def test_the_estimators_are_unbiased_and_their_intervals_cover_the_truth_of_simulated_searchers() -> None:
    runs = 60
    for side in coverage(world(0), "near", 1.0, 500, runs, 0).values():
        for found in side.values():
            error = found["spread"] / runs**0.5
            assert abs(found["mean"] - found["truth"]) < 4 * error
            assert found["given"] == 1.0
            assert found["given_coverage"] >= 0.85


def test_the_coverage_is_of_the_intervals_that_are_given() -> None:
    def of(interval: tuple[float, float] | None) -> Estimate:
        return Estimate(1.0, interval, 100, 30.0, 33.0)

    some = summary([of((0.5, 1.5)), of((1.2, 1.4)), of(None), of(None)], 1.0)
    assert (some["given"], some["given_coverage"], some["given_width"]) == (0.5, 0.5, 0.6)
    none = summary([of(None), of(None)], 1.0)
    assert (none["given"], none["given_coverage"], none["given_width"]) == (0.0, None, None)


def test_a_mean_weight_away_from_1_by_more_than_sampling_gives_no_interval_and_the_reason() -> None:
    rewards, replay = replay_of(6)

    def of(ratios: Doubles) -> Replay:
        return Replay(ratios, replay.predicted, replay.expected, replay.start)

    same = of(np.ones_like(rewards))
    halves = np.ones_like(rewards)
    halves[::2] = 0  # mean .5, standard error of its logarithm 1 / sqrt(181)
    assert halves.mean() == pytest.approx(0.5, abs=0.01)
    for wrong, mean in ((halves, "0.50"), (np.full_like(rewards, 1.02), "1.02")):
        found = compared(rewards, same, of(wrong), LISTS)
        assert all(one.as_dict()["reliable"] for one in found["a"].values())
        for one in (*found["b"].values(), *found["difference"].values()):
            assert one.interval is None
            assert one.effective_sample_size >= one.least
            assert str(one.reason).startswith(f"the mean weight of the searches is {mean}, too far from 1")
    rounded = of(np.full_like(rewards, 1.001))
    noisy = of(halves * 2 * 0.9)  # 1.4 standard errors
    assert (rounded.misfit, noisy.misfit, same.misfit) == (None, None, None)


def test_lists_that_were_logged_with_a_memory_of_their_clicks_give_no_interval() -> None:
    of = world(0)
    generator = np.random.default_rng(0)
    attention = mean_weights(of, "logging", "near")
    a, b = (policies(of, name, attention, generator) for name in ("logging", "near"))
    first = simulated_log(of, 1.0, 120, generator)
    assert estimates(of, first, 1.0, a, b)["a"]["ips"].interval is not None
    remembered = of.logits["logging"].copy()
    rows, positions = np.nonzero(first.clicks)
    remembered[first.query[rows], first.places[rows, positions]] += 6.0
    again = simulated_log(replace(of, logits={"logging": remembered}), 1.0, 120, generator)
    both = Log(*(np.concatenate([getattr(one, field.name) for one in (first, again)]) for field in fields(Log)))
    found = estimates(of, both, 1.0, a, b)
    wrong = found["a"]["ips"]
    assert wrong.mean < 0.9 * of.truth["logging"]
    assert wrong.effective_sample_size >= wrong.least, "the effective sample size alone would give an interval"
    assert {one.interval for by_name in found.values() for one in by_name.values()} == {None}


def test_correct_weights_are_rarely_called_too_far_from_1() -> None:
    generator, runs = np.random.default_rng(1), 50
    of = world(1)
    attention = mean_weights(of, "logging", "near")
    a, b = (policies(of, name, attention, generator) for name in ("logging", "near"))
    found = [estimates(of, simulated_log(of, 1.0, 240, generator), 1.0, a, b)["difference"]["ips"] for _ in range(runs)]
    assert sum(one.misfit is not None for one in found) <= 1


@pytest.mark.filterwarnings("error")
def test_lists_without_a_position_have_no_misfit() -> None:
    assert Replay(*(np.ones((4, 0)) for _ in fields(Replay))).misfit is None
