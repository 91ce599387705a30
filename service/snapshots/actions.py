"""Starts, lists and deletes snapshots of the running service, and makes them by schedule."""

from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from index.storage.full_disk import is_full
from service.http.problems import INSUFFICIENT_STORAGE, Problem, not_found
from service.runtime.jobs import Progress
from service.runtime.runtime import Runtime
from service.snapshots.creating import SPARE_BYTES, Maker, bytes_needed, make_snapshot, require_space
from service.snapshots.repository import KIND, attempts
from service.snapshots.stored import Stored, is_scheduled, newest_by_clock, stored_snapshots
from service.storage.database import is_ahead, rfc3339

MAX_SNAPSHOTS = 100
"""Snapshots in a data directory, at most."""
MIB = 2**20
"""The unit of a task's progress."""
RETRY = timedelta(hours=1)
"""Time from an attempt that failed or was canceled, asked for or not, to the next scheduled snapshot, at most."""
SNAPSHOT_IN_PROGRESS = "another snapshot is being made, or an erasure goes on; try again when its task has ended"
NO_SNAPSHOT = "the disk is full: no snapshot was made"
log = structlog.get_logger()


def start(runtime: Runtime) -> str:
    """Start the task that makes a snapshot, and return its id.

    Raises Problem 409 if a snapshot is in progress or MAX_SNAPSHOTS exist, and 507 if the disk lacks space.
    """
    _require_room(runtime)
    require_space(runtime.settings.data, bytes_needed(runtime))
    return _start(runtime, scheduled=False)


def show_all(runtime: Runtime) -> dict[str, Any]:
    """Return the snapshots, newest first, and the schedule with the reason of the last failure."""
    with runtime.database.read() as connection:
        latest = next((task for task in attempts(connection) if task.status in ("succeeded", "failed")), None)
    failed = latest is not None and latest.status == "failed"
    failure = {**latest.error, "finished_at": latest.finished_at} if latest and failed else None
    settings = runtime.settings
    schedule = {"every_hours": settings.snapshot_every_hours, "keep": settings.snapshot_keep}
    return {
        "snapshots": [one.as_json() for one in stored_snapshots(settings.data)],
        "schedule": schedule,
        "last_failure": failure,
    }


def delete(runtime: Runtime, snapshot_id: str) -> None:
    """Record the act, then delete a snapshot. Raises Problem 404 if it does not exist.

    On a full disk the deletion comes first: it makes the space for the record.
    """
    found = [one for one in stored_snapshots(runtime.settings.data) if one.id == snapshot_id]
    if not found:
        raise not_found("snapshot")
    try:
        runtime.database.store_act()
    except (OSError, SQLAlchemyError) as error:
        if not is_full(error):
            raise
        log.warning("act_not_stored", act="delete_snapshot", reason=str(error))
    found[0].delete()


def make_due_snapshot(runtime: Runtime, moment: datetime | None = None) -> str | None:
    """Start a scheduled snapshot if one is due; return the id of its task. The default of `moment` is now."""
    hours = runtime.settings.snapshot_every_hours
    if hours is None or runtime.snapshot_lock.locked():
        return None
    moment = moment or datetime.now(UTC)
    made = [one.made_at for one in _scheduled(runtime)]
    with runtime.database.read() as connection:
        tried = [task.created_at for task in attempts(connection) if not _is_asked_for(task)]
    every = timedelta(hours=hours)
    for times, pause in ((made, every), (tried, min(every, RETRY))):
        if any(rfc3339(moment - pause) < at and not is_ahead(at, moment) for at in times):
            return None
    return _start(runtime, scheduled=True)


def _start(runtime: Runtime, scheduled: bool) -> str:
    if not runtime.snapshot_lock.acquire(blocking=False):
        raise Problem(409, "snapshot_in_progress", SNAPSHOT_IN_PROGRESS)

    def work(progress: Progress) -> dict[str, Any]:
        try:
            return _make(runtime, scheduled, progress)
        finally:
            runtime.snapshot_lock.release()

    try:
        return runtime.jobs.start(KIND, None, work)
    except BaseException:
        runtime.snapshot_lock.release()
        raise


def _make(runtime: Runtime, scheduled: bool, progress: Progress) -> dict[str, Any]:
    """Make a snapshot, and delete the oldest of the schedule. Raises Problem 409, and 507 if the disk is full."""
    _require_room(runtime)
    try:
        result = _made(runtime, scheduled, progress)
    except Exception as error:
        if isinstance(error, Problem) or not is_full(error):
            raise
        raise Problem(507, INSUFFICIENT_STORAGE, NO_SNAPSHOT) from error
    progress.total = progress.done  # stored with the end of the task
    log.info("snapshot_made", **{name: result[name] for name in ("file", "bytes", "documents")})
    if scheduled:
        kept = newest_by_clock(_scheduled(runtime), datetime.now(UTC))
        for old in kept[runtime.settings.snapshot_keep :]:
            old.delete()
    return result


def _made(runtime: Runtime, scheduled: bool, progress: Progress) -> dict[str, Any]:
    """Make a snapshot with its progress."""
    progress.expect((bytes_needed(runtime) - SPARE_BYTES) // 2 // MIB)
    written = 0

    def advance(count: int) -> None:
        nonlocal written
        written += count
        progress.advance(written // MIB - progress.done)

    return make_snapshot(Maker(runtime, scheduled, advance))


def _is_asked_for(task: Row[Any]) -> bool:
    """Return whether a task has made a snapshot that was asked for. The tasks of failed attempts do not say that."""
    return task.status == "succeeded" and not is_scheduled(task.result["file"])


def _scheduled(runtime: Runtime) -> list[Stored]:
    return [one for one in stored_snapshots(runtime.settings.data) if one.scheduled]


def _require_room(runtime: Runtime) -> None:
    if len(stored_snapshots(runtime.settings.data)) >= MAX_SNAPSHOTS:
        raise Problem(409, "too_many_snapshots", f"there are {MAX_SNAPSHOTS} snapshots; delete some first")
