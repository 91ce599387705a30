"""Memory with a limit on its bytes, while more past queries arrive than fit.

    python -m benchmarks.memory_limit --max-mb 200 --sources 100k --out benchmarks/results/memory_limit.json

Past queries have the vectors of benchmarks/growth.py and one click each, every click by a client of its own and later
than the clicks before it. The process is measured when the limit is reached, and when all have arrived: its resident
bytes above the start, the kept and the dropped past queries, and a click from the confirmation to the changed memory.
The log is not part of it: nothing is deleted, so nothing is read back.
"""

import argparse
import time
from itertools import chain
from typing import Any

import numpy as np

from benchmarks.growth import DIM, blocks, parse_sizes
from benchmarks.memory_growth import resident_bytes
from benchmarks.result_file import add_out, publish
from index.memory.aggregation import Confirmations
from index.memory.bounded_memory import BoundedMemory
from index.memory.confirmation import Confirmation
from index.memory.grades import Bounds, DecayClock
from index.memory.memory import Memory
from index.records import Floats

DOCUMENTS = 10_000
MIB = 1 << 20


def measure(count: int, max_bytes: int) -> list[dict[str, Any]]:
    """Return the figures when the first past query is dropped, and when `count` past queries have arrived."""
    vectors = (vector.copy() for _, block in blocks(count) for vector in block)  # a view would hold its whole block
    first = next(vectors)
    before = resident_bytes()
    confirmations = Confirmations(DecayClock(0))
    bounded = BoundedMemory(confirmations, DIM, max_bytes, Bounds(), lambda query_keys: [])
    memory, figures, milliseconds = Memory.of([], DIM), [], list[float]()
    for arrived, vector in enumerate(chain([first], vectors), 1):
        started = time.perf_counter()
        memory = memory.changed(confirmations.keys(bounded.change([_click(arrived, vector)])))
        milliseconds.append(1000 * (time.perf_counter() - started))
        if arrived == count or (not figures and bounded.size.dropped):
            figures.append(_figures(arrived, bounded, resident_bytes() - before, milliseconds))
            milliseconds = []
    return figures


def _figures(arrived: int, bounded: BoundedMemory, resident: int, milliseconds: list[float]) -> dict[str, Any]:
    size = bounded.size
    p50, p99, longest = np.percentile(milliseconds, [50, 99, 100]).round(3).tolist()
    return {
        "arrived": arrived,
        "kept": size.queries,
        "dropped": size.dropped,
        "max_bytes": size.max_bytes,
        "resident_bytes": resident,
        "click_p50_ms": p50,
        "click_p99_ms": p99,
        "click_max_ms": longest,
    }


def _click(number: int, vector: Floats) -> Confirmation:
    row, client = number * 7919 % DOCUMENTS, f"client {number}"
    return Confirmation(number, row, f"past query {number}", vector, 1.0, client, 1000 * number)


def main() -> None:
    """Measure each number of past queries, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-mb", type=int, default=200, help="the limit in MiB")
    parser.add_argument("--sources", type=parse_sizes, default=[100_000], help="the number of past queries that arrive")
    add_out(parser)
    options = parser.parse_args()
    (count,) = options.sources
    publish({"steps": measure(count, options.max_mb * MIB)}, [0], options.out)


if __name__ == "__main__":
    main()
