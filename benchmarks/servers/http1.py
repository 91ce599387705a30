"""The part of HTTP/1.1 that a load generator needs: prepared requests as bytes, answers from a kept connection.

A full HTTP client takes more processor time than some of the measured servers.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"
LIMIT_BYTES = 1 << 20
"""Limit of a head."""


class BrokenAnswer(Exception):
    """The received bytes are not an HTTP/1.1 answer."""


@dataclass(frozen=True)
class Answer:
    """Status and body of an answer, and whether the server keeps the connection."""

    status: int
    body: bytes
    kept: bool


def request(method: str, path: str, content: Any = None) -> bytes:
    """Return the bytes of a request; content is sent as JSON."""
    body = b"" if content is None else json.dumps(content).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read one answer; raises BrokenAnswer, and IncompleteReadError if the connection ends within it."""
    status, headers = _head(await reader.readuntil(b"\r\n\r\n"))
    kept = headers.get("connection", "").lower() != "close"
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Answer(status, await _chunks(reader), kept)
    if "content-length" in headers:
        return Answer(status, await reader.readexactly(int(headers["content-length"])), kept)
    if status == 204:
        return Answer(status, b"", kept)
    return Answer(status, await reader.read(), kept=False)


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise BrokenAnswer(f"not an answer in HTTP/1.1: {first[:60]!r}")
    parts = (line.partition(":") for line in lines if line)
    return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in parts}


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """Read a chunked body to its end (RFC 9112, 7.1); trailers are skipped."""
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return b"".join(parts)
