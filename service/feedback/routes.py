"""HTTP of feedback."""

from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response
from starlette.types import Scope

from service.feedback import actions
from service.feedback.answers import FeedbackOutcome
from service.feedback.schemas import EventDeletion, JudgmentBatch
from service.http.access import Asked, Asking
from service.http.answers import Deleted, answers
from service.http.problems import Problem
from service.http.routers import new_router
from service.http.writing_threads import accept_write
from service.runtime.dependency import Running
from service.runtime.runtime import Runtime

router = new_router("/v1/collections/{collection}", "feedback")
EVENTS_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "oneOf": [
                        {"$ref": "#/components/schemas/EventIn"},
                        {"type": "array", "items": {"$ref": "#/components/schemas/EventIn"}, "maxItems": 1000},
                    ]
                }
            },
            "application/x-ndjson": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post(
    "/events",
    status_code=202,
    openapi_extra=EVENTS_BODY,
    responses=answers((202, FeedbackOutcome, "The stored and the rejected events")),
)
async def post_events(runtime: Running, asking: Asking, collection: str, request: Request) -> dict[str, Any]:
    """Store UBI 1.3.0 events: an object, an array, or newline-delimited JSON. The next search uses them."""
    body = await request.body()  # first: the key has to cover what an alias names then
    return await accept_write(actions.take_body, runtime, runtime.collection(collection), body, asking.caller)


async def post_events_directly(scope: Scope, asked: Asked, body: bytes) -> Response:
    """Store events as `post_events` does."""
    runtime: Runtime = scope["app"].state.runtime
    state = runtime.collection(asked.collection)
    outcome = await accept_write(actions.take_body, runtime, state, body, asked.caller)
    return Response(orjson.dumps(outcome), 202, media_type="application/json")


@router.post("/events/delete", responses=answers((200, Deleted, "The number of events")))
def delete_events(runtime: Running, collection: str, deletion: EventDeletion) -> dict[str, Any]:
    """Delete the events of a search, of a client or about a query text, and the memory made from them."""
    state = runtime.collection(collection)
    given = (deletion.query_id, deletion.client_id, deletion.query)
    if sum(one is not None for one in given) != 1:
        raise Problem(422, "invalid_request", "give one of query_id, client_id and query")
    return {"deleted": actions.delete_events(runtime, state, *given)}


@router.post("/judgments", responses=answers((200, FeedbackOutcome, "The stored and the rejected judgments")))
def post_judgments(runtime: Running, collection: str, batch: JudgmentBatch) -> dict[str, Any]:
    """Store judgments. A judgment with the same query, document and rater is replaced; rating null deletes it."""
    return actions.take_judgments(runtime, runtime.collection(collection), batch.judgments)
