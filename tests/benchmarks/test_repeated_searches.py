"""The benchmark of repeated searches: its mix of searches and clicks, a small load, and its table."""

import json
import random
from pathlib import Path

from benchmarks.engines import client_of
from benchmarks.repeated_searches import HEAD, Load, Mix
from benchmarks.repeated_tables import loads
from benchmarks.service_process import fill, started
from benchmarks.workers import wait_until_ready

TEXTS = [f"how to build house {n} with wood" for n in range(HEAD + 100)]


def test_a_small_load_is_answered_from_the_cache_for_its_repeated_searches(tmp_path: Path) -> None:
    found = {}
    for mib in (0, 16):
        with started(
            tmp_path / f"{mib}", "hashing", tmp_path / "log", "--port", "0", "--workers", "1", cache_mib=mib
        ) as one:
            port = one.port()
            wait_until_ready(port, 1)
            with client_of(port) as client:
                fill(client, 50, 0)
            found[mib] = Load(one, port, TEXTS, Mix(0.9, 0.05), random.Random(0)).measured(2, 2.0)
    assert found[0]["cached"] == 0
    assert 0 < found[16]["cached"] < 1
    assert all(value > 0 for value in found[16].values())


def test_the_table_has_a_row_for_each_mix_and_cache() -> None:
    run = {"searches_per_second": 200.0, "p50_ms": 5.0, "p99_ms": 9.0, "processor_ms": 4.0, "cached": 0.5}
    mixes = [{"repeated": 0.5, "clicks": 0.1, "cache_mib": mib, "runs": [run, run]} for mib in (0, 16)]
    head, _, *rows = loads(json.loads(json.dumps({"loads": mixes}))).splitlines()
    assert head.count("|") == 9
    assert rows == [
        "| 50 % | 0.1 | none | 200 | 5 | 9 | 4 | 50 % |",
        "| 50 % | 0.1 | 16 MiB | 200 | 5 | 9 | 4 | 50 % |",
    ]
