"""Summaries and terminal tables of ranking quality, with intervals against ours, and of cost.

Seeds are averaged per query before systems are compared. An interval is of Student's t over queries. That of the mean
over sets is a stratified bootstrap: queries are drawn within each set, and every set has the same weight.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measurements import MEASURES, Found, Measurements
from benchmarks.workbench import mean_over_sets
from index.evaluation.significance import compare

OURS = "trained"
MEAN = "mean of sets"
COSTS = ("learn_seconds", "live_seconds", "cpu_seconds", "peak_mib")


def summary(results: Measurements, names: Sequence[str], systems: Sequence[str], ours: str = OURS) -> dict[str, Any]:
    """Return set -> system -> figures: means, spread over seeds, ours minus the system with its interval, cost, facts.

    `ours_is` is "better" or "worse" where that interval excludes 0, else "".
    """
    return {
        name: {system: _of(results, name, system, ours) for system in _measured(results, [name], systems)}
        for name in names
    }


def over_sets(results: Measurements, names: Sequence[str], systems: Sequence[str], ours: str = OURS) -> dict[str, Any]:
    """Return system -> mean over sets, and ours minus it with its interval, for systems measured on all sets."""
    found: dict[str, dict[str, Any]] = {}
    for system in _measured(results, names, systems):
        means = [results.values(name, system).mean() for name in names]
        found[system] = {"nDCG@10": round(float(np.mean(means)), 4)}
        if system != ours and _measured(results, names, [ours]):
            gaps = [_per_query(results, name, ours) - _per_query(results, name, system) for name in names]
            found[system]["ours_minus"] = mean_over_sets(gaps)
    return found


def print_quality(
    console: Console,
    sets: dict[str, Any],
    means: dict[str, Any],
    systems: Sequence[str],
    ours: str = OURS,
    title: str = "nDCG@10 on the test split",
) -> None:
    """Print nDCG@10 of each system (rows) on each set (columns), and below it ours minus the system, in points."""
    table = Table(title=f"{title}; below: {ours} minus the system, in points, with its 95 % interval")
    for column in ("system", *sets, MEAN):
        table.add_column(column)
    for system in systems:
        cells = [_quality(of.get(system)) for of in [*sets.values(), means]]
        if any(cells):
            table.add_row(system, *cells, end_section=system == ours)
    console.print(table)


def print_found(console: Console, name: str, found: Found, values: Mapping[str, Mapping[str, float]]) -> None:
    """Print the mean, the cost and the facts of one measured system."""
    mean = np.mean(list(values[MEASURES[0]].values()))
    label = f"{name} {found.system}{'' if found.seed is None else f' seed {found.seed}'} {mean:.4f}"
    rounded = {cost: round(value, 2) for cost, value in found.cost.items()}
    console.print(label, json.dumps(rounded), json.dumps(found.facts), markup=False, soft_wrap=True)


def print_cost(console: Console, sets: dict[str, Any], systems: Sequence[str]) -> None:
    """Print the cost of each system's learning on each set, the mean over seeds."""
    table = Table(title="seconds to learn / until live / of processor time / peak MiB of the learning process")
    for column in ("system", *sets):
        table.add_column(column)
    for system in systems:
        cells = [_cost(of.get(system)) for of in sets.values()]
        if any(cells):
            table.add_row(system, *cells)
    console.print(table)


def _of(results: Measurements, name: str, system: str, ours: str) -> dict[str, Any]:
    entries = results.entries(name, system)
    one: dict[str, Any] = {}
    for measure in MEASURES:
        by_seed = results.values(name, system, measure).mean(1)
        one[measure] = round(float(by_seed.mean()), 4)
        if measure == MEASURES[0]:
            one["by_seed"] = [round(float(mean), 4) for mean in by_seed]
            if len(by_seed) > 1:
                one["spread"] = round(float(np.std(by_seed, ddof=1)), 4)
    if system != ours and results.entries(name, ours):
        queries = results.sets[name]["queries"]
        theirs, mine = (dict(zip(queries, _per_query(results, name, which), strict=True)) for which in (system, ours))
        against = compare(MEASURES[0], theirs, mine)
        one["ours_minus"] = [round(value, 4) for value in (against.difference, against.low, against.high)]
        one["ours_is"] = "better" if against.low > 0 else "worse" if against.high < 0 else ""
    for cost in COSTS:
        values = [entry["cost"][cost] for entry in entries.values() if cost in entry["cost"]]
        if values:
            one[cost] = round(float(np.mean(values)), 1)
    facts = {seed: entry["facts"] for seed, entry in entries.items() if entry["facts"]}
    promoted = [each["promoted"] for each in facts.values() if "promoted" in each]
    if promoted:
        one["promoted"] = [sum(promoted), len(promoted)]
    return one | {"facts": facts}


def _per_query(results: Measurements, name: str, system: str) -> Any:
    return results.values(name, system).mean(0)


def _measured(results: Measurements, names: Sequence[str], systems: Sequence[str]) -> list[str]:
    return [system for system in systems if names and all(results.entries(name, system) for name in names)]


def _quality(one: dict[str, Any] | None) -> str:
    if one is None:
        return ""
    spread = one.get("spread")
    text = f"{one['nDCG@10']:.3f}" + (f" ±{spread:.3f}" if spread else "")
    if "ours_minus" in one:
        text += "\n{:+.1f} \\[{:+.1f}, {:+.1f}]".format(*(100 * value for value in one["ours_minus"]))
    return text


def _cost(one: dict[str, Any] | None) -> str:
    if one is None or "live_seconds" not in one:
        return ""
    spent = f"{one['cpu_seconds']:.1f}" if "cpu_seconds" in one else "-"
    memory = f"{one['peak_mib']:.0f}" if "peak_mib" in one else "-"
    return f"{one['learn_seconds']:.1f} / {one['live_seconds']:.1f} / {spent} / {memory}"
