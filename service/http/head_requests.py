"""Middleware that answers HEAD as GET, without a body (RFC 9110, 9.3.2).

The parts inside see a GET, so that access, rates, counts and headers are those of a GET.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """Ends the answer to HEAD with its head. A stream learns that its client is gone, so an endless one ends too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") != "HEAD":
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        await self.app({**scope, "method": "GET"}, receive, sent)  # a copy: the server still sees HEAD
