"""The tables of the benchmark of the engines of the database."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import number, significant, table

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def rates(figures: Mapping[str, Any]) -> str:
    """Return a row for each engine."""
    rows = [
        (
            label,
            number(found["documents_per_second"]),
            f"{significant(found['put_p50_ms'])}, {significant(found['put_p99_ms'])}",
            f"{significant(found['search_p50_ms'])}, {significant(found['search_p99_ms'])}",
            number(found["searches_per_second"]),
        )
        for label, found in ((label, figures["engines"][name]) for name, label in NAMES.items())
    ]
    title = f"{number(figures['documents'])} made documents, encoder {figures['encoder']}"
    clients = f"searches/s, {figures['clients']} clients"
    return table((title, "documents/s in batches", "put, p50, p99 ms", "search, p50, p99 ms", clients), rows)


def moves(figures: Mapping[str, Any]) -> str:
    """Return the row of a move there and back."""
    found = figures["moves"]
    equal = "equal" if found["equal"] else "differ"
    rows = [(number(found["rows"]), significant(found["there_seconds"]), significant(found["back_seconds"]), equal)]
    return table(("rows", "to PostgreSQL, s", "back, s", "state hashes"), rows)


def failover(figures: Mapping[str, Any]) -> str:
    """Return a row for each failover."""
    rows = [
        (
            number(found["acknowledged"]),
            number(found["lost"]),
            significant(found["promoted_seconds"]),
            significant(found["writes_seconds"]),
        )
        for found in figures["failovers"]
    ]
    return table(("acknowledged documents", "lost", "promotion reported after, s", "first write after, s"), rows)
