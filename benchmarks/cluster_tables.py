"""The tables of the benchmark of a cluster."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import number, significant, table

WAYS = {"service": "the service", "1": "a cluster with one core", "2": "a cluster with two cores"}
TITLES = ("seconds", "processor seconds of the writer and its processes", "equal to the service's")


def encoding(figures: Mapping[str, Any]) -> str:
    """Return a row for each way to encode."""
    return table((f"{number(figures['documents'])} documents encoded by", *TITLES), _rows(figures, "encoding"))


def training(figures: Mapping[str, Any]) -> str:
    """Return a row for each way to fit."""
    return table(("a run fitted by", *TITLES), _rows(figures, "training"))


def _rows(figures: Mapping[str, Any], work: str) -> list[tuple[str, ...]]:
    return [
        (
            label,
            significant(figures["work"][way][work]["seconds"]),
            significant(figures["work"][way][work]["cpu_seconds"]),
            "yes" if figures["work"][way]["equal"] else "no",
        )
        for way, label in WAYS.items()
    ]


def starts(figures: Mapping[str, Any]) -> str:
    """Return the row of the starts of searchers."""
    found = figures["starts"]
    titles = ("documents", "start from rows, s", "start from a file, s", "MiB of the file", "equal answers")
    row = (
        number(figures["start"]),
        significant(found["rows"]),
        significant(found["file"]),
        number(found["bytes"] / 2**20),
        "yes" if found["equal"] else "no",
    )
    return table(titles, [row])


def scaling(figures: Mapping[str, Any]) -> str:
    """Return the row of a partition under load."""
    found = figures["scaling"]
    answers = ", ".join(f"{number(count)} with {status}" for status, count in sorted(found["statuses"].items()))
    titles = ("coordinators", "clients", "seconds until the second replica", "answers meanwhile and after")
    return table(
        titles, [(number(found["coordinators"]), number(found["clients"]), significant(found["seconds"]), answers)]
    )


def keys(figures: Mapping[str, Any]) -> str:
    """Return a row for each number of keys and partitions."""
    rows = [
        (
            number(one["keys"]),
            count,
            number(one["ready"][count]),
            number(one["rates"][count]["per_second"]),
            f"{significant(one['rates'][count]['p50_ms'])}, {significant(one['rates'][count]['p99_ms'])}",
            significant(one["rounds"][count]["retrieve"]),
            number(sum(one["mib"][count]) / len(one["mib"][count])),
        )
        for one in figures["keys"]
        for count in one["rates"]
    ]
    titles = ("keys", "partitions", "seconds until they answer", "searches/s, 9 clients", "one client, p50, p99 ms")
    return table((*titles, "of it candidates and evidence, ms", "MiB of a partition"), rows)
