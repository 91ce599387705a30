"""Whether the client of a request is still there, so that no thread searches for a client that left."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import ClassVar, TypeVar

from starlette.types import Scope

from service.http.problems import Problem

CONNECTION = "softseek.connection"
"""The key of an ASGI scope that has the connection, if the server is `service.http.connection`."""
T = TypeVar("T")


class Presence:
    """The presence of a client: `leave` is called once, when its connection is lost."""

    has_left = False
    is_stopping: ClassVar[bool] = False
    """Whether the server stops. Each server has a class of its own."""
    _when_it_leaves: Callable[[], object] | None = None

    def leave(self) -> None:
        """Note that the client left, and cancel the work that waits for it."""
        self.has_left = True
        if self._when_it_leaves is not None:
            self._when_it_leaves()

    async def wait(self, future: "Future[T]") -> T:
        """Return the result of work for this client. Work that has not begun is canceled when the client leaves."""
        if self.has_left:
            future.cancel()
        self._when_it_leaves = future.cancel
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if self.has_left:
                raise Problem(408, "client_left", "the client left before its answer") from None
            raise
        finally:
            self._when_it_leaves = None


def is_stopping(scope: Scope) -> bool:
    """Return whether the server of a request stops, so that an answer without an end must end."""
    presence: Presence | None = scope.get(CONNECTION)
    return presence is not None and presence.is_stopping


async def result_for(scope: Scope, future: "Future[T]") -> T:
    """Return the result of work for the client of a request."""
    presence: Presence | None = scope.get(CONNECTION)
    return await (presence.wait(future) if presence is not None else asyncio.wrap_future(future))
