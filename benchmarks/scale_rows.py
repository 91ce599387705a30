"""The rows of growth on paper: a plan with its cost, and which of its numbers lie within the measured range."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.scale_constants import greatest, value
from benchmarks.scale_layouts import GIB, Case, Plan
from benchmarks.scale_model import Collection, bytes_in_memory, database_bytes, encoding_core_hours, index_bytes

INSIDE, EXTRAPOLATED, ASSUMED = "measured range", "extrapolated", "assumed"
DRIVERS = {
    "process_gib": ("indexed keys", "documents"),
    "memory_gib": ("indexed keys", "documents"),
    "disk_gib": ("indexed keys", "documents"),
    "build_minutes": ("indexed keys",),
    "p50_ms": ("scanned keys", "documents", "past queries"),
    "cores": ("scanned keys", "documents", "past queries"),
    "per_second": ("scanned keys", "documents", "past queries", "cores"),
    "machines": ("scanned keys", "documents", "past queries", "cores"),
    "cost": ("scanned keys", "documents", "past queries", "cores"),
}
"""Number of a row -> the sizes that it depends on."""
TRIED = [first * 10**zeros for zeros in range(2, 9) for first in range(10, 100)]
"""Numbers of documents, from 1,000 to 9.9 billion."""


@dataclass(frozen=True)
class Prices:
    """Prices without a currency. The defaults are round numbers for an example; no vendor asks exactly these."""

    core_hour: float = 0.03
    memory_gib_month: float = 3.0
    disk_gib_month: float = 0.1


def row(plan: Plan, case: Case, prices: Prices) -> dict[str, Any]:
    """Return the numbers of a plan, its cost of a month, and what is known about each number."""
    core_hours = plan.machines * case.cores * value("hours of a month")
    memory, disk = plan.machines * case.memory_gib, plan.disk_bytes / GIB
    cost = core_hours * prices.core_hour + memory * prices.memory_gib_month + disk * prices.disk_gib_month
    numbers = {
        "process_gib": plan.process_bytes / GIB,
        "memory_gib": plan.memory_bytes / GIB,
        "disk_gib": disk,
        "build_minutes": plan.build_seconds / 60,
        "p50_ms": plan.p50_ms,
        "cores": plan.cores,
        "per_second": plan.per_second,
        "core_hours_a_month": core_hours,
        "memory_gib_months": memory,
        "cost": cost,
    }
    times = beyond(plan.part, case)
    return {
        "layout": plan.layout,
        "processes": plan.processes,
        "partitions": plan.partitions,
        "machines": plan.machines,
        **all_rounded(numbers),
        "unmet": list(plan.unmet),
        "beyond": all_rounded(times),
        "basis": basis(plan.layout, times),
    }


def beyond(part: Collection, case: Case) -> dict[str, float]:
    """Return which sizes of a process are greater than measured, and how many times."""
    sizes = {
        "indexed keys": (part.keys, greatest("building an index")),
        "scanned keys": (part.keys, greatest(f"scan, {case.processor}")),
        "documents": (part.documents, value("most documents of a measured search")),
        "past queries": (part.past_queries, greatest("memory in a search")),
        "cores": (case.cores, value("cores of the measured machine")),
    }
    return {name: size / most for name, (size, most) in sizes.items() if size > most}


def basis(layout: str, times: Mapping[str, float]) -> dict[str, str]:
    """Return for each number of a row whether it lies in the measured range. Partitions were not measured at all."""
    if layout == "partitions":
        return dict.fromkeys(DRIVERS, ASSUMED)
    return {
        name: EXTRAPOLATED if any(driver in times for driver in drivers) else INSIDE
        for name, drivers in DRIVERS.items()
    }


def size(one: Collection, case: Case) -> dict[str, Any]:
    """Return the GiB of one process with all documents, those of the disk, and the core-hours to encode once."""
    times = beyond(one, case)
    return {
        "documents": one.documents,
        "memory_gib": all_rounded({name: number / GIB for name, number in bytes_in_memory(one).items()}),
        "database_gib": rounded(database_bytes(one) / GIB),
        "index_gib": rounded(index_bytes(one) / GIB),
        "encoding_core_hours": rounded(encoding_core_hours(one)),
        "beyond": all_rounded({name: times[name] for name in DRIVERS["memory_gib"] if name in times}),
    }


def limit(layout: Callable[[Collection, Case], Plan], one: Collection, case: Case) -> dict[str, Any]:
    """Return the most documents, to two digits, with which a layout reaches all. None: as many as are tried.

    one: the collection, whose number of documents does not count.
    """
    fails = bisect_left(TRIED, True, key=lambda count: bool(layout(one.with_documents(count), case).unmet))
    plan = layout(one.with_documents(TRIED[max(0, fails - 1)]), case)
    known = basis(plan.layout, beyond(plan.part, case))["machines"]
    return {"documents": None if fails == len(TRIED) else TRIED[fails - 1] if fails else 0, "basis": known}


def all_rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return numbers with four significant digits."""
    return {name: rounded(number) for name, number in numbers.items()}


def rounded(number: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{number:.4g}")
