"""The paired comparison of two systems, and the gate for a challenger."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from index.evaluation.significance import (
    CONFIDENCE,
    EVER_PROMOTED,
    RECALL_TOLERANCE,
    Comparison,
    Decision,
    compare,
    gate,
    interval,
    level,
)


def named(*values: float) -> dict[str, float]:
    return {f"q{number:03}": value for number, value in enumerate(values)}


def comparison(difference: float, low: float, high: float, queries: int = 50) -> Comparison:
    p_value = 0.01 if low > 0 or high < 0 else 0.2
    return Comparison("nDCG@10", queries, 0.5, 0.5 + difference, difference, low, high, p_value, queries)


SAME = comparison(0.0, 0.0, 0.0)
BETTER = comparison(0.04, 0.01, 0.07)


# --- Comparison ---


def test_a_comparison_holds_both_means_and_their_difference() -> None:
    result = compare("P@1", named(0, 1, 0, 0), named(1, 1, 0, 1))
    assert (result.measure, result.queries, result.a, result.b, result.difference) == ("P@1", 4, 0.25, 0.75, 0.5)
    assert result.low <= result.difference <= result.high


def test_queries_are_paired_by_name() -> None:
    a = {"x": 0.1, "y": 0.5, "z": 0.9}
    b = {"z": 0.95, "x": 0.15, "y": 0.55}
    result = compare("RR", a, b)
    assert (result.low, result.high) == pytest.approx((0.05, 0.05))


def test_the_order_of_queries_changes_no_bit() -> None:
    random = np.random.default_rng(1)
    a, b = named(*random.random(30)), named(*random.random(30))
    assert compare("RR", a, b) == compare("RR", dict(reversed(a.items())), b)


def test_the_p_value_agrees_with_a_paired_t_test_by_hand() -> None:
    differences = [0.3, 0.1, 0.2, -0.1]
    result = compare("RR", named(0.5, 0.5, 0.5, 0.5), named(*(0.5 + one for one in differences)))
    mean = sum(differences) / 4
    deviation = math.sqrt(sum((one - mean) ** 2 for one in differences) / 3)
    angle = math.atan(mean / (deviation / 2) / math.sqrt(3))
    two_sided = 1 - 2 / math.pi * (angle + math.sin(angle) * math.cos(angle))  # Student's t with 3 degrees of freedom
    assert result.p_value == pytest.approx(two_sided)


def test_equal_systems_do_not_differ() -> None:
    result = compare("RR", named(0.2, 0.4, 0.9), named(0.2, 0.4, 0.9))
    assert (result.difference, result.low, result.high, result.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_an_equal_gain_on_every_query_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = compare("RR", named(0.1, 0.2, 0.3), named(0.2, 0.3, 0.4))
    assert result.p_value < 0.001


def test_a_comparison_of_different_queries_raises() -> None:
    with pytest.raises(ValueError, match="same queries"):
        compare("RR", {"x": 0.1}, {"y": 0.1})


def test_no_queries_and_one_query_can_be_compared() -> None:
    nothing = compare("RR", {}, {})
    assert (nothing.queries, nothing.difference, nothing.p_value) == (0, 0.0, 1.0)
    one = compare("RR", {"x": 0.25}, {"x": 0.5})
    assert (one.difference, one.low, one.high, one.p_value) == (0.25, 0.25, 0.25, 1.0)


def test_a_comparison_as_dict_has_json_values() -> None:
    assert set(map(type, compare("RR", named(0, 1, 0), named(1, 1, 0)).as_dict().values())) == {str, int, float}


# --- Interval ---


def test_the_interval_of_many_values_agrees_with_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(0.3, 1.0, 400)
    low, high = interval(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.01)
    assert high == pytest.approx(values.mean() + half, abs=0.01)


def test_the_interval_agrees_with_a_table_of_student() -> None:
    values = [0.0, 0.0, 0.1, 0.9, 0.2]
    mean = sum(values) / 5
    deviation = math.sqrt(sum((one - mean) ** 2 for one in values) / 4)
    low, high = interval(np.asarray(values))
    assert (low, high) == pytest.approx(
        (mean - 2.776 * deviation / 5**0.5, mean + 2.776 * deviation / 5**0.5), abs=1e-3
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("queries", [3, 10, 40])
def test_an_interval_without_zero_has_p_below_five_percent(seed: int, queries: int) -> None:
    random = np.random.default_rng(seed)
    before = random.random(queries)
    found = compare("RR", named(*before), named(*(before + random.normal(0.1, 0.15, queries))))
    for one in (found, found.lowered(0.03)):
        assert (one.low > 0 or one.high < 0) == (one.p_value < 1 - CONFIDENCE)


# --- Gate ---


def by_ranks(ndcg: Comparison) -> tuple[Comparison, Comparison]:
    """Return the pair of an equal likelihood and nDCG@10."""
    return SAME, ndcg


def by_clicks(likelihood: Comparison, ranks: Comparison, ndcg: Comparison | None, shown: float = 0.2) -> Decision:
    """Return the decision on clicks; shown: the challenger's share of documents that no list showed."""
    return gate(None, SAME, (likelihood, ranks), ndcg, (0.1, shown))


def test_a_significantly_better_challenger_is_promoted() -> None:
    decision = gate(by_ranks(BETTER), SAME)
    assert decision.promote
    assert [(check.name, check.passed) for check in decision.checks] == [
        ("judgments_better", True),
        ("ndcg_not_lower", True),
        ("recall_not_worse", True),
    ]


@pytest.mark.parametrize("ndcg", [SAME, comparison(0.04, 0.0, 0.08), comparison(0.04, -0.01, 0.09)])
def test_a_challenger_without_a_significant_gain_is_not_promoted(ndcg: Comparison) -> None:
    decision = gate(by_ranks(ndcg), SAME)
    assert not decision.promote
    assert [check.passed for check in decision.checks] == [False, True, True]


def test_a_challenger_without_measured_queries_is_not_promoted() -> None:
    assert not gate(by_ranks(comparison(0.04, 0.01, 0.07, queries=0)), SAME).promote


def test_a_challenger_with_one_measured_query_is_not_promoted() -> None:
    assert not gate(by_ranks(compare("nDCG@10", {"q": 0.5}, {"q": 0.9})), SAME).promote


@pytest.mark.parametrize(
    ("lost", "queries", "passed"), [(2, 400, True), (3, 400, False), (1, 100, True), (2, 100, False)]
)
def test_a_loss_of_exactly_the_accepted_recall_or_of_one_query_is_accepted(
    lost: int, queries: int, passed: bool
) -> None:
    """2 / 400 is the tolerance, and the difference of two means is not exact."""
    before = named(*([1.0] * (queries - 1)), 0.0)
    after = named(*([0.0] * (lost + 1)), *([1.0] * (queries - lost - 1)))
    recall = compare("R@100", before, after)
    assert round(recall.difference * queries) == -lost
    assert gate(by_ranks(BETTER), recall).promote == passed


@pytest.mark.parametrize(
    ("recall", "passed"),
    [
        (comparison(0.1, 0.05, 0.2), True),
        (comparison(-RECALL_TOLERANCE, -0.02, 0.0), True),
        (comparison(-RECALL_TOLERANCE / 2, -0.004, -0.001), False),
        (comparison(-2 * RECALL_TOLERANCE, -0.1, 0.1, queries=400), False),
    ],
)
def test_recall_may_be_a_little_lower_but_not_significantly(recall: Comparison, passed: bool) -> None:
    decision = gate(by_ranks(BETTER), recall)
    assert decision.promote == passed
    assert [check.passed for check in decision.checks] == [True, True, passed]


def test_the_first_decision_has_a_twentieth_for_one_side_of_both_measures() -> None:
    assert level(0) / 2 == pytest.approx(1 - CONFIDENCE)
    just, too_weak = (replace(BETTER, p_value=level(0) / 2 + step) for step in (-1e-6, 1e-6))
    assert gate(by_ranks(just), SAME).promote
    assert not gate(by_ranks(too_weak), SAME).promote


def test_false_promotions_have_a_bound_over_any_number_of_decisions() -> None:
    """One side of p is a gain."""
    assert sum(level(earlier) / 2 for earlier in range(10_000)) == pytest.approx(EVER_PROMOTED, abs=1e-4)
    assert all(level(earlier + 1) < level(earlier) for earlier in range(100))


def test_a_gain_that_suffices_at_first_does_not_suffice_after_many_decisions() -> None:
    found = replace(BETTER, p_value=0.01)
    assert gate(by_ranks(found), SAME, earlier=1).promote
    decision = gate(by_ranks(found), SAME, earlier=2)
    assert not decision.promote
    assert "p below 0.0083, half of the level of decision 3 against this champion" in decision.reasons[0]
    assert decision.as_dict()["earlier_decisions"] == 2
    assert decision.as_dict()["level"] == pytest.approx(0.2 / 12, abs=1e-7)
    assert not gate(None, SAME, (found, SAME), earlier=2).promote


@pytest.mark.parametrize(("changed", "promoted"), [(0, False), (2, False), (5, False), (6, True), (20, True)])
def test_a_gain_on_very_few_queries_proves_nothing(changed: int, promoted: bool) -> None:
    """Equal gains have no spread, so that Student's t is certain after two queries."""
    before = named(*([0.5] * changed))
    ndcg = compare("nDCG@10", before, named(*([0.6] * changed)))
    for judged in (by_ranks(ndcg), (BETTER, ndcg)):
        decision = gate(judged, SAME)
        assert decision.promote == promoted
        assert (f"{changed} queries changed, and 6 are needed" in decision.reasons[0]) == (not promoted)


def test_queries_without_a_difference_are_not_counted_as_changed() -> None:
    found = compare("nDCG@10", named(0.5, 0.5, 0.5), named(0.5, 0.5 + 1e-15, 0.9))
    assert (found.queries, found.changed) == (3, 1)
    assert found.lowered(0.1).changed == 1


def test_the_same_ranking_is_not_lowered_to_a_certain_loss() -> None:
    same = compare("R@100", named(*([0.5] * 50)), named(*([0.5] * 50)))
    assert same.lowered(0.001) == same
    assert same.p_value == 1
    assert gate(by_ranks(BETTER), same.lowered(0.001)).promote


def test_an_overestimate_is_at_most_the_gain_of_the_queries_that_gained() -> None:
    before, after = named(*([0.5] * 9), 0.4), named(*([0.5] * 9), 0.1)
    assert compare("nDCG@10", before, after).lowered(0.2) == compare("nDCG@10", before, after)
    before, after = named(0.0, 0.1, 0.0), named(0.3, 0.0, 0.0)
    lowered = compare("nDCG@10", before, after).lowered(0.2)
    assert (lowered.b, lowered.difference) == pytest.approx((0.0, -0.1 / 3))
    assert lowered.lowered(0.01).subtracted == pytest.approx(lowered.subtracted + 0.01)
    assert lowered.as_dict()["subtracted"] == lowered.subtracted > 0
    assert "subtracted" not in compare("nDCG@10", before, after).as_dict()


def test_every_reason_contains_its_figures() -> None:
    ndcg, _, recall = gate(by_ranks(BETTER), comparison(-0.1, -0.2, -0.05)).reasons
    assert "0.5000 -> 0.5400" in ndcg
    assert "[+0.0100, +0.0700] on 50 held-out queries" in ndcg
    assert "difference -0.1000" in recall


def test_a_better_likelihood_of_judgments_promotes_unless_ndcg_is_lower() -> None:
    assert gate((BETTER, SAME), SAME).promote
    assert gate((SAME, BETTER), SAME).promote
    lower = comparison(-0.001, -0.05, 0.048)
    refused = gate((BETTER, lower), SAME)
    assert [check.name for check in refused.checks if not check.passed] == ["ndcg_not_lower"]
    assert "difference -0.0010" in refused.reasons[1]
    before, after = named(*([0.1, 0.3] * 7)), named(*([0.3, 0.1] * 7))
    exchanged = replace(compare("nDCG@10", before, after), difference=-1e-17)
    assert gate((BETTER, exchanged), SAME).promote, "the difference of two means is not exact"


def test_clicks_decide_where_there_are_clicks() -> None:
    assert by_clicks(BETTER, SAME, SAME).promote
    assert not by_clicks(SAME, SAME, BETTER).promote
    assert by_clicks(BETTER, SAME, None).promote
    assert not by_clicks(BETTER, SAME, comparison(-0.04, -0.07, -0.01)).promote
    assert by_clicks(BETTER, SAME, comparison(-0.04, -0.07, 0.01)).promote


def test_the_likelihood_may_not_hide_worse_ranks_but_better_ranks_may_cost_likelihood() -> None:
    worse = comparison(-0.04, -0.07, -0.01)
    refused = by_clicks(BETTER, worse, None)
    assert [check.name for check in refused.checks if not check.passed] == ["ranks_not_worse"]
    assert by_clicks(worse, BETTER, None).promote


@pytest.mark.parametrize(("queries", "promoted"), [(1, True), (2, True), (5, True), (6, False)])
def test_a_loss_on_very_few_judged_queries_refuses_no_gain_in_clicks(queries: int, promoted: bool) -> None:
    lost = compare("nDCG@10", named(*([1.0] * queries)), named(*([0.99] * queries)))
    assert by_clicks(BETTER, SAME, lost).promote == promoted


def test_the_ratio_orders_comparisons_as_their_p_on_one_side() -> None:
    wide, narrow = comparison(0.2, 0.01, 0.39), comparison(0.05, 0.0075, 0.0925)
    assert wide.low > narrow.low
    assert wide.ratio < narrow.ratio
    assert comparison(-0.02, -0.05, 0.01).ratio > comparison(-0.025, -0.045, -0.005).ratio
    assert [replace(SAME, difference=one, low=one, high=one).ratio for one in (0.1, 0.0, -0.1)] == [
        math.inf,
        0.0,
        -math.inf,
    ]


@pytest.mark.parametrize("clicks", [True, False])
@pytest.mark.parametrize("swapped", [True, False])
def test_one_of_two_measures_must_be_better_at_half_the_level(swapped: bool, clicks: bool) -> None:
    def decided(one: Comparison, other: Comparison, earlier: int = 0) -> Decision:
        pair = (other, one) if swapped else (one, other)
        return gate(None if clicks else pair, SAME, pair if clicks else None, earlier=earlier)

    clear, weak = (replace(BETTER, p_value=level(0) / 2 + step) for step in (-1e-6, 1e-6))
    for found, promoted in (((clear, SAME), True), ((weak, SAME), False), ((weak, weak), False)):
        decision = decided(*found)
        assert decision.promote == promoted
        assert decision.reasons[0].count("p = ") == 2
        assert "one must be better with p below 0.05" in decision.reasons[0]
    later = decided(clear, SAME, earlier=2).reasons[0]
    assert "one must be better with p below 0.0083, half of the level of decision 3 against this champion" in later
    few = replace(clear, changed=5)
    assert not decided(few, few).promote
    assert "5 queries changed, and 6 are needed" in decided(few, few).reasons[0]


def test_a_head_whose_first_documents_were_never_shown_is_not_promoted() -> None:
    decision = by_clicks(BETTER, BETTER, None, 0.84)
    assert not decision.promote
    assert [check.name for check in decision.checks if not check.passed] == ["documents_known"]
    assert "10% -> 84%" in decision.reasons[-1]
