"""Requests that a worker passes on end upstream when their client leaves."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from service.workers.forwarding import Forwarding, _Body, _request
from tests.service.client import DEADLINE_SECONDS

ANSWERED = "/answered"
EMPTY = ({"type": "http.request", "body": b"", "more_body": False},)
PARTS = (
    {"type": "http.request", "body": b"first, ", "more_body": True},
    {"type": "http.request", "body": b"second", "more_body": False},
)


class Upstream:
    """An application that never ends an answer. It notes the bodies that it received, and that its client has left."""

    def __init__(self, expected: bytes) -> None:
        """expected: all that its client sends before it leaves."""
        self._expected = expected
        self.body = b""
        self.is_whole = False
        self.waits = asyncio.Event()
        """Set when it has received `expected`, and the end of the body if its client sends that."""
        self.left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == ANSWERED:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"a part", "more_body": True})
        while (message := await receive())["type"] != "http.disconnect":
            self.body += message["body"]
            self.is_whole = not message["more_body"]
            if self.is_whole or self.body == self._expected == PARTS[0]["body"]:
                self.waits.set()
        self.left.set()


class Client:
    """A client that sends these messages, leaves when `leaves` is set, and notes the messages that it got."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = iter(messages)
        self.body = b"".join(message["body"] for message in messages)
        self.leaves = asyncio.Event()
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        message = next(self._messages, None)
        if message is not None:
            return message
        await self.leaves.wait()
        await asyncio.sleep(0.1)  # the upstream request goes on in this time, unless it waits
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)


@pytest.mark.parametrize(
    ("sent", "passed_on"),
    [
        (b"/v1/collections/c/documents/..", b"/v1/collections/c/documents/.."),
        (b"/v1/./a/../%2E.", b"/v1/./a/../%2E."),
        (b"*", b"*"),
        (b'/v1/"a"/\xc3\xa4 \x7f', b'/v1/"a"/%C3%A4%20%7F'),
    ],
)
def test_a_target_is_passed_on_as_it_came(sent: bytes, passed_on: bytes) -> None:
    scope = {"method": "DELETE", "raw_path": sent, "query_string": b"a=/../b", "headers": []}
    target = _request(scope, _Body(Client(()).receive, [])).extensions["target"]
    assert target == passed_on + b"?a=/../b"


async def left_upstream(folder: Path, method: str, path: str, client: Client) -> Upstream:
    """Pass a request on, and let its client leave; return the upstream application, which has noted that."""
    upstream, internal = Upstream(client.body), socket.socket(socket.AF_UNIX)
    internal.bind(str(folder / "socket"))
    config = uvicorn.Config(upstream, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[internal]))
    forwarding = Forwarding(folder / "socket")
    headers = [(b"transfer-encoding", b"chunked")] if method == "POST" else []
    scope = {"method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
    passing = asyncio.create_task(forwarding(scope, client.receive, client.send))
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await upstream.waits.wait()
            if path == ANSWERED:
                while len(client.sent) < 2:
                    await asyncio.sleep(0.01)
            assert not upstream.left.is_set()
            client.leaves.set()
            await upstream.left.wait()
            await passing
    finally:
        passing.cancel()
        with suppress(asyncio.CancelledError):
            await passing
        await forwarding.close()
        server.should_exit = True
        await serving
    return upstream


@pytest.mark.parametrize("path", ["/silent", ANSWERED])
@pytest.mark.parametrize(("method", "messages"), [("GET", EMPTY), ("POST", PARTS)], ids=["no-body", "body"])
def test_a_client_that_leaves_ends_its_request_upstream(
    tmp_path: Path, method: str, messages: Sequence[Message], path: str
) -> None:
    async def check() -> None:
        client = Client(messages)
        upstream = await left_upstream(tmp_path, method, path, client)
        assert upstream.is_whole
        assert upstream.body == client.body
        assert [message["type"] for message in client.sent] == (
            ["http.response.start", "http.response.body"] if path == ANSWERED else []
        )

    asyncio.run(check())


def test_a_body_that_is_cut_never_looks_whole_upstream(tmp_path: Path) -> None:
    async def check() -> None:
        upstream = await left_upstream(tmp_path, "POST", "/silent", Client(PARTS[:1]))
        assert upstream.body == PARTS[0]["body"]
        assert not upstream.is_whole

    asyncio.run(check())


@pytest.mark.parametrize(
    ("upstream", "status", "header"),
    [
        (httpx.Response(413, headers={"connection": "close", "date": "now"}), 413, (b"connection", b"close")),
        (httpx.Response(200, headers={"connection": "keep-alive", "etag": "a"}), 200, (b"etag", b"a")),
        (httpx.LocalProtocolError("no valid header"), 400, (b"referrer-policy", b"no-referrer")),
        (httpx.ConnectError("no server listens"), 503, (b"referrer-policy", b"no-referrer")),
    ],
)
def test_an_answer_that_closes_is_passed_on_and_a_failure_is_named(
    tmp_path: Path, upstream: httpx.Response | Exception, status: int, header: tuple[bytes, bytes]
) -> None:
    def answered(_request: httpx.Request) -> httpx.Response:
        if isinstance(upstream, Exception):
            raise upstream
        return httpx.Response(upstream.status_code, headers=upstream.headers, stream=httpx.ByteStream(b""))

    async def check() -> None:
        forwarding, client = Forwarding(tmp_path / "socket"), Client(EMPTY)
        forwarding._client = httpx.AsyncClient(transport=httpx.MockTransport(answered))
        scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers": []}
        await forwarding(scope, client.receive, client.send)
        begin = client.sent[0]
        assert begin["status"] == status
        assert header in begin["headers"]
        assert not {b"date", b"server"} & {name for name, _ in begin["headers"]}
        assert (b"connection", b"keep-alive") not in begin["headers"]

    asyncio.run(check())
