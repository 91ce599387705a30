"""Middleware that refuses a request body over the limit before it is read."""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import Problem, answer
from service.http.requests import MAX_BODY_BYTES, STREAMED


class BodyLimit:
    """Answers 413 if Content-Length exceeds the limit. FastAPI counts the bytes of bodies without Content-Length."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content_length = dict(scope.get("headers", ())).get(b"content-length", b"")
        limited = scope["type"] == "http" and not scope["path"].endswith(STREAMED)
        if limited and content_length.isdigit() and int(content_length) > MAX_BODY_BYTES:
            problem = Problem(413, "payload_too_large", f"a request body must not exceed {MAX_BODY_BYTES} bytes")
            await answer(problem, scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)
