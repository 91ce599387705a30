"""Middleware that runs something before the answer to each request, but for searches and checks of liveness."""

import re
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.server import LIVE

UNCHANGING = re.compile(r"/v1/(collections/[^/]+/(search|recommend|suggestions)|multi-search)")
"""Paths that change nothing, with the methods GET and POST. A document may have the id `search`."""


class BeforeAnswers:
    """Calls `run` in a thread before the head of an answer is sent."""

    def __init__(self, app: ASGIApp, run: Callable[[], None]) -> None:
        self.app = app
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == LIVE or _changes_nothing(scope):
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                await run_in_threadpool(self._run)
            await send(message)

        await self.app(scope, receive, sent)


def _changes_nothing(scope: Scope) -> bool:
    return scope["method"] in ("GET", "POST") and UNCHANGING.fullmatch(scope["path"]) is not None
