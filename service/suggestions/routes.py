"""HTTP of suggestions."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from service.http.answers import answers
from service.http.requests import StrictRoute
from service.runtime.dependency import Searching
from service.suggestions import actions
from service.suggestions.answers import Suggestions

router = APIRouter(prefix="/v1/collections/{collection}", tags=["search"], route_class=StrictRoute)


@router.get("/suggestions", responses=answers((200, Suggestions, "The completions")))
def get_suggestions(
    runtime: Searching,
    collection: str,
    q: Annotated[str, Query(max_length=2048, description="The beginning of a query.")],
    limit: Annotated[int, Query(ge=1, le=50, description="Maximum number of completions.")] = 10,
) -> dict[str, Any]:
    """Complete a query that is being typed, with logged queries that led to clicks of at least three clients."""
    return actions.suggest(runtime, runtime.collection(collection), q, limit)
