"""Middleware that runs something before the answer to each request, but for searches and checks of liveness."""

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.overload import SEARCH_ENDS

LIVE = "/livez"


class BeforeAnswers:
    """Calls `run` in a thread before the head of an answer is sent."""

    def __init__(self, app: ASGIApp, run: Callable[[], None]) -> None:
        self.app = app
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith(SEARCH_ENDS) or scope["path"] == LIVE:
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                await run_in_threadpool(self._run)
            await send(message)

        await self.app(scope, receive, sent)
