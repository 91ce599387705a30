"""Measures of calibration, each compared with a slow loop, and the fit of the null weight."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from index.learning.null_calibration import (
    FALSE_ALARMS,
    NullFit,
    _alarms_allowed,
    _design,
    _loss,
    area_under_risk,
    auroc,
    brier_score,
    expected_calibration_error,
    fit_cautious,
    fit_null,
    null_evidence,
    risk_at_coverage,
)


def toy(count: int = 300, seed: int = 0) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    probability = draw.random(count)
    return probability, (draw.random(count) < probability).astype(float)


def test_the_calibration_error_agrees_with_a_loop_over_bins_of_equal_mass() -> None:
    probability, outcome = toy()
    pairs = sorted(zip(probability, outcome, strict=True))
    error = 0.0
    for start in range(0, 300, 20):
        claimed, happened = zip(*pairs[start : start + 20], strict=True)
        error += 20 / 300 * abs(sum(claimed) / 20 - sum(happened) / 20)
    assert expected_calibration_error(probability, outcome) == pytest.approx(error)


def test_a_calibrated_probability_has_less_error_than_an_overconfident_one() -> None:
    probability, outcome = toy(4000)
    sharp = probability**4 / (probability**4 + (1 - probability) ** 4)
    assert expected_calibration_error(probability, outcome) < 0.04 < 0.15 < expected_calibration_error(sharp, outcome)


def test_the_calibration_error_does_not_depend_on_the_order_of_equal_probabilities() -> None:
    probability, outcome = np.repeat([0.25, 0.75], 20), np.tile([1, 0, 0, 0, 1], 8)
    expected = 0.5 * abs(0.25 - 0.4) + 0.5 * abs(0.75 - 0.4)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(40)
        assert expected_calibration_error(probability[order], outcome[order], 2) == pytest.approx(expected)


def test_the_brier_score_is_the_mean_squared_difference() -> None:
    assert brier_score([0.5, 1.0, 0.0], [1, 1, 1]) == pytest.approx((0.25 + 0 + 1) / 3)


def test_auroc_agrees_with_a_loop_over_pairs() -> None:
    draw = np.random.default_rng(0)
    score, outcome = draw.integers(0, 8, 60).astype(float), draw.integers(0, 2, 60)
    pairs = list(product(score[outcome == 1], score[outcome == 0]))
    won = sum((a > b) + 0.5 * (a == b) for a, b in pairs)
    assert auroc(score, outcome) == pytest.approx(won / len(pairs))
    assert np.isnan(auroc([0.1, 0.2], [1, 1]))


def test_risk_agrees_with_a_loop_over_coverages() -> None:
    confidence, correct = toy(50, seed=1)
    order = sorted(range(50), key=lambda i: -confidence[i])
    by_hand = [sum(1 - correct[i] for i in order[:count]) / count for count in range(1, 51)]
    assert risk_at_coverage(confidence, correct).tolist() == pytest.approx(by_hand)
    assert area_under_risk(confidence, correct) == pytest.approx(sum(by_hand) / 50)


def test_the_true_order_has_the_least_risk_and_a_constant_the_risk_of_a_random_order() -> None:
    confidence, correct = toy(200, seed=2)
    best, ours = (area_under_risk(one, correct) for one in (correct, confidence))
    assert best < ours < area_under_risk(np.zeros(200), correct)
    assert area_under_risk(np.zeros(200), correct) == pytest.approx(1 - correct.mean())


def test_evidence_is_the_log_sum_exp_and_the_largest_share() -> None:
    logits = [[1.0, 3.0, -np.inf], [2.0, 2.0, 2.0], [-np.inf] * 3]
    total = np.exp(1) + np.exp(3)
    assert null_evidence(logits) == pytest.approx(
        np.asarray([[np.log(total), np.exp(3) / total], [2 + np.log(3), 1 / 3], [-np.inf, 0]])
    )
    assert null_evidence([]).tolist() == [-np.inf, 0]
    assert null_evidence([5000.0]).tolist() == [5000, 1]


@pytest.mark.parametrize("fit", [NullFit(2.0), NullFit(-5.0, 0.0, 3.0), NullFit(-5.0, 0.5)])
def test_without_candidates_the_null_weight_is_1(fit: NullFit) -> None:
    nothing = null_evidence(np.empty((1, 0)))
    assert fit.null_weight(nothing).tolist() == [1]


def drawn(fit: NullFit, count: int, seed: int = 0) -> tuple[Any, Any]:
    """Return evidence of queries with and without an answer, in the proportions of a fit."""
    draw = np.random.default_rng(seed)
    evidence = np.column_stack([draw.normal(10, 3, count), draw.random(count)])
    missing = draw.random(count) < fit.null_weight(evidence)
    return evidence[~missing], evidence[missing]


def test_the_fit_recovers_the_function_of_sampled_data() -> None:
    truth = NullFit(offset=6.0, slope=0.4, peak=4.0)
    found = fit_null(*drawn(truth, 40_000))
    assert (found.slope, found.peak) == (pytest.approx(0.4, abs=0.03), pytest.approx(4, abs=0.2))
    evidence = np.column_stack([np.linspace(4, 16, 9), np.linspace(0.1, 0.9, 9)])
    assert found.null_weight(evidence) == pytest.approx(truth.null_weight(evidence), abs=0.03)


def test_the_fit_is_better_calibrated_than_the_best_constant() -> None:
    truth = NullFit(offset=3.0, slope=0.3)
    there, gone = drawn(truth, 2000)
    held_out = drawn(truth, 2000, seed=1)
    missing = np.repeat([0, 1], [len(one) for one in held_out])
    evidence = np.concatenate(held_out)
    fitted = expected_calibration_error(fit_null(there, gone).null_weight(evidence), missing)
    constants = [NullFit(offset).null_weight(evidence) for offset in np.linspace(0, 20, 81)]
    assert fitted < 0.05 < min(expected_calibration_error(one, missing) for one in constants)


def test_more_evidence_never_increases_the_null_weight() -> None:
    draw = np.random.default_rng(0)
    low, high = draw.normal(5, 1, (100, 2)), draw.normal(9, 1, (100, 2))
    found = fit_null(low, high)
    assert (found.slope, found.peak) == (0, 0)


def test_the_gradient_of_the_fit_is_the_gradient_of_its_loss() -> None:
    there, gone = (_design(one, 10.0) for one in drawn(NullFit(6.0, 0.4, 4.0), 50))
    theta = np.asarray([0.3, 0.7, 1.4])
    slow = approx_fprime(theta, lambda at: _loss(at, there, gone)[0])
    assert _loss(theta, there, gone)[1] == pytest.approx(slow, abs=1e-6)


def test_few_queries_hardly_move_the_slope_and_the_same_data_gives_the_same_bits() -> None:
    there, gone = np.asarray([[8.0, 0.5]]), np.asarray([[8.0, 0.5]])
    found = fit_null(there, gone)
    assert (found.slope, found.peak) == (pytest.approx(1, abs=1e-3), pytest.approx(0, abs=1e-3))
    data = drawn(NullFit(6.0, 0.4, 4.0), 300)
    assert fit_null(*data) == fit_null(*data)


def test_with_a_single_class_the_null_logit_is_a_constant_that_predicts_it() -> None:
    known, nothing = np.asarray([[4.0, 0.5], [9.0, 0.5]]), np.asarray([[-np.inf, 0.0]])
    assert (fit_null(known, nothing).null_weight(known) < 0.5).all()
    assert (fit_null(nothing, known).null_weight(known) > 0.5).all()
    assert fit_null(nothing, nothing) == NullFit(0.0)


@pytest.mark.parametrize("usual", [False, True])
def test_a_cautious_fit_has_few_false_alarms_on_new_queries(usual: bool) -> None:
    truth = NullFit(offset=6.0, slope=0.4, peak=4.0)
    there, gone = drawn(truth, 1000)
    new_there, new_gone = drawn(truth, 20_000, seed=1)
    fit = fit_cautious(there, gone, usual)
    assert fit is not None
    assert 0.03 < (fit.null_weight(there) >= 0.5).mean() <= 0.05
    assert 0.02 < (fit.null_weight(new_there) >= 0.5).mean() <= 0.055
    assert (fit.null_weight(new_gone) >= 0.5).mean() > 0.2
    balanced = fit_null(there, gone)
    assert (balanced.null_weight(new_there) >= 0.5).mean() > 0.1


COUNTS = [(18, 0.0, 0), (19, 0.9, 1), (44, 0.9, 1), (90, 0.9, 2), (99, 0.0, 5), (300, 0.9, 10), (300, 0.0, 15)]


@pytest.mark.parametrize(("count", "confidence", "allowed"), COUNTS)
def test_the_share_of_false_alarms_holds_for_nine_calibrations_of_ten(
    count: int, confidence: float, allowed: int
) -> None:
    assert _alarms_allowed(count, confidence) == allowed
    shares = np.sort(np.random.default_rng(0).random((4000, count)), axis=1)[:, allowed - 1]  # of new queries below it
    if count >= 45 and confidence:
        assert (shares > FALSE_ALARMS).mean() <= 0.12
    elif allowed:
        assert shares.mean() <= FALSE_ALARMS + 0.003


def test_a_cautious_fit_needs_enough_queries() -> None:
    evidence = np.column_stack([np.linspace(5, 9, 19), np.full(19, 0.5)])
    assert fit_cautious(evidence[:18], evidence) is None
    fit = fit_cautious(evidence, evidence)
    assert fit is not None
    assert fit.null_weight(evidence).max() < 0.5
    assert (fit.null_weight(evidence - [[0.2, 0]]) >= 0.5).tolist() == [True] + [False] * 18


def test_a_cautious_fit_lies_between_classes_that_are_far_apart() -> None:
    there, gone = (np.column_stack([np.linspace(low, low + 2, 60), np.full(60, 0.5)]) for low in (20, 5))
    fit = fit_cautious(there, gone)
    assert fit is not None
    assert fit == fit_null(there, gone)
    assert fit.null_weight(there).max() < 0.5 < fit.null_weight(gone).min()
