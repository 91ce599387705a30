"""The table of the benchmark of worker processes."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import number, significant, table

CORES = ("first_cores", "busiest_worker_cores", "generator_cores")


def rates(figures: Mapping[str, Any]) -> str:
    """Return a row for each number of processes and of clients."""
    rows = []
    for one in figures["processes"]:
        for clients, load in one["loads"].items():
            rows.append(
                (
                    str(one["processes"]),
                    clients,
                    significant(load["searches_per_second"]),
                    f"{significant(load['least'])} to {significant(load['greatest'])}",
                    significant(load["p50_ms"]),
                    significant(load["p99_ms"]),
                    significant(load["processor_ms"]),
                    *(significant(load.get(name)) for name in CORES),
                    number(one["first_mib"]),
                    "-" if one["worker_mib"] is None else number(one["worker_mib"]),
                    number(one.get("whole_mib")),
                    significant(one["ready_seconds"]) if one["processes"] > 1 else "-",
                )
            )
    head = (
        "processes", "clients", "searches/s, median", "range", "p50, ms", "p99, ms", "processor ms a search",
        "cores of the first process", "of the busiest worker", "of the generator",
        "memory of the first process, MiB", "of each worker, MiB", "of all, MiB",
        "seconds until all are ready",
    )  # fmt: skip
    return table(head, rows)
