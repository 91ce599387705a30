"""Renders the results of `benchmarks.session_context` as a Markdown table."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import NONE, number, points, share, table


def logs(figures: Mapping[str, Any]) -> str:
    """Return a row per log and seed: the measure by g, the chosen g, and the gain on held-out queries."""
    tried = sorted({g for runs in figures["logs"].values() for run in runs for g in run["tried"]}, key=float)
    columns = ("sessions of", "lists with context", *(f"g = {g}" for g in tried), "chosen g", "held-out gain, points")
    rows = [
        (
            name,
            number(run["lists"]),
            *(share(run["tried"].get(g)) for g in tried),
            f"{run['chosen']:g}",
            points(run["gain"]) if run["gain"] else NONE,
        )
        for name, runs in figures["logs"].items()
        for run in runs
    ]
    return table(columns, rows)
