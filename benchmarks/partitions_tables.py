"""The tables of the benchmark of partitions."""

from collections.abc import Mapping
from typing import Any

from benchmarks import searchers_tables
from benchmarks.markdown import number, significant, table

NAMES = {"writer": "the writer, all documents", "1": "one partition", "4": "four partitions"}
ROUNDS = {"encode": "reading the query", "retrieve": "candidates and evidence", "attend": "attention", "fields": "hits"}


def split(figures: Mapping[str, Any]) -> str:
    """Return a row for each number of keys."""
    rows = [
        (
            number(one["keys"]),
            number(one["parts"]),
            *(significant(one[name]) for name in ("p50_cpu_ms", "slowest_p50_cpu_ms", "sum_p50_cpu_ms")),
            significant(one["recall"]),
            significant(one["parted_recall"]),
        )
        for one in figures["keys"]
    ]
    times = ("one generation, ms of the processor", "slowest part, ms", "all parts, ms")
    return table(("keys", "parts", *times, "recall@100", "recall@100 of the parts"), rows)


def rates(figures: Mapping[str, Any]) -> str:
    """Return a row for the writer and for each number of partitions."""
    rows = []
    for name, label in NAMES.items():
        found, equal = figures["rates"][name], figures["compared"].get(name)
        mib = figures["mib"].get(name, [])
        rounds = figures["rounds"].get(name)
        rows.append(
            (
                label,
                number(found["per_second"]),
                f"{significant(found['p50_ms'])}, {significant(found['p99_ms'])}",
                ", ".join(significant(rounds[part]) for part in ROUNDS) if rounds else "",
                number(equal["documents"]) if equal else "",
                number(equal["anything"]) if equal else "",
                significant(sum(mib) / len(mib)) if mib else "",
            )
        )
    title = f"{number(figures['documents'])} made documents, encoder {figures['encoder']}"
    times = (
        f"searches/s, {figures['clients']} clients",
        "one client, p50, p99 ms",
        f"{', '.join(ROUNDS.values())}: ms",
    )
    others = ("other documents or logits than the writer", "anything else than the writer", "MiB of a partition")
    return table((title, *times, *others), rows)


def delays(figures: Mapping[str, Any]) -> str:
    """Return a row for each number of partitions."""
    return searchers_tables.delays(figures, NAMES)


def kills(figures: Mapping[str, Any]) -> str:
    """Return the row of the kills."""
    found = figures["kills"]
    counted = [number(found.get(name, 0)) for name in ("kills", "whole", "partial", "wrong", "refused")]
    titles = ("processes killed", "whole answers", "answers that say what they lack", "wrong answers", "refused")
    return table((*titles, "all whole at the end"), [(*counted, "yes" if found["back"] else "no")])
