"""What do further processes bring? Searches a second, times, processor time and memory by the number of processes.

    python -m benchmarks.workers --data ../shared/data --out benchmarks/results/workers.json
    python -m benchmarks.workers --made 100000 --out benchmarks/results/workers_of_many.json

10,000 documents of two sets, as in `benchmarks.serving`, and the converted encoder. A service with each number of
processes answers searches in a closed loop of 1, 8 and 32 clients; query texts are made of halves of two queries, so
that few occur twice. `--made` takes that many made documents (`benchmarks.made_texts`) instead, with random vectors,
because their encoding would take most of an hour. The numbers of processes take turns. The generator is one process on
the same machine. Processor time is of all processes of the service, by /proc. Memory is the proportional set size of
the first process, of a worker, and of the first process and all workers together, after the searches.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.collections import ingest
from benchmarks.made_texts import document, query
from benchmarks.result_file import add_out, publish
from benchmarks.servers.http1 import request
from benchmarks.servers.load import ask
from benchmarks.service_process import ServiceProcess, children, processor_seconds, started
from benchmarks.serving import prepare, query_texts
from benchmarks.vectors import converted_encoder
from benchmarks.workers_tables import rates
from index.encoding.encoder import Encoder
from index.encoding.model_files import DEFAULT_MODEL
from index.records import Floats
from service.runtime.runtime import Runtime
from service.settings import Settings

SEARCH = "/v1/collections/default/search"
CLIENTS = (1, 8, 32)
READY_SECONDS = 120
MOST_PER_SECOND = 2000
MADE_QUERIES = 2000
WARM = 50


def main() -> None:
    """Measure; print a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with one folder per test set")
    parser.add_argument("--made", type=int, help="instead of test sets, the number of made documents")
    parser.add_argument("--processes", default="1,2,4", help="numbers of processes")
    parser.add_argument("--seconds", type=float, default=15, help="duration of each load")
    parser.add_argument("--repeats", type=int, default=3)
    add_out(parser)
    options = parser.parse_args()
    numbers = [int(one) for one in options.processes.split(",")]
    if bool(options.data) == bool(options.made):
        parser.error("either --data or --made is required")
    texts = made_queries() if options.made else query_texts(options.data)
    runs: dict[int, list[dict[str, Any]]] = {number: [] for number in numbers}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        encoder = converted_encoder(DEFAULT_MODEL)
        documents = fill(data, options.made, encoder) if options.made else prepare(options.data, data, encoder)
        for repeat in range(options.repeats):
            for number in numbers if repeat % 2 == 0 else reversed(numbers):
                runs[number].append(measure(data, Path(folder) / "log", number, texts, options.seconds, repeat))
    figures = {"documents": documents, "processes": [summary(number, found) for number, found in runs.items()]}
    print(rates(figures))
    publish(figures, [], options.out)


class RandomVectors:
    """The default encoder for the checks of a data directory, with random unit vectors for all texts."""

    def __init__(self, encoder: Encoder) -> None:
        self.dim, self.fingerprint, self.precision = encoder.dim, encoder.fingerprint, encoder.precision
        self.cutter, self.words = encoder.cutter, encoder.words
        self._numbers = np.random.default_rng(0)

    def encode(self, texts: Sequence[str], encoded: Callable[[int], None] | None = None) -> Floats:
        """Return unit vectors (len(texts), D). encoded: is called with their number."""
        if encoded:
            encoded(len(texts))
        vectors = self._numbers.standard_normal((len(texts), self.dim), np.float32)
        unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    encode_queries = encode


def fill(data: Path, count: int, encoder: Encoder) -> int:
    """Fill a data directory with made documents; return their number."""
    rng = random.Random(0)
    documents = [document(rng, at) for at in range(count)]
    runtime = Runtime.open(Settings(data=data, log_level="error"), RandomVectors(encoder))
    ingest(runtime, runtime.collection("default"), documents)
    runtime.close()
    return count


def made_queries() -> list[str]:
    """Return distinct made query texts, sorted."""
    rng = random.Random(1)
    return sorted({query(rng)[0] for _ in range(MADE_QUERIES)})


def measure(data: Path, log: Path, processes: int, texts: Sequence[str], seconds: float, repeat: int) -> dict[str, Any]:
    """Return the figures of one start of the service."""
    with started(data, None, log, "--port", "0", "--workers", str(processes)) as service:
        port = service.port()
        first = wait_until_ready(port, processes)
        figures: dict[str, Any] = {"ready_seconds": first, "loads": {}}
        for clients in CLIENTS:
            most = int(MOST_PER_SECOND * seconds)
            wanted = [new_text(texts, random.Random(f"{repeat} {processes} {clients} {at}")) for at in range(most)]
            requests = [request("POST", SEARCH, {"q": text}) for text in wanted]
            ask(port, requests[:WARM], clients, seconds)
            before = processor_seconds(service.process.pid)
            found = ask(port, requests[WARM:], clients, seconds)
            spent = processor_seconds(service.process.pid) - before
            statuses = Counter(one.status for one in found.asked)
            assert set(statuses) == {200}, statuses
            milliseconds = np.asarray([1000 * one.seconds for one in found.asked])
            figures["loads"][str(clients)] = {
                "searches_per_second": len(found.asked) / found.seconds,
                "p50_ms": float(np.percentile(milliseconds, 50)),
                "p99_ms": float(np.percentile(milliseconds, 99)),
                "processor_ms": 1000 * spent / len(found.asked),
            }
        figures["memory_mib"] = [proportional_mib(pid) for pid in pids(service)]
        return figures


def new_text(texts: Sequence[str], rng: random.Random) -> str:
    """Return the first half of the words of one query and the second half of another: few texts occur twice."""
    first, second = rng.choice(texts).split(), rng.choice(texts).split()
    return " ".join(first[: len(first) // 2 + 1] + second[len(second) // 2 :])


def wait_until_ready(port: int, processes: int) -> float:
    """Return the seconds until all workers take connections."""
    began = time.perf_counter()
    while time.perf_counter() - began < READY_SECONDS:
        workers = httpx.get(f"http://127.0.0.1:{port}/readyz").json().get("workers", {"ready": 0})
        if workers["ready"] == processes - 1:
            return time.perf_counter() - began
        time.sleep(0.05)
    raise TimeoutError("the workers are not ready")


def pids(service: ServiceProcess) -> list[int]:
    """Return the processes of a service that answer searches: the first process, then its workers."""
    first = service.process.pid
    return [first, *sorted(worker for spawner in children(first) for worker in children(spawner))]


def proportional_mib(pid: int) -> float:
    """Return the proportional set size of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def summary(processes: int, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of the repeats, and the least and greatest rate."""
    loads = {}
    for clients in found[0]["loads"]:
        each = [one["loads"][clients] for one in found]
        loads[clients] = {name: statistics.median(load[name] for load in each) for name in each[0]}
        loads[clients]["least"] = min(load["searches_per_second"] for load in each)
        loads[clients]["greatest"] = max(load["searches_per_second"] for load in each)
    workers = [mib for one in found for mib in one["memory_mib"][1:]]
    return {
        "processes": processes,
        "loads": loads,
        "ready_seconds": statistics.median(one["ready_seconds"] for one in found),
        "first_mib": statistics.median(one["memory_mib"][0] for one in found),
        "worker_mib": statistics.median(workers) if workers else None,
        "whole_mib": statistics.median(sum(one["memory_mib"]) for one in found),
    }


if __name__ == "__main__":
    main()
