"""HTTP of API keys."""

from typing import Annotated, Any

from fastapi import Body
from fastapi.responses import JSONResponse, Response

from service.http.access import Asking
from service.http.answers import answers
from service.http.routers import new_router
from service.keys import actions
from service.keys.answers import ApiKeyList, NewApiKey
from service.keys.schemas import KeyIn, RotationIn
from service.runtime.dependency import Running

router = new_router("/v1/keys", "keys")
SECRET = {"Cache-Control": "no-store"}
"""No cache keeps an answer with a key."""


@router.post("", status_code=201, responses=answers((201, NewApiKey, "The key, with its text this once")))
def create_key(runtime: Running, asking: Asking, key: KeyIn) -> Response:
    """Make an API key. Its text is in this answer and in no other."""
    return JSONResponse(actions.create_key(runtime, key, asking), 201, SECRET)


@router.get("", responses=answers((200, ApiKeyList, "The keys")))
def list_keys(runtime: Running) -> dict[str, Any]:
    """List the API keys without their texts, the oldest first."""
    return actions.list_keys(runtime)


@router.post("/{key_id}/rotate", responses=answers((200, NewApiKey, "The key, with its new text this once")))
def rotate_key(runtime: Running, key_id: str, rotation: Annotated[RotationIn | None, Body()] = None) -> Response:
    """Give a key a new text with the same rights. The old text may stay valid for a time."""
    return JSONResponse(actions.rotate_key(runtime, key_id, (rotation or RotationIn()).grace_seconds), 200, SECRET)


@router.delete("/{key_id}", status_code=204)
def delete_key(runtime: Running, key_id: str) -> Response:
    """Delete a key. The next request with it gets 401."""
    actions.delete_key(runtime, key_id)
    return Response(status_code=204)
