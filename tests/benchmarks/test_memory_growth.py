"""The benchmark of memory measures every row of its table, and the index finds what the exact scan finds."""

import pytest

from benchmarks import memory_growth
from benchmarks.speed_tables import MEMORY_ROWS
from benchmarks.speed_tables import memory_growth as table


def test_a_small_run_fills_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_growth, "NEW", 10)
    monkeypatch.setattr(memory_growth, "CLICKS", 5)
    figures = memory_growth.measure(2500)
    assert (figures["within"] > 0, figures["recall"]) == (True, 1.0)
    assert {name for _, names in MEMORY_ROWS for name in names} <= figures.keys()
    assert "| past queries | 2,500 |" in table({"sizes": [figures]})
