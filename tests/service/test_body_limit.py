"""A client that sends its whole body before it reads receives the 413. A raw socket shows what arrives."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from service.http import body_limit
from service.http.requests import MAX_BODY_BYTES
from tests.service.client import DEADLINE_SECONDS, DEFAULT
from tests.service.server import served

PART = b"x" * 65_536


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(tmp_path_factory.mktemp("limit") / "data") as port:
        yield port


def request(length: int | None) -> bytes:
    """Return the head of a search with a body of this length, or with a chunked body."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST {DEFAULT}/search HTTP/1.1\r\nHost: softseek\r\n{framing}\r\n\r\n".encode()


def read_to_end(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def send_without_end(connection: socket.socket) -> None:
    while True:
        connection.sendall(PART)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("length", [MAX_BODY_BYTES + len(PART), 3 * MAX_BODY_BYTES])
def test_the_413_arrives_after_the_whole_body_and_closes_the_connection(port: int, length: int, chunked: bool) -> None:
    with socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as connection:
        connection.sendall(request(None if chunked else length))
        for _ in range(length // len(PART)):
            connection.sendall(b"10000\r\n" + PART + b"\r\n" if chunked else PART)
        connection.sendall(b"0\r\n\r\n" if chunked else b"")
        head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["code"] == "payload_too_large"


@pytest.mark.parametrize("id", ["documents/import", "v1/import"])
def test_the_id_of_a_document_does_not_lift_the_limit(port: int, id: str) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
    connection.request("PUT", f"{DEFAULT}/documents/a/{id}", b" " * (MAX_BODY_BYTES + 1))
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-type")) == (413, "application/problem+json")
    assert json.load(answer)["detail"] == f"a request body must not exceed {MAX_BODY_BYTES} bytes"
    connection.close()


def test_a_client_that_sends_without_end_is_disconnected(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "MAX_DISCARDED_BYTES", 4 * len(PART))
    with socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as connection:
        connection.sendall(request(2**40))
        with pytest.raises(ConnectionError):
            send_without_end(connection)


def test_a_connection_serves_further_requests_after_a_body_within_the_limit(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
    for _ in range(2):
        connection.request("POST", f"{DEFAULT}/search", b'{"q": "a"}')
        answer = connection.getresponse()
        assert (answer.status, answer.will_close) == (200, False)
        answer.read()
    connection.close()
