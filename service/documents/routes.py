"""HTTP of documents."""

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from index.filters.parser import parse_filter
from service.documents import actions, imports
from service.documents.schemas import MAX_BATCH, Deletion, DocumentBatch, DocumentBody
from service.http.problems import Problem
from service.http.requests import UNLIMITED, StrictRoute
from service.http.responses import accepted_task
from service.runtime.collection import CollectionState
from service.runtime.dependency import Running
from service.runtime.runtime import Runtime
from service.runtime.selection import matching_ids

router = APIRouter(prefix="/v1/collections/{collection}/documents", tags=["documents"], route_class=StrictRoute)
WAIT_STEP_SECONDS = 0.02


@router.post("/import", status_code=202, max_body_size=UNLIMITED)
async def import_documents(runtime: Running, collection: str, request: Request) -> Response:
    """Take in newline-delimited JSON of any size, streamed; the task tells how each line fared."""
    state = runtime.collection(collection)
    state.require_encoder(runtime.encoder)
    path = await imports.spool(runtime, state, request.stream())
    task_id = await run_in_threadpool(imports.start_import, runtime, state, path)
    return accepted_task(await run_in_threadpool(runtime.jobs.show, task_id))


@router.post("/delete", status_code=202)
def delete_documents(runtime: Running, collection: str, deletion: Deletion) -> Response:
    """Delete documents by id or by filter; they are gone from search on return."""
    state = runtime.collection(collection)
    if (deletion.ids is None) == (deletion.filter is None):
        raise Problem(422, "invalid_request", "give either ids or filter")
    ids = deletion.ids
    if ids is None:
        ids = matching_ids(runtime, state, parse_filter(deletion.filter or "", state.settings.filterable))
    deleted = actions.delete_documents(runtime, state, ids)
    task_id = runtime.jobs.finished("documents_deletion", state.name, {"deleted": deleted}, deleted)
    return accepted_task(runtime.jobs.show(task_id))


@router.post("", responses={202: {"description": "The task"}, 207: {"description": "Some failed"}})
async def post_documents(
    runtime: Running,
    collection: str,
    batch: DocumentBatch,
    wait: Annotated[float | None, Query(ge=0, le=600, allow_inf_nan=False)] = None,
) -> Response:
    """Take in up to 1,000 documents, durable on any 2xx; with wait, the answer comes when they are searchable."""
    state = runtime.collection(collection)
    if len(batch.documents) > MAX_BATCH:
        detail = f"a batch has at most {MAX_BATCH} documents; send several, or stream them to /import"
        raise Problem(422, "too_many_documents", detail, [{"pointer": "/documents", "detail": detail}])
    task_id = await run_in_threadpool(_start, runtime, state, batch.documents)
    deadline = time.monotonic() + (wait or 0)
    while time.monotonic() < deadline and runtime.jobs.is_running(task_id):
        await asyncio.sleep(WAIT_STEP_SECONDS)  # waiting takes no thread from others
    if wait is None or runtime.jobs.is_running(task_id):
        return accepted_task(await run_in_threadpool(runtime.jobs.show, task_id))
    task = await run_in_threadpool(runtime.jobs.show, task_id)
    if task["status"] != "succeeded":
        raise Problem(
            500, "indexing_failed", "the documents are stored; encoding them failed and is tried at next start"
        )
    body = {"task_id": task_id, **task["result"]}
    return Response(orjson.dumps(body), 207 if body["failed"] else 200, media_type="application/json")


@router.get("")
def list_documents(
    runtime: Running,
    collection: str,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    cursor: Annotated[str, Query(pattern=r"^\d{0,18}$")] = "",
) -> dict[str, Any]:
    """List documents in the order of arrival."""
    return actions.list_documents(runtime, runtime.collection(collection), limit, int(cursor or 0))


@router.put("/{document_id:path}", responses={201: {"description": "Created"}})
def put_document(runtime: Running, collection: str, document_id: str, document: DocumentBody) -> Response:
    """Store a document, searchable on return."""
    state = runtime.collection(collection)
    if document.id not in (None, document_id):
        raise Problem(
            422, "invalid_request", "the id differs from the address", [{"pointer": "/id", "detail": "differs"}]
        )
    item = document.model_dump(exclude_unset=True) | {"id": document_id}
    accepted = actions.accept(runtime, state, [item])
    outcome = accepted.items[0]
    if outcome["code"]:
        raise Problem(422, outcome["code"], outcome["detail"])
    actions.make_searchable(runtime, state, accepted.sequences)
    body = actions.show_document(runtime, state, document_id)
    return Response(orjson.dumps(body), outcome["status"], media_type="application/json")


@router.get("/{document_id:path}")
def get_document(runtime: Running, collection: str, document_id: str) -> dict[str, Any]:
    """Show a document."""
    return actions.show_document(runtime, runtime.collection(collection), document_id)


@router.delete("/{document_id:path}", status_code=204)
def delete_document(runtime: Running, collection: str, document_id: str) -> Response:
    """Delete a document; it is gone from search on return."""
    state = runtime.collection(collection)
    actions.show_document(runtime, state, document_id)
    actions.delete_documents(runtime, state, [document_id])
    return Response(status_code=204)


def _start(runtime: Runtime, state: CollectionState, documents: Sequence[Any]) -> str:
    return actions.start_indexing(runtime, state, actions.accept(runtime, state, documents))
