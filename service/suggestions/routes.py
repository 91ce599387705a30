"""HTTP of suggestions."""

from typing import Annotated, Any

from fastapi import Query

from service.http.answers import answers
from service.http.routers import new_router
from service.runtime.dependency import Searching
from service.suggestions import actions
from service.suggestions.answers import Suggestions

router = new_router("/v1/collections/{collection}", "search")


@router.get("/suggestions", responses=answers((200, Suggestions, "The completions")))
def get_suggestions(
    runtime: Searching,
    collection: str,
    q: Annotated[str, Query(max_length=2048, description="The beginning of a query.")],
    limit: Annotated[int, Query(ge=1, le=50, description="Maximum number of completions.")] = 10,
) -> dict[str, Any]:
    """Complete a query that is being typed, with logged queries that led to clicks of at least three clients."""
    return actions.suggest(runtime, runtime.collection(collection), q, limit)
