"""The server of a service with workers: accepts the connections of all processes, and serves its own share."""

import asyncio
import socket

import structlog
import uvicorn
from starlette.concurrency import run_in_threadpool

from service.workers.accepting import AcceptingServer
from service.workers.supervisor import Workers

PAUSE_SECONDS = 0.1
"""Time after a connection could not be accepted, such as for too many open files."""
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
        await run_in_threadpool(self._workers.stop)
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
            if not self._workers.hand_over(connection):
                await self.serve_connection(connection)
