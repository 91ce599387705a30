"""HTTP of judging."""

from typing import Annotated, Any

from fastapi import Query

from service.http.answers import answers
from service.http.routers import new_router
from service.judging import actions
from service.judging.answers import Judging
from service.runtime.dependency import Running

router = new_router("/v1/collections/{collection}", "feedback")


@router.get("/judging", responses=answers((200, Judging, "The queries with their documents")))
def get_judging(
    runtime: Running,
    collection: str,
    limit: Annotated[int, Query(ge=1, le=50, description="Maximum number of queries.")] = 20,
) -> dict[str, Any]:
    """List the queries and documents whose judgment decides most, the highest score first."""
    return actions.judging(runtime, runtime.collection(collection), limit)
