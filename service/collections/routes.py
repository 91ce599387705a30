"""HTTP routes of collections."""

from typing import Annotated, Any

from fastapi import Body, Path
from fastapi.responses import JSONResponse, Response

from service.collections import actions
from service.collections.answers import Collection, CollectionList
from service.collections.schemas import NAME_PATTERN, CollectionIn, SwapIn
from service.http.access import Asking
from service.http.answers import TASK_ACCEPTED, answers
from service.http.responses import accepted_task
from service.http.routers import new_router
from service.http.watermarks import watermark_headers
from service.runtime.dependency import Running

router = new_router("/v1/collections", "collections")
Name = Annotated[str, Path(pattern=NAME_PATTERN)]


@router.put("/{collection}", responses=answers((200, Collection, "Changed"), (201, Collection, "Created")))
def put_collection(
    runtime: Running, asking: Asking, collection: Name, settings: Annotated[CollectionIn | None, Body()] = None
) -> Response:
    """Create a collection, or change the settings of an existing collection. Only `admin` creates collections."""
    body, created = actions.put(runtime, collection, settings or CollectionIn(), asking.caller.is_admin)
    return JSONResponse(body, 201 if created else 200)


@router.post("/swap", responses=answers((200, CollectionList, "Both collections, with their new names")))
def swap_collections(runtime: Running, names: SwapIn, response: Response) -> dict[str, Any]:
    """Exchange the names of two collections at once. Documents, feedback and models go with their collection."""
    body = actions.swap(runtime, names)
    response.headers.update(watermark_headers(runtime, names.a, names.b))
    return body


@router.get("", responses=answers((200, CollectionList, "The collections")))
def list_collections(runtime: Running, asking: Asking) -> dict[str, Any]:
    """List the collections that the key covers, with their counts."""
    covered = [state for name, state in sorted(runtime.collections.items()) if runtime.covers(asking.caller, name)]
    return actions.show_all(runtime, covered)


@router.get("/{collection}", responses=answers((200, Collection, "The collection")))
def get_collection(runtime: Running, collection: Name) -> dict[str, Any]:
    """Show a collection: settings, counts, champion."""
    return actions.show(runtime, runtime.collection(collection))


@router.delete("/{collection}", status_code=202, responses=TASK_ACCEPTED)
def delete_collection(runtime: Running, collection: Name) -> Response:
    """Delete a collection and its data. It is unavailable on return."""
    return accepted_task(runtime.jobs.show(actions.remove(runtime, collection)))
