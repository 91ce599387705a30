"""Connections of a load generator that are kept and used again, each by one request at a time."""

import asyncio
import time

from benchmarks.servers.http1 import HOST, LIMIT_BYTES, Answer, BrokenAnswer, read_answer
from benchmarks.servers.load import NO_CONNECTION

PATIENCE_SECONDS = 60.0
IDLE_SECONDS = 2.0
"""A connection that waited longer is not used again: the service may close it at that moment."""


class Connections:
    """Connections to a service on this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, content: bytes) -> Answer:
        """Send a request; the status of the answer is NO_CONNECTION where none comes."""
        writer = None
        try:
            reader, writer = self._kept() or await asyncio.open_connection(HOST, self._port, limit=LIMIT_BYTES)
            writer.write(content)
            answer = await asyncio.wait_for(read_answer(reader), PATIENCE_SECONDS)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, BrokenAnswer, ValueError) as error:
            answer = Answer(NO_CONNECTION, type(error).__name__.encode(), kept=False)
        if answer.kept and writer:
            self._free.append((time.perf_counter(), reader, writer))
        elif writer:
            writer.close()
        return answer

    def close(self) -> None:
        """Close the connections that no request uses."""
        while self._free:
            self._free.pop()[2].close()

    def _kept(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Return the connection that was used last; close connections that waited too long."""
        while self._free and time.perf_counter() - self._free[0][0] > IDLE_SECONDS:
            self._free.pop(0)[2].close()
        return self._free.pop()[1:] if self._free else None
