"""Threads of requests that write. Writes wait for each other, so they have threads apart from those of other requests.

A write of a minute, such as an import, would otherwise have the writes that wait for it occupy the threads of reads.
"""

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

MOST_WRITING = 20
"""Requests that write at the same time. Others wait for a thread, in the order of their arrival."""
_LIMITER: RunVar[CapacityLimiter] = RunVar("writing_threads")

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_writing_thread(call: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Call a function that writes in a thread of its own kind; return its result."""
    limiter = _LIMITER.get(None)
    if limiter is None:
        limiter = CapacityLimiter(MOST_WRITING)
        _LIMITER.set(limiter)
    return await to_thread.run_sync(partial(call, *args, **more), limiter=limiter)


def in_writing_thread(endpoint: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    """Return the endpoint of a route that is run by `run_in_writing_thread`, with the same signature."""

    @wraps(endpoint)
    async def run(*args: Any, **more: Any) -> T:
        return await run_in_writing_thread(endpoint, *args, **more)

    return run
