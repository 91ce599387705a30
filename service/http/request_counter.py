"""Middleware that counts responses by status class."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.metrics import REQUESTS

NOT_MIRRORED = 599
"""The status by which a worker's application tells that another process must answer. No client sees it."""


class RequestCounter:
    """Counts responses by status class."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] != NOT_MIRRORED:
                REQUESTS.labels(status=f"{message['status'] // 100}xx").inc()
            await send(message)

        await self.app(scope, receive, counted if scope["type"] == "http" else send)
