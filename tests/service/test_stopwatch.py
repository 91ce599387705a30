"""What a search says of the time that it took."""

import time
from pathlib import Path

import pytest

from service.search.stopwatch import Stopwatch
from tests.service.client import Spoken, opened


def test_parts_follow_each_other_and_add_up_to_no_more_than_the_whole() -> None:
    clock = Stopwatch(time.perf_counter())
    for part in ("queue", "filter", "encode", "queue"):
        clock.lap(part)
    told = clock.report()
    assert list(told["timings_ms"]) == ["queue", "filter", "encode"]
    assert sum(told["timings_ms"].values()) <= told["took_ms"] + 0.01


def test_what_was_waited_for_before_the_search_began_counts() -> None:
    clock = Stopwatch(time.perf_counter() - 2)
    clock.lap("queue")
    told = clock.report()
    assert told["took_ms"] >= told["timings_ms"]["queue"] >= 2000


def test_parts_that_measured_themselves_are_told_as_they_were() -> None:
    clock = Stopwatch(time.perf_counter() - 2)
    clock.split(retrieve=3.0, attend=1.0)
    clock.split(retrieve=2.0)
    clock.lap("fields")
    parts = clock.report()["timings_ms"]
    assert parts["retrieve"] == pytest.approx(5)
    assert parts["attend"] == pytest.approx(1)
    assert parts["fields"] < 2000


def test_an_answer_tells_every_part_of_its_time(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        Spoken(client).add({"id": "oak", "text": "a tree with acorns"})
        told = Spoken(client).search("acorns")
    assert list(told["timings_ms"]) == ["queue", "filter", "encode", "retrieve", "attend", "fields"]
    assert 0 < sum(told["timings_ms"].values()) <= told["took_ms"] + 0.01
