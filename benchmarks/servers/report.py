"""The report of the servers: a row per system, and ours against the best peer by measure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.servers.systems import INT8, OURS

MIB = 2**20
NONE = "-"


@dataclass(frozen=True)
class Goal:
    """A figure of ours and its goal. best: the system with the best figure of the peers."""

    name: str
    value: float
    goal: str
    met: bool
    best: str = ""


def goals(figures: Mapping[str, Any]) -> list[Goal]:
    """Return ours against the best peer, and against our encoder alone, where both are measured."""
    systems = figures["systems"]
    found = [
        *_against(systems, OURS, "p50 at 1 client", lambda one: one["clients"][1]["p50_ms"], min, 0.4),
        *_against(systems, OURS, "searches/s at 8 clients", lambda one: one["clients"][8]["qps"], max, 5),
        *_against(systems, OURS, "searches/s at 32 clients", lambda one: one["clients"][32]["qps"], max, 5),
        *_against(systems, OURS, "documents/s", lambda one: one["documents_per_second"], max, 2.3),
        *_against(systems, INT8, "documents/s, int8", lambda one: one["documents_per_second"], max, 3),
    ]
    p99 = _figure(systems.get(OURS, {}), lambda one: one["clients"][8]["p99_ms"])
    if p99 is not None:
        found.append(Goal("p99 at 8 clients, ms", p99, "< 20", p99 < 20))
    rate = _figure(systems.get(OURS, {}), lambda one: one["documents_per_second"])
    alone = figures.get("alone", {}).get("our encoder, documents/s")
    if rate is not None and alone:
        found.append(Goal("documents/s over our encoder's alone", rate / alone, ">= 0.95", rate / alone >= 0.95))
    return found


def _against(
    systems: Mapping[str, Any],
    ours: str,
    name: str,
    figure: Callable[[Any], float],
    best: Callable[[Any], tuple[float, str]],
    goal: float,
) -> list[Goal]:
    """Return our figure over the best peer's. The goal is an upper bound if `best` is min, else a lower bound."""
    mine = _figure(systems.get(ours, {}), figure)
    peers = {peer: _figure(one, figure) for peer, one in systems.items() if peer not in (OURS, INT8)}
    theirs = [(value, peer) for peer, value in peers.items() if value is not None]
    if mine is None or not theirs:
        return []
    value, peer = best(theirs)
    ratio = mine / value
    least = best is min
    return [Goal(name, ratio, f"{'<=' if least else '>='} {goal:g}", ratio <= goal if least else ratio >= goal, peer)]


def _figure(one: Mapping[str, Any], figure: Callable[[Any], float]) -> float | None:
    try:
        return figure(one)
    except KeyError:
        return None


def show(figures: Mapping[str, Any]) -> None:
    """Print a row per system, the reasons of failures, and the ratios."""
    console = Console(width=150)
    table = Table(title=f"{figures['documents']:,} documents")
    names = ["documents/s", "p50, p99 ms, 1 client", "searches/s", "at 8 (p99 ms)", "at 32 (p99 ms)"]
    for name in ["", *names, "recall", "MiB (pss)", "disk MiB", "cold start s", "not answered"]:
        table.add_column(name, justify="right" if name else "left")
    for name, one in figures["systems"].items():
        if "failed" not in one:
            table.add_row(name, *_row(one))
    console.print(table)
    for name, one in figures["systems"].items():
        if "failed" in one:
            console.print(f"{name}: not measured: {one['failed']}", markup=False)
    for name, value in figures.get("alone", {}).items():
        console.print(f"alone: {name} {value:.3g}", markup=False)
    ratios = Table("ours over the best peer", "", "goal", "met", "best peer")
    for goal in goals(figures):
        ratios.add_row(goal.name, f"{goal.value:.2f}", goal.goal, "yes" if goal.met else "no", goal.best)
    console.print(ratios)


def _row(one: Mapping[str, Any]) -> list[str]:
    first, eight, many = (one.get("clients", {}).get(clients, {}) for clients in (1, 8, 32))
    both = f"{first['p50_ms']:.1f}, {first['p99_ms']:.1f}" if "p50_ms" in first else NONE
    return [
        _number(one, "documents_per_second", 1, ".1f"),
        both,
        _number(first, "qps", 1, ".0f"),
        *(f"{_number(at, 'qps', 1, '.0f')} ({_number(at, 'p99_ms', 1, '.0f')})" for at in (eight, many)),
        _recall(one),
        _number(one, "pss_bytes", MIB, ".0f"),
        _number(one, "disk_bytes", MIB, ".0f"),
        _number(one, "cold_start_seconds", 1, ".1f"),
        str(sum(sum(at["failures"].values()) for at in one.get("clients", {}).values())),
    ]


def _recall(one: Mapping[str, Any]) -> str:
    for name in ("recall_at_10", "candidates_recall_at_100"):
        if name in one:
            return f"{one[name]:.3f}" + (" @100" if name.endswith("100") else "")
    return NONE


def _number(one: Mapping[str, Any], name: str, unit: float, shape: str) -> str:
    return format(one[name] / unit, shape) if name in one else NONE
