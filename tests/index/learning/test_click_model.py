"""The counts that the click model is estimated from, and the prior of the examination by EM."""

import numpy as np
import pytest

from index.learning.click_model import (
    ENOUGH_CLICKS,
    PRIOR_IMPRESSIONS,
    count_clicks,
    estimate_examination,
    expectation_maximisation,
    non_increasing,
)
from index.learning.examples import Feedback
from index.memory.click_worth import ASSUMED_CURVE, POSITIONS

VECTOR = np.zeros(2, np.float32)


def clicked(
    query_key: str, shown: dict[int, dict[int, int]], clicks: dict[int, dict[int, int]], grade: float = 1.0
) -> Feedback:
    """Return the feedback of a query with equal gains for all clicks."""
    gains = {row: grade * sum(at.values()) for row, at in clicks.items()}
    return Feedback(query_key, query_key, VECTOR, gains, shown, clicks)


def test_impressions_and_clicks_are_counted_per_query() -> None:
    log = [
        clicked("a", {7: {1: 3, 500: 2}, 8: {2: 1}}, {7: {1: 2}}),
        clicked("b", {7: {1: 4}}, {7: {1: 9}}),
        Feedback("judged", "judged", VECTOR, {7: 1.0}),
    ]
    counts = count_clicks(log)
    assert counts.pair.tolist() == [0, 0, 1, 2]
    assert counts.rank.tolist() == [0, POSITIONS - 1, 1, 0]
    assert counts.shown.tolist() == [3.0, 2.0, 1.0, 4.0]
    assert counts.clicks.tolist() == [2.0, 0.0, 0.0, 4.0]
    assert counts.swapped().shown.tolist() == [3.0, 2.0]


def test_a_log_with_few_clicks_has_the_assumed_curve_and_others_begin_between_it_and_em() -> None:
    few, enough = (clicked("query", {0: {1: 200}, 1: {3: 200}}, {0: {1: 90}, 1: {3: n}}) for n in (9, 10))
    assert (estimate_examination([few]).method, estimate_examination([enough]).method) == ("assumed", "estimated")
    assert estimate_examination([few]).curve.tolist() == ASSUMED_CURVE.tolist()
    assert few.clicks is not None
    assert sum(sum(at.values()) for at in few.clicks.values()) == ENOUGH_CLICKS - 1
    between = np.sqrt(expectation_maximisation(count_clicks([enough])) * ASSUMED_CURVE)
    assert estimate_examination([enough]).curve.tolist() == pytest.approx(between.tolist())


def test_em_agrees_with_its_equations_by_hand() -> None:
    """One EM step: attraction 1/5, examination 1 and 2^-.7; 4 shown and 2 clicked, then 6 and 1."""
    counts = count_clicks([clicked("query", {0: {1: 4, 2: 6}}, {0: {1: 2, 2: 1}})])
    look, attraction = [1.0, 2**-0.7], 0.2
    after = [
        (clicks + (shown - clicks) * one * (1 - attraction) / (1 - one * attraction) + PRIOR_IMPRESSIONS * one)
        / (shown + PRIOR_IMPRESSIONS)
        for one, shown, clicks in zip(look, [4, 6], [2, 1], strict=True)
    ]
    assert float(expectation_maximisation(counts, steps=1)[1]) == pytest.approx(after[1] / after[0])


def test_a_rising_curve_is_averaged_by_the_weights_of_its_positions() -> None:
    rising = np.asarray([1.0, 0.25, 0.5, 0.1])
    level = 2 ** -((2 * 3 + 1) / 4)  # weighted mean of base 2 logarithms: -2 with weight 3, -1 with weight 1
    found = non_increasing(rising, np.asarray([1.0, 3.0, 1.0, 1.0]))
    assert found.tolist() == pytest.approx([1.0, level, level, 0.1])
