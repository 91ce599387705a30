"""HTTP of searches and of what was shown."""

import asyncio
import time
from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.responses import Response
from sqlalchemy import select

from index.learning.examples import ASSUMED_CURVE, expected_examinations
from service.http.metrics import SEARCH_SECONDS
from service.http.problems import not_found
from service.http.requests import StrictRoute
from service.runtime.dependency import Running
from service.search import actions
from service.search.schemas import SearchIn
from service.storage.tables import Impression

router = APIRouter(prefix="/v1/collections/{collection}", tags=["search"], route_class=StrictRoute)


@router.post("/search")
async def post_search(runtime: Running, collection: str, request: SearchIn) -> Response:
    """Search a collection by soft attention over its documents."""
    arrived = time.perf_counter()
    state = runtime.collection(collection)
    with SEARCH_SECONDS.labels(mode=request.mode).time():
        work = runtime.run_search(lambda: orjson.dumps(actions.answer(runtime, state, request, arrived)))
        body = await asyncio.wrap_future(work)
    return Response(body, media_type="application/json")


@router.get("/queries/{query_id}")
def get_query(runtime: Running, collection: str, query_id: str) -> dict[str, Any]:
    """Show a logged impression: what was shown, where, by which model."""
    state = runtime.collection(collection)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        row = connection.execute(
            select(Impression.__table__).where(Impression.query_id == query_id, Impression.collection_id == state.id)
        ).one_or_none()
    if row is None:
        raise not_found("query")
    return {
        "query_id": row.query_id,
        "q": row.text,
        "client_id": row.client_id,
        "session_id": row.session_id,
        "request": row.request,
        "shown": [
            one | {"propensity": expected_examinations({one["position"]: 1}, ASSUMED_CURVE)} for one in row.shown
        ],
        "null_weight": row.null_weight,
        "model": {"version": row.model_version},
        "generation": row.generation,
        "created_at": row.created_at,
    }
