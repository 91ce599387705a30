"""HEAD is answered wherever GET is: with the same status and headers, and without a body."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from service.app import create_reading_app
from service.http.head_requests import HeadRequests
from service.settings import Settings
from tests.service.authorised import Keys
from tests.service.client import DEADLINE_SECONDS, DEFAULT, CollectionClient, good, opened, problem, runtime_of
from tests.service.server import Server, connected, served, server_of
from tests.service.test_connection import hold
from tests.service.test_keys import stopped_clock

VOLATILE = {"date", "etag", "content-length"}
"""Headers that may differ between two answers of GET."""
OPEN_ADDRESSES = ("/", "/learning", "/docs", "/openapi.json", "/static/style.css", "/favicon.ico", "/livez?verbose=1")

SEARCH = f" {DEFAULT}/search?q=x HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("head") / "data") as client:
        CollectionClient(client).add({"id": "oak", "text": "a tree with acorns"})
        yield client


def both(client: httpx.Client, address: str, **more: Any) -> tuple[httpx.Response, httpx.Response]:
    """Return the answers to HEAD and GET of an address."""
    return client.head(address, **more), client.get(address, **more)


def comparable(answer: httpx.Response) -> tuple[int, dict[str, str]]:
    return answer.status_code, {name: value for name, value in answer.headers.items() if name not in VOLATILE}


def test_every_address_that_answers_get_answers_head(client: TestClient) -> None:
    paths = good(client.get("/openapi.json"))["paths"]
    documented = [path.replace("{collection}", "default") for path, methods in paths.items() if "get" in methods]
    assert len(documented) > 25
    for address in (*OPEN_ADDRESSES, *documented, f"{DEFAULT}/search?q=tree", f"{DEFAULT}/documents/oak", "/v1/no"):
        by_head, by_get = both(client, address)
        assert comparable(by_head) == comparable(by_get), address
        assert by_head.status_code != 405, address
        assert by_head.content == b""


@pytest.mark.parametrize("address", ["/livez", "/", f"{DEFAULT}/documents/oak", f"{DEFAULT}/documents/none"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_the_length_is_that_of_the_body_of_get(client: TestClient, address: str, encoding: str) -> None:
    by_head, by_get = both(client, address, headers={"Accept-Encoding": encoding})
    assert by_head.headers["content-length"] == by_get.headers["content-length"]
    assert int(by_head.headers["content-length"]) > 0


@pytest.mark.parametrize("address", ["/v1/multi-search", f"{DEFAULT}/recommend"])
def test_an_address_without_get_has_no_head(client: TestClient, address: str) -> None:
    answer = client.head(address)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_head_is_allowed_where_get_is(client: TestClient) -> None:
    assert client.post("/livez").headers["allow"] == "GET, HEAD"
    assert client.put(f"{DEFAULT}/search").headers["allow"] == "GET, HEAD, POST"


def test_a_key_has_the_rights_and_the_rate_of_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "data") as client:
        reads = Keys.first(client).headers("search", rate_per_minute=3)
        stopped_clock(monkeypatch)  # no minute ends between two requests
        statuses = [client.head(f"{DEFAULT}/documents").status_code, client.head("/livez").status_code]
        statuses += [
            client.head(address, headers=reads).status_code for address in (f"{DEFAULT}/search?q=a", "/v1/keys")
        ]
        assert statuses == [401, 200, 200, 403]
        assert client.head(f"{DEFAULT}/search?q=a", headers=reads).status_code == 200
        problem(client.get(f"{DEFAULT}/search?q=a", headers=reads), 429, "rate_limited")
        assert client.head(f"{DEFAULT}/search?q=a", headers=reads).status_code == 429


def test_a_page_of_another_site_cannot_log_a_search_by_head(client: TestClient) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert client.head(f"{DEFAULT}/search?q=a&log=true", headers=foreign).status_code == 403
    assert client.head("/v1/export", headers=foreign).status_code == 403
    assert client.head(f"{DEFAULT}/search?q=a", headers=foreign).status_code == 200


def test_a_process_that_only_reads_answers_head(client: TestClient) -> None:
    app = create_reading_app(Settings(encoder="hashing"), refuses_others=True)
    app.state.runtime, app.state.authority = runtime_of(client), client.app.state.authority  # type: ignore[attr-defined]
    reader = TestClient(app)
    addresses = ("/livez", "/readyz", "/metrics", f"{DEFAULT}/search?q=tree", f"{DEFAULT}/suggestions?q=tr")
    assert [reader.head(address).status_code for address in addresses] == [200] * 5
    assert reader.head(f"{DEFAULT}/documents").status_code == 421


def test_head_is_counted_as_an_answer(client: TestClient) -> None:
    def answers() -> float:
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("softseek_requests_total"))

    before = answers()
    client.head("/livez")
    assert answers() == before + 2  # with the first request of the metrics


def test_the_connection_goes_on_after_head(tmp_path: Path) -> None:
    """A body after the head would be read as the next answer."""
    with served(tmp_path / "data") as port, socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as client:
        for address in ("/livez", "/v1/export", f"{DEFAULT}/search?q=a", "/v1/no"):
            client.sendall(f"HEAD {address} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        read = b"".join(iter(lambda: client.recv(65_536), b""))
        parts = read.split(b"\r\n\r\n")
        assert [part[:12] for part in parts[:5]] == [b"HTTP/1.1 200"] * 3 + [b"HTTP/1.1 404", b"HTTP/1.1 200"]
        assert parts[5:] == [b'{"status":"alive"}']


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_of(tmp_path_factory.mktemp("queue") / "data", search_threads=1, search_queue=2) as served:
        yield served


def read_after(server: Server, occupied: int, sent: bytes) -> bytes:
    """Return all that a server sends after these bytes, while places of its queue of searches are taken."""
    gate = hold(server, occupied)
    try:
        with connected(server) as client:
            client.sendall(sent)
            return b"".join(iter(lambda: client.recv(65_536), b""))
    finally:
        gate.set()


@pytest.mark.parametrize(("method", "bodies"), [(b"HEAD", 1), (b"GET", 2)])
def test_a_search_past_the_queue_is_refused_without_a_body(server: Server, method: bytes, bodies: int) -> None:
    live = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    read = read_after(server, 3, method + SEARCH + live)
    assert read.startswith(b"HTTP/1.1 503 ")
    assert b"HTTP/1.1 200 " in read
    assert read.count(b"{") == bodies


@pytest.mark.parametrize(("method", "has_body"), [(b"HEAD", False), (b"GET", True)])
def test_a_request_that_is_given_up_is_answered_without_a_body(server: Server, method: bytes, has_body: bool) -> None:
    chunked = SEARCH.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    read = read_after(server, 1, method + chunked + b"this is no length\r\n")
    assert read.startswith(b"HTTP/1.1 400 ")
    assert read.endswith(b"}") is has_body


def test_an_answer_ends_with_its_head_though_its_stream_goes_on() -> None:
    sent: list[Message] = []
    seen: list[str] = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"part"
            await asyncio.sleep(0)

    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["method"])
        await StreamingResponse(endless(), headers={"Content-Length": "4"})(scope, receive, send)

    async def ask() -> None:
        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            while len(sent) < 2:
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}  # as the server says after the end of an answer

        scope = {"type": "http", "method": "HEAD"}
        async with asyncio.timeout(DEADLINE_SECONDS):
            await HeadRequests(streaming)(scope, receive, send)
        assert scope["method"] == "HEAD"  # the server leaves out the body by it

    asyncio.run(ask())
    assert seen == ["GET"]
    assert sent == [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]},
        {"type": "http.response.body", "body": b""},
    ]
