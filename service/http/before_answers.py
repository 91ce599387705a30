"""Middleware that runs something before the answer to each request, except reading requests and checks of liveness."""

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.reading_requests import reading_request
from service.http.server import LIVE


class BeforeAnswers:
    """Calls `run` in a thread before the head of an answer is sent."""

    def __init__(self, app: ASGIApp, run: Callable[[], None]) -> None:
        self.app = app
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == LIVE or reading_request(scope):
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                await run_in_threadpool(self._run)
            await send(message)

        await self.app(scope, receive, sent)
