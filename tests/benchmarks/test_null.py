"""The figures of the benchmark of the null weight, from evidence that is easy to check."""

from typing import Any

import numpy as np
import pytest

from benchmarks.null import figures
from benchmarks.quality_tables import null, null_curves


@pytest.fixture
def found() -> dict[str, Any]:
    """Forty test queries: with their answers L is 20, for four of the answered 8; without them and foreign 10 and 5."""
    rows = [[20.0, 0.5]] * 36 + [[8.0, 0.5]] * 4
    state = {"present": rows, "removed": [[10.0, 0.5]] * 40, "answered": [True] * 40, "foreign": [[5.0, 0.5]] * 10}
    made = {"answered": [[float(n), 0.5] for n in np.linspace(12, 30, 99)], "unanswered": [[9.0, 0.5]] * 99}
    cosines = {"present": np.linspace(0.6, 0.9, 99).tolist(), "removed": [0.5] * 99}
    return {
        "made": made,
        "made_cosine": cosines,
        "labelled_cosine": cosines,
        "untrained": state,
        "trained": state,
        "cosine": {"test": {"present": [0.8] * 40, "removed": [0.7] * 40}, "foreign": {"present": [0.3] * 10}},
        "null": [2.0, 0.2, 0.0],
    }


def test_false_alarms_are_counted_among_answered_queries_and_caught_among_the_others(found: dict[str, Any]) -> None:
    measured = figures(found)["measured"]
    untrained, trained = measured["untrained"], measured["trained"]
    assert (untrained["answered"], untrained["false_alarms"], untrained["caught"]) == (40, 0.1, 1.0)
    assert (trained["false_alarms"], trained["caught"], trained["foreign_caught"]) == (0.1, 1.0, 1.0), "10 is the limit"
    found["untrained"] = found["untrained"] | {"answered": [True] * 36 + [False] * 4}
    assert figures(found)["measured"]["untrained"]["false_alarms"] == 0
    assert measured["untrained, top cosine"]["foreign_caught"] == 1


def test_the_curve_says_what_a_threshold_for_each_rate_of_false_alarms_catches(found: dict[str, Any]) -> None:
    untrained = figures(found)["measured"]["untrained"]
    assert untrained["curve"] == [0, 0, 0, 1], "four of forty answered queries are below those without an answer"
    assert untrained["foreign_curve"] == [1, 1, 1, 1]


def test_the_tables_have_a_row_for_every_set_and_calibration(found: dict[str, Any]) -> None:
    result = {"sets": {"shop": figures(found)}}
    assert "| shop, 40 queries | untrained | 10.0 % | 100.0 % | 100.0 % |" in null(result)
    assert "| shop | untrained | 0 / 100 % | 0 / 100 % | 0 / 100 % | 100 / 100 % |" in null_curves(result)
