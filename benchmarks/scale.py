"""Growth on paper: bytes, cores, machines, cost and latency of large collections, from measured constants.

    python -m benchmarks.scale --out benchmarks/results/scale.json
    python -m benchmarks.scale --documents 30M --keys-each 3 --words 300 --per-second 20 --cores 32 --memory-gib 256

Nothing is measured here. The constants and their sources are in benchmarks/scale_constants.py, the bytes and times of a
collection in scale_model.py, and the layouts in scale_layouts.py. All sizes are computed with the scan times of both
measured processors. Each row says which of its numbers lie within the measured range, which are extrapolated, and how
far; all numbers of partitions are assumed. Prices are parameters.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from benchmarks.result_file import add_out, publish
from benchmarks.scale_constants import Processor, constants, field, value
from benchmarks.scale_layouts import LAYOUTS, Case
from benchmarks.scale_model import Collection, past_queries_within
from benchmarks.scale_rows import Prices, limit, row, size
from benchmarks.scale_tables import costs, layouts, limits, sizes

DOCUMENTS = (100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
MEMORY_MAX_MB = 6144
"""The default of the setting `memory_max_mb` of a collection."""
UNITS = {"k": 10**3, "M": 10**6, "B": 10**9}
MEASURED_IN = {Processor.SLOWER: "growth", Processor.FASTER: "scans"}


def main() -> None:
    """Compute; print tables and a line of JSON."""
    options = _parser().parse_args()
    one = Collection(0, options.keys_each, options.words, past_queries_within(options.memory_max_mb))
    case = Case(options.per_second, options.p50, options.cores, options.memory_gib, options.copies)
    prices = Prices(options.core_hour, options.memory_gib_month, options.disk_gib_month)
    found = figures(options.documents, one, case, prices)
    print(sizes(found), limits(found), sep="\n\n", end="\n\n")
    for processor in Processor:
        print(layouts(processor)(found), costs(processor)(found), sep="\n\n", end="\n\n")
    publish(found, [], options.out)


def default_collection() -> Collection:
    """Return the collection of the defaults, without its documents."""
    keys, words = value("keys of a document"), value("words of a document")
    return Collection(0, keys, words, past_queries_within(MEMORY_MAX_MB))


def figures(
    counts: Sequence[int] = DOCUMENTS,
    one: Collection | None = None,
    case: Case | None = None,
    prices: Prices | None = None,
) -> dict[str, Any]:
    """Return all numbers for these numbers of documents; the defaults are those of the command."""
    one, case, prices = one or default_collection(), case or Case(), prices or Prices()
    cases = {str(processor): replace(case, processor=processor) for processor in Processor}
    wanted = {name: number for name, number in asdict(case).items() if name != "processor"}
    collection = {name: number for name, number in asdict(one).items() if name != "documents"}
    return {
        "case": {**collection, **wanted, **asdict(prices)},
        "processors": {str(name): field(result, "measured/processor") for name, result in MEASURED_IN.items()},
        "constants": [asdict(each) for each in constants()],
        "sizes": [size(one.with_documents(count), case) for count in counts],
        "layouts": {
            name: [
                {"documents": count, **row(layout(one.with_documents(count), each), each, prices)}
                for count in counts
                for layout in LAYOUTS.values()
            ]
            for name, each in cases.items()
        },
        "limits": {
            name: {kind: limit(layout, one, each) for kind, layout in LAYOUTS.items()} for name, each in cases.items()
        },
    }


def parse_counts(text: str) -> list[int]:
    """Return the numbers in a text such as `100k,10M,1B`."""
    return [int(float(part.rstrip("kMB")) * UNITS.get(part[-1], 1)) for part in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    usual, case, prices = default_collection(), Case(), Prices()
    parser.add_argument("--documents", type=parse_counts, default=DOCUMENTS, help="sizes, such as 100k,10M,1B")
    for option, default, text in (
        ("--keys-each", usual.keys_each, "keys of a document, the mean"),
        ("--words", usual.words, "words of a document, the mean"),
        ("--memory-max-mb", MEMORY_MAX_MB, "MiB of past queries in memory, which are full"),
        ("--per-second", case.per_second, "searches per second"),
        ("--p50", case.p50_ms, "milliseconds that half of the searches may take"),
        ("--memory-gib", case.memory_gib, "memory of a machine"),
        ("--core-hour", prices.core_hour, "price of an hour of a core"),
        ("--memory-gib-month", prices.memory_gib_month, "price of a GiB of memory for a month"),
        ("--disk-gib-month", prices.disk_gib_month, "price of a GiB of disk for a month"),
    ):
        parser.add_argument(option, type=float, default=default, help=f"{text}; {default:g} by default")
    parser.add_argument("--cores", type=int, default=case.cores, help="cores of a machine")
    parser.add_argument("--copies", type=int, default=case.least_copies, help="least copies of searchers, partitions")
    add_out(parser)
    return parser


if __name__ == "__main__":
    main()
