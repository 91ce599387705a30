"""Reading of requests: strict JSON, limits, and the base class of request models."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from starlette.concurrency import run_in_threadpool

from index.memory.query_key import as_query_key
from service.http.json_bounds import parse
from service.http.query_parameters import declared_parameters, require_declared, require_utf8, require_utf8_path
from service.http.wording import in_words, named
from service.http.writing_threads import in_writing_thread

MAX_BODY_BYTES = 8 * 1024 * 1024
SENT_TYPE = "softseek.content_type"
"""The key of an ASGI scope that has the Content-Type that the client sent."""
INLINE_BYTES = 64 * 1024
"""A longer body is parsed in a thread, so that other requests do not wait."""
MAX_UNKNOWN_FIELDS = 20
"""Unknown fields of an object that are named one by one."""
UNLIMITED = 2**62
"""The limit of the bodies of imports, which are streamed to the disk and read line by line."""


class Strict(BaseModel):
    """A request body. Unknown fields, other types than documented, NaN and infinite numbers are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, given: Any) -> Any:
        """Refuse an object with very many unknown fields as a whole: an error for each field takes seconds."""
        if isinstance(given, dict) and len(given) > MAX_UNKNOWN_FIELDS:
            known = {one.alias or name for name, one in cls.model_fields.items()}
            if len(given.keys() - known) <= MAX_UNKNOWN_FIELDS:
                return given
            raise ValueError(f"has more than {MAX_UNKNOWN_FIELDS} unknown fields")
        return given


def not_blank(text: str) -> str:
    """Return a query text. Raises ValueError for a text of white space and invisible characters alone."""
    if not as_query_key(text):
        raise ValueError("must contain more than white space")
    return text


class StrictRequest(Request):
    """Reads JSON with orjson, which refuses NaN, Infinity and lone surrogates. The standard library accepts them.

    Raises TooComplex for a body over the bounds of `service.http.json_bounds`.
    """

    async def json(self) -> Any:
        body = await self.body()
        return parse(body) if len(body) <= INLINE_BYTES else await run_in_threadpool(parse, body)


class StrictRoute(APIRoute):
    """A route that ignores Content-Type and reads the body as JSON: `curl -d` always sends the type of a form.

    It refuses paths and query strings that are not UTF-8, and query parameters that it does not declare. A route that
    describes its parameters in `openapi_extra` reads the query string itself. Functions of routes that do more than GET
    run in the threads of writes.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not iscoroutinefunction(endpoint) and set(options.get("methods") or ["GET"]) != {"GET"}:
            endpoint = in_writing_thread(endpoint)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Any:
        handler = super().get_route_handler()
        reads_itself = "parameters" in (self.openapi_extra or {})
        declared = declared_parameters(self.dependant)

        async def handle(request: Request) -> Any:
            require_utf8_path(request.scope["path"], request.scope.get("raw_path"), request.path_params)
            if query := request.scope["query_string"]:
                require_utf8(query)
                if not reads_itself:
                    require_declared(request.query_params, declared)
            headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
            scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
            scope[SENT_TYPE] = request.headers.get("content-type", "")
            return await handler(StrictRequest(scope, request.receive))

        return handle


def first_error(error: ValidationError) -> str:
    """Return the field of the first error of an item and what was wanted of it, without its content."""
    found = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(named(found["loc"], in_words(dict(found))))
