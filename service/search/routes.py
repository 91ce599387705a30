"""HTTP of searches and of logged searches."""

import asyncio
import time
from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.responses import Response

from service.http.answers import answers
from service.http.metrics import SEARCH_SECONDS
from service.http.requests import StrictRoute
from service.runtime.dependency import Running
from service.search import actions
from service.search.answers import LoggedSearch, SearchAnswer
from service.search.schemas import SearchIn

router = APIRouter(prefix="/v1/collections/{collection}", tags=["search"], route_class=StrictRoute)


@router.post("/search", responses=answers((200, SearchAnswer, "The hits")))
async def search(runtime: Running, collection: str, request: SearchIn) -> Response:
    """Search a collection by soft attention over its documents."""
    arrived = time.perf_counter()
    state = runtime.collection(collection)
    with SEARCH_SECONDS.labels(mode=request.mode).time():
        work = runtime.run_search(lambda: orjson.dumps(actions.answer(runtime, state, request, arrived)))
        body = await asyncio.wrap_future(work)
    return Response(body, media_type="application/json")


@router.get("/queries/{query_id}", responses=answers((200, LoggedSearch, "The logged search")))
def get_query(runtime: Running, collection: str, query_id: str) -> dict[str, Any]:
    """Show a logged search: the hits, their positions, and the model that ranked them."""
    return actions.show_query(runtime, runtime.collection(collection), query_id)
