"""HTTP of aliases of collections."""

from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import JSONResponse, Response

from service.aliases import actions
from service.aliases.answers import CollectionAlias, CollectionAliasList
from service.aliases.schemas import NAME_PATTERN, AliasIn
from service.http.answers import answers
from service.http.routers import new_router
from service.http.watermarks import watermark_headers
from service.runtime.dependency import Running

router = new_router("/v1/aliases", "collections")
Name = Annotated[str, Path(pattern=NAME_PATTERN)]


@router.put("/{alias}", responses=answers((200, CollectionAlias, "Changed"), (201, CollectionAlias, "Created")))
def put_alias(runtime: Running, alias: Name, target: AliasIn) -> Response:
    """Create an alias of a collection, or point it at another collection. The next request uses it."""
    body, is_new = actions.put_alias(runtime, alias, target.collection)
    return JSONResponse(body, 201 if is_new else 200, watermark_headers(runtime, body["collection"]))


@router.get("", responses=answers((200, CollectionAliasList, "The aliases")))
def list_aliases(runtime: Running) -> dict[str, Any]:
    """List the aliases of collections."""
    return actions.list_aliases(runtime)


@router.get("/{alias}", responses=answers((200, CollectionAlias, "The alias")))
def get_alias(runtime: Running, alias: Name) -> dict[str, Any]:
    """Show the collection that an alias names."""
    return actions.show_alias(runtime, alias)


@router.delete("/{alias}", status_code=204)
def delete_alias(runtime: Running, alias: Name) -> Response:
    """Delete an alias. Its collection stays."""
    collection = actions.delete_alias(runtime, alias)
    return Response(status_code=204, headers=watermark_headers(runtime, collection))
