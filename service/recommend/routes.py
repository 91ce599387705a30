"""HTTP of recommendations."""

import time

import orjson
from fastapi import Request
from fastapi.responses import Response

from service.http.access import Asking
from service.http.answers import answers
from service.http.metrics import observed_search
from service.http.presence import result_for
from service.http.problems import Problem
from service.http.routers import new_router
from service.recommend import actions
from service.recommend.schemas import RecommendIn
from service.runtime.dependency import Searching
from service.search.answers import SearchAnswer

router = new_router("/v1/collections/{collection}", "search")


@router.post("/recommend", responses=answers((200, SearchAnswer, "The recommended documents")))
async def recommend(
    runtime: Searching, asking: Asking, collection: str, request: RecommendIn, http: Request
) -> Response:
    """Recommend documents by attention over documents that a user liked and disliked."""
    arrived = time.perf_counter()
    state = runtime.collection(collection)
    forced = asking.caller.condition
    if runtime.answer_search is not None:
        raise Problem(501, "not_in_partitions", "recommendations are not answered where documents are in partitions")
    with observed_search("recommend"):
        work = runtime.run_search(lambda: orjson.dumps(actions.answer(runtime, state, request, arrived, forced)))
        body = await result_for(http.scope, work)
    return Response(body, media_type="application/json")
