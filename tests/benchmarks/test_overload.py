"""The cores of a benchmark of overload, and its capacity."""

import os
from typing import Any

import pytest

from benchmarks.overload import take_cores
from benchmarks.overload_tables import LOADS, loads


def test_a_service_has_some_cores_and_the_loads_have_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {3, 5, 7, 8}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(mine))
    given: list[Any] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: given.append(list(cores)))
    assert take_cores(2) == {7, 8}
    assert given == [[3, 5]]
    for none_left in (-1, 0, 4):
        with pytest.raises(SystemExit, match="1 to 3"):
            take_cores(none_left)
    assert len(given) == 1


def test_the_capacity_is_that_of_before_and_after_the_overload() -> None:
    figures = {
        name: {"goodput": 90.0, "good_p99_ms": 1, "refused_p99_ms": 2, "live_max_ms": 3, "generator_cores": 0}
        for name in LOADS
    }
    figures["closed"]["goodput"], figures["afterwards"]["goodput"] = 150.0, 50.0
    rows = loads(figures).splitlines()
    assert [row.split("|")[3].strip() for row in rows[2:5]] == ["1.50", "0.90", "0.50"]
