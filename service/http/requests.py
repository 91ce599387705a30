"""How input is read at the edge: strict JSON, limits, one base for request models."""

from typing import Any

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, ValidationError

from service.http.problems import pointer

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


def first_error(error: ValidationError) -> str:
    """Return where and why an item is not as documented, without repeating what it holds."""
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{pointer(found['loc']) or '/'}: {found['msg']}"
