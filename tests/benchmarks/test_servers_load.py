"""The load generator sends each request once, by the wanted number of clients, and counts answers without hits."""

import asyncio

import orjson
import pytest

from benchmarks.servers.http1 import BrokenAnswer, read_answer, request
from benchmarks.servers.load import NO_CONNECTION, Asked, Round, ask, percentile, summary
from tests.benchmarks.listener import listening, refusing, said


def hits(body: bytes) -> list[str]:
    return [hit["id"] for hit in orjson.loads(body)["hits"]]


def read(content: bytes) -> tuple[int, bytes, bool]:
    async def fed() -> tuple[int, bytes, bool]:
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        answer = await read_answer(reader)
        return answer.status, answer.body, answer.kept

    return asyncio.run(fed())


def test_an_answer_ends_after_its_content_length() -> None:
    assert read(said("four") + said("next")) == (200, b"four", True)


def test_a_chunked_answer_is_joined_without_extensions_and_trailers() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    body = b"5;note=x\r\nred a\r\nB\r\npple and so\r\n0\r\nChecksum: 7\r\n\r\n"
    assert read(head + body) == (200, b"red apple and so", True)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    assert read(b"HTTP/1.1 500 Oh\r\n\r\nall of this") == (500, b"all of this", False)


def test_a_connection_that_the_server_closes_is_not_kept() -> None:
    assert read(b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx") == (200, b"x", False)


def test_bytes_that_are_no_http_answer_are_refused() -> None:
    with pytest.raises(BrokenAnswer):
        read(b"SSH-2.0-x\r\n\r\n")


def test_a_truncated_answer_is_an_error() -> None:
    with pytest.raises(EOFError):
        read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour")


def test_a_request_has_the_length_of_its_json() -> None:
    head, _, body = request("POST", "/search", {"q": "größe"}).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /search HTTP/1.1\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert orjson.loads(body) == {"q": "größe"}


def test_every_request_is_sent_once_and_its_answer_keeps_its_position() -> None:
    with listening(lambda path: said(path)) as listener:
        done = ask(listener.port, [request("GET", f"/{number}") for number in range(50)], 4, 60)
    assert listener.asked == {f"/{number}": 1 for number in range(50)}
    assert listener.connections == 4
    assert {one.place: one.body for one in done.asked} == {number: f"/{number}".encode() for number in range(50)}


def test_no_request_starts_after_the_time_limit() -> None:
    with listening(lambda path: said("x")) as listener:
        done = ask(listener.port, [request("GET", "/")] * 50, 3, seconds=0)
    assert len(done.asked) == 3


def test_a_broken_connection_fails_only_its_own_request() -> None:
    paths = ["/good", "/breaks", "/good", "/good"]
    with listening(lambda path: None if path == "/breaks" else said("x")) as listener:
        done = ask(listener.port, [request("GET", path) for path in paths], 1, 60)
    assert [one.status for one in done.asked] == [200, NO_CONNECTION, 200, 200]
    assert listener.connections == 2


def test_without_a_listener_requests_fail_and_are_counted() -> None:
    with refusing() as port:
        found = summary(ask(port, [request("GET", "/")] * 3, 1, 60), hits)
    assert found == {"answers": 0, "failures": {"no answer": 3}}


def test_answers_without_hits_are_counted_by_reason_and_not_timed() -> None:
    good, none, foreign = b'{"hits": [{"id": "a"}]}', b'{"hits": []}', b"<html>"
    answers = [(200, good), (503, good), (200, none), (200, foreign), (200, b"[]"), (NO_CONNECTION, b""), (200, good)]
    asked = [Asked(place, place + 1.0, status, body) for place, (status, body) in enumerate(answers)]
    found = summary(Round(asked, seconds=4.0), hits)
    assert (found["answers"], found["qps"], found["p50_ms"], found["p99_ms"]) == (2, 0.5, 1000.0, 7000.0)
    assert found["failures"] == {"status 503": 1, "no hits": 1, "not an answer to a search": 2, "no answer": 1}


def test_a_percentile_is_a_measured_value() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, share) for share in (50, 99, 100)] == [50.0, 99.0, 100.0]
    assert percentile([3.0, 1.0], 50) == 1.0
