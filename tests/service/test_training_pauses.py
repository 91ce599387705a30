"""A training process waits while searches occupy all threads, goes on after them, and waits no longer than a bound."""

import io
import os
import threading
from typing import Any

import pytest

from service.runtime import search_pool
from service.runtime.search_pool import SearchPool
from service.training import pauses
from service.training.pauses import (
    CALM_SECONDS,
    GO,
    LEAST_RUN_SECONDS,
    LONGEST_PAUSE_SECONDS,
    PAUSE,
    Pacer,
    obey,
    pausing,
)
from tests.service.client import DEADLINE_SECONDS


def orders(busy: list[tuple[float, float]], until: float) -> list[tuple[float, bytes]]:
    """Return the orders of looks every hundredth of a second; busy: times from and to which no thread is free."""
    pacer, found = Pacer(0.0), []
    for hundredth in range(int(until * 100) + 1):
        now = hundredth / 100
        order = pacer.look(now, any(start <= now < end for start, end in busy))
        if order is not None:
            found.append((now, order))
    return found


def test_a_process_pauses_while_no_thread_is_free_and_goes_on_when_one_was_free_for_a_while() -> None:
    assert orders([], 2.0) == []
    (paused, first), (on, second) = orders([(1.0, 1.3)], 3.0)
    assert (paused, first, second) == (1.0, PAUSE, GO)
    assert on == pytest.approx(1.3 + CALM_SECONDS, abs=0.02)


def test_a_process_of_a_busy_service_gets_a_ninth_of_the_time() -> None:
    found = orders([(0.0, 100.0)], 100.0)
    assert [order for _, order in found[:4]] == [PAUSE, GO, PAUSE, GO]
    paused = sum(on - off for (off, _), (on, _) in zip(found[::2], found[1::2], strict=False))
    assert pytest.approx(8 / 9) == LONGEST_PAUSE_SECONDS / (LONGEST_PAUSE_SECONDS + LEAST_RUN_SECONDS)
    assert paused / 100.0 == pytest.approx(8 / 9, abs=0.03)


def test_the_main_thread_waits_for_the_order_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    read, write = os.pipe()
    ended = threading.Event()

    class Noted(threading.Event):
        """An event that notes the wait in the main thread, and gives the next orders then."""

        def wait(self, timeout: float | None = None) -> bool:
            seen.append("waits")
            assert threading.current_thread() is threading.main_thread()
            os.write(write, GO)
            result = super().wait(timeout)
            seen.append("goes on")
            return result

    with monkeypatch.context() as patch:
        patch.setattr(pauses, "Event", Noted)
        obey(read, ended.set)
    os.write(write, PAUSE)
    while "goes on" not in seen:  # the signal is handled between two steps of this loop
        pass
    assert seen == ["waits", "goes on"]
    os.close(write)
    assert ended.wait(DEADLINE_SECONDS)
    os.close(read)


def test_orders_reach_the_process_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(pauses, "LEAST_RUN_SECONDS", 0.0)
    read, write = os.pipe()
    busy = threading.Event()
    busy.set()
    stdin: Any = io.FileIO(write, "w")
    with stdin, pausing(stdin, busy.is_set):
        assert os.read(read, 1) == PAUSE
        busy.clear()
        assert os.read(read, 1) == GO
        os.close(read)
        busy.set()  # the next order finds no reader, which is no error


def test_a_pool_is_busy_when_no_thread_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pool, "LONGEST_WAIT_SECONDS", DEADLINE_SECONDS)
    gate, pool = threading.Event(), SearchPool(threads=2, queue=2)
    futures = [pool.submit(lambda: gate.wait(DEADLINE_SECONDS))]
    assert not pool.is_busy
    futures.append(pool.submit(lambda: gate.wait(DEADLINE_SECONDS)))
    assert pool.is_busy  # although no search waits
    futures.append(pool.submit(lambda: True))
    assert pool.is_busy
    gate.set()
    assert all(future.result(DEADLINE_SECONDS) for future in futures)
    pool.close()
    assert not pool.is_busy
