"""Middleware that refuses searches while their queue is full, before anything reads their bodies."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.access import ASKED
from service.http.problems import Problem, answer

SEARCH_OPERATIONS = frozenset({"search", "get_search", "multi_search", "recommend"})
"""The operations that take a place in the queue of searches."""


class Overload:
    """Answers 503 `overloaded` while is_full(scope) holds.

    `service.http.connection` refuses earlier. This middleware serves servers without it.
    """

    def __init__(self, app: ASGIApp, is_full: Callable[[Scope], bool]) -> None:
        self.app = app
        self._is_full = is_full

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope.get(ASKED)
        if asked is not None and asked.operation in SEARCH_OPERATIONS and self._is_full(scope):
            problem = Problem(503, "overloaded", "too many searches are waiting", headers={"Retry-After": "1"})
            await answer(problem, scope)(scope, receive, send)
            return
        await self.app(scope, receive, send)
