"""The table of the benchmark of overload."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import number, significant, table

LOADS = {
    "closed": "closed loop, 66 clients, before the overload",
    "overload": "open loop, ten times the capacity",
    "afterwards": "the closed loop again, 5 s after the overload",
    "impatient": "256 clients that leave after .3 s",
    "very_impatient": "256 clients that leave after .1 s",
}
HEADINGS = [
    "load",
    "answers/s",
    "share of the capacity",
    "p99, ms",
    "refusals, p99, ms",
    "/livez, slowest, ms",
    "cores of the generator",
]


def rows(figures: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each load. The capacity is the mean of both closed loops."""
    capacity = (figures["closed"]["goodput"] + figures["afterwards"]["goodput"]) / 2
    return [
        [
            label,
            number(figures[name]["goodput"], 1),
            number(figures[name]["goodput"] / capacity, 2),
            *(significant(figures[name][one]) for one in ("good_p99_ms", "refused_p99_ms", "live_max_ms")),
            number(figures[name]["generator_cores"], 2),
        ]
        for name, label in LOADS.items()
    ]


def loads(figures: Mapping[str, Any]) -> str:
    """Return goodput and latency of each load."""
    return table(HEADINGS, rows(figures))
