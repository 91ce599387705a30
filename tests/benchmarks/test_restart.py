"""The benchmark of restarts fills a directory to a number of keys, and counts good answers alone."""

from pathlib import Path

from benchmarks.restart import fill, is_good, summary
from benchmarks.restart_tables import starts


def test_a_directory_is_filled_to_the_number_of_keys(tmp_path: Path) -> None:
    assert fill(tmp_path / "data", 30, "hashing", 0) == {"documents": 30, "keys": 60}


def test_a_good_answer_has_hits_and_lacks_nothing() -> None:
    assert is_good(200, {"hits": [{"id": "a"}], "degraded": []})
    assert not is_good(200, {"hits": [], "degraded": []})
    assert not is_good(200, {"hits": [{"id": "a"}], "degraded": ["vectors_pending"]})
    assert not is_good(503, {"code": "starting"})


def test_the_table_has_median_range_and_rebuilt_indexes() -> None:
    repeats = [
        {"seconds": at, "rss_mib": 100 + at, "rss_max_mib": 200 + at, "rebuilt": at > 1} for at in (1.0, 2.0, 9.0)
    ]
    found = summary(repeats)
    assert (found["seconds"], found["least_seconds"], found["greatest_seconds"]) == (2.0, 1.0, 9.0)
    text = starts({"keys": 60, "documents": 30, "encoder": "hashing", "clean": found, "killed": found})
    assert "| after a clean stop | 2 | 1 to 9 | 2 of 3 | 109 | 209 |" in text
