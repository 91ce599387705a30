"""Middleware: a request body has a limit, which is checked before any of it is read."""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import Problem, answer
from service.http.requests import MAX_BODY_BYTES, STREAMED


class BodyLimit:
    """Answers a body that announces too many bytes with a problem; FastAPI counts the others as they come in."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        announced = dict(scope.get("headers", ())).get(b"content-length", b"")
        limited = scope["type"] == "http" and not scope["path"].endswith(STREAMED)
        if limited and announced.isdigit() and int(announced) > MAX_BODY_BYTES:
            problem = Problem(413, "payload_too_large", f"a body has at most {MAX_BODY_BYTES} bytes")
            await answer(problem, scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)
