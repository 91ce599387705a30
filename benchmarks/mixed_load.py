"""The load of `benchmarks.mixed`, in a process of its own: a closed loop, and an open loop of mixed requests.

    python -m benchmarks.mixed_load '{"kind": "mixed", "port": 8080, ...}'

It knows the HTTP API alone. Requests of the open loop arrive at random moments (a Poisson process), whether earlier
ones are answered or not, and their time runs from the arrival. The mix itself is `benchmarks.mixture`. Training runs
follow one another; after each is a pause as long as the run. At the end the service gets SIGTERM while requests wait.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from benchmarks.mixture import COLLECTION, Mix, Wanted
from benchmarks.servers.connections import PATIENCE_SECONDS, Connections
from benchmarks.servers.http1 import HOST, LIMIT_BYTES, Answer, BrokenAnswer, read_answer, request
from benchmarks.servers.load import NO_CONNECTION, percentile

CLIENTS = 16
"""Clients of the closed loop."""
MOST_OPEN = 900
"""Requests without an answer. A further request is not sent and counts as late."""
LIVE_SECONDS = 0.25
POLL_SECONDS = 1.0
LEAST_PAUSE_SECONDS = 5.0
FIRST_EVENTS = 100
"""Events before the first training run."""
IN_FLIGHT = {"search": 60, "put": 4, "batch": 1}
"""Requests that are open when the service gets SIGTERM."""
IN_FLIGHT_SECONDS = 0.1
"""From these requests to SIGTERM: the service has read them all."""

TIMES = {"p50_ms": 50, "p99_ms": 99, "max_ms": 100}
RUNS = f"{COLLECTION}/training-runs"


class Tally:
    """The answers of the load. Times are in seconds after its start."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.statuses: dict[str, Counter[str]] = {}
        self.seconds: dict[str, list[float]] = {}
        self.searches: list[tuple[float, float]] = []
        self.live: list[tuple[float, float]] = []
        self.others: list[float] = []
        """Arrivals of the searches with another answer than 200."""
        self.runs: list[dict[str, Any]] = []
        self.late = 0

    def now(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.began

    def add(self, kind: str, begun: float, answer: Answer) -> None:
        """Add an answer to a request that arrived at `begun`."""
        self.statuses.setdefault(kind, Counter())[said(answer)] += 1
        self.seconds.setdefault(kind, []).append(self.now() - begun)
        if kind == "search" and answer.status != 200:
            self.others.append(begun)
        elif kind == "search":
            self.searches.append((begun, self.now() - begun))
        elif kind == "livez" and answer.status == 200:
            self.live.append((begun, self.now() - begun))


def said(answer: Answer) -> str:
    """Return the status of an answer, with the code of its problem."""
    if answer.status == NO_CONNECTION:
        return f"no answer ({answer.body.decode()})"
    if answer.status < 400:
        return str(answer.status)
    try:
        return f"{answer.status} {json.loads(answer.body)['code']}"
    except (ValueError, KeyError, TypeError):
        return str(answer.status)


def times(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the greatest of some durations, in milliseconds."""
    return {name: 1000 * percentile(seconds, share) for name, share in TIMES.items()}


async def closed(port: int, seconds: float, seed: int, documents: int) -> dict[str, Any]:
    """Return the rate of good answers to the mix in a closed loop."""
    tally, mix, connections = Tally(), Mix(seed, documents, "capacity"), Connections(port)

    async def client() -> None:
        while (begun := tally.now()) < seconds:
            await _arrive(connections, tally, mix, begun)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    took = tally.now()
    good = sum(count for counts in tally.statuses.values() for status, count in counts.items() if status[0] == "2")
    return {"rate": good / took, "search_p99_ms": times(tally.seconds["search"])["p99_ms"]}


async def mixed(port: int, pid: int, seconds: float, rate: float, seed: int, documents: int) -> dict[str, Any]:
    """Send the mix for this long, end the service, and return every figure of the load."""
    tally, mix, connections = Tally(), Mix(seed, documents), Connections(port)
    others = [asyncio.create_task(_watch(connections, tally, seconds))]
    others.append(asyncio.create_task(_train(connections, tally, mix, seconds)))
    await _open_loop(connections, tally, mix, seconds, rate)
    await asyncio.gather(*others)
    stop = await _stop(port, pid, mix)
    return {
        "statuses": {kind: dict(counts) for kind, counts in tally.statuses.items()},
        "times": {kind: times(seconds) for kind, seconds in tally.seconds.items()},
        "searches": tally.searches,
        "others": tally.others,
        "live": tally.live,
        "runs": tally.runs,
        "late": tally.late,
        "events": mix.accepted,
        "rejections": dict(mix.rejections),
        "stop": stop,
    }


async def _open_loop(connections: Connections, tally: Tally, mix: Mix, seconds: float, rate: float) -> None:
    rng = random.Random(mix.seed + 1)
    tasks: set[asyncio.Task[None]] = set()
    arrival = rng.expovariate(rate)
    while arrival < seconds:
        await asyncio.sleep(max(0.0, arrival - tally.now()))
        if len(tasks) >= MOST_OPEN:
            tally.late += 1
        else:
            task = asyncio.create_task(_arrive(connections, tally, mix, arrival))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        arrival += rng.expovariate(rate)
    await asyncio.gather(*tasks)


async def _arrive(connections: Connections, tally: Tally, mix: Mix, arrival: float) -> None:
    wanted = mix.next()
    answer = await connections.send(wanted.content)
    tally.add(wanted.kind, arrival, answer)
    mix.see(wanted, answer.status, answer.body)


async def _watch(connections: Connections, tally: Tally, seconds: float) -> None:
    while (begun := tally.now()) < seconds:
        tally.add("livez", begun, await connections.send(request("GET", "/livez")))
        await asyncio.sleep(LIVE_SECONDS)


async def _train(connections: Connections, tally: Tally, mix: Mix, seconds: float) -> None:
    """Start runs one after another. A run that has not ended at the end goes on, and is met by SIGTERM."""
    number = 0
    while tally.now() < seconds:
        if mix.accepted < FIRST_EVENTS:
            await asyncio.sleep(POLL_SECONDS)
            continue
        begun = tally.now()
        answer = await connections.send(request("POST", RUNS, {"seed": number}))
        tally.add("training", begun, answer)
        number += 1
        if answer.status == 202:
            run = await _followed(connections, tally, json.loads(answer.body)["id"], seconds)
            promoted = (run.get("decision") or {}).get("promoted")
            code = (run.get("error") or {}).get("code")
            run = {"begun": begun, "ended": tally.now(), "status": run["status"], "promoted": promoted, "error": code}
            tally.runs.append(run)
        pause = max(LEAST_PAUSE_SECONDS, tally.now() - begun)
        await asyncio.sleep(max(0.0, min(pause, seconds - tally.now())))


async def _followed(connections: Connections, tally: Tally, run_id: str, seconds: float) -> dict[str, Any]:
    run: dict[str, Any] = {"status": "processing"}
    while run["status"] == "processing" and tally.now() < seconds:
        await asyncio.sleep(POLL_SECONDS)
        begun = tally.now()
        answer = await connections.send(request("GET", f"{RUNS}/{run_id}"))
        tally.add("training run shown", begun, answer)
        if answer.status == 200:
            run = json.loads(answer.body)
    return run


async def _stop(port: int, pid: int, mix: Mix) -> dict[str, Any]:
    """Send SIGTERM while requests wait; return the number of them, and their answers."""
    wanted = [getattr(mix, kind)() for kind, count in IN_FLIGHT.items() for _ in range(count)]
    try:
        opened = [await _accepted(port) for _ in wanted]
    except (OSError, EOFError):  # the service has ended before, and its process id may be of another process
        return {"in_flight": 0, "answers": {}, "signalled": time.time()}
    tasks = [asyncio.create_task(_last(one, *connection)) for one, connection in zip(wanted, opened, strict=True)]
    await asyncio.sleep(IN_FLIGHT_SECONDS)
    waiting = [task for task in tasks if not task.done()]
    signalled = time.time()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    answers = Counter(await asyncio.gather(*waiting))
    return {"in_flight": len(waiting), "answers": dict(answers), "signalled": signalled}


async def _accepted(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection on which the service has answered."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=LIMIT_BYTES)
    writer.write(request("GET", "/livez"))
    await read_answer(reader)
    return reader, writer


async def _last(wanted: Wanted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    try:
        writer.write(wanted.content)
        answer = await asyncio.wait_for(read_answer(reader), PATIENCE_SECONDS)
    except (OSError, EOFError, TimeoutError, BrokenAnswer, ValueError) as error:
        answer = Answer(NO_CONNECTION, type(error).__name__.encode(), kept=False)
    writer.close()
    return f"{wanted.kind}: {said(answer)}"


def main() -> None:
    """Make the load that the argument describes, and print its figures as a line of JSON."""
    wanted = json.loads(sys.argv[1])
    kind = wanted.pop("kind")
    load = closed(**wanted) if kind == "closed" else mixed(**wanted)
    print(json.dumps(asyncio.run(load)))


if __name__ == "__main__":
    main()
