"""Renders the results of `benchmarks.snapshots` as Markdown tables."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import number, significant, table

MIB = 2**20
SECONDS = {
    "snapshot": "create_seconds",
    "verify": "verify_seconds",
    "restore": "restore_seconds",
    "start of the service": "start_seconds",
    "start of the service after a restore, which rebuilds the indexes": "restored_start_seconds",
    "export": "export_seconds",
    "import": "import_seconds",
}
BYTES = {"database": "database_bytes", "snapshot": "snapshot_bytes", "export": "export_bytes"}
WRITES = {"median": "write_p50_ms", "longest": "write_max_ms"}


def times(figures: Mapping[str, Any]) -> str:
    """Return a row per step, with its seconds, and the sizes and the delays of writes."""
    rows = [(f"{name}, s", significant(figures.get(key))) for name, key in SECONDS.items()]
    rows += [(f"{name}, MiB", number(figures[key] / MIB) if key in figures else "-") for name, key in BYTES.items()]
    rows += [
        (f"a write during the snapshot, ms: {name}", significant(figures.get(key))) for name, key in WRITES.items()
    ]
    return table(("", f"{number(figures.get('documents'))} documents"), rows)


def kills(figures: Mapping[str, Any]) -> str:
    """Return the number of kills, and of equal contents after them."""
    names = {
        "kills": "kills",
        "equal content afterwards": "equal",
        "snapshots that were whole": "whole_snapshots",
        "restores that were whole": "whole_restores",
    }
    rows = [(name, number(figures.get(key))) for name, key in names.items()]
    return table(("", f"{number(figures.get('kill_documents'))} documents"), rows)
