"""Middleware that compresses answers with zstd or gzip, as the client accepts.

Event streams stay as they are, because a compressor would hold events back. So do short answers, and media types that
are compressed already.
"""

import zlib
from typing import Protocol

from backports import zstd
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 1_000
"""Shorter answers stay as they are: they fit into a packet."""
INLINE_BYTES = 128 * 1024
"""Longer parts are compressed in a thread, so that other requests do not wait."""
ZSTD_LEVEL, GZIP_LEVEL = 3, 4
"""Levels that take less time than a fast network takes for the saved bytes."""
GZIP_WINDOW = 31
"""The window of zlib with the header of gzip."""
ENCODINGS = ("zstd", "gzip")
"""In the order of preference."""
COMPRESSED_TYPES = (
    "application/javascript",
    "application/json",
    "application/problem+json",
    "application/x-ndjson",
    "image/svg+xml",
    "text/",
)
"""Beginnings of the media types that are compressed."""


class Compressor(Protocol):
    """An incremental compressor."""

    def compress(self, data: bytes, /) -> bytes:
        """Return the next compressed bytes."""

    def flush(self) -> bytes:
        """Return the last compressed bytes."""


class Compression:
    """Compresses the answers of an application."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        encoding = accepted_encoding(Headers(scope=scope).get("accept-encoding", ""))
        await self.app(scope, receive, Answer(send, encoding).send)


class Answer:
    """One answer on its way to the client. The head of an answer that may be compressed waits for its first part."""

    def __init__(self, send: Send, encoding: str | None) -> None:
        self._send = send
        self._encoding = encoding
        self._head: Message | None = None
        self._compressor: Compressor | None = None

    async def send(self, message: Message) -> None:
        """Send a message of the application, compressed if that is useful."""
        if message["type"] == "http.response.start":
            if not _is_compressible(message):
                if message["status"] == 304:  # of an answer that varies, so that caches keep the two apart
                    message["headers"] = list(message.get("headers", ()))
                    MutableHeaders(raw=message["headers"]).add_vary_header("Accept-Encoding")
                await self._send(message)
            else:
                self._head = message
            return
        head, self._head = self._head, None
        if head is not None:
            self._prepare(head, message)
            if self._compressor is not None:
                message = await self._compressed(message)
                if not message.get("more_body", False):
                    MutableHeaders(raw=head["headers"])["Content-Length"] = str(len(message["body"]))
            await self._send(head)
        elif self._compressor is not None:
            message = await self._compressed(message)
        await self._send(message)

    def _prepare(self, head: Message, first: Message) -> None:
        """Decide whether to compress, and set the headers."""
        head["headers"] = list(head.get("headers", ()))
        headers = MutableHeaders(raw=head["headers"])
        headers.add_vary_header("Accept-Encoding")
        if self._encoding is None or "content-encoding" in headers or first["type"] != "http.response.body":
            return
        if not first.get("more_body", False) and len(first.get("body", b"")) < MIN_BYTES:
            return
        headers["Content-Encoding"] = self._encoding
        del headers["Content-Length"]
        if headers.get("etag", "").startswith('"'):
            headers["ETag"] = f"W/{headers['etag']}"  # the bytes differ by encoding, the content does not
        self._compressor = compressor(self._encoding)

    async def _compressed(self, message: Message) -> Message:
        part = message.get("body", b"")
        is_last = not message.get("more_body", False)
        if len(part) > INLINE_BYTES:
            body = await run_in_threadpool(self._next_bytes, part, is_last)
        else:
            body = self._next_bytes(part, is_last)
        return {**message, "body": body}

    def _next_bytes(self, part: bytes, is_last: bool) -> bytes:
        assert self._compressor is not None
        body = self._compressor.compress(part)
        return body + self._compressor.flush() if is_last else body


def _is_compressible(head: Message) -> bool:
    media_type = Headers(raw=list(head.get("headers", ()))).get("content-type", "").partition(";")[0]
    return media_type.startswith(COMPRESSED_TYPES) and media_type != "text/event-stream"


def compressor(encoding: str) -> Compressor:
    """Return a new compressor of an encoding in ENCODINGS."""
    if encoding == "zstd":
        return zstd.ZstdCompressor(ZSTD_LEVEL)
    return zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW)


def accepted_encoding(header: str) -> str | None:
    """Return the best encoding that an Accept-Encoding header accepts, or None. Between equals, zstd is better."""
    weights = dict(_weighted(part) for part in header.lower().split(","))
    default = weights.get("*", 0.0)
    best = max(ENCODINGS, key=lambda encoding: weights.get(encoding, default))
    return best if weights.get(best, default) > 0 else None


def _weighted(part: str) -> tuple[str, float]:
    """Return the encoding and the weight of a part such as `gzip;q=0.5`. A weight that is no number is 0."""
    name, _, parameters = part.partition(";")
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return name.strip(), float(value)
            except ValueError:
                return name.strip(), 0.0
    return name.strip(), 1.0
