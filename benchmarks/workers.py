"""What do further processes bring? Searches a second, times, processor time and memory by the number of processes.

    python -m benchmarks.workers --data ../shared/data --out benchmarks/results/workers.json
    python -m benchmarks.workers --made 100000 --out benchmarks/results/workers_of_many.json
    python -m benchmarks.workers --data ../shared/data --prepare FOLDER
    python -m benchmarks.workers --prepared FOLDER --processes 1,12 --clients-each 8 --out benchmarks/results/cores.json

10,000 documents of two sets, as in `benchmarks.serving`, and the converted encoder. A service with each number of
processes answers searches in a closed loop of each number of clients; query texts are made of halves of two queries, so
that few occur twice. `--made` takes that many made documents (`benchmarks.made_texts`) instead, with random vectors,
because their encoding would take most of an hour. `--prepare` writes the documents and texts to a folder instead of
measuring, and `--prepared` measures with such a folder: another machine needs neither the sets nor their encoding. The
numbers of processes take turns. The generator is one process on the same machine; it is the limit where it takes a
whole core. Processor time is of all processes of the service, by /proc. Memory is the proportional set size of the
first process, of a worker, and of the first process and all workers together, after the searches.
"""

import argparse
import json
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
DATA, FACTS = "data", "facts.json"
"""The names in a prepared folder."""
READY_SECONDS = 120
MOST_PER_SECOND = 3_000
MADE_QUERIES = 2000
WARM = 50


def main() -> None:
    """Measure; print a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with one folder per test set")
    parser.add_argument("--made", type=int, help="instead of test sets, the number of made documents")
    parser.add_argument("--prepared", type=Path, help="instead of test sets, a folder that --prepare has written")
    parser.add_argument("--prepare", type=Path, help="write documents and texts to this folder and measure nothing")
    parser.add_argument("--processes", default="1,2,4", help="numbers of processes")
    parser.add_argument("--clients", default="1,8,32", help="numbers of clients")
    parser.add_argument("--clients-each", type=int, help="instead of --clients, the clients of each process")
    parser.add_argument("--seconds", type=float, default=15, help="duration of each load")
    parser.add_argument("--repeats", type=int, default=3)
    add_out(parser)
    options = parser.parse_args()
    numbers = [int(one) for one in options.processes.split(",")]
    clients = [int(one) for one in options.clients.split(",")]
    if bool(options.data) + bool(options.made) + bool(options.prepared) != 1:
        parser.error("one of --data, --made and --prepared is required")
    if options.prepare and options.prepared:
        parser.error("--prepare needs --data or --made")
    if options.prepare:
        write_prepared(options.prepare, options.data, options.made)
        return
    runs: dict[int, list[dict[str, Any]]] = {number: [] for number in numbers}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.prepared
        if folder is None:
            folder = Path(temporary) / "prepared"
            write_prepared(folder, options.data, options.made)
        facts = json.loads((folder / FACTS).read_text())
        log = Path(temporary) / "log"
        for repeat in range(options.repeats):
            for number in numbers if repeat % 2 == 0 else reversed(numbers):
                counts = [number * options.clients_each] if options.clients_each else clients
                found = measure(folder / DATA, log, number, facts["texts"], counts, options.seconds, repeat)
                runs[number].append(found)
    figures = {
        "documents": facts["documents"],
        "processes": [summary(number, found) for number, found in runs.items()],
    }
    print(rates(figures))
    publish(figures, [], options.out)


def write_prepared(folder: Path, sets: Path | None, made: int | None) -> None:
    """Write a data directory, the number of its documents and the texts of queries: of test sets, or made ones."""
    folder.mkdir(parents=True)
    encoder = converted_encoder(DEFAULT_MODEL)
    if made is not None:
        facts = {"documents": fill(folder / DATA, made, encoder), "texts": made_queries()}
    else:
        assert sets is not None
        facts = {"documents": prepare(sets, folder / DATA, encoder), "texts": query_texts(sets)}
    (folder / FACTS).write_text(json.dumps(facts))


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


def measure(
    data: Path, log: Path, processes: int, texts: Sequence[str], clients: Sequence[int], seconds: float, repeat: int
) -> dict[str, Any]:
    """Return the figures of one start of the service."""
    with started(data, None, log, "--port", "0", "--workers", str(processes)) as service:
        port = service.port()
        first = wait_until_ready(port, processes)
        loads = {str(count): load(service, port, texts, count, seconds, repeat) for count in clients}
        memory = [proportional_mib(pid) for pid in pids(service)]
        return {"ready_seconds": first, "loads": loads, "memory_mib": memory}


def load(
    service: ServiceProcess, port: int, texts: Sequence[str], clients: int, seconds: float, repeat: int
) -> dict[str, float]:
    """Return the figures of a load by this many clients."""
    rng = random.Random(f"{repeat} {len(pids(service))} {clients}")
    wanted = [new_text(texts, rng) for _ in range(int(MOST_PER_SECOND * seconds))]
    requests = [request("POST", SEARCH, {"q": text}) for text in wanted]
    warm = WARM * len(pids(service))
    ask(port, requests[:warm], clients, seconds)
    before, own = np.asarray(processor_seconds_of_each(service)), time.process_time()
    found = ask(port, requests[warm:], clients, seconds)
    own = time.process_time() - own
    spent = np.asarray(processor_seconds_of_each(service)) - before
    statuses = Counter(one.status for one in found.asked)
    assert set(statuses) == {200}, statuses
    milliseconds = np.asarray([1000 * one.seconds for one in found.asked])
    return {
        "searches_per_second": len(found.asked) / found.seconds,
        "p50_ms": float(np.percentile(milliseconds, 50)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
        "processor_ms": 1000 * float(spent.sum()) / len(found.asked),
        "first_cores": float(spent[0]) / found.seconds,
        "busiest_worker_cores": float(spent[1:].max(initial=0)) / found.seconds,
        "generator_cores": own / found.seconds,
    }


def processor_seconds_of_each(service: ServiceProcess) -> list[float]:
    """Return the processor time of the first process alone, and of each worker."""
    first, *workers = pids(service)
    below = sum(processor_seconds(child) for child in children(first))
    return [processor_seconds(first) - below, *map(processor_seconds, workers)]


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
