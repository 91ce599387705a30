"""An export whose client leaves gives its slot and its read of the database back at once."""

import threading
from collections.abc import Callable, Generator, Iterator

import pytest

from tests.service.client import DEADLINE_SECONDS, until
from tests.service.server import Server, connected, server_of


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_of(tmp_path_factory.mktemp("left") / "data") as server:
        yield server


class EndlessExport:
    """Parts without end. It refers to its generators, so that only an order closes them."""

    def __init__(self) -> None:
        self.goes_on, self.begun, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.generators: list[Generator[bytes, None, None]] = []

    def __call__(self, _runtime: object, _names: object) -> Generator[bytes, None, None]:
        self.generators.append(self._parts())
        return self.generators[-1]

    def _parts(self) -> Generator[bytes, None, None]:
        try:
            self.begun.set()
            self.goes_on.wait(DEADLINE_SECONDS)
            while True:
                yield b"x" * 65_536
        finally:
            self.closed.set()


def leave_in_the_middle(server: Server, export: EndlessExport, request: bytes) -> None:
    export.goes_on.set()
    with connected(server) as client:
        client.sendall(request)
        assert client.recv(12) == b"HTTP/1.1 200"


def leave_before_the_first_byte(server: Server, export: EndlessExport, request: bytes) -> None:
    with connected(server) as client:
        client.sendall(request)
        assert export.begun.wait(DEADLINE_SECONDS)
    export.goes_on.set()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("leave", [leave_in_the_middle, leave_before_the_first_byte])
def test_an_export_ends_when_its_client_leaves(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    leave: Callable[[Server, EndlessExport, bytes], None],
    method: str,
) -> None:
    export, slots = EndlessExport(), server[1].state.runtime.export_slots
    monkeypatch.setattr("service.exports.routes.export_parts", export)
    leave(server, export, f"{method} /v1/export HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert export.closed.wait(DEADLINE_SECONDS)
    with slots:
        until(lambda: slots.acquire(blocking=False))
        slots.release()
