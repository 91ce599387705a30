"""A request that asks for another protocol is answered as if it did not: its body is its body."""

import contextlib
import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from service.http.connection import Patience
from tests.service.client import DEADLINE_SECONDS, DEFAULT, until
from tests.service.server import Server, closed, connected, server_of

LONG = float(DEADLINE_SECONDS)
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
"""What Java's client sends with every request."""
WEBSOCKET = b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
SEARCH = f"POST {DEFAULT}/search".encode()
BODY = b'{"q": "kettle"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    patience = Patience(connections=8, head_seconds=LONG, body_seconds=LONG, whole_body_seconds=LONG)
    with server_of(tmp_path_factory.mktemp("upgrades") / "data", patience) as one:
        yield one


@pytest.fixture
def client(server: Server) -> Iterator[socket.socket]:
    with connected(server) as one:
        yield one


def request(first: bytes, fields: bytes, body: bytes = b"") -> bytes:
    """Return a request with these fields."""
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"%s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n%s" % (first, fields, length, body)


def statuses(client: socket.socket, sent: bytes) -> list[int]:
    """Return the statuses of all answers, up to the answer to a last request, which closes the connection."""
    client.sendall(sent + request(b"GET /livez", b"Connection: close\r\n"))
    read = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65_536):
            read += part
    return [int(part[:3]) for part in read.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("fields", [H2C, WEBSOCKET])
def test_a_body_after_the_wish_for_another_protocol_is_read(client: socket.socket, fields: bytes) -> None:
    assert statuses(client, request(SEARCH, fields, BODY)) == [200, 200]


@pytest.mark.parametrize("fields", [H2C, WEBSOCKET])
def test_a_body_that_arrives_byte_by_byte_is_no_request(client: socket.socket, fields: bytes) -> None:
    inner = request(b"GET /livez", b"")
    for byte in request(SEARCH, fields, inner):
        client.sendall(bytes([byte]))
    assert statuses(client, b"") == [400, 200]  # it is no JSON


def test_a_body_in_chunks_is_read(client: socket.socket) -> None:
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert statuses(client, request(SEARCH, H2C + b"Transfer-Encoding: chunked\r\n") + chunks) == [200, 200]


def test_requests_that_follow_in_the_same_bytes_are_answered(client: socket.socket) -> None:
    wish, plain = request(b"GET /livez", WEBSOCKET), request(SEARCH, b"", BODY)
    assert statuses(client, (wish + plain + request(SEARCH, H2C, BODY)) * 100) == [200] * 301


@pytest.mark.parametrize("fields", [H2C, WEBSOCKET])
def test_a_request_that_ends_the_connection_is_answered(server: Server, fields: bytes) -> None:
    closing = fields.replace(b"Connection: ", b"Connection: close, ")
    old = request(b"GET /livez", fields).replace(b"HTTP/1.1", b"HTTP/1.0")
    for sent, status in ((request(SEARCH, closing, BODY), 200), (request(b"GET /livez", closing), 200), (old, 200)):
        with connected(server) as client:
            assert statuses(client, sent) == [status]


@pytest.mark.parametrize(("target", "status"), [(b"/livez", 405), (b"localhost:1", 400)])
def test_the_refusal_of_a_tunnel_is_the_last_answer(client: socket.socket, target: bytes, status: int) -> None:
    inner = request(b"GET /livez", b"")
    assert statuses(client, request(b"CONNECT " + target, b"", inner) + inner) == [status]
    assert closed(client)


def test_bounds_hold_for_a_head_with_the_wish(client: socket.socket) -> None:
    client.sendall(request(b"GET /livez", H2C + b"X: y\r\n" * 300))
    head = client.recv(65_536)
    assert head.startswith(b"HTTP/1.1 431 ")
    assert closed(client)


def test_an_import_with_the_wish_stores_every_line(server: Server) -> None:
    lines = "".join(json.dumps({"id": f"d{row}", "text": "a kettle"}) + "\n" for row in range(5))
    fields = {"Connection": "Upgrade", "Upgrade": "h2c", "Content-Type": "application/x-ndjson"}
    with httpx.Client(base_url=f"http://127.0.0.1:{server[0]}", timeout=DEADLINE_SECONDS) as http:
        answer = http.post(f"{DEFAULT}/documents/import", content=lines, headers=fields)
        assert answer.status_code == 202
        until(lambda: http.get(answer.headers["location"]).json()["status"] == "succeeded")
        assert http.get(DEFAULT).json()["counts"]["documents"] == 5
