"""The ASGI application of a worker: answers the requests that read, and passes all others on.

A request is passed on, too, while the worker lacks something that the process of the data directory has published, and
for keys with a rate, which one process counts.
"""

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.authorisation import Head
from service.http.reading_requests import reading_request
from service.http.request_counter import NOT_MIRRORED
from service.http.server import LIVE
from service.workers.forwarding import Forwarding
from service.workers.worker_runtime import WorkerRuntime


class Dispatch:
    """app: answers these requests, and status NOT_MIRRORED where it cannot."""

    def __init__(self, app: ASGIApp, forwarding: Forwarding, runtime: Callable[[], WorkerRuntime]) -> None:
        self._app, self._forwarding, self._runtime = app, forwarding, runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == LIVE or await self._answers(scope):
            await self._answer(scope, receive, send)
        else:
            await self._forwarding(scope, receive, send)

    async def _answers(self, scope: Scope) -> bool:
        """Return whether this worker answers. It has applied every change that was published before the request."""
        asked = reading_request(scope)
        if asked is None:
            return False
        runtime = self._runtime()
        position = runtime.published
        if not runtime.has_reached(position):
            await run_in_threadpool(runtime.follow)
            if not runtime.has_reached(position):
                return False
        if asked[1] is not None and not runtime.can_read(asked[1]):
            return False
        token = Head(scope).token
        caller = None if token is None else runtime.keyring.caller(token)
        return caller is None or caller.rate_per_minute is None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer; where it cannot, pass the request on with the same body."""
        received: list[Message] = []
        gives_up = False

        async def recorded() -> Message:
            message = await receive()
            received.append(message)
            return message

        async def sent(message: Message) -> None:
            nonlocal gives_up
            gives_up = gives_up or message.get("status") == NOT_MIRRORED
            if not gives_up:
                await send(message)

        await self._app(scope, recorded, sent)
        if gives_up:
            replayed = iter([message for message in received if message["type"] == "http.request"])

            async def again() -> Message:
                message = next(replayed, None)
                return message if message is not None else await receive()

            await self._forwarding(scope, again, send)
