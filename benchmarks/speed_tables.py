"""Tables of speed and size for the documentation: figures of a stored result in, Markdown or SVG out."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import NONE, at, bold, number, points, share, significant, table, together
from benchmarks.plot import GROWTH, draw

MIB = 2**20
SYSTEM_LABELS = {
    "ours": "Softseek: dense, words, memory, attention",
    "ours, int8 documents": "Softseek, documents encoded in int8",
    "chroma": "Chroma",
    "lancedb": "LanceDB",
    "milvus": "Milvus",
    "txtai-same-encoder": "txtai, with our encoder",
    "pgvector-same-encoder": "pgvector, with our encoder",
}

VERSIONED = {"txtai": "txtai", "chroma": "chromadb", "lancedb": "lancedb", "milvus": "milvus"}
"""System -> the package with its version. The package pgvector is a client, and its version is not the server's."""


def serving_ingest(figures: Mapping[str, Any]) -> str:
    """Return documents per second of ingestion, beside encoders alone."""
    facts = ("documents", "set", "first documents, seconds")
    rows = [[name, number(rate, 1)] for name, rate in figures["ingest"].items() if name not in facts]
    return table(["ingestion", "documents/s"], rows)


def serving_search(figures: Mapping[str, Any]) -> str:
    """Return the latency of a search, and its parts."""
    found = figures["search"]
    parts = [[f"p50 of {name}, ms", significant(value)] for name, value in found.get("p50_parts_ms", {}).items()]
    rows = [
        ["p50, ms", significant(found["p50_ms"])],
        ["p99, ms", significant(found["p99_ms"])],
        *parts,
        ["seconds from start to ready", significant(found.get("start_seconds"))],
    ]
    return table([f"search, {found['documents']:,} documents", "figure"], rows)


def serving_load(figures: Mapping[str, Any]) -> str:
    """Return the latency of searches at rest and during a load."""
    found = figures["load"]
    both = [[significant(at(found, when, name)) for when in ("rest", "load")] for name in ("p50_ms", "p99_ms")]
    rows = [
        ["p50 of a search, ms", *both[0]],
        ["p99 of a search, ms", *both[1]],
        ["p99 over p99 at rest", "", number(found["p99_ratio"], 2)],
        ["documents/s", "", number(found["documents_per_second"], 1)],
    ]
    return table(["while documents are loaded", "at rest", "during a load"], rows)


def microseconds(figures: Mapping[str, Any]) -> str:
    """Return the processor time of each part of a search."""
    rows = [["&nbsp; " * depth + name, number(value)] for depth, name, value in figures["parts"]]
    return table(["part", "µs of the processor"], rows)


def servers(figures: Mapping[str, Any]) -> str:
    """Return a row per system that was measured."""
    rows = []
    for name, one in figures["systems"].items():
        if "failed" in one:
            continue
        first, eight, many = (at(one, "clients", clients) or {} for clients in ("1", "8", "32"))
        cells = [
            _labelled(name, one),
            number(one.get("documents_per_second"), 1),
            f"{number(first.get('p50_ms'), 1)}, {number(first.get('p99_ms'), 1)}" if first else NONE,
            *(f"{number(each.get('qps'))} ({number(each.get('p99_ms'))})" if each else NONE for each in (eight, many)),
            _recall(one),
            *(number(one[size] / MIB if size in one else None) for size in ("pss_bytes", "disk_bytes")),
            number(one.get("cold_start_seconds"), 1),
        ]
        rows.append([bold(cell, name == "ours") for cell in cells])
    columns = ["documents/s", "p50, p99 ms, 1 client", "searches/s, 8 clients (p99 ms)", "32 clients (p99 ms)"]
    return table(["system", *columns, "recall", "MiB", "disk MiB", "cold start s"], rows)


def _labelled(name: str, one: Mapping[str, Any]) -> str:
    package = name.removesuffix("-same-encoder")
    version = at(one, "versions", VERSIONED.get(package, ""))
    return SYSTEM_LABELS.get(name, name) + (f" {version}" if version else "")


def _recall(one: Mapping[str, Any]) -> str:
    if "candidates_recall_at_100" in one:
        return f"{share(one['candidates_recall_at_100'])} @100"
    return share(one.get("recall_at_10"))


def servers_readme(figures: Mapping[str, Any]) -> str:
    """Return the table of README.md, most searches per second first."""
    found = {name: one for name, one in figures["systems"].items() if at(one, "clients", "8", "qps") is not None}
    rows = [
        [
            SYSTEM_LABELS.get(name, name),
            number(one.get("documents_per_second")),
            number(at(one, "clients", "1", "p50_ms"), 1),
            number(at(one, "clients", "8", "qps")),
            number(one["pss_bytes"] / MIB),
            number(one["cold_start_seconds"], 1),
        ]
        for name, one in sorted(found.items(), key=lambda each: -float(each[1]["clients"]["8"]["qps"]))
    ]
    return table(["", "documents/s", "search p50 ms", "searches/s, 8 clients", "MiB", "start s"], rows)


def servers_goals(figures: Mapping[str, Any]) -> str:
    """Return our figures against the goals."""
    rows = [
        [goal["name"], goal["goal"], number(goal["value"], 2), "yes" if goal["met"] else "no", goal["best"] or NONE]
        for goal in figures["goals"]
    ]
    return table(["ours over the best peer, or alone", "goal", "reached", "met", "best peer"], rows)


def servers_encoders(figures: Mapping[str, Any]) -> str:
    """Return the encoders without any server, in the same run."""
    return table(["encoder alone", "figure"], [[name, significant(value)] for name, value in figures["alone"].items()])


GROWTH_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("index", ("index",)),
    ("recall@100: all; a filter that keeps half; a hundredth", ("recall", "half_recall", "hundredth_recall")),
    ("p50 of candidates, ms: all; half; a hundredth", ("p50_ms", "half_p50_ms", "hundredth_p50_ms")),
    ("p99 of candidates, ms", ("p99_ms",)),
    ("searches/s, 2 threads", ("queries_per_second",)),
    ("build in batches of 50,000, s; processor s", ("build_seconds", "build_cpu_seconds")),
    ("bytes per key on disk", ("disk_bytes_per_key",)),
    ("bytes per key in memory: at start; after searches", ("start_bytes_per_key", "memory_bytes_per_key")),
    ("seconds to open", ("start_seconds",)),
    ("insert to visible, ms: the first after a start; median", ("first_insert_ms", "insert_ms")),
    ("a write of 10,000 keys, ms; seconds until it is folded in", ("fold_write_ms", "fold_seconds")),
    ("a write that removes 31 % of the keys, ms; seconds until compact", ("remove_write_ms", "compact_seconds")),
    ("an insert during compaction, ms: median; longest", ("compact_insert_ms", "compact_wait_ms")),
)
INDEX_LABELS = {"Int8Index": "8 bits, refined", "PQ4Index": "4 bits, refined"}


def growth(figures: Mapping[str, Any]) -> str:
    """Return a column per number of keys."""
    sizes = figures["sizes"]
    rows = [
        [label, *(together(*(_growth_cell(one, name) for name in names)) for one in sizes)]
        for label, names in GROWTH_ROWS
    ]
    return table(["keys", *(f"{one['keys']:,}" for one in sizes)], rows)


def _growth_cell(one: Mapping[str, Any], name: str) -> str:
    value = one.get(name)
    if isinstance(value, str):
        return INDEX_LABELS.get(value, value)
    return share(value) if name.endswith("recall") else significant(value)


MEMORY_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("memory in a search, ms: p50; p99", ("search_p50_ms", "search_p99_ms")),
    ("the same in processor time, ms: p50; p99", ("search_cpu_p50_ms", "search_cpu_p99_ms")),
    ("without an index, ms: p50", ("exact_p50_ms",)),
    ("past queries within the radius; share that is found", ("within", "recall")),
    ("a click on a past query, ms: p50; longest", ("click_p50_ms", "click_max_ms")),
    ("a click on a new query, ms: p50; p99; longest", ("new_p50_ms", "new_p99_ms", "new_max_ms")),
    ("seconds to load", ("load_seconds",)),
    ("bytes of a past query", ("bytes_per_query",)),
)


def memory_growth(figures: Mapping[str, Any]) -> str:
    """Return a column per number of past queries."""
    sizes = figures["sizes"]
    rows = [
        [label, *(together(*(significant(one[name]) for name in names)) for one in sizes)]
        for label, names in MEMORY_ROWS
    ]
    return table(["past queries", *(f"{one['queries']:,}" for one in sizes)], rows)


def growth_plot(figures: Mapping[str, Any]) -> str:
    """Return docs/growth.svg."""
    sizes = figures["sizes"]
    return draw("keys", [one["keys"] for one in sizes], sizes, GROWTH)


def scans(figures: Mapping[str, Any]) -> str:
    """Return a row per set of keys and a column per way: processor milliseconds of a search, and recall."""
    sets: Mapping[str, Sequence[Mapping[str, Any]]] = figures["keys"]
    ways = dict.fromkeys(one["way"] for found in sets.values() for one in found)
    rows = []
    for name, found in sets.items():
        by_way = {one["way"]: one for one in found}
        cells = [(significant(at(by_way, way, "p50_ms")), share(at(by_way, way, "recall"))) for way in ways]
        rows.append([name, *(NONE if spent == NONE else f"{spent}, {recall}" for spent, recall in cells)])
    return table([f"keys; {figures['wanted']} wanted", *ways], rows)


def encoding(figures: Mapping[str, Any]) -> str:
    """Return the speed of each runtime of the encoder."""
    rows = []
    for name, one in figures["runtimes"].items():
        beside = [f"query p{share}{' beside documents'}, ms" for share in (50, 99)]
        cells = [number(one["documents/s"], 1), *(number(one[f"query p{part}, ms"], 2) for part in (50, 99))]
        rows.append([name, *cells, ", ".join(number(one[each], 2) for each in beside)])
    beside_label = "p50, p99 ms while documents are encoded"
    return table(["runtime", "documents/s", "query p50 ms", "p99 ms", beside_label], rows)


def precisions(figures: Mapping[str, Any]) -> str:
    """Return nDCG@10 of float32, and the difference of each pair of precisions to it, in points."""
    sets = figures["sets"]
    pairs = list(next(iter(sets.values())))
    rows = []
    for pair in pairs:
        cells = [
            share(one[pair]["nDCG@10"])
            if pair == pairs[0]
            else points([one[pair]["minus fp32"], *one[pair]["interval"]])
            for one in sets.values()
        ]
        rows.append([pair, *cells])
    return table(["precision", *sets], rows)
