"""Passes requests on to the process of the data directory, over its Unix socket: body and answer as streams."""

import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import anyio
import httpx
from starlette.types import Message, Receive, Scope, Send

from service.http.connection import BAD_REQUEST
from service.http.problems import Problem, answer
from service.http.security_headers import SecurityHeaders

NOT_PRINTABLE = re.compile(rb"[^!-~]")
"""Bytes that a target must not have, and that the parser of this server lets through."""
OF_A_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"}
)
"""Headers that concern one connection, and are not passed on (RFC 9110, 7.6.1)."""
OF_A_SERVER = OF_A_CONNECTION | {b"date", b"server"}
"""Headers of answers that this server writes itself."""
CLOSES = (b"connection", b"close")
"""The header of an answer that came before the whole body, which the client then stops to send."""
AWAY = Problem(503, "unavailable", "the process of the data directory does not answer", headers={"Retry-After": "1"})


class Forwarding:
    """An ASGI application that has another server answer."""

    def __init__(self, address: Path) -> None:
        """address: the Unix socket of the other server."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=2)
        transport = httpx.AsyncHTTPTransport(uds=str(address), limits=limits, verify=False)  # no TLS
        self._client = httpx.AsyncClient(transport=transport, timeout=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(receive, scope["headers"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(body.watch, tasks.cancel_scope)
            await self._answer(_request(scope, body), scope, receive, send)
            tasks.cancel_scope.cancel()

    async def _answer(self, request: httpx.Request, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False
        try:
            response = await self._client.send(request, stream=True)
            try:
                headers = [(name.lower(), value) for name, value in response.headers.raw]
                kept = [field for field in headers if field[0] not in OF_A_SERVER or field == CLOSES]
                has_begun = True
                await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
                async for part in response.aiter_raw():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            if has_begun:
                raise  # the client sees that the answer ends too early
            problem = BAD_REQUEST if isinstance(error, httpx.LocalProtocolError) else AWAY
            await SecurityHeaders(answer(problem, scope))(scope, receive, send)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


class _Body:
    """The body of a request, as it arrives; `watch` cancels the request when the client leaves."""

    def __init__(self, receive: Receive, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._receive = receive
        self.exists = any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)
        self._is_whole = anyio.Event()
        if not self.exists:
            self._is_whole.set()

    async def parts(self) -> AsyncIterator[bytes]:
        while not self._is_whole.is_set():
            message: Message = await self._receive()
            if message["type"] == "http.disconnect":
                self._is_whole.set()  # `watch` is told the same next, and cancels the request
                await anyio.sleep_forever()
            more = message.get("more_body", False)
            if body := message.get("body", b""):
                yield body
            if not more:
                self._is_whole.set()

    async def watch(self, request: anyio.CancelScope) -> None:
        await self._is_whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        request.cancel()


def _request(scope: Scope, body: _Body) -> httpx.Request:
    """Return the request to pass on: the same method, path, headers and body."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    return httpx.Request(
        scope["method"],
        "http://softseek/",
        headers=[(name, value) for name, value in scope["headers"] if name not in OF_A_CONNECTION],
        content=body.parts() if body.exists else None,
        extensions={"target": NOT_PRINTABLE.sub(_percent_encoded, target)},  # as it came: `..` in a path stays
    )


def _percent_encoded(byte: re.Match[bytes]) -> bytes:
    return b"%%%02X" % byte[0][0]
