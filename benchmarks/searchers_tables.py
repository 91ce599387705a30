"""The tables of the benchmark of searchers."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import number, significant, table

NAMES = {
    "sqlite": "the service on SQLite",
    "writer": "the writer on PostgreSQL",
    "1": "one searcher",
    "3": "three searchers",
}


def rates(figures: Mapping[str, Any]) -> str:
    """Return a row for each arrangement."""
    equal = figures["compared"]
    of_three = {part: max(equal[name][part] for name in "123") for part in ("wrong", "weights")}
    same = {"writer": equal["writer"], "1": equal["1"], "3": of_three}
    rows = [
        (
            label,
            number(found["per_second"]),
            f"{significant(found['p50_ms'])}, {significant(found['p99_ms'])}",
            number(same[name]["wrong"]) if name in same else "",
            significant(same[name]["weights"]) if name in same else "",
        )
        for name, label in NAMES.items()
        for found in [figures["rates"][name]]
    ]
    title = f"{number(figures['documents'])} made documents, encoder {figures['encoder']}"
    clients = f"searches/s, {figures['clients']} clients"
    others = ("answers with other documents or logits than SQLite", "largest difference of a weight, relative")
    return table((title, clients, "one client, p50, p99 ms", *others), rows)


def delays(figures: Mapping[str, Any], names: Mapping[str, str] = NAMES) -> str:
    """Return a row for each measured delay. names: of the rows."""
    rows = [
        (
            names[name],
            *(significant(found[part]) for part in ("p50_ms", "p99_ms", "most_ms")),
            number(found["repeated"]),
        )
        for name, found in figures["delays"].items()
    ]
    return table(("a write is in an answer after", "p50, ms", "p99, ms", "most, ms", "503 before that"), rows)


def kills(figures: Mapping[str, Any]) -> str:
    """Return the row of the kills."""
    found = figures["kills"]
    counted = [number(found[name]) for name in ("kills", "answers", "wrong", "refused", "other")]
    title = ("searchers killed", "answers", "wrong answers", "connections refused or cut", "other statuses")
    return table((*title, "largest difference of a weight"), [(*counted, significant(found["weights"]))])
