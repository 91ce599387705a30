"""HTTP routes of the export of everything, or of some collections, and of its import."""

import errno
import os
import tempfile
import threading
from collections.abc import Generator, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from anyio import CancelScope
from fastapi import Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from service.exports.importing import start_import
from service.exports.writing import export_parts
from service.http.answers import TASK_ACCEPTED
from service.http.problems import Problem
from service.http.requests import UNLIMITED
from service.http.responses import accepted_task
from service.http.routers import new_router
from service.http.writing_threads import accept_write
from service.runtime.dependency import Running
from service.runtime.runtime import Runtime

router = new_router("/v1", "exports")
MEDIA_TYPE = "application/x-ndjson"
MOST_NAMED = 100
"""Collections that a request can name."""
EXPORT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A header, a record on each line, and a last line with their number and sha256",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}
BODY = {
    "required": True,
    "content": {
        MEDIA_TYPE: {"schema": {"type": "string"}},
        # for generators of clients that know no other type of a file
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    },
}


@router.get("/export", response_class=StreamingResponse, responses=EXPORT)
def export_everything(
    runtime: Running,
    collections: Annotated[
        list[str] | None,
        Query(min_length=1, max_length=MOST_NAMED, description="Only these collections, with their aliases."),
    ] = None,
) -> StreamingResponse:
    """Stream all content as lines of JSON: documents with their vectors, feedback, models, rules, settings."""
    names = None if collections is None else frozenset(runtime.collection(name).name for name in collections)
    parts = _Parts(_parts(runtime, names))
    next(parts)  # takes a slot, or refuses
    first = next(parts)  # an error of it has an answer of its own
    return _Export(first, parts)


@router.post(
    "/import",
    status_code=202,
    max_body_size=UNLIMITED,
    responses=TASK_ACCEPTED,
    openapi_extra={"requestBody": BODY},
)
async def import_everything(runtime: Running, request: Request) -> Response:
    """Import an export of any size, as a stream. Its collections must be new here, or have nothing in them."""
    path = await _spooled(runtime.imports, request)
    task_id = await accept_write(start_import, runtime, path)
    return accepted_task(await run_in_threadpool(runtime.jobs.show, task_id))


class _Parts:
    """The parts of an export. A thread may close them while another one still takes a part."""

    def __init__(self, parts: Generator[bytes, None, None]) -> None:
        self._parts, self._lock = parts, threading.Lock()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._lock:
            return next(self._parts)

    def close(self) -> None:
        """Give back what the export holds, as at its end."""
        with self._lock:
            self._parts.close()


class _Export(StreamingResponse):
    """Streams the parts of an export, and closes them in the end, also when the client has left before."""

    def __init__(self, first: bytes, parts: _Parts) -> None:
        super().__init__(chain([first], parts), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await run_in_threadpool(self._parts.close)


def _parts(runtime: Runtime, names: frozenset[str] | None) -> Generator[bytes, None, None]:
    """Yield nothing once a slot is taken and the act is recorded, then the parts of an export.

    The slot is free again at the end.
    """
    if not runtime.export_slots.acquire(blocking=False):
        raise Problem(503, "overloaded", "too many exports are being written", headers={"Retry-After": "10"})
    try:
        runtime.database.store_act()
        yield b""
        yield from export_parts(runtime, names)
    finally:
        runtime.export_slots.release()


async def _spooled(folder: Path, request: Request) -> Path:
    """Stream the body of a request to a file; the next start deletes it. Raises Problem 507 if the disk is full."""
    descriptor, name = tempfile.mkstemp(prefix="everything-", suffix=".part", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for part in request.stream():
                await run_in_threadpool(file.write, part)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise Problem(507, "insufficient_storage", "the disk is full") from error
        raise
    return path
