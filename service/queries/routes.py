"""HTTP of the queries of a log."""

from typing import Annotated, Any

from fastapi import Query

from service.http.answers import answers
from service.http.routers import new_router
from service.queries import actions
from service.queries.answers import Queries
from service.queries.repository import Order
from service.runtime.dependency import Running

router = new_router("/v1/collections/{collection}", "feedback")


@router.get("/queries", responses=answers((200, Queries, "The queries and their counts")))
def list_queries(
    runtime: Running,
    collection: str,
    days: Annotated[int, Query(ge=1, le=3650, description="Days until now whose searches count.")] = 30,
    order: Annotated[
        Order,
        Query(description="What the first queries have most of: searches, those without a click, or unanswered."),
    ] = "searches",
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of queries.")] = 50,
) -> dict[str, Any]:
    """Report what people search and what they click, by query, day and model, from the log of searches and events."""
    return actions.queries(runtime, runtime.collection(collection), days, order, limit)
