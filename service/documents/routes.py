"""HTTP of documents."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
from fastapi import Path, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from service.documents import acceptance, actions, imports, indexing, spooling
from service.documents.answers import BatchOutcome, Document, DocumentPage, PatchOutcome
from service.documents.paging import MAX_CHARACTERS, PATTERN
from service.documents.patching import patch_document as change_document
from service.documents.patching import patch_documents as change_documents
from service.documents.schemas import (
    MAX_BATCH,
    Deletion,
    DocumentBatch,
    DocumentBody,
    DocumentPatch,
    DocumentPatches,
    ImportParameters,
)
from service.http.access import Asking
from service.http.answers import TASK_ACCEPTED, answers
from service.http.problems import INSUFFICIENT_STORAGE, Problem, not_found
from service.http.requests import SENT_TYPE, UNLIMITED
from service.http.responses import accepted_task
from service.http.routers import new_router
from service.http.writing_threads import accept_write
from service.runtime.collection import CollectionState
from service.runtime.dependency import Running
from service.runtime.runtime import Runtime

router = new_router("/v1/collections/{collection}/documents", "documents")
NewId = Annotated[str, Path(min_length=1, max_length=512)]
WAIT_STEP_SECONDS = 0.02
IMPORT_BODY = {
    "required": True,
    "description": "Lines of JSON, a JSON array or a table, also gzipped, of any size; a line has at most 8 MiB.",
    "content": {
        "application/x-ndjson": {
            "schema": {"type": "string", "format": "binary"},
            "example": '{"id": "doc-7", "text": "Use cp -r to copy a folder."}\n',
        },
        # without a schema of the items: openapi-python-client cannot tell a list of a class from a file, and fails
        "application/json": {"schema": {"type": "array", "description": "Records, which are JSON objects."}},
        "text/csv": {"schema": {"type": "string"}},
        # for generators of clients that know no other type of a file
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    },
}


@router.post(
    "/import",
    status_code=202,
    max_body_size=UNLIMITED,
    responses=TASK_ACCEPTED,
    openapi_extra={"requestBody": IMPORT_BODY},
)
async def import_documents(
    runtime: Running, collection: str, request: Request, parameters: Annotated[ImportParameters, Query()]
) -> Response:
    """Import lines of JSON, a JSON array or CSV, of any size, as a stream. The task names the records that failed."""
    state = runtime.collection(collection)
    state.require_encoder(runtime.encoder)
    media_type, encoding = request.scope.get(SENT_TYPE, ""), request.headers.get("content-encoding", "")
    fields = spooling.mapping_of(parameters, state.settings.filterable)
    body = await spooling.spool(runtime.imports, str(state.id), request.stream(), fields, media_type, encoding)
    task_id = await accept_write(_start_import, runtime, state, body)
    return accepted_task(await run_in_threadpool(runtime.jobs.show, task_id))


@router.post("/delete", status_code=202, responses=TASK_ACCEPTED)
def delete_documents(runtime: Running, asking: Asking, collection: str, deletion: Deletion) -> Response:
    """Delete documents by id or by filter. Searches after the response do not return them."""
    state = runtime.collection(collection)
    if (deletion.ids is None) == (deletion.filter is None):
        raise Problem(422, "invalid_request", "give either ids or filter")
    if deletion.ids is None:
        asking.act = "delete_by_filter"
        task_id = actions.delete_matching(runtime, state, deletion.filter or "")
    else:
        task_id = actions.delete_documents(runtime, state, deletion.ids)
    return accepted_task(runtime.jobs.show(task_id))


@router.post(
    "",
    responses=TASK_ACCEPTED
    | answers(
        (200, BatchOutcome, "With wait: every document is searchable"),
        (207, BatchOutcome, "With wait: some documents failed"),
    ),
)
async def post_documents(
    runtime: Running,
    collection: str,
    batch: DocumentBatch,
    wait: Annotated[float | None, Query(ge=0, le=600, allow_inf_nan=False)] = None,
) -> Response:
    """Store up to 1,000 documents, durably on any 2xx. With wait, respond when they are searchable."""
    state = runtime.collection(collection)
    _require_batch_size(batch.documents)
    task_id = await accept_write(_start, runtime, state, batch.documents)
    deadline = time.monotonic() + (wait or 0)
    while time.monotonic() < deadline and runtime.jobs.is_running(task_id):
        await asyncio.sleep(WAIT_STEP_SECONDS)  # does not occupy a thread of the pool
    if wait is None or runtime.jobs.is_running(task_id):
        return accepted_task(await run_in_threadpool(runtime.jobs.show, task_id))
    task = await run_in_threadpool(runtime.jobs.show, task_id)
    if task["status"] != "succeeded":
        raise _failure(task)
    body = {"task_id": task_id, **task["result"]}
    return Response(orjson.dumps(body), 207 if body["failed"] else 200, media_type="application/json")


@router.get("", responses=answers((200, DocumentPage, "A page of documents")))
def list_documents(
    runtime: Running,
    collection: str,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    cursor: Annotated[str, Query(max_length=MAX_CHARACTERS, pattern=PATTERN)] = "",
) -> dict[str, Any]:
    """List documents in the order of their arrival."""
    return actions.list_documents(runtime, runtime.collection(collection), limit, cursor)


@router.put("/{document_id:path}", responses=answers((200, Document, "Replaced"), (201, Document, "Created")))
def put_document(runtime: Running, collection: str, document_id: NewId, document: DocumentBody) -> Response:
    """Store a document. It is searchable when the response is sent."""
    state = runtime.collection(collection)
    _require_same_id(document, document_id)
    item = document.model_dump(exclude_unset=True) | {"id": document_id}
    accepted = acceptance.accept(runtime, state, [item])
    outcome = accepted.items[0]
    if outcome["code"]:
        raise Problem(422, outcome["code"], outcome["detail"])
    indexing.make_searchable(runtime, state, accepted.sequences)
    body = {"id": document_id, **document.model_dump(exclude={"id"})}  # not read again: it may be deleted by now
    return Response(orjson.dumps(body), outcome["status"], media_type="application/json")


@router.patch(
    "",
    responses=answers((200, PatchOutcome, "Every patch was applied"), (207, PatchOutcome, "Some items were refused")),
)
def patch_documents(runtime: Running, collection: str, patches: DocumentPatches) -> Response:
    """Change the given fields of up to 1,000 documents, each named by its id."""
    state = runtime.collection(collection)
    _require_batch_size(patches.documents)
    body = change_documents(runtime, state, patches.documents)
    return Response(orjson.dumps(body), 207 if body["failed"] else 200, media_type="application/json")


@router.patch("/{document_id:path}", responses=answers((200, Document, "The changed document")))
def patch_document(runtime: Running, collection: str, document_id: str, patch: DocumentPatch) -> dict[str, Any]:
    """Change the given fields of a document; metadata is merged by key. It is searchable when the response is sent."""
    state = runtime.collection(collection)
    _require_same_id(patch, document_id)
    return change_document(runtime, state, document_id, patch)


@router.get("/{document_id:path}", responses=answers((200, Document, "The document")))
def get_document(runtime: Running, collection: str, document_id: str) -> dict[str, Any]:
    """Show a document."""
    return actions.show_document(runtime, runtime.collection(collection), document_id)


@router.delete("/{document_id:path}", status_code=204)
def delete_document(runtime: Running, collection: str, document_id: str) -> Response:
    """Delete a document. Searches after the response do not return it."""
    state = runtime.collection(collection)
    actions.delete_document(runtime, state, document_id)
    return Response(status_code=204)


def _require_batch_size(documents: Sequence[Any]) -> None:
    """Raise Problem 422 for more than MAX_BATCH documents."""
    if len(documents) > MAX_BATCH:
        detail = f"a batch has at most {MAX_BATCH} documents; send several batches, or stream new documents to /import"
        raise Problem(422, "too_many_documents", detail, [{"pointer": "/documents", "detail": detail}])


def _failure(task: Mapping[str, Any]) -> Problem:
    """Return the problem of a batch whose task was canceled or has failed."""
    if task["status"] == "canceled":
        detail = "the task was canceled; new documents that were not searchable are discarded"
        return Problem(409, "task_canceled", detail)
    code, missing = (task["error"] or {}).get("code"), not_found("collection")
    if code == missing.code:
        return missing
    if code == INSUFFICIENT_STORAGE:
        return Problem(507, INSUFFICIENT_STORAGE, indexing.STORED)
    detail = "the documents are stored; encoding them failed and is tried again at the next start of the service"
    return Problem(500, "indexing_failed", detail)


def _require_same_id(document: DocumentBody | DocumentPatch, document_id: str) -> None:
    if document.id not in (None, document_id):
        detail = "the id differs from the id in the path"
        raise Problem(422, "invalid_request", detail, [{"pointer": "/id", "detail": detail}])


def _start_import(runtime: Runtime, state: CollectionState, body: spooling.Spooled) -> str:
    try:
        return imports.start_import(runtime, state, body)
    except BaseException:  # there is no task: the body would stay until the next start
        body.remove()
        raise


def _start(runtime: Runtime, state: CollectionState, documents: Sequence[Any]) -> str:
    return indexing.start_batch(runtime, state, documents)
