"""Middleware of a searcher: every request but searches and checks of health is of the process that writes."""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import Problem, answer
from service.http.reading_requests import reading_request
from service.http.server import LIVE

HEALTH = (LIVE, "/readyz", "/metrics")


class OnlyReads:
    """Answers other requests with 421."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH or reading_request(scope):
            await self._app(scope, receive, send)
            return
        detail = "this process is a searcher: send the request to the service that writes"
        await answer(Problem(421, "not_the_writer", detail), scope)(scope, receive, send)
