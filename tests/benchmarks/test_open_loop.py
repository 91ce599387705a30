"""The open loop sends its requests at their times, on kept connections, and counts those without an answer."""

import time

from benchmarks.servers.http1 import request
from benchmarks.servers.load import NO_CONNECTION
from benchmarks.servers.open_loop import open_loop
from tests.benchmarks.listener import listening, refusing, said


def get(number: int) -> bytes:
    return request("GET", f"/{number}")


def test_every_request_is_sent_once_and_answers_are_counted_by_status() -> None:
    with listening(lambda path: said("x" * 5000, 503 if path.endswith("7") else 200)) as listener:
        done = open_loop(listener.port, get, rate=500.0, seconds=0.2, most_open=100)
    assert listener.asked == {f"/{number}": 1 for number in range(100)}
    assert {status: len(times) for status, times in done.seconds.items()} == {200: 90, 503: 10}
    assert not done.late
    assert not done.failures


def test_a_free_connection_is_used_again() -> None:
    with listening(lambda path: said("x")) as listener:
        open_loop(listener.port, get, rate=20.0, seconds=0.5, most_open=100)
        assert listener.connections < 10


def test_requests_do_not_wait_for_earlier_answers() -> None:
    def slow(path: str) -> bytes:
        time.sleep(0.05)  # the only thread of the server: answers take longer than the time between two requests
        return said("x")

    with listening(slow) as listener:
        done = open_loop(listener.port, get, rate=200.0, seconds=0.1, most_open=100)
    assert listener.connections > 1
    assert len(done.seconds[200]) == 20


def test_a_request_is_late_while_too_many_are_open() -> None:
    def slow(path: str) -> bytes:
        time.sleep(0.1)
        return said("x")

    with listening(slow) as listener:
        done = open_loop(listener.port, get, rate=200.0, seconds=0.1, most_open=3)
    assert len(done.seconds[200]) + done.late == 20
    assert done.late


def test_a_request_without_an_answer_fails() -> None:
    with listening(lambda path: None if path == "/3" else said("x")) as listener:
        done = open_loop(listener.port, get, rate=100.0, seconds=0.1, most_open=100)
    assert len(done.seconds[NO_CONNECTION]) == 1
    assert done.failures == {"closed without an answer": 1}


def test_without_a_listener_every_request_fails() -> None:
    with refusing() as port:
        done = open_loop(port, get, rate=100.0, seconds=0.05, most_open=100)
    assert len(done.seconds[NO_CONNECTION]) == 5
