"""What a Ray cluster, and a file to start from, take off the service: encoding, training, starts, a million keys.

    python -m benchmarks.cluster --documents 1000 --start 20000 --keys 1M --out benchmarks/results/cluster.json

All processes share this machine, so a cluster has no more processors than the service alone: this shows what leaves
the process of the writer, what the way over the cluster costs, and that vectors, models and rankings are the same. Ray
listens on all addresses: run it in a network namespace (`benchmarks.ray_process`).
"""

import argparse
import hashlib
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cluster_keys import measure_keys
from benchmarks.cluster_tables import encoding, keys, scaling, starts, training
from benchmarks.growth import parse_sizes
from benchmarks.made_texts import document
from benchmarks.postgres import SMALL, running_server
from benchmarks.ray_process import cluster, deployed, replicas_of
from benchmarks.result_file import add_out, publish
from benchmarks.searchers import process, ranking, searches
from benchmarks.servers.http1 import HOST
from benchmarks.servers.load import ask
from benchmarks.service_process import COLLECTION, fill, processor_seconds

SEED = 7
QUERIES = 100
JUDGED = 80
LOADING = 16
COORDINATORS = 3
"""Clients that load a partition until it gets a second replica."""
LOAD_SECONDS = 75.0
WAYS = {"service": None, "1": 1, "2": 2}
"""Who encodes: the service, or a cluster with so many cores."""
GIVEN = ("SOFTSEEK_RAY_ENCODERS", "SOFTSEEK_RAY_TRAINING", "SOFTSEEK_GENERATION_FILE")
Figures = dict[str, Any]


def main() -> None:
    """Measure encoding, training, starts and keys; print tables and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=1000, help="encoded by the default encoder, in one task")
    parser.add_argument("--start", type=int, default=20_000, help="documents of the searchers that start")
    parser.add_argument("--keys", type=parse_sizes, default=[1_000_000])
    add_out(parser)
    options = parser.parse_args()
    figures: Figures = {"documents": options.documents, "start": options.start}
    with tempfile.TemporaryDirectory() as made, running_server(SMALL) as server:
        folder = Path(made)
        figures["work"] = {way: worked(folder, server.database(f"work_{way}"), way, options.documents) for way in WAYS}
        expected = figures["work"]["service"]
        for one in figures["work"].values():
            one["equal"] = all(one[name] == expected[name] for name in ("rankings", "model"))
        figures["starts"] = started_twice(folder, server.database("starts"), options.start)
        figures["scaling"] = scaled(folder, server.database("starts"))
        figures["keys"] = [measure_keys(folder, server.database(f"keys_{count}"), count) for count in options.keys]
    print(encoding(figures), training(figures), starts(figures), scaling(figures), keys(figures), sep="\n")
    publish(figures, [SEED], options.out)


@contextmanager
def settings(**values: object) -> Iterator[None]:
    """Set variables of the environment that the started processes read."""
    os.environ.update({name: str(value) for name, value in values.items()})
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


def worked(folder: Path, address: str, way: str, documents: int) -> Figures:
    """Return the figures of a task and of a training run, encoded and fitted in this way."""
    cores = WAYS[way]
    given = {"SOFTSEEK_RAY_ENCODERS": cores, "SOFTSEEK_RAY_TRAINING": "true"} if cores else {}
    rng = random.Random(SEED)
    texts = [document(rng, at) for at in range(documents)]
    with (
        settings(**given),
        cluster(cores) if cores else nullcontext(),
        process(folder, f"writer-{way}", None, address, "--role", "writer") as (port, writer),
        httpx.Client(base_url=f"http://{HOST}:{port}", timeout=600) as client,
    ):
        encoded = timed(writer.process.pid, lambda: in_one_task(client, texts))
        judge(client, texts[:JUDGED])
        run: Figures = {}
        trained = timed(writer.process.pid, lambda: run.update(ended_run(client)))
        rankings = [ranking(search(client, one["text"][:40])) for one in texts[:QUERIES]]
        model = client.get(f"{COLLECTION}/models/{run['model_version']}").raise_for_status().json()
    return {
        "encoding": encoded,
        "training": trained | {"train_seconds": run["report"]["train_seconds"]},
        "rankings": digest(rankings),
        "model": digest([model["decision"], {**model["report"], "train_seconds": 0, "peak_memory_bytes": 0}]),
    }


def timed(pid: int, work: Any) -> Figures:
    """Do some work, and return its seconds and the processor seconds of a process without its children."""
    begun, used = time.monotonic(), processor_seconds(pid)
    work()
    return {"seconds": time.monotonic() - begun, "cpu_seconds": processor_seconds(pid) - used}


def in_one_task(client: httpx.Client, texts: Sequence[Figures]) -> None:
    """Post documents, and return when they have their vectors."""
    task = client.post(f"{COLLECTION}/documents", json={"documents": texts}).raise_for_status().json()
    while task["status"] in ("enqueued", "processing"):
        time.sleep(0.05)
        task = client.get(f"/v1/tasks/{task['id']}").raise_for_status().json()
    assert task["status"] == "succeeded", task


def judge(client: httpx.Client, texts: Sequence[Figures]) -> None:
    """Rate a document for words of the middle of its text."""
    judgments = [{"query": one["text"][20:60], "document_id": one["id"], "rating": 4} for one in texts]
    assert client.post(f"{COLLECTION}/judgments", json={"judgments": judgments}).json()["accepted"] == len(texts)


def ended_run(client: httpx.Client) -> Figures:
    """Train, and return the record of the run."""
    asked = {"seed": SEED, "promote": "never"}
    run: Figures = client.post(f"{COLLECTION}/training-runs", json=asked).raise_for_status().json()
    while run["status"] == "processing":
        time.sleep(0.05)
        run = client.get(f"{COLLECTION}/training-runs/{run['id']}").raise_for_status().json()
    assert run["status"] == "succeeded", run["error"]
    return run


def search(client: httpx.Client, query: str) -> bytes:
    return client.post(f"{COLLECTION}/search", json={"q": query, "log": False}).raise_for_status().content


def digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def started_twice(folder: Path, address: str, documents: int) -> Figures:
    """Return the seconds until a searcher answers that makes its indexes of rows, and one that starts from a file."""
    found: Figures = {}
    file = folder / "generation.tar"
    with process(folder, "writer-starts", "hashing", address, "--role", "writer") as (writer, _):
        with httpx.Client(base_url=f"http://{HOST}:{writer}", timeout=600) as client:
            fill(client, documents, SEED)
        with settings(SOFTSEEK_GENERATION_FILE=file):
            for way in ("rows", "file"):
                begun = time.monotonic()
                with process(folder, f"searcher-{way}", "hashing", address, "--role", "searcher") as (port, _):
                    found[way] = time.monotonic() - begun
                    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=60) as client:
                        found[f"answers_{way}"] = digest([ranking(search(client, f"lamp {at}")) for at in range(20)])
                    while not file.exists():  # half a minute after the start
                        time.sleep(0.2)
    found["bytes"] = file.stat().st_size
    found["equal"] = found.pop("answers_rows") == found.pop("answers_file")
    return found


def scaled(folder: Path, address: str) -> Figures:
    """Load a partition that may have two replicas from several coordinators, each of which asks two searches at a time.

    Return the seconds until it has two replicas, and how the answers ended.
    """
    queries = [f"lamp {at}" for at in range(QUERIES)]
    found: Figures = {"clients": LOADING, "coordinators": COORDINATORS, "seconds": None}
    with deployed(folder, address, "hashing", 1, "--most-replicas", "2"), ExitStack() as running:
        ports = []
        for number in range(COORDINATORS):
            name = f"coordinator-scaling-{number}"
            started = process(folder, name, "hashing", address, "--role", "coordinator")
            ports.append(running.enter_context(started)[0])
        begun, done = time.monotonic(), threading.Event()

        def watch() -> None:
            while not done.wait(0.2):
                if found["seconds"] is None and len(replicas_of(0)) == 2:
                    found["seconds"] = time.monotonic() - begun

        watching = threading.Thread(target=watch)
        watching.start()
        load = ask(ports, searches(queries, 400_000), LOADING, LOAD_SECONDS)
        done.set()
        watching.join()
    found["statuses"] = dict(Counter(str(one.status) for one in load.asked))
    return found


if __name__ == "__main__":
    main()
