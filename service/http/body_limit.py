"""Middleware that limits request bodies, and that lets a client read the answer to a body over the limit.

A client that sends its whole body before it reads would lose an answer after which the connection is closed. So the
rest of a refused body is read and discarded first, up to a bound.
"""

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.problems import Problem, answer
from service.http.requests import MAX_BODY_BYTES

IMPORT = re.compile(r"/v1/(?:collections/[^/]+/documents/)?import")
"""The paths of imports, whose bodies have no limit."""
MAX_DISCARDED_BYTES = 64 * 1024 * 1024
"""Bytes of a refused body that are read before the connection is closed. A longer body may lose the answer."""


def is_import(scope: Scope) -> bool:
    """Return whether a request is an import. The id of a document may end like the path of one."""
    return scope.get("method") == "POST" and IMPORT.fullmatch(scope["path"]) is not None


class BodyLimit:
    """Answers 413 if Content-Length exceeds the limit. FastAPI counts the bytes of bodies without Content-Length."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = Body(receive)

        async def send_after_body(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 413:
                await body.discard()
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        content_length = dict(scope["headers"]).get(b"content-length", b"")
        if not is_import(scope) and content_length.isdigit() and int(content_length) > MAX_BODY_BYTES:
            problem = Problem(413, "payload_too_large", f"a request body must not exceed {MAX_BODY_BYTES} bytes")
            await answer(problem, scope)(scope, body.receive, send_after_body)
            return
        await self.app(scope, body.receive, send_after_body)


class Body:
    """A request body that knows whether it has been read to its end."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def receive(self) -> Message:
        """Return the next message of the request."""
        message = await self._receive()
        self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def discard(self) -> None:
        """Read the rest, at most MAX_DISCARDED_BYTES of it."""
        discarded = 0
        while not self._ended and discarded < MAX_DISCARDED_BYTES:
            discarded += len((await self.receive()).get("body", b""))
