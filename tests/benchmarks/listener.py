"""A small server for tests of load generators, in a thread of the test."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.servers.http1 import HOST
from tests.service.client import DEADLINE_SECONDS

Speak = Callable[[str], bytes | None]


class Listener:
    """A small server: it sends the answer of a path, or closes the connection if the answer is None."""

    def __init__(self, speak: Speak) -> None:
        self._speak = speak
        self.asked: Counter[str] = Counter()
        self.connections = 0
        self.port = 0

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._connection, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await stop.wait()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await reader.read(4096):  # requests have no body and come sequentially
            path = head.split()[1].decode()
            self.asked[path] += 1
            said = self._speak(path)
            if said is None:
                break
            writer.write(said)
        writer.close()


@contextmanager
def listening(speak: Speak) -> Iterator[Listener]:
    listener, ready, loop = Listener(speak), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(listener.serve(ready, stop)))
    thread.start()
    try:
        assert ready.wait(DEADLINE_SECONDS)
        yield listener
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(DEADLINE_SECONDS)


@contextmanager
def refusing() -> Iterator[int]:
    """Yield a port of which no process takes connections, also no process that is started meanwhile."""
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        yield bound.getsockname()[1]


def said(body: str, status: int = 200) -> bytes:
    return f"HTTP/1.1 {status} Whatever\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
