"""Event streams send every step of a training run, and end when the service stops, however long the run goes on."""

import asyncio
import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from service.http.connection import Patience, bounded
from service.http.server import server_config
from service.training import actions, routes
from service.workers import shared_server
from service.workers.shared_server import SharedServer
from tests.service.client import DEFAULT, opened
from tests.service.server import connected, server_of

STREAM = f"GET {DEFAULT}/training-runs/r/stream HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
STEP = b"event: step\n"


def read_to_end(client: socket.socket) -> bytes:
    read = b""
    with client:
        while part := client.recv(65_536):
            read += part
    return read


def test_the_stream_of_a_run_ends_in_order_when_the_service_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record = {"id": "r", "status": "processing", "steps": [{"phase": "fit"}]}
    monkeypatch.setattr(actions, "show", lambda *_: record)
    with ThreadPoolExecutor() as pool:
        with server_of(tmp_path / "data") as server:
            client = connected(server)
            client.sendall(STREAM)
            read = b""
            while STEP not in read:
                read += client.recv(65_536)
            rest = pool.submit(read_to_end, client)
        assert (read + rest.result()).endswith(b"\r\n0\r\n\r\n")
    assert "Exception" not in caplog.text


def test_a_stream_sends_the_last_count_of_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, counted, fit = {"phase": "examples", "done": 1}, {"phase": "examples", "done": 9}, {"phase": "fit"}
    seen: Any = iter([[], [first], [first], [counted, fit], [counted, fit]])
    monkeypatch.setattr(routes, "POLL_SECONDS", 0)

    def show(*_: Any) -> dict[str, Any]:
        steps = next(seen, None)
        return {
            "id": "r",
            "status": "succeeded" if steps is None else "processing",
            "steps": [counted, fit] if steps is None else steps,
        }

    monkeypatch.setattr(actions, "show", show)
    with opened(tmp_path / "data") as client:
        lines = client.get(f"{DEFAULT}/training-runs/r/stream").text.splitlines()
    data = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert data[:-1] == [first, counted, fit]


class Workers:
    """Workers that take seconds to end."""

    def __init__(self, connections: Any) -> None:
        self.server: uvicorn.Server | None = None
        self.moment, self.streams_had_ended = 0.0, False
        self._connections = connections

    def start(self) -> None:
        assert self.server is not None
        self.server.should_exit = True

    def stop(self) -> None:
        self.streams_had_ended = self._connections.is_stopping
        self.moment += 7

    def monotonic(self) -> float:
        """Return the time of a clock that runs while the workers end."""
        return self.moment


def _application(*_: Any) -> None:
    """Answers nothing."""


def test_streams_end_before_the_workers_which_share_the_time_of_open_requests_with_the_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = bounded(Patience(), lambda: 1)
    workers: Any = Workers(connections)
    monkeypatch.setattr(shared_server, "time", workers)
    with contextlib.ExitStack() as sockets:
        listening, internal = (
            sockets.enter_context(socket.socket()),
            sockets.enter_context(socket.socket(socket.AF_UNIX)),
        )
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        internal.bind(str(tmp_path / "socket"))
        config = server_config(_application, connections)
        config.lifespan = "off"
        workers.server = SharedServer(config, listening, internal, workers)
        asyncio.run(workers.server.serve())
    assert workers.streams_had_ended
    assert config.timeout_graceful_shutdown == 3
