"""Heads, silent and slow clients, and connections are bounded; refused and abandoned searches cost no work."""

import asyncio
import contextlib
import json
import re
import select
import socket
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from service.http import connection as connections
from service.http.connection import MAX_FIELDS, MAX_HEAD_BYTES, BoundedConnection, Patience
from service.runtime.runtime import Runtime
from tests.service.client import DEADLINE_SECONDS, DEFAULT, until
from tests.service.server import Server, closed, connected, server_of

LONG = float(DEADLINE_SECONDS)
PATIENT = Patience(connections=8, head_seconds=LONG, body_seconds=LONG, whole_body_seconds=LONG)
"""The bounds of the tests that are not about time: no pause of the machine reaches one."""
HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
SEARCH = f"POST {DEFAULT}/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n".encode()
ANSWERED_EARLY = b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
"""A request that is answered 405 before its body."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Patience], Server]]:
    """Returns the server with these bounds."""
    with contextlib.ExitStack() as opened:

        @cache
        def serve(patience: Patience) -> Server:
            data = tmp_path_factory.mktemp("edge") / "data"
            return opened.enter_context(server_of(data, patience, search_threads=1, search_queue=2))

        yield serve


@pytest.fixture
def server(servers: Callable[[Patience], Server], request: pytest.FixtureRequest) -> Server:
    return servers(getattr(request, "param", PATIENT))


@pytest.fixture
def client(server: Server) -> Iterator[socket.socket]:
    with connected(server) as one:
        yield one


def answer(client: socket.socket) -> tuple[int, bytes, Any]:
    """Return status, head and JSON of the next answer; the status is 0 when the server closed without an answer."""
    read = b""
    while b"\r\n\r\n" not in read:
        if not (part := client.recv(65_536)):
            return 0, b"", None
        read += part
    head, _, body = read.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += client.recv(65_536)
    return int(head[9:12]), head.lower(), json.loads(body)


def padded(length: int) -> bytes:
    """Return a head of this length."""
    return HEAD + b"X: " + b"x" * (length - len(HEAD) - 7) + b"\r\n\r\n"


def test_a_head_at_the_bound_is_read_and_a_longer_one_is_refused(client: socket.socket, server: Server) -> None:
    assert len(padded(MAX_HEAD_BYTES)) == MAX_HEAD_BYTES
    client.sendall(padded(MAX_HEAD_BYTES))
    assert answer(client)[0] == 200
    client.sendall(padded(MAX_HEAD_BYTES + 1))
    status, head, body = answer(client)
    assert (status, body["code"]) == (431, "head_too_large")
    assert b"connection: close" in head
    assert closed(client)


def test_a_header_without_end_is_refused(client: socket.socket) -> None:
    client.sendall(HEAD + b"X: ")
    for _ in range(MAX_HEAD_BYTES // 1024):
        client.sendall(b"x" * 1024)
    with contextlib.suppress(ConnectionError):  # the answer is lost where bytes are left unread
        assert answer(client)[2]["code"] == "head_too_large"


def test_requests_that_follow_each_other_have_a_bound_each(client: socket.socket) -> None:
    client.sendall(padded(MAX_HEAD_BYTES // 2 + 1) * 4)
    read = b""
    while read.count(b"HTTP/1.1 200 ") < 4:
        part = client.recv(65_536)
        assert part
        read += part


def test_what_is_not_http_gets_a_problem(client: socket.socket) -> None:
    client.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    status, _, body = answer(client)
    assert (status, body["code"]) == (400, "bad_request")


def test_trailers_without_end_are_refused(client: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_FRAMING_BYTES", 10_000)
    client.sendall(SEARCH.replace(b"Content-Length: 10", b"Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\nX: ")
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            client.sendall(b"x" * 20_000)
    with contextlib.suppress(ConnectionError):  # the answer is lost where bytes are left unread
        assert answer(client)[2]["code"] == "head_too_large"


def test_a_further_connection_closes_one_whose_body_is_discarded(server: Server) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(PATIENT.connections):
            one = opened.enter_context(connected(server))
            one.sendall(ANSWERED_EARLY)
            assert answer(one)[0] == 405
            one.sendall(b"x")  # the time of an idle connection ends
        further = opened.enter_context(connected(server))
        further.sendall(HEAD + b"\r\n")
        assert answer(further)[0] == 200


@pytest.mark.parametrize("searches", [1, 2])
def test_what_is_not_http_is_refused_after_the_answers_to_the_requests_before_it(
    client: socket.socket, server: Server, searches: int
) -> None:
    gate = hold(server, 1)
    client.sendall((SEARCH + b'{"q": "x"}') * searches + b"\x16\x03\r\n\r\n")
    gate.set()
    read = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65_536):
            read += part
    assert re.findall(rb"HTTP/1.1 (\d+)", read) == [b"200"] * searches + [b"400"]


PUT = f"PUT {DEFAULT}/documents/trailed HTTP/1.1\r\nHost: localhost\r\n".encode()


@pytest.mark.parametrize("pause", [0, 0.1])
def test_a_trailer_is_no_header(client: socket.socket, pause: float) -> None:
    client.sendall(PUT + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    threading.Event().wait(pause)
    client.sendall(b'd\r\n{"text": "x"}\r\n0\r\nHost: evil.example\r\nIdempotency-Key: \r\n\r\n')
    assert answer(client)[0] in (200, 201)
    client.sendall(HEAD + b"\r\n")
    assert answer(client)[0] == 200


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        (b"Host: localhost\r\n", 400, "bad_request"),
        (b"X: y\r\n" * MAX_FIELDS, 431, "head_too_large"),
        (b"Transfer-Encoding: gzip, chunked\r\n", 501, "unknown_transfer_coding"),
    ],
    ids=["two hosts", "many fields", "unknown coding"],
)
def test_a_head_is_refused(client: socket.socket, fields: bytes, status: int, code: str) -> None:
    client.sendall(HEAD + b"\r\n")
    assert answer(client)[0] == 200
    client.sendall(HEAD + fields + b"\r\n")
    found, head, body = answer(client)
    assert (found, body["code"]) == (status, code)
    for name in (b"content-security-policy: ", b"referrer-policy: ", b"x-content-type-options: nosniff"):
        assert name in head
    assert closed(client)


def test_as_many_fields_as_allowed_are_read(client: socket.socket) -> None:
    client.sendall(HEAD + b"X: y\r\n" * (MAX_FIELDS - 1) + b"\r\n")
    assert answer(client)[0] == 200


def test_a_client_that_leaves_within_an_import_is_no_defect(server: Server) -> None:
    part = {"type": "http.request", "body": b'{"id": "x"', "more_body": True}
    messages: Iterator[Any] = iter([part, {"type": "http.disconnect"}])
    path = f"{DEFAULT}/documents/import"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    headers = [(b"host", b"localhost"), (b"content-type", b"application/x-ndjson")]

    async def receive() -> Any:
        return next(messages)

    async def send(_message: Any) -> None:
        """Nobody reads it."""

    asyncio.run(server[1](scope | {"headers": headers, "client": ("127.0.0.1", 1)}, receive, send))


def test_further_connections_close_an_idle_one_or_are_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    receive, begun = BoundedConnection.data_received, set()

    def received(connection: BoundedConnection, data: bytes) -> None:
        receive(connection, data)
        if data == HEAD:
            begun.add(connection)

    monkeypatch.setattr(BoundedConnection, "data_received", received)
    opened = [connected(server) for _ in range(PATIENT.connections)]
    try:
        for one in opened:
            one.sendall(HEAD + b"\r\n")
            assert answer(one)[0] == 200  # idle now: kept alive
        opened.append(connected(server))
        opened[-1].sendall(HEAD + b"\r\n")
        assert answer(opened[-1])[0] == 200
        for one in opened:
            with contextlib.suppress(ConnectionError):  # one is closed
                one.sendall(HEAD)
        until(lambda: len(begun) == PATIENT.connections)  # none is idle any more
        opened.append(connected(server))
        assert answer(opened[-1])[0] == 503
    finally:
        for one in opened:
            one.close()


def runtime(server: Server) -> Runtime:
    running: Runtime = server[1].state.runtime
    return running


def hold(server: Server, places: int) -> threading.Event:
    """Occupy places of the queue of searches until the event is set."""
    gate, begun = threading.Event(), threading.Event()
    pool = runtime(server).search_pool
    until(lambda: not pool.taken)

    def occupy() -> None:
        begun.set()
        gate.wait(DEADLINE_SECONDS)

    for _ in range(places):
        runtime(server).run_search(occupy)
    assert begun.wait(DEADLINE_SECONDS)  # otherwise the thread could take a newer search first
    return gate


def hold_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], threading.Event, threading.Event]:
    """Let /livez hold the event loop; return the paths that reach the application, and the events of begin and end."""
    called: list[str] = []
    stack = server[1].middleware_stack
    begun, free = threading.Event(), threading.Event()

    async def seen(scope: Any, receive: Any, send: Any) -> None:
        called.append(scope["path"])
        if scope["path"] == "/livez":
            begun.set()
            free.wait(DEADLINE_SECONDS)
        assert stack is not None
        await stack(scope, receive, send)

    monkeypatch.setattr(server[1], "middleware_stack", seen)
    return called, begun, free


def test_a_search_past_the_queue_is_refused_before_the_application(
    client: socket.socket, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold(server, 3)
    called = []
    stack = server[1].middleware_stack
    monkeypatch.setattr(server[1], "middleware_stack", lambda *given: called.append(given))
    for _ in range(2):  # the body of the first is read, and the connection serves the second
        client.sendall(SEARCH + b'{"q": "x"}')
        status, head, body = answer(client)
        assert (status, body["code"], body["instance"]) == (503, "overloaded", f"{DEFAULT}/search")
        assert b"retry-after: 1" in head
        assert b"connection: close" not in head
    assert called == []
    monkeypatch.setattr(server[1], "middleware_stack", stack)
    client.sendall(HEAD + b"\r\n")
    assert answer(client)[0] == 200
    gate.set()
    until(lambda: not runtime(server).search_pool.taken)
    client.sendall(SEARCH + b'{"q": "x"}')
    assert answer(client)[0] == 200


def test_the_search_of_a_client_that_left_is_not_computed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = hold(server, 1)
    pool = runtime(server).search_pool
    searched = []
    monkeypatch.setattr("service.search.routes.cached_results.answer", lambda *given: searched.append(given) or {})
    with connected(server) as impatient:
        impatient.sendall(SEARCH + b'{"q": "x"}')
        until(lambda: pool.taken == 2)
    until(lambda: pool.taken == 1)
    gate.set()
    until(lambda: pool.taken == 0)
    assert searched == []


def test_a_search_whose_client_left_before_it_was_read_reaches_no_application(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, begun, free = hold_loop(server, monkeypatch)
    with connected(server) as first, connected(server) as patient:
        first.sendall(HEAD + b"\r\n")
        assert begun.wait(DEADLINE_SECONDS)
        with connected(server) as impatient:
            impatient.sendall(SEARCH + b'{"q": "x"}')
        patient.sendall(SEARCH + b'{"q": "y"}')
        free.set()
        assert answer(first)[0] == answer(patient)[0] == 200
    assert called.count(f"{DEFAULT}/search") == 1


def test_of_searches_that_arrive_together_only_as_many_as_find_a_place_reach_the_application(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold(server, 2)  # of three places
    called, begun, free = hold_loop(server, monkeypatch)
    with contextlib.ExitStack() as opened:
        first = opened.enter_context(connected(server))
        searching = [opened.enter_context(connected(server)) for _ in range(4)]
        for one in searching:
            one.sendall(HEAD.replace(b"/livez", b"/readyz") + b"\r\n")
            assert answer(one)[0] == 200  # the server has accepted the connection
        first.sendall(HEAD + b"\r\n")
        assert begun.wait(DEADLINE_SECONDS)
        for one in searching:
            one.sendall(SEARCH + b'{"q": "x"}')
        free.set()
        assert answer(first)[0] == 200
        while len(searching) > 1:
            for one in select.select(searching, [], [], DEADLINE_SECONDS)[0]:
                assert answer(one)[0] == 503
                searching.remove(one)
        gate.set()
        assert answer(searching[0])[0] == 200
    assert called.count(f"{DEFAULT}/search") == 1


def test_a_search_in_flight_is_answered_when_the_server_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutdown = uvicorn.Server.shutdown

    async def begin_to_stop(one: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(0.2, gate.set)
        await shutdown(one, sockets)

    monkeypatch.setattr(uvicorn.Server, "shutdown", begin_to_stop)
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(server_of(tmp_path / "data", search_threads=1))
        client = connected(server)
        pool = runtime(server).search_pool
        gate = hold(server, 1)
        client.sendall(SEARCH + b'{"q": "x"}')
        until(lambda: pool.taken == 2)
    with client:
        status, head, _ = answer(client)
    assert status == 200
    assert b"connection: close" in head
