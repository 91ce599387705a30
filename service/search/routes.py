"""HTTP of searches and of logged searches."""

import hashlib
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import quote

import orjson
from fastapi import Request
from fastapi.responses import Response
from pydantic import Field, model_validator
from starlette.types import Scope

from service.http.access import Asked, Asking, Caller
from service.http.answers import answers
from service.http.metrics import observed_search
from service.http.presence import result_for
from service.http.problems import Problem, problem_of
from service.http.requests import Strict
from service.http.routers import new_router
from service.http.watermarks import unreached_state, watermark_headers
from service.runtime.dependency import Searching
from service.runtime.search_runtime import SearchRuntime
from service.search import cached_results, logged
from service.search.answers import MultiSearchAnswer, SearchAnswer
from service.search.logged_answers import LoggedSearch
from service.search.matrix import MATRIX
from service.search.query_string import PARAMETERS, search_of
from service.search.schemas import SearchIn

T = TypeVar("T")
MAX_SEARCHES = 50
"""Searches of a multi-search."""
MAX_HITS = 1000
"""Hits that the searches of a multi-search ask for together, by their `limit`."""
WATERMARK = "X-Softseek-Watermark"
VOLATILE = ("query_id", "took_ms", "timings_ms")
"""Members of an answer that differ between equal searches; its ETag leaves them out."""
UNLOGGED = {"Cache-Control": "no-cache"}
"""A cache may keep the answer and asks whether it is current, by its ETag."""
LOGGED = {"Cache-Control": "no-store"}

router = new_router("/v1/collections/{collection}", "search")
several = new_router("/v1", "search")


class CollectionSearchIn(SearchIn):
    """A search in a collection."""

    collection: Annotated[str, Field(min_length=1, max_length=128)]


MATRIX_COST = 10
"""Requests that a search with matrices counts as: it takes a hundred times the processor time of others."""


class MultiSearchIn(Strict):
    """Several searches, answered in their order."""

    searches: Annotated[list[CollectionSearchIn], Field(min_length=1, max_length=MAX_SEARCHES)]

    @model_validator(mode="after")
    def _has_bounded_hits(self) -> Self:
        if sum(one.limit for one in self.searches) > MAX_HITS:
            raise ValueError(f"the limits of the searches have a sum of at most {MAX_HITS}")
        return self


def _charge(asking: Asked, *searches: SearchIn) -> None:
    """Count each search of a request in the rate of its key, one with matrices as MATRIX_COST. Raises Problem 429."""
    further = sum(MATRIX_COST if one.explain == MATRIX else 1 for one in searches) - 1
    if further:
        asking.charge(further)


@router.post("/search", responses=answers((200, SearchAnswer, "The hits")))
async def search(runtime: Searching, asking: Asking, collection: str, request: SearchIn, http: Request) -> Response:
    """Search a collection by soft attention over its documents."""
    _charge(asking, request)
    return await _response(runtime, asking.caller, collection, request, http.scope)


async def search_directly(scope: Scope, asked: Asked, body: bytes) -> Response | None:
    """Answer a search as `search` does. None for a body that is not as documented."""
    try:
        request = SearchIn.model_validate(orjson.loads(body))
    except ValueError:
        return None
    _charge(asked, request)
    return await _response(scope["app"].state.runtime, asked.caller, asked.collection, request, scope)


async def _response(
    runtime: SearchRuntime, caller: Caller, collection: str, request: SearchIn, scope: Scope
) -> Response:
    body = await _answered(runtime, caller, collection, request, orjson.dumps, scope)
    return Response(body, media_type="application/json", headers=LOGGED if request.log else None)


@router.get(
    "/search",
    responses={**answers((200, SearchAnswer, "The hits")), 304: {"description": "The answer is the same"}},
    openapi_extra={"parameters": PARAMETERS},
)
async def get_search(runtime: Searching, asking: Asking, collection: str, request: Request) -> Response:
    """Search a collection by a query string. The search is not logged unless `log` is true."""
    wanted = search_of(request.query_params)
    _charge(asking, wanted)
    body, etag = await _answered(runtime, asking.caller, collection, wanted, _tagged, request.scope)
    if wanted.log:
        return Response(body, media_type="application/json", headers=LOGGED)
    headers = UNLOGGED | {"ETag": etag}
    known = {tag.strip().removeprefix("W/") for tag in ",".join(request.headers.getlist("if-none-match")).split(",")}
    if known & {etag, "*"}:  # the weak comparison of RFC 9110, 13.1.2
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


@several.post("/multi-search", responses=answers((200, MultiSearchAnswer, "The answers, in order")))
async def multi_search(runtime: Searching, asking: Asking, searches: MultiSearchIn, http: Request) -> Response:
    """Answer several searches. A search that fails has the problem in its place, and does not stop the others."""
    _charge(asking, *searches.searches)
    names = [one.collection for one in searches.searches if runtime.covers(asking.caller, one.collection)]
    wanted = ",".join(http.headers.getlist(WATERMARK))
    if wanted and (problem := await unreached_state(runtime, names, wanted)):
        raise problem
    results = [await _result(runtime, asking.caller, one, http.scope) for one in searches.searches]
    headers = dict(LOGGED) if any(one.log for one in searches.searches) else {}
    headers |= watermark_headers(runtime, *names)
    body = b'{"results":[' + b",".join(results) + b"]}"
    return Response(body, media_type="application/json", headers=headers)


@router.get("/queries/{query_id}", responses=answers((200, LoggedSearch, "The logged search")))
def get_query(runtime: Searching, collection: str, query_id: str) -> dict[str, Any]:
    """Show a logged search: the hits, their positions, and the model that ranked them."""
    return logged.show_query(runtime, runtime.collection(collection), query_id)


def _tagged(body: dict[str, Any]) -> tuple[bytes, str]:
    """Return an answer as JSON, and its ETag."""
    stable = {name: value for name, value in body.items() if name not in VOLATILE}
    return orjson.dumps(body), f'"{hashlib.sha256(orjson.dumps(stable)).hexdigest()[:32]}"'


async def _answered(
    runtime: SearchRuntime,
    caller: Caller,
    collection: str,
    request: SearchIn,
    converted: Callable[[dict[str, Any]], T],
    scope: Scope,
) -> T:
    """Return the converted answer of a search, which a thread of the search pool computes.

    scope: the ASGI scope of the request. A search whose client leaves before a thread begins is not computed.
    """
    arrived = time.perf_counter()
    state = runtime.collection(collection)
    with observed_search(request.mode):
        answer = runtime.answer_search or partial(cached_results.answer, runtime)
        work = runtime.run_search(lambda: converted(answer(state, request, arrived, caller)))
        return await result_for(scope, work)


async def _result(runtime: SearchRuntime, caller: Caller, one: CollectionSearchIn, scope: Scope) -> bytes:
    """Return the answer of a search as JSON, or its problem. A thread of the search pool makes the JSON."""
    fields = {name: getattr(one, name) for name in SearchIn.model_fields}
    request = SearchIn.model_construct(one.model_fields_set & fields.keys(), **fields)
    try:
        return await _answered(runtime, caller, one.collection, request, orjson.dumps, scope)
    except Exception as error:
        problem: Problem = problem_of(error)
        if problem.status >= 500:
            raise
        return orjson.dumps(problem.body(f"/v1/collections/{quote(one.collection, '')}/search"))
