"""Clients that send or read too slowly are refused, each after the time of the part that it does not end."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from service.http.connection import Patience
from service.http.presence import CONNECTION
from tests.service.client import DEADLINE_SECONDS, until
from tests.service.server import Server, closed, connected
from tests.service.test_connection import (
    ANSWERED_EARLY,
    HEAD,
    LONG,
    SEARCH,
    answer,
    client,
    hold,
    server,
    servers,
)

__all__ = ["client", "server", "servers"]

SHORT = 0.4
in_a_head = pytest.mark.parametrize("server", [Patience(8, SHORT, SHORT)], indirect=True, ids=["head"])
in_a_body = pytest.mark.parametrize("server", [Patience(8, LONG, SHORT)], indirect=True, ids=["body"])
in_an_answer = pytest.mark.parametrize("server", [Patience(8, LONG, 1.0)], indirect=True, ids=["answer"])
in_a_whole_body = pytest.mark.parametrize("server", [Patience(8, LONG, SHORT, 0, 1.0)], indirect=True, ids=["whole"])
"""Little time in one place alone. A whole body that has little time may pause in between."""


@in_a_head
@pytest.mark.parametrize("sent", [b"", b"GET", HEAD, b"\r\n"])
def test_a_head_that_does_not_end_is_refused_after_its_time(client: socket.socket, sent: bytes) -> None:
    client.sendall(sent)
    status, _, body = answer(client)
    assert (status, body["code"]) == (408, "request_timeout")
    assert closed(client)


@in_a_body
@pytest.mark.parametrize(
    "sent",
    [SEARCH, SEARCH + b'{"q"', SEARCH.replace(b"Content-Length: 10", b"Expect: 1\r\nTransfer-Encoding: chunked")],
)
def test_a_body_that_does_not_arrive_is_refused_after_its_time(client: socket.socket, sent: bytes) -> None:
    client.sendall(sent)
    status, _, body = answer(client)
    assert (status, body["code"]) == (408, "request_timeout")
    assert closed(client)


@in_a_body
def test_a_slow_search_is_not_cut_off(client: socket.socket, server: Server) -> None:
    gate = hold(server, 1)
    client.sendall(SEARCH + b'{"q": "x"}')
    threading.Timer(3 * SHORT, gate.set).start()
    assert answer(client)[0] == 200


def trickle(client: socket.socket, part: bytes, parts: int = 400) -> bool:
    """Send parts of a body steadily; return whether the server answered or closed before the last."""
    client.setblocking(False)
    try:
        for _ in range(parts):
            threading.Event().wait(0.05)
            client.sendall(part)
            with contextlib.suppress(BlockingIOError):
                client.recv(1, socket.MSG_PEEK)
                return True
    except ConnectionError:
        return True
    finally:
        client.settimeout(DEADLINE_SECONDS)
    return False


@in_a_body
def test_the_body_of_an_answered_request_is_discarded_for_a_bounded_time(client: socket.socket) -> None:
    client.sendall(ANSWERED_EARLY)
    assert answer(client)[0] == 405
    assert trickle(client, b"x" * 2048)
    assert closed(client)


@in_a_head
def test_a_late_end_of_an_answered_body_gets_no_second_answer(server: Server) -> None:
    for _ in range(20):  # a pause of the machine may be longer than the time of a head
        with connected(server) as client:
            client.sendall(ANSWERED_EARLY.replace(b"1000000", b"1"))
            if (status := answer(client)[0]) != 408:
                client.sendall(b"x")
                assert closed(client)
                break
    assert status == 405


@in_a_whole_body
@pytest.mark.parametrize(
    "head",
    [SEARCH, SEARCH.replace(b"POST", b"PUT").replace(b"/search", b"/documents/a/documents/import")],
    ids=["search", "document whose id ends like an import"],
)
def test_a_body_that_arrives_steadily_has_a_time_as_a_whole(client: socket.socket, head: bytes) -> None:
    client.sendall(head.replace(b" 10\r", b" 1000000\r"))
    assert trickle(client, b" " * 2048)
    with contextlib.suppress(ConnectionError):  # the answer is lost where bytes are left unread
        assert answer(client)[2]["code"] == "request_timeout"


@in_a_whole_body
def test_the_body_of_an_import_has_no_time_as_a_whole(client: socket.socket) -> None:
    head = SEARCH.replace(b"/search", b"/documents/import").replace(b" 10\r", b" 1000000\r")
    client.sendall(head.replace(b"\r\n\r\n", b"\r\nContent-Type: application/x-ndjson\r\n\r\n"))
    assert not trickle(client, b"\n" * 2048, parts=40)  # two seconds


ANSWER_BYTES = 16 * 1024 * 1024
PART_BYTES = 128 * 1024
FEW_BYTES = 1024 * 1024
"""More than all buffers hold together of an answer that is not read; the system alone would hold megabytes."""


class LongAnswer:
    """An application that sends ANSWER_BYTES, in parts of a length, to a client of a small buffer that asks for it."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
        self.sent = 0
        self.connection: Any = None
        self.has_left = threading.Event()
        self._part_bytes = part_bytes
        monkeypatch.setattr(server[1], "middleware_stack", self._send)
        self.client = socket.socket()
        self.client.settimeout(DEADLINE_SECONDS)
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        self.client.connect(("127.0.0.1", server[0]))
        self.client.sendall(HEAD + b"Connection: close\r\n\r\n")

    def is_paused(self) -> bool:
        """Return whether the application waits for the client."""
        return self.connection is not None and self.connection.flow.write_paused

    async def _send(self, scope: Any, receive: Any, send: Any) -> None:
        self.connection = scope[CONNECTION]
        length = (b"content-length", str(ANSWER_BYTES).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        leaving = asyncio.create_task(self._note_leaving(receive))
        while self.sent < ANSWER_BYTES:
            self.sent += self._part_bytes
            is_last = self.sent >= ANSWER_BYTES
            await send({"type": "http.response.body", "body": bytes(self._part_bytes), "more_body": not is_last})
        await leaving

    async def _note_leaving(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left.set()


@pytest.fixture
def answering(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], LongAnswer]:
    return lambda part_bytes: LongAnswer(server, monkeypatch, part_bytes)


@in_an_answer
def test_what_a_client_has_not_read_is_held_where_the_server_sees_it(answering: Callable[[int], LongAnswer]) -> None:
    answer = answering(PART_BYTES)
    with answer.client:
        until(answer.is_paused)
        assert answer.sent < FEW_BYTES


@in_a_body
@pytest.mark.parametrize("part_bytes", [PART_BYTES, ANSWER_BYTES], ids=["parts", "at once"])
def test_a_client_that_reads_nothing_of_an_answer_is_left(
    answering: Callable[[int], LongAnswer], part_bytes: int
) -> None:
    answer = answering(part_bytes)
    with answer.client, contextlib.suppress(ConnectionError):
        until(lambda: answer.connection is not None and answer.connection.has_left)
        read = 0
        while part := answer.client.recv(65_536):
            read += len(part)
        assert read < FEW_BYTES


@in_an_answer
@pytest.mark.parametrize("part_bytes", [PART_BYTES, ANSWER_BYTES], ids=["parts", "at once"])
def test_a_client_that_reads_slowly_and_steadily_gets_the_whole_answer(
    answering: Callable[[int], LongAnswer], part_bytes: int
) -> None:
    answer, pause = answering(part_bytes), threading.Event()
    with answer.client:
        read = b""
        for _ in range(50):  # 2.5 seconds
            pause.wait(0.05)
            read += answer.client.recv(16_384)
        assert answer.connection.transport.get_write_buffer_size() > 0
        while part := answer.client.recv(1024 * 1024):
            read += part
    assert len(read.partition(b"\r\n\r\n")[2]) == ANSWER_BYTES
