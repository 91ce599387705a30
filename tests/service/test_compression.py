"""Answers are compressed with zstd or gzip as the client accepts; event streams and short answers are not."""

import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from backports import zstd
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from fastapi.testclient import TestClient

from service.http.compression import INLINE_BYTES, MIN_BYTES, Compression, accepted_encoding
from tests.service.client import DEFAULT, opened

TEXT = "all work and no play " * 200
DECODERS = {"gzip": lambda raw: zlib.decompress(raw, wbits=31), "zstd": zstd.decompress}
every_encoding = pytest.mark.parametrize("encoding", DECODERS)


async def parts(*texts: str) -> AsyncIterator[bytes]:
    for text in texts:
        yield text.encode()


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    app.add_middleware(Compression)
    answers: dict[str, Any] = {
        "/text": lambda: PlainTextResponse(TEXT, headers={"ETag": '"x"', "Vary": "Origin"}),
        "/short": lambda: PlainTextResponse("a" * (MIN_BYTES - 1)),
        "/long": lambda: PlainTextResponse(TEXT * (3 * INLINE_BYTES // len(TEXT))),
        "/parts": lambda: StreamingResponse(parts(TEXT, "", TEXT), media_type="application/x-ndjson"),
        "/events": lambda: StreamingResponse(parts(f"data: {TEXT}\n\n"), media_type="text/event-stream"),
        "/image": lambda: Response(TEXT.encode(), media_type="image/png"),
        "/encoded": lambda: PlainTextResponse(TEXT, headers={"Content-Encoding": "br"}),
        "/empty": lambda: Response(status_code=204),
    }
    for path, answer in answers.items():
        app.add_api_route(path, answer)
    return TestClient(app)


def raw(client: TestClient, path: str, accepted: str, method: str = "GET") -> tuple[Any, bytes]:
    """Return the headers of an answer, and its body as it was sent."""
    with client.stream(method, path, headers={"Accept-Encoding": accepted}) as answer:
        return answer.headers, b"".join(answer.iter_raw())


@every_encoding
@pytest.mark.parametrize(("path", "text"), [("/text", TEXT), ("/parts", TEXT + TEXT)])
def test_an_answer_is_compressed(client: TestClient, encoding: str, path: str, text: str) -> None:
    headers, body = raw(client, path, encoding)
    assert headers["content-encoding"] == encoding
    assert len(body) < len(text) / 4
    assert DECODERS[encoding](body).decode() == text
    assert headers.get("content-length", str(len(body))) == str(len(body))
    assert "Accept-Encoding" in headers["vary"]


@every_encoding
def test_a_long_answer_is_compressed(client: TestClient, encoding: str) -> None:
    headers, body = raw(client, "/long", encoding)
    assert DECODERS[encoding](body).decode() == TEXT * (3 * INLINE_BYTES // len(TEXT))
    assert headers["content-length"] == str(len(body))


def test_the_tag_of_a_compressed_answer_is_weak_and_vary_keeps_its_names(client: TestClient) -> None:
    headers, _ = raw(client, "/text", "gzip")
    assert headers["etag"] == 'W/"x"'
    assert headers["vary"] == "Origin, Accept-Encoding"


def test_an_answer_says_that_it_varies_also_where_it_is_not_compressed(client: TestClient) -> None:
    headers, body = raw(client, "/text", "identity")
    assert "content-encoding" not in headers
    assert body.decode() == TEXT
    assert "Accept-Encoding" in headers["vary"]
    assert headers["etag"] == '"x"'


@pytest.mark.parametrize("path", ["/events", "/short", "/image", "/encoded", "/empty"])
def test_some_answers_stay_as_they_are(client: TestClient, path: str) -> None:
    headers, body = raw(client, path, "gzip, zstd")
    plain_headers, plain = raw(client, path, "identity")
    assert body == plain
    assert headers.get("content-encoding") == plain_headers.get("content-encoding")
    assert headers.get("content-length") == plain_headers.get("content-length")


def test_the_head_of_an_event_stream_is_sent_before_its_first_event() -> None:
    sent: list[str] = []

    async def stream(_scope: Any, _receive: Any, send: Any) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
        await send(head)
        assert sent == ["http.response.start"]
        await send({"type": "http.response.body", "body": b"data: 1\n\n"})

    async def send(message: Any) -> None:
        sent.append(message["type"])

    anyio.run(Compression(stream), {"type": "http", "headers": [(b"accept-encoding", b"gzip")]}, None, send)
    assert sent == ["http.response.start", "http.response.body"]


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("", None),
        ("identity", None),
        ("br, deflate", None),
        ("gzip", "gzip"),
        ("GZIP, deflate", "gzip"),
        ("gzip, zstd", "zstd"),
        ("gzip;q=1.0, zstd;q=0.5", "gzip"),
        ("zstd;q=0, gzip;q=0.1", "gzip"),
        ("gzip; q=0", None),
        ("*", "zstd"),
        ("zstd;q=0, *", "gzip"),
        ("gzip;q=high", None),
        (",,;;=", None),
    ],
)
def test_the_best_accepted_encoding_is_chosen(header: str, encoding: str | None) -> None:
    assert accepted_encoding(header) == encoding


def test_an_answer_is_compressed_and_its_repetition_by_key_too(tmp_path: Any) -> None:
    with opened(tmp_path / "data") as client:
        headers = {"Accept-Encoding": "zstd", "Idempotency-Key": "once"}
        found = []
        for _ in range(2):
            with client.stream("POST", f"{DEFAULT}/events", json=[{}] * 50, headers=headers) as answer:
                assert answer.headers["content-encoding"] == "zstd"
                found.append(json.loads(zstd.decompress(b"".join(answer.iter_raw()))))
        assert found[0] == found[1]
        assert len(found[0]["rejected"]) == 50
