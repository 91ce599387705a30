"""The OpenAPI schema of FastAPI, with problems as errors, and with the schemas of batch items."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service.http.access import Access
from service.http.answers import PROBLEM_TYPE, Answer, Problem
from service.http.field_docstrings import describe_fields
from service.http.requests import Strict

REFERENCE = "#/components/schemas/{model}"
OWN_ERRORS = ("HTTPValidationError", "ValidationError")
"""FastAPI's schemas of errors. No answer has them."""
PROBLEM = {"schema": {"$ref": REFERENCE.format(model="Problem")}}
SCHEME = "ApiKey"
"""The name of the security scheme: `Authorization: Bearer KEY`."""
STATUSES = {
    "422": "The request is not as documented",
    "default": "Any other error; `code` names it",
}


def serve_schema(app: FastAPI, path: str) -> None:
    """Serve the schema of an application at a path.

    The route of FastAPI makes the schema on the event loop, where every other request waits for seconds.
    """
    making = asyncio.Lock()  # the first requests come together: one of them takes a thread, the others none
    made: list[bytes] = []

    async def openapi(_request: Request) -> Response:
        async with making:
            if not made:
                made.append(await run_in_threadpool(lambda: orjson.dumps(app.openapi())))
        return Response(made[0], media_type="application/json")

    app.add_route(path, openapi, include_in_schema=False)


def openapi(app: FastAPI, items: Iterable[type[BaseModel]], accesses: Mapping[str, Access]) -> dict[str, Any]:
    """Return the OpenAPI schema of an application.

    items: models of requests that no route declares, because each item of a batch is validated by itself.
    accesses: operation id -> access.
    """
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    known = schema.setdefault("components", {}).setdefault("schemas", {})
    for model in items:
        _add(known, model, "validation")
    _add(known, Problem, "serialization")
    _add_examples(known)
    for path in schema["paths"].values():
        for operation in path.values():
            _describe_errors(operation)
            _describe_access(operation, accesses.get(operation["operationId"]))
            _keep_references_alone(operation)
    describe_fields(known, (*_subclasses(Answer), *_subclasses(Strict)))
    for name in OWN_ERRORS:
        known.pop(name, None)
    schema["components"]["securitySchemes"] = {SCHEME: {"type": "http", "scheme": "bearer"}}
    schema["components"]["schemas"] = dict(sorted(known.items()))
    return schema


def _add(known: dict[str, Any], model: type[BaseModel], mode: JsonSchemaMode) -> None:
    described = model.model_json_schema(ref_template=REFERENCE, mode=mode)
    known |= described.pop("$defs", {})
    known[model.__name__] = described


def _add_examples(known: dict[str, Any]) -> None:
    """Add the examples of answers as they are written: FastAPI removes their fields that are null."""
    for model in _subclasses(Answer):
        extra = model.model_config.get("json_schema_extra")
        if isinstance(extra, dict) and model.__name__ in known:
            known[model.__name__].update(deepcopy(extra))


def _subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the classes below a class."""
    for below in model.__subclasses__():
        yield below
        yield from _subclasses(below)


def _describe_errors(operation: dict[str, Any]) -> None:
    """Declare a problem as the answer to a wrong request, and to every other error."""
    takes_input = "parameters" in operation or "requestBody" in operation
    for status, description in STATUSES.items():
        if status == "default" or takes_input:
            operation["responses"][status] = {"description": description, "content": {PROBLEM_TYPE: PROBLEM}}
    for status, response in operation["responses"].items():
        if status[0] in "45":
            response["content"] = {PROBLEM_TYPE: PROBLEM}


def _describe_access(operation: dict[str, Any], access: Access | None) -> None:
    """Declare whether an operation needs a key, and the scopes of which each suffices."""
    if access is None or access.scopes is None:
        operation["security"] = []
    else:
        operation["security"] = [{SCHEME: []}]
        operation["x-softseek-scopes"] = sorted({*access.scopes, "admin"})


def _keep_references_alone(operation: dict[str, Any]) -> None:
    """Remove what FastAPI derives from return types of routes beside the declared schemas."""
    for response in operation["responses"].values():
        for content in response.get("content", {}).values():
            reference = content.get("schema", {}).get("$ref")
            if reference:
                content["schema"] = {"$ref": reference}
