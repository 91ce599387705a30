"""The tables of growth on paper."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.markdown import NONE, bold, number, significant, table

MARKS = {"measured range": "", "extrapolated": " (e)", "assumed": " (a)"}
NAMES = {
    "one process": "(a) one process",
    "workers": "(b) workers",
    "searchers": "(c) searchers",
    "partitions": "(d) partitions",
}


def constants(figures: Mapping[str, Any]) -> str:
    """Return a row for each constant."""
    rows = [
        (
            one["name"] if one["at"] is None else f"{one['name']}: {number(one['at'])} {one['of']}",
            f"{significant(one['value'])} {one['unit']}",
            one["kind"],
            one["source"],
        )
        for one in figures["constants"]
    ]
    return table(("constant", "value", "known", "source"), rows)


def sizes(figures: Mapping[str, Any]) -> str:
    """Return a row for each number of documents: the memory of a process with all of them, and the disk, in GiB."""
    parts = list(figures["sizes"][0]["memory_gib"])
    rows = [
        (
            number(one["documents"]),
            *(significant(one["memory_gib"][part]) for part in parts),
            bold(significant(sum(one["memory_gib"].values()))),
            significant(one["database_gib"]),
            significant(one["index_gib"]),
            significant(one["encoding_core_hours"]),
            _beyond(one),
        )
        for one in figures["sizes"]
    ]
    more = ("all in memory", "database", "index files", "core-hours to encode", "beyond what was measured")
    return table(("documents; GiB", *parts, *more), rows)


def layouts(processor: str) -> Callable[[Mapping[str, Any]], str]:
    """Return the table of times and processes, with the scan times of one of the processors."""

    def rendered(figures: Mapping[str, Any]) -> str:
        rows = [_layout_cells(one) for one in figures["layouts"][processor]]
        title = f"documents; {processor} processor, {figures['processors'][processor]}"
        numbers = ("p50, ms", "searches/s", "busy cores", "GiB of a process", "minutes to build an index again")
        return table((title, "layout", "reaches all", "processes", *numbers, "beyond what was measured"), rows)

    return rendered


def costs(processor: str) -> Callable[[Mapping[str, Any]], str]:
    """Return the table of machines and costs of the layouts whose processes fit into a machine."""

    def rendered(figures: Mapping[str, Any]) -> str:
        found = figures["layouts"][processor]
        rows = [_cost_cells(one, one is _cheapest(found, one["documents"])) for one in found if _fits(one)]
        title = f"documents; {processor} processor"
        months = ("core-hours a month", "GiB-months of memory", "of disk", "cost a month")
        return table((title, "layout", "reaches all", "machines", "GiB in memory", *months), rows)

    return rendered


def limits(figures: Mapping[str, Any]) -> str:
    """Return the most documents with which each layout reaches all, by processor."""
    found = figures["limits"]
    rows = [(name, *(_limit(of_one[layout]) for of_one in found.values())) for layout, name in NAMES.items()]
    return table(("most documents", *(f"{name} processor" for name in found)), rows)


def _limit(found: Mapping[str, Any]) -> str:
    count = "no limit in the model" if found["documents"] is None else number(found["documents"])
    return count + MARKS[found["basis"]]


def _beyond(one: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {significant(times)}x" for name, times in one["beyond"].items()) or NONE


def _cheapest(rows: Sequence[Mapping[str, Any]], documents: int) -> Mapping[str, Any] | None:
    """Return the first of the cheapest rows with so many documents that reach all."""
    able = [one for one in rows if one["documents"] == documents and not one["unmet"]]
    return min(able, key=lambda one: one["cost"], default=None)


def _fits(one: Mapping[str, Any]) -> bool:
    return "memory" not in one["unmet"]


def _cell(one: Mapping[str, Any], name: str) -> str:
    return significant(one[name]) + MARKS[one["basis"][name]]


def _reached(one: Mapping[str, Any]) -> str:
    return f"no: {', '.join(one['unmet'])}" if one["unmet"] else "yes"


def _layout_cells(one: Mapping[str, Any]) -> tuple[str, ...]:
    processes = number(one["processes"])
    if one["partitions"] > 1:
        processes = f"{number(one['partitions'])} partitions, {one['processes'] // one['partitions']} copies"
    return (
        number(one["documents"]),
        NAMES[one["layout"]],
        _reached(one),
        processes if _fits(one) else NONE,
        _cell(one, "p50_ms"),
        _cell(one, "per_second") if _fits(one) else NONE,
        *(_cell(one, name) for name in ("cores", "process_gib", "build_minutes")),
        _beyond(one),
    )


def _cost_cells(one: Mapping[str, Any], is_cheapest: bool) -> tuple[str, ...]:
    return (
        number(one["documents"]),
        NAMES[one["layout"]],
        _reached(one),
        number(one["machines"]) + MARKS[one["basis"]["machines"]],
        _cell(one, "memory_gib"),
        number(one["core_hours_a_month"]),
        number(one["memory_gib_months"]),
        _cell(one, "disk_gib"),
        bold(_cell(one, "cost"), is_cheapest),
    )
