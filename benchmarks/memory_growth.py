"""Memory against the number of past queries.

    python -m benchmarks.memory_growth --sources 10k,100k,400k,1M --out benchmarks/results/memory_growth.json

Past queries have the vectors of benchmarks/growth.py and one click each. A separate process measures each size: the
share of memory in a search (`Memory.near`, radius .5) with its index and without, in the same process on the same
memory; the share of the past queries that the index finds; and a click, from the confirmation to the changed memory.
The database, the encoder and the rest of the search are not part of it. A search finds about half of the past queries
of its centre.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import DIM, blocks, parse_sizes, queries
from benchmarks.result_file import add_out, publish
from index.memory.aggregation import Confirmations
from index.memory.confirmation import Confirmation
from index.memory.grades import DecayClock
from index.memory.memory import Memory
from index.ranking.retrieval import MEMORY_RADIUS
from index.records import Floats

CLICKS = 200
NEW = 4500
"""Clicks on new queries: enough to extend the index twice."""
DOCUMENTS = 10_000
WARM = 20


def measure(count: int) -> dict[str, Any]:
    """Return the figures of one size."""
    before = resident_bytes()
    started = time.perf_counter()
    confirmations = Confirmations(DecayClock(0))
    for first, vectors in blocks(count):
        confirmations.change(_click(first + at, vector) for at, vector in enumerate(vectors))
    memory = Memory.of([key for group in confirmations.keys().values() for key in group], DIM)
    figures: dict[str, Any] = {"queries": count, "load_seconds": round(time.perf_counter() - started, 2)}
    figures["bytes_per_query"] = round((resident_bytes() - before) / count)
    indexed, processor, found = _searches(memory)
    exact, _, found_exactly = _searches(replace(memory, sealed=None))
    figures["recall"] = _recall(found, found_exactly)
    figures |= {"search_p50_ms": _quantile(indexed, 50), "search_p99_ms": _quantile(indexed, 99)}
    figures |= {"search_cpu_p50_ms": _quantile(processor, 50), "search_cpu_p99_ms": _quantile(processor, 99)}
    figures |= {
        "exact_p50_ms": _quantile(exact, 50),
        "within": round(float(np.mean([len(one) for one in found_exactly]))),
    }
    again = [_click(count + at, vector, at) for at, vector in enumerate(next(blocks(CLICKS))[1])]
    again = [
        replace(one, vector=next(iter(confirmations.keys([one.query_key])[one.query_key])).vector) for one in again
    ]
    memory, clicks = _write(confirmations, memory, again)
    figures |= {"click_p50_ms": _quantile(clicks, 50), "click_max_ms": _quantile(clicks, 100)}
    fresh = [
        _click(count + CLICKS + at, vector) for at, vector in enumerate(queries()[np.arange(NEW) % len(queries())])
    ]
    memory, clicks = _write(confirmations, memory, fresh)
    figures |= {"new_p50_ms": _quantile(clicks, 50), "new_p99_ms": _quantile(clicks, 99)}
    return figures | {"new_max_ms": _quantile(clicks, 100)}


def _click(number: int, vector: Floats, query: int | None = None) -> Confirmation:
    """Return a click of its own client, on a new query or on one of the first."""
    query_key = f"past query {number if query is None else query}"
    return Confirmation(number, number * 7919 % DOCUMENTS, query_key, vector, 1.0, f"client {number}", 0)


def _searches(memory: Memory) -> tuple[list[float], list[float], list[list[tuple[int, float]]]]:
    """Return the milliseconds and processor milliseconds of each search, and the memory keys and cosines it finds."""
    milliseconds, processor, found = [], [], []
    for query in queries():
        started, used = time.perf_counter(), time.thread_time()
        near, cosine = memory.near(query, MEMORY_RADIUS)
        processor.append(1000 * (time.thread_time() - used))
        milliseconds.append(1000 * (time.perf_counter() - started))
        found.append(list(zip(near.tolist(), cosine.tolist(), strict=True)))
    return milliseconds[WARM:], processor[WARM:], found


def _recall(found: list[list[tuple[int, float]]], wanted: list[list[tuple[int, float]]]) -> float:
    """Return the share of the wanted memory keys that were found. What was found is wanted, with the same bits."""
    assert all(set(mine) <= set(all_of_them) for mine, all_of_them in zip(found, wanted, strict=True))
    return round(sum(map(len, found)) / max(1, sum(map(len, wanted))), 5)


def _write(confirmations: Confirmations, memory: Memory, clicks: list[Confirmation]) -> tuple[Memory, list[float]]:
    """Return the memory after these clicks, one after the other, and the milliseconds of each."""
    milliseconds = []
    for one in clicks:
        started = time.perf_counter()
        memory = memory.changed(confirmations.keys(confirmations.change([one])))
        milliseconds.append(1000 * (time.perf_counter() - started))
    return memory, milliseconds


def _quantile(milliseconds: list[float], percent: float) -> float:
    return round(float(np.percentile(milliseconds, percent)), 3)


def resident_bytes() -> int:
    """Return the resident bytes of this process."""
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmRSS:")]
    return 1024 * int(line.split()[1])


def measure_apart(count: int) -> dict[str, Any]:
    """Return the figures of one size, measured by a process of its own."""
    child = [sys.executable, "-m", "benchmarks.memory_growth", "--only", str(count)]
    output = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=True).stdout
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    print(json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def main() -> None:
    """Measure the sizes one after the other, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sources", type=parse_sizes, default=[10_000, 100_000, 400_000], help="numbers of past queries"
    )
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    add_out(parser)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only)))
        return
    publish({"sizes": [measure_apart(count) for count in options.sources]}, [0], options.out)


if __name__ == "__main__":
    main()
