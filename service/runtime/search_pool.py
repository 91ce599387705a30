"""The threads that answer searches, and the bounded queue before them.

A search whose client left is taken out of the queue. Where clients leave while they wait, the oldest search of the
queue is also the next whose client leaves, and in the order of arrival most answers come too late. So for some time
after a client left, the newest search is answered first. Otherwise the order of arrival holds.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from service.http.problems import Problem

NEWEST_FIRST_SECONDS = 1.0
"""Time after a client left its place in the queue, in which the newest search is answered first."""
LONGEST_WAIT_SECONDS = 10.0
"""A search that waited for longer gets 503."""
T = TypeVar("T")


def overloaded() -> Problem:
    """Return the problem of a search that finds no place, or waited too long."""
    return Problem(503, "overloaded", "too many searches are waiting", headers={"Retry-After": "1"})


@dataclass(eq=False)
class _Waiting:
    work: Callable[[], Any]
    future: "Future[Any]"
    since: float = field(default_factory=time.monotonic)


class SearchPool:
    """Runs searches in `threads` threads; `queue` further searches may wait."""

    def __init__(self, threads: int, queue: int, prepare: Callable[[], None] = lambda: None) -> None:
        """Start the threads. `prepare` runs in each of them first."""
        self.places = threads + queue
        self.taken = 0
        """The searches that run or wait. Other threads may read the number."""
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._newest_first_until = 0.0
        self._prepare = prepare
        self._threads = [threading.Thread(target=self._work, name=f"search-{at}", daemon=True) for at in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def free_places(self) -> int:
        """The number of further searches that would find a place."""
        return self.places - self.taken

    @property
    def is_full(self) -> bool:
        """Whether a further search is refused."""
        return self.free_places <= 0

    @property
    def is_busy(self) -> bool:
        """Whether no thread is free for a further search."""
        return self.taken >= len(self._threads)

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        """Queue a search. A waiting search can be canceled. Raises Problem 503 `overloaded` if the queue is full."""
        one = _Waiting(work, Future())
        with self._changed:
            if self._closed or self.is_full:
                raise overloaded()
            self.taken += 1
            self._waiting.append(one)
            self._changed.notify()
        one.future.add_done_callback(lambda future: self._left(one, future))
        return one.future

    def close(self) -> None:
        """Cancel the searches that wait, and return when the others have ended."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting)
            self._changed.notify_all()
        for one in waiting:
            one.future.cancel()
        for thread in self._threads:
            thread.join()

    def _left(self, one: _Waiting, future: "Future[Any]") -> None:
        """Free the place of a search that ended or was canceled."""
        with self._changed:
            self.taken -= 1
            if future.cancelled() and one in self._waiting:
                self._waiting.remove(one)
                self._newest_first_until = time.monotonic() + NEWEST_FIRST_SECONDS

    def _work(self) -> None:
        self._prepare()
        while (one := self._next()) is not None:
            if not one.future.set_running_or_notify_cancel():
                continue
            if time.monotonic() - one.since > LONGEST_WAIT_SECONDS:
                one.future.set_exception(overloaded())
                continue
            try:
                one.future.set_result(one.work())
            except BaseException as error:
                one.future.set_exception(error)

    def _next(self) -> _Waiting | None:
        """Return the next search; None when the pool is closed."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            now = time.monotonic()
            is_overdue = now - self._waiting[0].since > LONGEST_WAIT_SECONDS
            if now < self._newest_first_until and not is_overdue:
                return self._waiting.pop()
            return self._waiting.popleft()
