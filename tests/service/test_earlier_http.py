"""Answers to clients that speak HTTP/1.0."""

import json
from collections.abc import Iterator

import pytest

from service.http.connection import Patience
from tests.service.client import DEADLINE_SECONDS, DEFAULT
from tests.service.server import Server, connected, server_of

LONG = float(DEADLINE_SECONDS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    patience = Patience(connections=8, head_seconds=LONG, body_seconds=LONG, whole_body_seconds=LONG)
    with server_of(tmp_path_factory.mktemp("earlier") / "data", patience) as one:
        yield one


def answer(server: Server, request: str) -> tuple[str, bytes]:
    """Return the head, in lower case, and the body of an answer that ends with the connection."""
    with connected(server) as client:
        client.sendall(request.encode())
        read = b""
        while part := client.recv(65_536):
            read += part
    head, _, body = read.partition(b"\r\n\r\n")
    return head.decode().lower(), body


def test_an_answer_of_unknown_length_has_no_chunks(server: Server) -> None:
    head, body = answer(server, "GET /v1/export HTTP/1.0\r\n\r\n")
    assert "transfer-encoding" not in head
    assert "content-length" not in head
    assert "connection: close" in head
    lines = [json.loads(line) for line in body.splitlines()]
    assert lines[0]["type"] == "softseek_export"
    assert len(lines) > 1


@pytest.mark.parametrize(("method", "is_whole"), [("GET", True), ("HEAD", False)])
def test_an_answer_of_known_length_says_it(server: Server, method: str, is_whole: bool) -> None:
    head, body = answer(server, f"{method} {DEFAULT} HTTP/1.0\r\n\r\n")
    assert head.startswith("http/1.1 200")
    (length,) = [int(line.partition(":")[2]) for line in head.splitlines() if line.startswith("content-length")]
    assert len(body) == (length if is_whole else 0)


def test_an_expectation_has_no_interim_answer(server: Server) -> None:
    body = '{"q": "oak"}'
    fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue"
    head, found = answer(server, f"POST {DEFAULT}/search HTTP/1.0\r\n{fields}\r\n\r\n{body}")
    assert head.startswith("http/1.1 200")
    assert json.loads(found)["hits"] == []
