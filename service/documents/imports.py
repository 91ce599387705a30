"""Imports newline-delimited JSON of any size: streams the body to a file, then reads the file in batches of lines."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from starlette.concurrency import run_in_threadpool

from index.errors import Canceled
from index.storage.files import sync_directory, write_atomically
from service.documents.acceptance import accept
from service.documents.indexing import make_searchable_in_task
from service.documents.schemas import MAX_BATCH
from service.runtime.collection import CollectionState
from service.runtime.jobs import Progress
from service.runtime.runtime import Runtime

MAX_LINE_BYTES = 8 * 1024 * 1024
COMPLETE = ".ndjson"
TAKEN = ".taken"
"""Suffix of the file that holds the number of lines already stored."""
MAX_ERRORS = 1000
"""Failed lines that a task's result names. The result counts all of them."""


async def spool(runtime: Runtime, state: CollectionState, body: AsyncIterator[bytes]) -> Path:
    """Stream a request body to a file in the data directory; return its path when the file is durable."""
    descriptor, name = tempfile.mkstemp(prefix=f"{state.id}-", suffix=".part", dir=runtime.imports)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for part in body:
                await run_in_threadpool(file.write, part)
            file.flush()
            await run_in_threadpool(os.fsync, file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    complete = path.with_suffix(COMPLETE)
    path.rename(complete)
    await run_in_threadpool(sync_directory, runtime.imports)
    return complete


def resume_imports(runtime: Runtime) -> None:
    """Resume the imports that an earlier process acknowledged and did not finish, oldest first.

    Lines that are already stored are skipped, so that they do not overwrite newer documents.
    """
    states = {str(state.id): state for state in runtime.collections.values()}
    for path in sorted(runtime.imports.iterdir(), key=lambda file: file.stat().st_mtime_ns):
        state = states.get(path.name.partition("-")[0])
        if path.suffix == COMPLETE and state is not None:
            start_import(runtime, state, path)
        elif path.suffix != TAKEN or not path.with_suffix(COMPLETE).is_file():
            path.unlink(missing_ok=True)


def start_import(runtime: Runtime, state: CollectionState, path: Path) -> str:
    """Start the task that imports a spooled file and then deletes the file; return the task's id."""

    def work(progress: Progress) -> dict[str, Any]:
        try:
            result = _import(runtime, state, path, progress)
        except Canceled:
            if not runtime.closing:
                _remove(path)
            raise
        _remove(path)
        return result

    return runtime.jobs.start("documents_import", state.name, work)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(TAKEN).unlink(missing_ok=True)


def _taken_count(path: Path) -> int:
    """Return the number of lines of the file that an earlier process stored."""
    taken = path.with_suffix(TAKEN)
    return int(taken.read_bytes()) if taken.is_file() else 0


def _import(runtime: Runtime, state: CollectionState, path: Path, progress: Progress) -> dict[str, Any]:
    before = _taken_count(path)
    progress.check()
    with path.open("rb") as file:
        progress.expect(sum(1 for line in _lines(file) if line.strip()))
    progress.advance(before)
    total = failed = 0
    errors: list[dict[str, Any]] = []
    with path.open("rb") as file:
        for items, bad in _batches(file, before):
            accepted = accept(runtime, state, [item for _, item in items])
            for outcome in accepted.items:
                outcome["index"] = items[outcome["index"]][0]
            wrong = [*bad, *(outcome for outcome in accepted.items if outcome["code"] is not None)]
            total, failed = total + len(items) + len(bad), failed + len(wrong)
            errors += sorted(wrong, key=lambda outcome: int(outcome["index"]))[: MAX_ERRORS - len(errors)]
            # written before indexing: after a restart, pending documents are resumed separately
            write_atomically(path.with_suffix(TAKEN), str(before + total).encode())
            make_searchable_in_task(runtime, state, accepted.sequences, progress)
            progress.advance(len(items) + len(bad) - len(accepted.sequences))
    return {"items_total": total, "succeeded": total - failed, "failed": failed, "errors": errors}


def _batches(file: BinaryIO, skipped: int) -> Iterator[tuple[list[tuple[int, Any]], list[dict[str, Any]]]]:
    """Yield up to MAX_BATCH lines after the skipped lines: (index, item) pairs, and the outcomes of invalid lines."""
    items: list[tuple[int, Any]] = []
    bad: list[dict[str, Any]] = []
    filled = (line for line in _lines(file) if line.strip())
    for index, line in enumerate(filled):
        if index < skipped:
            continue
        if len(line) >= MAX_LINE_BYTES:
            bad.append(_failed(index, "document_too_large", f"a line has at most {MAX_LINE_BYTES} bytes"))
        else:
            try:
                items.append((index, orjson.loads(line)))
            except orjson.JSONDecodeError:
                bad.append(_failed(index, "invalid_json", "the line is not valid JSON"))
        if len(items) + len(bad) >= MAX_BATCH:
            yield items, bad
            items, bad = [], []
    if items or bad:
        yield items, bad


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines, cut at MAX_LINE_BYTES. The rest of a longer line is skipped without being kept in memory."""
    while line := file.readline(MAX_LINE_BYTES):
        yield line
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)


def _failed(index: int, code: str, detail: str) -> dict[str, Any]:
    return {"index": index, "id": None, "status": 422, "code": code, "detail": detail}
