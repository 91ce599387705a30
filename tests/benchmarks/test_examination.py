"""The comparison of estimators of the examination."""

import numpy as np
import pytest

from benchmarks.examination import ESTIMATORS, RANKINGS, errors_of, log
from benchmarks.examination_peers import harvest
from benchmarks.simulator import Searchers
from index.learning.click_model import ClickCounts, count_clicks
from index.learning.examples import Feedback
from index.memory.click_worth import ASSUMED_CURVE

STEEP = (1.0, 0.4, 0.1)


def counted(shown: dict[int, dict[int, int]], clicks: dict[int, dict[int, int]]) -> ClickCounts:
    return count_clicks([Feedback("query", "query", np.zeros(2, np.float32), {}, shown, clicks)])


def test_clicks_per_position_tell_a_flat_curve_where_clicked_documents_rise_and_contrasts_do_not() -> None:
    given = 3_000, Searchers(eta=1.5), 0.3, 0
    by_chance, by_clicks = (
        dict(zip(ESTIMATORS, errors_of(log(*given, rise, RANKINGS["fair"]), 1.5), strict=True)) for rise in (0.0, 6.0)
    )
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
