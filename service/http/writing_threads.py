"""Threads of requests that write. Writes wait for each other, so they have threads apart from those of other requests.

A write of a minute, such as an import, would otherwise have the writes that wait for it occupy the threads of reads.
Where writes arrive faster than they are done, the longest wait bounds how many wait: further ones are refused.
"""

import time
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from service.http.problems import Problem

MOST_WRITING = 20
"""Requests that write at the same time. Others wait for a thread, in the order of their arrival."""
LONGEST_WAIT_SECONDS = 30.0
"""While a request has waited longer for a thread, further requests that write are refused."""

P = ParamSpec("P")
T = TypeVar("T")


class WritingThreads:
    """The threads of one event loop, and the calls that wait for one."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(MOST_WRITING)
        self._waiting: dict[object, float] = {}
        """Token of a call -> time of its arrival, the first first. A call leaves it in its thread."""

    @property
    def longest_wait(self) -> float:
        """The seconds that the first waiting call has waited; 0 where none waits."""
        arrivals = list(self._waiting.values())  # a copy, because threads change the dictionary
        return time.monotonic() - arrivals[0] if arrivals else 0.0

    async def run(self, call: Callable[[], T]) -> T:
        """Call a function in a thread once one is free; return its result."""
        token = object()
        self._waiting[token] = time.monotonic()

        def begin() -> T:
            self._waiting.pop(token, None)
            return call()

        try:
            return await to_thread.run_sync(begin, limiter=self._limiter)
        finally:
            self._waiting.pop(token, None)


_THREADS: RunVar[WritingThreads] = RunVar("writing_threads")


def _threads() -> WritingThreads:
    threads = _THREADS.get(None)
    if threads is None:
        threads = WritingThreads()
        _THREADS.set(threads)
    return threads


async def run_in_writing_thread(call: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Call a function that writes in a thread of its own kind; return its result. For the work of accepted requests."""
    return await _threads().run(partial(call, *args, **more))


async def accept_write(call: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Do the work of a request as `run_in_writing_thread` does.

    Raises Problem 503 `overloaded`, before anything is stored, while another call has waited too long.
    """
    if _threads().longest_wait > LONGEST_WAIT_SECONDS:
        raise Problem(503, "overloaded", "too many requests that write are waiting", headers={"Retry-After": "5"})
    return await run_in_writing_thread(call, *args, **more)


def in_writing_thread(endpoint: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    """Return the endpoint of a route that is run by `accept_write`, with the same signature."""

    @wraps(endpoint)
    async def run(*args: Any, **more: Any) -> T:
        return await accept_write(endpoint, *args, **more)

    return run
