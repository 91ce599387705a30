"""A worker process: takes connections that are handed over, and answers until it is told to end or is left alone."""

import asyncio
import itertools
import os
import signal
import socket
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response
from threadpoolctl import threadpool_limits

from index.encoding.encoder import Encoder, load_encoder
from index.filters.parser import build_parser
from service.app import create_worker_app
from service.http.connection import Patience, bounded
from service.http.metrics import samples
from service.http.request_counter import NOT_MIRRORED
from service.http.server import server_config
from service.runtime.arenas import give_back_free_memory
from service.runtime.garbage import leave_out_what_exists
from service.runtime.log_lines import configure_logging
from service.settings import Settings
from service.storage.database import ENCODERS
from service.workers.accepting import AcceptingServer
from service.workers.cells import Cells
from service.workers.channels import CELLS_FILE, FEED, READY, Start, receive_connection
from service.workers.dispatch import Dispatch
from service.workers.forwarding import Forwarding
from service.workers.messages import Outbox
from service.workers.mirrored_collection import NotMirrored
from service.workers.worker_runtime import WorkerRuntime

REPORT_SECONDS = 1.0
GIVE_BACK_REPORTS = 30
"""Reports between two returns of free memory: as often as the housekeeping of the service returns it."""


class WorkerServer(AcceptingServer):
    """Serves the connections of a channel. It ends when the channel does, because its service has ended."""

    def __init__(self, config: uvicorn.Config, channel: socket.socket, runtime: WorkerRuntime) -> None:
        super().__init__(config)
        self._channel, self._runtime = channel, runtime
        channel.setblocking(False)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        asyncio.get_running_loop().add_reader(self._channel, self._take)
        self._reporting = asyncio.create_task(self._report())
        self._runtime.outbox.send(READY)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._channel)
        self._reporting.cancel()
        await super().shutdown(sockets=[])

    def _take(self) -> None:
        try:
            connection = receive_connection(self._channel)
        except BlockingIOError:
            return
        if connection is None:
            os._exit(0)  # the service has ended without a word: nothing is left to answer from
        self._serving = asyncio.ensure_future(self.serve_connection(connection))

    async def _report(self) -> None:
        for number in itertools.count():
            await asyncio.sleep(REPORT_SECONDS)
            uses = self._runtime.keyring.last_uses()
            self._runtime.outbox.send({"metrics": samples(), "uses": uses})
            if number % GIVE_BACK_REPORTS == 0:
                await asyncio.to_thread(give_back_free_memory)


def run(start: Start, settings: Settings, encoder: Encoder | None = None) -> None:
    """Run a worker until it is told to end. encoder: of the settings; None loads it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the service ends its workers in order
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    configure_logging(settings.log_level)
    threadpool_limits(1, user_api="blas")
    folder = Path(start.folder)
    cells = Cells(folder / CELLS_FILE)
    outbox = Outbox(socket.socket(fileno=start.messages))
    encoder = encoder or load_encoder(settings.encoder, settings.encoder_precision, settings.data / ENCODERS)
    runtime = WorkerRuntime(settings, folder / FEED, cells, start.worker, outbox, encoder)
    runtime.follow()
    forwarding = Forwarding(Path(start.address))
    app: FastAPI = create_worker_app(settings, runtime)
    app.add_exception_handler(NotMirrored, _pass_on)
    build_parser()  # otherwise the first filter waits for it
    patience = Patience(start.max_connections)
    connections = bounded(patience, lambda: runtime.search_pool.free_places, lambda: cells.count_closed(start.worker))
    config = server_config(Dispatch(app, forwarding, lambda: runtime), connections)
    server = WorkerServer(config, socket.socket(fileno=start.connections), runtime)
    leave_out_what_exists()
    server.run()
    runtime.close()


async def _pass_on(request: Request, error: Exception) -> Response:
    return Response(status_code=NOT_MIRRORED)
