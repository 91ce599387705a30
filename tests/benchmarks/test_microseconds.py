"""The table of microseconds, with a clock that advances at every reading: all parts are present and nested."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import microseconds
from benchmarks.microseconds import PARTS, measure_parts
from service.search import actions
from service.settings import Settings
from tests.service.client import CollectionClient, opened


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    monkeypatch.setattr(microseconds, "WARM", 2)
    monkeypatch.setattr(microseconds, "time", SimpleNamespace(thread_time_ns=count(step=1_000_000).__next__))
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add(*({"id": str(at), "text": f"tree {at} in the wood"} for at in range(20)))
    return measure_parts(
        Settings(data=tmp_path / "data", encoder="hashing", log_level="error"), [f"a tree {at}" for at in range(8)]
    )


def test_every_part_of_a_search_takes_its_time(figures: dict[str, float]) -> None:
    assert set(figures) == {name for _, name, _, _ in PARTS} | {"JSON"}
    assert all(value > 0 for value in figures.values())


def test_the_time_of_a_part_includes_the_parts_that_it_calls(figures: dict[str, float]) -> None:
    above: list[str] = []
    for depth, name, _, _ in PARTS:
        above[depth:] = [name]
        assert not depth or figures[name] < figures[above[depth - 1]]


def test_the_wrapped_functions_are_restored(figures: dict[str, float]) -> None:
    assert figures
    assert actions.answer.__module__ == "service.search.actions"
