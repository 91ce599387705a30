"""The server of a service with workers: accepts the connections of all processes, and serves its own share."""

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Any

import structlog
import uvicorn
from starlette.concurrency import run_in_threadpool

from service.http.server import DRAIN_SECONDS
from service.workers.accepting import AcceptingServer
from service.workers.supervisor import Workers

PAUSE_SECONDS = 0.1
"""Time after a connection could not be accepted, such as for too many open files."""
MOST_AT_ONCE = 64
"""Connections that are accepted before the event loop does anything else."""
log = structlog.get_logger()


class SharedServer(AcceptingServer):
    """listening: the socket of the clients. internal: the Unix socket of the workers."""

    def __init__(
        self, config: uvicorn.Config, listening: socket.socket, internal: socket.socket, workers: Workers
    ) -> None:
        super().__init__(config)
        self._listening, self._internal, self._workers = listening, internal, workers

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[self._internal])
        await run_in_threadpool(self._workers.start)
        self._listening.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accepting.cancel()
        self._listening.close()
        connections: Any = self.config.http_protocol_class
        connections.stop()  # workers wait for the streams that they pass on
        begun = time.monotonic()
        await run_in_threadpool(self._workers.stop)
        left = DRAIN_SECONDS - (time.monotonic() - begun)
        self.config.timeout_graceful_shutdown = max(1, round(left))
        await super().shutdown(sockets=[self._internal])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("not_accepted", reason=str(error))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            await self._place(connection)
            for further in self._waiting():
                await self._place(further)

    def _waiting(self) -> Iterator[socket.socket]:
        """Yield connections that are there already: a turn of the event loop for each takes long while it is busy."""
        for _ in range(MOST_AT_ONCE):
            try:
                yield self._listening.accept()[0]
            except OSError:  # none is there, or the next turn reports the reason
                return

    async def _place(self, connection: socket.socket) -> None:
        if not self._workers.hand_over(connection):
            await self.serve_connection(connection)
