"""Middleware that refuses searches while their queue is full, before anything reads their bodies."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import Problem, answer

SEARCH_ENDS = ("/search", "/multi-search", "/recommend")


class Overload:
    """Answers 503 `overloaded` while is_full(scope) holds.

    `service.http.connection` refuses earlier. This middleware serves servers without it.
    """

    def __init__(self, app: ASGIApp, is_full: Callable[[Scope], bool]) -> None:
        self.app = app
        self._is_full = is_full

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].endswith(SEARCH_ENDS) and self._is_full(scope):
            problem = Problem(503, "overloaded", "too many searches are waiting", headers={"Retry-After": "1"})
            await answer(problem, scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)
