"""Streams newline-delimited JSON of any size to the disk, then takes it in line by line, a thousand at a time."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from starlette.concurrency import run_in_threadpool

from index.errors import Canceled
from index.storage.files import sync_directory, write_atomically
from service.documents.actions import accept, give_up, make_searchable
from service.documents.schemas import MAX_BATCH
from service.runtime.collection import CollectionState
from service.runtime.jobs import Progress
from service.runtime.runtime import Runtime

MAX_LINE_BYTES = 8 * 1024 * 1024
COMPLETE = ".ndjson"
TAKEN = ".taken"
"""The end of the name of the file that says how many lines are in already."""
MAX_ERRORS = 1000
"""Failed lines that a task's result names; all of them are counted."""


async def spool(runtime: Runtime, state: CollectionState, body: AsyncIterator[bytes]) -> Path:
    """Write a body to a file of the data directory, as it comes in; on return it is durable and has its final name."""
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
    """Take up the bodies that an earlier process acknowledged and did not take in to the end.

    Lines that were taken in already are passed over, so that nothing newer is written over.
    """
    states = {str(state.id): state for state in runtime.collections.values()}
    for path in sorted(runtime.imports.iterdir(), key=lambda one: one.stat().st_mtime_ns):
        state = states.get(path.name.partition("-")[0])
        if path.suffix == COMPLETE and state is not None:
            start_import(runtime, state, path)
        elif path.suffix != TAKEN or not path.with_suffix(COMPLETE).is_file():
            path.unlink(missing_ok=True)


def start_import(runtime: Runtime, state: CollectionState, path: Path) -> str:
    """Start the task that takes a spooled file in; the file is deleted when all of it is in."""

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
    for one in (path, path.with_suffix(TAKEN)):
        one.unlink(missing_ok=True)


def _taken(path: Path) -> int:
    """Return how many lines of the file an earlier process took in."""
    told = path.with_suffix(TAKEN)
    return int(told.read_bytes()) if told.is_file() else 0


def _import(runtime: Runtime, state: CollectionState, path: Path, progress: Progress) -> dict[str, Any]:
    before = _taken(path)
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
            errors += sorted(wrong, key=lambda one: int(one["index"]))[: MAX_ERRORS - len(errors)]
            write_atomically(path.with_suffix(TAKEN), str(before + total).encode())  # what is pending is resumed apart
            try:
                make_searchable(runtime, state, accepted.sequences, progress.advance)
            except Canceled:
                if not runtime.closing:
                    give_up(runtime, accepted.sequences)
                raise
            progress.advance(len(items) + len(bad) - len(accepted.sequences))
    return {"items_total": total, "succeeded": total - failed, "failed": failed, "errors": errors}


def _batches(file: BinaryIO, skipped: int) -> Iterator[tuple[list[tuple[int, Any]], list[dict[str, Any]]]]:
    """Yield (index, item) of up to MAX_BATCH lines after the skipped ones, and outcomes of lines that are no JSON."""
    items: list[tuple[int, Any]] = []
    bad: list[dict[str, Any]] = []
    index = 0
    for line in _lines(file):
        if not line.strip():
            continue
        if index < skipped:
            index += 1
            continue
        if len(line) >= MAX_LINE_BYTES:
            bad.append(_failed(index, "document_too_large", f"a line has at most {MAX_LINE_BYTES} bytes"))
        else:
            try:
                items.append((index, orjson.loads(line)))
            except orjson.JSONDecodeError:
                bad.append(_failed(index, "invalid_json", "the line is not valid JSON"))
        index += 1
        if len(items) + len(bad) >= MAX_BATCH:
            yield items, bad
            items, bad = [], []
    if items or bad:
        yield items, bad


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines, cut at MAX_LINE_BYTES; the rest of a longer line is read past, never held."""
    while line := file.readline(MAX_LINE_BYTES):
        yield line
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)


def _failed(index: int, code: str, detail: str) -> dict[str, Any]:
    return {"index": index, "id": None, "status": 422, "code": code, "detail": detail}
