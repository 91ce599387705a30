"""A search reports the time of its parts."""

import time
from pathlib import Path

import pytest

from service.search.stopwatch import Stopwatch
from tests.service.client import CollectionClient, opened


def test_the_sum_of_the_parts_is_at_most_the_whole() -> None:
    stopwatch = Stopwatch(time.perf_counter())
    for part in ("queue", "filter", "encode", "queue"):
        stopwatch.lap(part)
    report = stopwatch.report()
    assert list(report["timings_ms"]) == ["queue", "filter", "encode"]
    assert sum(report["timings_ms"].values()) <= report["took_ms"] + 0.01


def test_the_wait_before_the_search_is_included() -> None:
    stopwatch = Stopwatch(time.perf_counter() - 2)
    stopwatch.lap("queue")
    report = stopwatch.report()
    assert report["took_ms"] >= report["timings_ms"]["queue"] >= 2000


def test_parts_measured_elsewhere_are_reported_unchanged() -> None:
    stopwatch = Stopwatch(time.perf_counter() - 2)
    stopwatch.split(retrieve=3.0, attend=1.0)
    stopwatch.split(retrieve=2.0)
    stopwatch.lap("fields")
    parts = stopwatch.report()["timings_ms"]
    assert parts["retrieve"] == pytest.approx(5)
    assert parts["attend"] == pytest.approx(1)
    assert parts["fields"] < 2000


def test_a_response_has_the_time_of_every_part(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add({"id": "oak", "text": "a tree with acorns"})
        report = CollectionClient(client).search("acorns")
    assert list(report["timings_ms"]) == ["queue", "filter", "encode", "retrieve", "attend", "fields"]
    assert 0 < sum(report["timings_ms"].values()) <= report["took_ms"] + 0.01
