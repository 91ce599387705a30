"""A real server on a loopback port, for tests of the HTTP protocol itself."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from service.app import create_app
from service.http.connection import Patience, bounded
from service.settings import Settings
from tests.service.client import DEADLINE_SECONDS

Server = tuple[int, FastAPI]
"""The port and the application of a server."""


def connected(server: Server) -> socket.socket:
    """Return a connection to a server."""
    return socket.create_connection(("127.0.0.1", server[0]), DEADLINE_SECONDS)


def closed(client: socket.socket) -> bool:
    """Return whether the server closes the connection without another byte."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


@contextmanager
def served(data: Path, patience: Patience | None = None, **settings: Any) -> Iterator[int]:
    """Yield the port of a server on this data directory, with the hashing encoder."""
    with server_of(data, patience, **settings) as (port, _):
        yield port


@contextmanager
def server_of(data: Path, patience: Patience | None = None, **settings: Any) -> Iterator[Server]:
    """Yield the port and the application of a server."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = create_app(Settings(encoder="hashing", data=data, log_level="warning", **settings))
        protocol = bounded(patience or Patience(), lambda: app.state.runtime.search_pool.free_places)
        server = uvicorn.Server(uvicorn.Config(app, loop="uvloop", http=protocol, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until = time.monotonic() + DEADLINE_SECONDS
        while not server.started:
            assert thread.is_alive(), "the server ended"
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.01)
        try:
            yield listening.getsockname()[1], app
        finally:
            server.should_exit = True
            thread.join()
