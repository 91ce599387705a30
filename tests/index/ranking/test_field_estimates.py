"""Field estimates: the distribution of a field's values under attention."""

from typing import Any

import numpy as np
import pytest

from index.ranking.field_estimates import attention_without_null, effective_sample_size, predict, quantiles


def equal(count: int) -> Any:
    return np.full(count, 1 / count)


def test_attention_without_the_null_slot_is_the_share_among_candidates() -> None:
    weights = np.asarray([0.2, 0.1, 0.1], np.float32)
    assert attention_without_null(weights, np.zeros(3)).tolist() == pytest.approx([0.5, 0.25, 0.25])
    assert attention_without_null(np.empty(0), np.empty(0)).tolist() == []


def test_if_the_null_slot_has_all_the_weight_attention_comes_from_the_logits() -> None:
    logits = np.asarray([3.0, 1.0, 2.0], np.float32) - 5000
    by_hand = [np.exp(one) / (np.exp(3) + np.exp(1) + np.exp(2)) for one in (3, 1, 2)]
    assert attention_without_null(np.zeros(3, np.float32), logits).tolist() == pytest.approx(by_hand)


def drawn(count: int, seed: int) -> Any:
    weights = np.random.default_rng(seed).exponential(size=count)
    return weights / weights.sum()


def test_a_distribution_agrees_with_a_slow_loop_over_documents() -> None:
    draw = np.random.default_rng(0)
    weights = drawn(60, seed=2)
    values = [str(draw.integers(5)) if draw.random() < 0.7 else None for _ in weights]
    covered = sum(weight for weight, value in zip(weights, values, strict=True) if value is not None)
    by_hand: dict[str, float] = {}
    squares = 0.0
    for weight, value in zip(weights, values, strict=True):
        if value is not None:
            by_hand[value] = by_hand.get(value, 0) + weight / covered
            squares += (weight / covered) ** 2
    found = predict(weights, values)
    assert {one["value"]: one["weight"] for one in found["distribution"]} == pytest.approx(by_hand)
    assert [one["value"] for one in found["distribution"]] == sorted(by_hand, key=lambda value: -by_hand[value])
    assert (found["type"], found["documents"]) == ("categories", sum(value is not None for value in values))
    assert found["coverage"] == pytest.approx(covered)
    assert found["effective_sample_size"] == pytest.approx(1 / squares)


def test_a_number_is_estimated_by_the_weighted_mean_as_nadaraya_and_watson_do() -> None:
    weights, prices = np.asarray([0.5, 0.3, 0.1, 0.1]), [10, 20.0, None, 50]
    found = predict(weights, prices)
    mean = (0.5 * 10 + 0.3 * 20 + 0.1 * 50) / 0.9
    variance = (0.5 * (10 - mean) ** 2 + 0.3 * (20 - mean) ** 2 + 0.1 * (50 - mean) ** 2) / 0.9
    assert found["mean"] == pytest.approx(mean)
    assert found["standard_deviation"] == pytest.approx(variance**0.5)
    assert found["quantiles"] == {"0.1": 10, "0.5": 10, "0.9": 50}
    assert (found["type"], found["documents"], found["coverage"]) == ("number", 3, pytest.approx(0.9))


def test_a_quantile_is_the_smallest_number_that_the_weights_up_to_it_reach() -> None:
    draw = np.random.default_rng(1)
    numbers, shares = draw.integers(0, 9, 30).astype(float), drawn(30, seed=3)
    levels = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0]
    by_hand = [
        min(x for x in numbers if sum(s for s, y in zip(shares, numbers, strict=True) if y <= x) >= p - 1e-9)
        for p in levels
    ]
    assert quantiles(shares, numbers.tolist(), levels) == by_hand


def test_rounding_does_not_change_the_quantiles_of_equal_weights() -> None:
    assert quantiles(equal(10), range(10), [0.1, 0.5, 0.9]) == [0, 4, 8]


def test_a_quantile_is_a_value_of_a_document_also_beyond_the_integers_of_a_double() -> None:
    least = 2**53
    found = predict(equal(3), [least + 3, least + 1, least + 2])["quantiles"]
    assert found == {"0.1": least + 1, "0.5": least + 2, "0.9": least + 3}
    assert predict(equal(2), [1.5, least + 1])["quantiles"] == {"0.1": 1.5, "0.5": 1.5, "0.9": least + 1}


def test_the_values_of_a_list_share_the_weight_equally_and_count_once() -> None:
    found = predict(np.asarray([0.6, 0.4]), [["a", "b", "b"], ["b"]])
    assert {one["value"]: one["weight"] for one in found["distribution"]} == pytest.approx({"b": 0.7, "a": 0.3})
    assert found["documents"] == 2


def test_an_empty_list_is_a_missing_value() -> None:
    found = predict(np.asarray([0.75, 0.25]), [[], ["a"]])
    assert (found["distribution"], found["coverage"]) == ([{"value": "a", "weight": 1.0}], 0.25)


def test_booleans_are_categories_and_not_numbers() -> None:
    found = predict(np.asarray([0.75, 0.25]), [True, False])
    assert found["type"] == "categories"
    assert found["distribution"] == [{"value": True, "weight": 0.75}, {"value": False, "weight": 0.25}]


def test_mixed_types_are_categories_and_equal_values_of_different_types_differ() -> None:
    found = predict(equal(4), [1, True, "1", 1.0])
    assert found["type"] == "categories"
    values = [(type(one["value"]), one["weight"]) for one in found["distribution"]]
    assert values == [(int, 0.5), (bool, 0.25), (str, 0.25)]


def test_ties_are_ordered_by_value_and_the_rest_is_summed() -> None:
    names = [f"v{n:02}" for n in range(25)]
    found = predict(equal(25), names[::-1])
    assert [one["value"] for one in found["distribution"]] == names[:20]
    assert found["other_weight"] == pytest.approx(5 / 25)


@pytest.mark.parametrize("count", [0, 3])
def test_a_field_that_no_candidate_has_gives_an_empty_distribution(count: int) -> None:
    found = predict(equal(count) if count else np.empty(0), [None] * count)
    assert found == {
        "type": "categories",
        "distribution": [],
        "other_weight": 0,
        "coverage": 0,
        "effective_sample_size": 0,
        "documents": 0,
    }


def test_the_effective_sample_size_is_the_count_for_equal_weights_and_one_for_a_single_one() -> None:
    assert effective_sample_size(equal(8)) == pytest.approx(8)
    assert effective_sample_size(np.asarray([1.0, 0, 0])) == 1


def test_a_document_of_weight_zero_is_ignored() -> None:
    assert predict(np.asarray([1.0, 0.0]), [None, 7.5]) == predict(np.asarray([1.0]), [None])


@pytest.mark.parametrize("extreme", [1.7e308, 2**63 - 1, 5e-324])
def test_extreme_numbers_give_finite_figures(extreme: float) -> None:
    found = predict(equal(2), [extreme, -extreme])
    assert np.isfinite([found["mean"], found["standard_deviation"], *found["quantiles"].values()]).all()
    assert found["mean"] == 0


def test_the_numbers_of_a_list_share_the_weight_of_its_document() -> None:
    found = predict(np.asarray([0.5, 0.5]), [[2, 38], [40]])
    assert found["mean"] == pytest.approx(0.25 * 2 + 0.25 * 38 + 0.5 * 40)
    assert found["quantiles"] == {"0.1": 2, "0.5": 38, "0.9": 40}
    values = [
        (one["value"], one["weight"]) for one in predict(np.asarray([1.0]), [[1, True, "1", 1.0]])["distribution"]
    ]
    assert [weight for _, weight in values] == pytest.approx([1 / 3] * 3), "1, true and the text are three values"
