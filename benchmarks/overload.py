"""Does the service keep its throughput beyond its capacity?

    python -m benchmarks.overload --seconds 60 --out benchmarks/results/overload.json

A service with a small collection runs in a process of its own. Each load comes from another process. Capacity is the
rate of answers in a closed loop of as many clients as searches may run and wait: the mean of a loop before the overload
and one after it, since the speed of a shared machine changes within minutes. In between searches arrive at ten times
the rate of the first loop, whether earlier ones are answered or not. Goodput is the rate of answers with status 200.
Then impatient clients close their connection after three tenths or one tenth of a second and try again at once; an
answer counts if it came before. `/livez` is asked ten times a second during each load.

With `--cores 2` the service has two cores of the machine, and each load comes from the other cores, as from another
machine: then the generator takes nothing from the service.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from benchmarks.overload_tables import loads
from benchmarks.result_file import add_out, publish
from benchmarks.servers.http1 import HOST, read_answer, request
from benchmarks.servers.load import percentile
from benchmarks.servers.open_loop import open_loop
from benchmarks.service_process import started

DOCUMENTS = 2_000
CLIENTS = 66
IMPATIENT_CLIENTS = 256
PATIENCE_SECONDS = {"impatient": 0.3, "very_impatient": 0.1}
"""Load -> the time after which a client leaves."""
FACTOR = 10
MOST_OPEN = 900
"""Requests of the open loop without an answer. A further request is not sent and counts as late."""
LIVE_SECONDS = 0.1
DOCUMENTS_PATH = "/v1/collections/default/documents"
SEARCH = "/v1/collections/default/search"
WORDS = ("kettle", "bowl", "copper", "blue", "garden", "winter", "paper", "lamp", "river", "small")


def main() -> None:
    """Measure capacity, overload, impatient clients and the time afterwards; print a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of each load")
    parser.add_argument("--encoder", help="the encoder of the service, such as hashing")
    parser.add_argument("--cores", type=int, help="cores of the service; the loads come from the others")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    add_out(parser)
    options = parser.parse_args()
    if options.load:
        print(json.dumps(asyncio.run(_load(**json.loads(options.load)))))
        return
    rest = None if options.cores is None else take_cores(options.cores)
    with service(options.encoder) as port:
        if rest:
            os.sched_setaffinity(0, rest)
        figures = measure(port, options.seconds) | {"service_cores": options.cores}
    print(loads(figures))
    publish(figures, [], options.out)


def take_cores(count: int) -> set[int]:
    """Restrict this process, and those that it starts, to so many of its cores; return the others.

    Raises SystemExit if there is no other.
    """
    usable = sorted(os.sched_getaffinity(0))
    if not 0 < count < len(usable):
        raise SystemExit(f"--cores: 1 to {len(usable) - 1}, since this process may use {len(usable)} cores")
    os.sched_setaffinity(0, usable[:count])
    return set(usable[count:])


def measure(port: int, seconds: float) -> dict[str, Any]:
    """Return the figures of each load by its name."""
    closed = load_of(port, "closed", seconds, clients=CLIENTS)
    figures = {"seconds": seconds, "closed": closed}
    figures["overload"] = load_of(port, "open", seconds, rate=FACTOR * closed["goodput"])
    time.sleep(5)
    figures["afterwards"] = load_of(port, "closed", seconds, clients=CLIENTS)
    for name, patience in PATIENCE_SECONDS.items():
        figures[name] = load_of(port, "closed", seconds, clients=IMPATIENT_CLIENTS, patience=patience)
    return figures


def load_of(port: int, kind: str, seconds: float, **more: float) -> dict[str, Any]:
    """Return the figures of a load that a process of its own makes."""
    wanted = json.dumps({"port": port, "kind": kind, "seconds": seconds, **more})
    command = [sys.executable, "-m", "benchmarks.overload", "--load", wanted]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


@contextmanager
def service(encoder: str | None) -> Iterator[int]:
    """Yield the port of a service with DOCUMENTS documents."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder) / "data", encoder, Path(folder) / "log") as one:
        port = one.port()
        with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=600) as client:
            for first in range(0, DOCUMENTS, 500):
                batch = [{"id": str(at), "text": text_of(at)} for at in range(first, first + 500)]
                client.post(f"{DOCUMENTS_PATH}?wait=600", json={"documents": batch}).raise_for_status()
        yield port


def text_of(number: int) -> str:
    """Return a short text. Its words depend on the number alone."""
    return " ".join(WORDS[(number // 7**place) % len(WORDS)] for place in range(4)) + f" number{number}"


class Tally:
    """The answers of a load."""

    def __init__(self) -> None:
        self.good: list[float] = []
        self.refused: list[float] = []
        self.late = 0
        self.failed = 0
        self.live: list[float] = []

    def add(self, status: int, seconds: float) -> None:
        """Add an answer."""
        if status == 200:
            self.good.append(seconds)
        elif status in (429, 503):
            self.refused.append(seconds)
        else:
            self.failed += 1

    def figures(self, seconds: float) -> dict[str, Any]:
        """Return the figures of the load."""
        return {
            "goodput": len(self.good) / seconds,
            "good_p99_ms": 1000 * percentile(self.good, 99) if self.good else None,
            "refused": len(self.refused) / seconds,
            "refused_p99_ms": 1000 * percentile(self.refused, 99) if self.refused else None,
            "late": self.late,
            "failed": self.failed,
            "live_max_ms": 1000 * max(self.live, default=0.0),
        }


async def _load(
    port: int, kind: str, seconds: float, clients: int = 0, rate: float = 0.0, patience: float = 60.0
) -> dict[str, Any]:
    tally, numbers = Tally(), count()
    until = time.perf_counter() + seconds
    watch = asyncio.create_task(_watch(port, until, tally))
    if kind == "open":
        await _open_loop(port, rate, seconds, tally)
    else:
        await asyncio.gather(*(_client(port, until, patience, tally, numbers) for _ in range(int(clients))))
    await watch
    return tally.figures(seconds) | {"generator_cores": time.process_time() / seconds}


async def _watch(port: int, until: float, tally: Tally) -> None:
    while time.perf_counter() < until:
        begun = time.perf_counter()
        await _ask(port, request("GET", "/livez"))
        tally.live.append(time.perf_counter() - begun)
        await asyncio.sleep(LIVE_SECONDS)


async def _open_loop(port: int, rate: float, seconds: float, tally: Tally) -> None:
    """Send searches at a fixed rate, each on a connection that no other request uses at the time."""
    done = await asyncio.to_thread(open_loop, port, _search, rate, seconds, MOST_OPEN)
    for status, times in done.seconds.items():
        for one in times:
            tally.add(status, one)
    tally.late += done.late


async def _client(port: int, until: float, patience: float, tally: Tally, numbers: Iterator[int]) -> None:
    """Search again and again. After `patience` seconds without an answer, close the connection and try again."""
    connection: Any = None
    while (begun := time.perf_counter()) < until:
        try:
            connection = connection or await asyncio.open_connection(HOST, port)
            connection[1].write(_search(next(numbers)))
            found = await asyncio.wait_for(read_answer(connection[0]), patience)
            tally.add(found.status, time.perf_counter() - begun)
            if found.status != 200:
                await asyncio.sleep(patience if patience < 1 else 0)
            kept = found.kept
        except (OSError, EOFError, TimeoutError):
            tally.late += 1
            kept = False
        if not kept and connection:
            with suppress(OSError):
                connection[1].close()
            connection = None


def _search(number: int) -> bytes:
    return request("POST", SEARCH, {"q": f"{text_of(number)} {number}", "log": False})


async def _ask(port: int, content: bytes) -> None:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(content)
    await read_answer(reader)
    writer.close()


if __name__ == "__main__":
    main()
