"""How input is read at the edge: strict JSON, limits, one base for request models."""

from typing import Annotated, Any

import orjson
from fastapi import Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import Problem, answer, pointer
from service.runtime.runtime import Runtime

MAX_BODY_BYTES = 8 * 1024 * 1024
STREAMED = "/documents/import"
"""The end of the one path whose body has no limit."""
UNLIMITED = 2**62
"""For the one body that is streamed to the disk and read line by line."""


class Strict(BaseModel):
    """A request body: unknown fields are errors, types are as documented, numbers are finite."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StrictRequest(Request):
    """Reads JSON with orjson, which refuses NaN, Infinity and lone surrogates; the standard library does not."""

    async def json(self) -> Any:
        return orjson.loads(await self.body())


class StrictRoute(APIRoute):
    """A route whose body is JSON whatever its Content-Type says: `curl -d` calls everything a form."""

    def get_route_handler(self) -> Any:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Any:
            headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
            scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
            return await handler(StrictRequest(scope, request.receive))

        return handle


class AnnouncedLength:
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


class SameOrigin:
    """Refuses changes that another website asks a browser for: as long as no key is needed, the browser is the key."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        origin = headers.get(b"origin", b"")
        foreign = headers.get(b"sec-fetch-site") == b"cross-site" or (
            origin and origin.partition(b"://")[2] != headers.get(b"host", b"")
        )
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "OPTIONS") and foreign:
            problem = Problem(403, "cross_origin", "changes are taken from the service's own pages and from programs")
            await answer(problem, scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)


async def runtime_of(request: Request) -> Runtime:  # a plain function would be sent to a thread, for every request
    """Return the runtime that the app was made with."""
    runtime: Runtime = request.app.state.runtime
    return runtime


Running = Annotated[Runtime, Depends(runtime_of)]


def first_error(error: ValidationError) -> str:
    """Return where and why an item is not as documented, without repeating what it holds."""
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{pointer(found['loc']) or '/'}: {found['msg']}"
