"""The table of the benchmark of restarts."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import number, significant, table

KINDS = {"clean": "after a clean stop", "killed": "after SIGKILL, with changes since the index was saved"}


def starts(figures: Mapping[str, Any]) -> str:
    """Return a row for each kind of start."""
    rows = [
        (
            label,
            significant(figures[kind]["seconds"]),
            f"{significant(figures[kind]['least_seconds'])} to {significant(figures[kind]['greatest_seconds'])}",
            f"{figures[kind]['rebuilt']} of {figures[kind]['starts']}",
            number(figures[kind]["rss_mib"]),
            number(figures[kind]["rss_max_mib"]),
        )
        for kind, label in KINDS.items()
    ]
    title = f"{number(figures['keys'])} keys, {number(figures['documents'])} documents, encoder {figures['encoder']}"
    return table((title, "seconds, median", "range", "index rebuilt", "memory then, MiB", "highest, MiB"), rows)
