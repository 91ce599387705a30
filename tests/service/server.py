"""A real server on a loopback port, for tests of the HTTP protocol itself."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from service.app import create_app
from service.settings import Settings
from tests.service.client import DEADLINE_SECONDS


@contextmanager
def served(data: Path) -> Iterator[int]:
    """Yield the port of a server on this data directory, with the hashing encoder."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = create_app(Settings(encoder="hashing", data=data, log_level="warning"))
        server = uvicorn.Server(uvicorn.Config(app, loop="uvloop", http="httptools", log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until = time.monotonic() + DEADLINE_SECONDS
        while not server.started:
            assert thread.is_alive(), "the server ended"
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.01)
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
