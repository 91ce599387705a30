"""A closed-loop load generator: each client sends its next request as soon as it has its answer.

A load is bounded in requests and in seconds. There is a single process, with a connection per client. Bodies are kept
unread until the load ends, so that the generator uses little of the processor.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.servers.http1 import HOST, LIMIT_BYTES, BrokenAnswer, read_answer

TIMEOUT_SECONDS = 120.0
"""Timeout of a search."""
NO_CONNECTION = 0
"""The status of a request without an answer."""


@dataclass(frozen=True)
class Asked:
    """A request: its position in the list, the seconds until its answer, status (0: none) and body."""

    place: int
    seconds: float
    status: int
    body: bytes


@dataclass(frozen=True)
class Round:
    """All requests of a load, in the order of their answers, and the seconds from the first one's start to the end."""

    asked: list[Asked]
    seconds: float


def ask(
    port: int | Sequence[int],
    requests: Sequence[bytes],
    clients: int,
    seconds: float,
    patience: float = TIMEOUT_SECONDS,
) -> Round:
    """Send the requests by this many clients. None starts after `seconds`; `patience` is the timeout of a request.

    port: of the server, or the ports of several servers, which the clients share.
    """
    ports = [port] if isinstance(port, int) else port
    return asyncio.run(_ask(ports, requests, clients, seconds, patience))


async def _ask(ports: Sequence[int], requests: Sequence[bytes], clients: int, seconds: float, patience: float) -> Round:
    waiting = iter(enumerate(requests))
    asked: list[Asked] = []
    started = time.perf_counter()
    deadline = started + seconds
    of_clients = [ports[at % len(ports)] for at in range(clients)]
    await asyncio.gather(*(_client(port, waiting, deadline, patience, asked) for port in of_clients))
    return Round(asked, time.perf_counter() - started)


async def _client(
    port: int, waiting: Iterator[tuple[int, bytes]], deadline: float, patience: float, asked: list[Asked]
) -> None:
    connection: _Connection | None = None
    try:
        for place, request in waiting:
            begun = time.perf_counter()
            try:
                connection = connection or await _Connection.to(port)
                answer = await asyncio.wait_for(connection.send(request), patience)
                asked.append(Asked(place, time.perf_counter() - begun, answer.status, answer.body))
                kept = answer.kept
            except (OSError, EOFError, asyncio.LimitOverrunError, BrokenAnswer, ValueError) as error:
                asked.append(Asked(place, time.perf_counter() - begun, NO_CONNECTION, repr(error).encode()))
                kept = False
            if not kept and connection:
                connection.close()
                connection = None
            if time.perf_counter() >= deadline:
                return
    finally:
        if connection:
            connection.close()


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> "_Connection":
        return cls(*await asyncio.open_connection(HOST, port, limit=LIMIT_BYTES))

    async def send(self, request: bytes) -> Any:
        self._writer.write(request)
        return await read_answer(self._reader)

    def close(self) -> None:
        self._writer.close()


def summary(done: Round, hits: Callable[[bytes], Sequence[str]]) -> dict[str, Any]:
    """Return percentiles and the rate of good answers, and the failures by reason.

    hits: returns the ids in a body; raises if the body is not an answer to a search.
    """
    failures: Counter[str] = Counter()
    good = []
    for one in done.asked:
        fault = _fault(one, hits)
        if fault:
            failures[fault] += 1
        else:
            good.append(1000 * one.seconds)
    found: dict[str, Any] = {"answers": len(good), "failures": dict(failures)}
    if good:
        found |= {"qps": len(good) / done.seconds, "p50_ms": percentile(good, 50), "p99_ms": percentile(good, 99)}
    return found


def _fault(one: Asked, hits: Callable[[bytes], Sequence[str]]) -> str | None:
    if one.status == NO_CONNECTION:
        return "no answer"
    if one.status != 200:
        return f"status {one.status}"
    try:
        return None if hits(one.body) else "no hits"
    except (ValueError, KeyError, TypeError):
        return "not an answer to a search"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` percent of the values do not exceed."""
    return float(np.percentile(np.asarray(values), share, method="inverted_cdf"))
