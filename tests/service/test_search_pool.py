"""The queue of searches is bounded, forgets clients that left, and prefers new searches under overload."""

import threading
from collections.abc import Callable, Iterator

import pytest

from service.http.problems import Problem
from service.runtime import search_pool
from service.runtime.search_pool import SearchPool
from tests.service.client import DEADLINE_SECONDS


class Busy:
    """A pool with one thread that is busy until `free` is called, and the order in which further searches ran."""

    def __init__(self, queue: int) -> None:
        self.pool = SearchPool(1, queue)
        self.order: list[int] = []
        self._gate = threading.Event()
        started = threading.Event()
        self._first = self.pool.submit(lambda: (started.set(), self._gate.wait(DEADLINE_SECONDS)))
        assert started.wait(DEADLINE_SECONDS)

    def work(self, number: int) -> Callable[[], int]:
        def run() -> int:
            self.order.append(number)
            return number

        return run

    def free(self) -> None:
        self._gate.set()
        self._first.result(DEADLINE_SECONDS)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Busy]:
    monkeypatch.setattr(search_pool, "LONGEST_WAIT_SECONDS", DEADLINE_SECONDS)
    one = Busy(queue=3)
    yield one
    one.free()
    one.pool.close()


def test_searches_wait_in_the_order_of_arrival(busy: Busy) -> None:
    futures = [busy.pool.submit(busy.work(number)) for number in range(3)]
    busy.free()
    assert [future.result(DEADLINE_SECONDS) for future in futures] == busy.order == [0, 1, 2]


def test_a_search_beyond_the_queue_is_refused_until_one_leaves(busy: Busy) -> None:
    futures = [busy.pool.submit(busy.work(number)) for number in range(3)]
    assert busy.pool.is_full
    with pytest.raises(Problem) as refused:
        busy.pool.submit(busy.work(3))
    assert (refused.value.status, refused.value.code, refused.value.headers) == (
        503,
        "overloaded",
        {"Retry-After": "1"},
    )
    assert futures[1].cancel()
    assert not busy.pool.is_full
    last = busy.pool.submit(busy.work(4))
    busy.free()
    assert last.result(DEADLINE_SECONDS) == 4
    assert sorted(busy.order) == [0, 2, 4]


def test_the_newest_search_goes_first_where_clients_leave(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pool, "NEWEST_FIRST_SECONDS", 10.0 * DEADLINE_SECONDS)
    impatient = busy.pool.submit(busy.work(9))
    impatient.cancel()
    futures = [busy.pool.submit(busy.work(number)) for number in range(3)]
    busy.free()
    for future in futures:
        future.result(DEADLINE_SECONDS)
    assert busy.order == [2, 1, 0]


def test_a_search_that_waited_for_the_longest_time_is_refused(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pool, "LONGEST_WAIT_SECONDS", -1.0)
    future = busy.pool.submit(busy.work(0))
    busy.free()
    with pytest.raises(Problem, match="waiting"):
        future.result(DEADLINE_SECONDS)
    assert busy.order == []


def test_an_error_of_a_search_is_given_to_its_client(busy: Busy) -> None:
    def fail() -> None:
        raise ValueError("of this search")

    future = busy.pool.submit(fail)
    busy.free()
    with pytest.raises(ValueError, match="of this search"):
        future.result(DEADLINE_SECONDS)
    assert busy.pool.submit(busy.work(1)).result(DEADLINE_SECONDS) == 1


def test_a_closed_pool_cancels_what_waits() -> None:
    busy = Busy(queue=3)
    waiting = busy.pool.submit(busy.work(0))
    closer = threading.Thread(target=busy.pool.close)
    closer.start()
    while not waiting.cancelled():
        pass
    busy.free()
    closer.join(DEADLINE_SECONDS)
    assert busy.order == []
    with pytest.raises(Problem):
        busy.pool.submit(busy.work(1))
