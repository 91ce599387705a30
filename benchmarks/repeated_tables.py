"""The table of the benchmark of repeated searches."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import significant, table

MEDIANS = ("searches_per_second", "p50_ms", "p99_ms", "processor_ms")


def loads(figures: Mapping[str, Any]) -> str:
    """Return a row for each mix of searches and clicks, with and without the cache: medians over the runs."""
    rows = []
    for one in figures["loads"]:
        runs: Sequence[Mapping[str, float]] = one["runs"]
        rows.append(
            (
                _percent(one["repeated"]),
                significant(one["clicks"]) if one["clicks"] else "0",
                f"{one['cache_mib']} MiB" if one["cache_mib"] else "none",
                *(significant(statistics.median(run[name] for run in runs)) for name in MEDIANS),
                _percent(statistics.median(run["cached"] for run in runs)),
            )
        )
    head = (
        "searches with frequent texts", "clicks for each search", "cache of each process",
        "searches/s", "p50, ms", "p99, ms", "processor ms a search", "answered from the cache",
    )  # fmt: skip
    return table(head, rows)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
