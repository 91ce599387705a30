"""The comparison of estimators of the examination."""

import numpy as np
import pytest

from benchmarks.examination import ESTIMATORS, errors_of, log
from benchmarks.examination_peers import PRIOR_IMPRESSIONS, expectation_maximisation, harvest, non_increasing
from benchmarks.simulator import Searchers
from index.learning.click_model import ClickCounts, count_clicks
from index.learning.examples import Feedback
from index.memory.click_worth import ASSUMED_CURVE

STEEP = (1.0, 0.4, 0.1)


def counted(shown: dict[int, dict[int, int]], clicks: dict[int, dict[int, int]]) -> ClickCounts:
    return count_clicks([Feedback("query", "query", np.zeros(2, np.float32), {}, shown, clicks)])


def test_clicks_per_position_tell_a_flat_curve_where_clicked_documents_rise_and_contrasts_do_not() -> None:
    searchers, rising = Searchers(eta=1.5), log(3_000, Searchers(eta=1.5), 0.3, seed=0, memory=6.0)
    by_chance = dict(zip(ESTIMATORS, errors_of(log(3_000, searchers, 0.3, seed=0), 1.5), strict=True))
    by_clicks = dict(zip(ESTIMATORS, errors_of(rising, 1.5), strict=True))
    assert by_clicks["contrasts"] < 0.75 * by_clicks["harvest"]
    assert max(by_chance["contrasts"], by_chance["harvest"]) < by_chance["assumed"] / 3


def test_harvest_finds_the_curve_for_any_attractions() -> None:
    shown = {row: dict.fromkeys((1, 2, 3), 1000) for row in range(3)}
    clicks = {
        row: {place: round(1000 * STEEP[place - 1] * chance) for place in (1, 2, 3)}
        for row, chance in enumerate((0.9, 0.5, 0.05))
    }
    counts = counted(shown, clicks)
    assert harvest(counts, prior_clicks=1e-3)[:3].tolist() == pytest.approx(STEEP, rel=1e-2)
    assert harvest(count_clicks([])).tolist() == pytest.approx(ASSUMED_CURVE.tolist())


def test_em_agrees_with_its_equations_by_hand() -> None:
    """One EM step: attraction 1/5, examination 1 and 2^-.7; 4 shown and 2 clicked, then 6 and 1."""
    counts = counted({0: {1: 4, 2: 6}}, {0: {1: 2, 2: 1}})
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
