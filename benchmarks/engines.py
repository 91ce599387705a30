"""SQLite and PostgreSQL as the engine of the database, a move from one to the other, and a failover.

    python -m benchmarks.engines --documents 3000 --rounds 5 --out benchmarks/results/engines.json

Each engine serves the same made documents, twice in turn. PostgreSQL runs on this machine, syncs each commit as SQLite
does, and gets no other settings than a size of its buffers. Then the content of a directory is moved to PostgreSQL and
back. In a failover a client puts one document after the other to a service whose server has a synchronous standby. The
server is killed and the standby promoted at once: the time until an operator's watchdog notices the loss comes on top.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.engines_tables import failover, moves, rates
from benchmarks.made_texts import document
from benchmarks.postgres import SMALL, PostgresServer, running_server, running_standby
from benchmarks.result_file import add_out, publish
from benchmarks.servers.http1 import HOST, request
from benchmarks.servers.load import ask, percentile
from benchmarks.service_process import COLLECTION, fill, started

ENGINES = ("sqlite", "postgresql")
REPEATS = 2
SINGLE = 300
"""Requests of each kind that a single client sends one after the other."""
CLIENTS = 8
LOAD_SECONDS = 5.0
SEED = 7
BEFORE, AFTER = 100, 50
"""Acknowledged documents before the server is killed, and after writes go on."""


class Acknowledged(NamedTuple):
    """A document that a service acknowledged, and the moments of its request and of the answer."""

    name: str
    begun: float
    answered: float


def main() -> None:
    """Measure both engines, moves and failovers; print tables and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5, help="failovers")
    parser.add_argument("--encoder", default="hashing")
    add_out(parser)
    options = parser.parse_args()
    with running_server(SMALL) as server:
        runs = [served(engine, server, options, turn) for turn in range(REPEATS) for engine in ENGINES]
        figures: dict[str, Any] = {
            "documents": options.documents,
            "encoder": options.encoder,
            "clients": CLIENTS,
            "engines": {
                engine: {name: statistics.median(run[name] for run in mine) for name in runs[0] if name != "engine"}
                for engine in ENGINES
                for mine in [[run for run in runs if run["engine"] == engine]]
            },
            "moves": moved(server, options),
        }
    figures["failovers"] = [failed_over(options.encoder) for _ in range(options.rounds)]
    print(rates(figures), moves(figures), failover(figures), sep="\n")
    publish(figures, [SEED], options.out)


def served(engine: str, server: PostgresServer, options: argparse.Namespace, turn: int) -> dict[str, Any]:
    """Return the figures of a service on one engine."""
    database = server.database(f"turn-{turn}") if engine == "postgresql" else None
    found: dict[str, Any] = {"engine": engine}
    with service(options.encoder, database) as (port, client):
        begun = time.perf_counter()
        fill(client, options.documents, SEED)
        found["documents_per_second"] = options.documents / (time.perf_counter() - begun)
        rng = random.Random(SEED)
        queries = [document(rng, at)["text"][:40] for at in range(SINGLE)]
        bodies = [document(rng, options.documents + at) for at in range(SINGLE)]
        found |= {
            **timed("search", [lambda q=q: client.post(f"{COLLECTION}/search", json={"q": q}) for q in queries]),
            **timed("put", [lambda b=b: client.put(f"{COLLECTION}/documents/{b['id']}", json=b) for b in bodies]),
        }
        asked = [request("POST", f"{COLLECTION}/search", {"q": f"{queries[at % SINGLE]} {at}"}) for at in range(20_000)]
        load = ask(port, asked, CLIENTS, LOAD_SECONDS)
        assert {one.status for one in load.asked} == {200}
        found["searches_per_second"] = len(load.asked) / load.seconds
    return found


def timed(name: str, calls: list[Callable[[], httpx.Response]]) -> dict[str, float]:
    """Return the median and the 99th percentile of calls, in milliseconds."""
    times = []
    for call in calls:
        begun = time.perf_counter()
        call().raise_for_status()
        times.append(1000 * (time.perf_counter() - begun))
    return {f"{name}_p50_ms": percentile(times, 50), f"{name}_p99_ms": percentile(times, 99)}


def moved(server: PostgresServer, options: argparse.Namespace) -> dict[str, Any]:
    """Return rows, seconds and state hashes of a move to PostgreSQL and back."""
    address = server.database("moved")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with started(data, options.encoder, Path(folder) / "log") as one, client_of(one.port()) as client:
            fill(client, options.documents, SEED)
        there = move(data, address, None)
        back = move(data, "sqlite", address)
    return {"rows": there["rows"], "equal": there["state"] == back["state"]} | {
        "there_seconds": there["seconds"],
        "back_seconds": back["seconds"],
    }


def move(data: Path, to: str, database: str | None) -> dict[str, Any]:
    """Run `softseek move` and return what it says, with its seconds."""
    command = [sys.executable, "-c", "from service.cli import main; main()", "move"]
    environment = os.environ | ({"SOFTSEEK_DATABASE": database} if database else {})
    begun = time.perf_counter()
    done = subprocess.run(
        [*command, "--to", to, "--data", str(data), "--json"], env=environment, check=True, capture_output=True
    )
    return json.loads(done.stdout) | {"seconds": time.perf_counter() - begun}


def failed_over(encoder: str) -> dict[str, Any]:
    """Kill the server during writes, promote its standby, and return what was lost and how long it took."""
    with running_server(SMALL) as primary, running_standby(primary) as standby:
        primary.database("shop")
        both = f"{HOST}:{primary.port},{HOST}:{standby.port}"
        address = f"postgresql+psycopg://softseek@{both}/shop?target_session_attrs=read-write"
        with service(encoder, address) as (port, client):
            acknowledged: list[Acknowledged] = []
            stopping = threading.Event()
            writer = threading.Thread(target=write, args=(port, acknowledged, stopping))
            writer.start()
            wait_for(acknowledged, BEFORE)
            primary.kill()
            killed = time.perf_counter()
            standby.execute("SELECT pg_promote()")
            promoted = time.perf_counter()
            before = [one for one in acknowledged if one.begun <= killed]
            wait_for(acknowledged, len(before) + AFTER)
            stopping.set()
            writer.join()
            answered = next(one.answered for one in acknowledged if one.begun > killed)
            paths = [f"{COLLECTION}/documents/{one.name}" for one in acknowledged]
            lost = sum(client.get(path).status_code != 200 for path in paths)
    return {
        "acknowledged": len(acknowledged),
        "lost": lost,
        "promoted_seconds": promoted - killed,
        "writes_seconds": answered - killed,
    }


def write(port: int, acknowledged: list[Acknowledged], stopping: threading.Event) -> None:
    """Put one document after the other; note those that were acknowledged."""
    with client_of(port) as client:
        number = 0
        while not stopping.is_set():
            number += 1
            begun = time.perf_counter()
            answer = client.put(f"{COLLECTION}/documents/{number}", json={"text": f"lamp {number}"})
            if answer.is_success:
                acknowledged.append(Acknowledged(str(number), begun, time.perf_counter()))


def wait_for(acknowledged: list[Acknowledged], count: int) -> None:
    """Wait until so many documents are acknowledged."""
    until = time.monotonic() + 60
    while len(acknowledged) < count:
        assert time.monotonic() < until, "writes do not go on"
        time.sleep(0.01)


@contextmanager
def service(encoder: str, database: str | None) -> Iterator[tuple[int, httpx.Client]]:
    """Yield the port of a new service of one process, and a client."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--port", "0", "--workers", "1")
        with started(Path(folder) / "data", encoder, Path(folder) / "log", *options, database=database) as one:
            port = one.port()
            with client_of(port) as client:
                yield port, client


def client_of(port: int) -> httpx.Client:
    """Return a client of a service."""
    return httpx.Client(base_url=f"http://{HOST}:{port}", timeout=600)


if __name__ == "__main__":
    main()
