"""Errors in HTTP responses: RFC 9457 problems with a stable code, and the problem of every domain error.

A problem never repeats the input. It names the position in the input (a JSON pointer) and the expected value.
"""

from collections.abc import Sequence
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import iter_route_contexts
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from index.errors import DamagedFile, EncoderMismatch, FilterSyntax, NotEnoughFeedback
from index.storage.full_disk import NotSynced, is_full
from service.http.declared_routes import whole_path
from service.http.input_errors import input_errors
from service.http.instances import instance_of
from service.http.json_bounds import TooComplex
from service.storage.database import DatabaseOwned, DatabaseUnreachable, MemoryOutdated
from service.storage.unreadable_rows import UnreadableRow

log = structlog.get_logger()
INSUFFICIENT_STORAGE = "insufficient_storage"
UNDONE = "this request was undone; it is stored after all if the service is killed before its next write"
"""What a failed sync leaves (`index.storage.full_disk.NotSynced`)."""
"""The code of the problems of a full disk."""

MAX_ERRORS = 20
"""Errors that a problem names."""
TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Payload too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Unprocessable content",
    429: "Too many requests",
    431: "Request header fields too large",
    500: "Internal error",
    501: "Not implemented",
    503: "Service unavailable",
    507: "Insufficient storage",
}
CODES = {404: "not_found", 405: "method_not_allowed", 413: "payload_too_large", 415: "unsupported_encoding"}
"""Status -> code of the errors that the framework and the reader of bodies raise."""


class Problem(Exception):
    """An error response: status, stable code, a sentence of detail, and the positions in the input."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[dict[str, Any]] = (),
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = list(errors)
        self.headers = headers or {}
        self.more = more

    @property
    def title(self) -> str:
        """The name of the status."""
        return TITLES.get(self.status, "Error")

    def body(self, instance: str) -> dict[str, Any]:
        """Return the problem object; instance is the path of the request, as a URI reference."""
        return {
            "type": f"urn:softseek:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "instance": instance,
            "errors": self.errors,
            **self.more,
        }


def not_found(kind: str) -> Problem:
    """Return the problem 404 of a missing object. The kind `collection` has the code `collection_not_found`."""
    return Problem(404, f"{kind}_not_found", f"there is no such {kind.replace('_', ' ')}")


def invalid_request(errors: Sequence[dict[str, Any]]) -> Problem:
    """Return the problem of a request of which these parts are not as documented; it names the first of them."""
    detail = f"{len(errors)} part(s) of the request are not as documented"
    return Problem(422, "invalid_request", detail, errors[:MAX_ERRORS])


def problem_of(error: Exception) -> Problem:
    """Return the problem of an error. An unexpected error is a 500 without details."""
    match error:
        case Problem():
            return error
        case FilterSyntax():
            where = [{"pointer": "/filter", "detail": str(error), "position": error.position}]
            return Problem(422, "invalid_filter", f"{error} at position {error.position}", where)
        case NotEnoughFeedback():
            return Problem(422, "not_enough_feedback", str(error), have=error.have, need=error.need)
        case EncoderMismatch():
            return Problem(409, "encoder_mismatch", str(error))
        case DamagedFile():
            return Problem(409, "model_damaged", str(error))
        case TooComplex():
            return Problem(422, "body_too_complex", error.detail)
        case RequestValidationError():
            return _validation_problem(error)
        case HTTPException():
            code = CODES.get(error.status_code, "bad_request")
            headers = dict(error.headers or {})
            detail = "the request body is too large" if error.status_code == 413 else str(error.detail)
            return Problem(error.status_code, code, detail, headers=headers)
    if isinstance(error, UnreadableRow):
        return Problem(409, "row_damaged", str(error))
    if isinstance(error, DatabaseOwned):
        return Problem(503, "database_owned", str(error))
    if isinstance(error, MemoryOutdated):
        return Problem(503, "restart_needed", str(error))
    if is_full(error):
        undone = UNDONE if isinstance(error, NotSynced) else "nothing of this request was stored"
        return Problem(507, INSUFFICIENT_STORAGE, f"the disk is full: {undone}")
    if isinstance(error, DatabaseUnreachable):
        return Problem(503, "database_unreachable", "the database does not answer", headers={"Retry-After": "1"})
    return Problem(500, "internal_error", "an unexpected error; the log has the details under the path of this request")


def answer(problem: Problem, scope: Scope) -> Response:
    """Return the problem of a request as a response."""
    return Response(
        orjson.dumps(problem.body(instance_of(scope))),
        problem.status,
        headers=problem.headers,
        media_type="application/problem+json",
    )


def client_left() -> Response:
    """Return the answer to a body that its client broke off: no client reads it, and it is no defect to log."""
    return Response(status_code=400)


def install(app: FastAPI) -> None:
    """Install the handlers that convert every error of this app to a problem."""

    async def handle(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == 405:
            problem.headers["Allow"] = ", ".join(allowed_methods(request))
        return answer(problem, request.scope)

    async def handle_storage(request: Request, error: Exception) -> Response:
        if not is_full(error):  # a full disk is no defect, and needs no traceback
            log.error("request_failed", path=instance_of(request.scope), exc_info=error)
        return answer(problem_of(error), request.scope)

    async def forget(_request: Request, _error: Exception) -> Response:
        return client_left()

    app.add_exception_handler(ClientDisconnect, forget)
    for storage in (OSError, SQLAlchemyError):
        app.add_exception_handler(storage, handle_storage)
    handled: tuple[type[Exception], ...] = (Problem, FilterSyntax, NotEnoughFeedback, EncoderMismatch, DamagedFile)
    handled += (DatabaseUnreachable, DatabaseOwned, MemoryOutdated, RequestValidationError, HTTPException, Exception)
    for kind in handled:
        app.add_exception_handler(kind, handle)


def allowed_methods(request: Request) -> list[str]:
    """Return the methods of the resource at the path of a request. Starlette names only the methods of a single route.

    Several routes may have one path; a path with fewer parameters is the more exact name of a resource.
    """
    path = request.scope["path"]
    routes = [(route.path or "", route.methods or ()) for route in iter_route_contexts(request.app.routes)]
    found = [(route.count("{"), methods) for route, methods in routes if whole_path(route).match(path)]
    least = min((parameters for parameters, _ in found), default=0)
    allowed = {method for parameters, methods in found if parameters == least for method in methods}
    return sorted(allowed | {"HEAD"} if "GET" in allowed else allowed)


def _validation_problem(error: RequestValidationError) -> Problem:
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        detail = "the body is not valid JSON (NaN, Infinity and lone surrogates are not valid)"
        return Problem(400, "invalid_json", detail)
    of_body = [one | {"loc": one["loc"][1:]} for one in found if one["loc"][0] == "body"]
    others = [one | {"loc": one["loc"][1:]} for one in found if one["loc"][0] != "body"]
    names = {name: None for one in others for name in one["loc"][:1]}
    return invalid_request(input_errors(others, names) + input_errors(of_body, error.body))
