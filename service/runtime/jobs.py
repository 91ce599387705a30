"""Background jobs: each has a row in `tasks`, runs in a thread, reports its progress and can be canceled."""

import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import structlog
from sqlalchemy import Connection

from index.errors import Canceled
from index.storage.full_disk import is_full
from service.http.answers import TaskType
from service.http.problems import INSUFFICIENT_STORAGE, Problem, not_found, problem_of
from service.runtime.lanes import Lanes
from service.runtime.task_repository import (
    UNFINISHED,
    delete_tasks,
    fail_unfinished_tasks,
    find_task,
    insert_task,
    task_statuses,
    update_task,
)
from service.storage.database import Database, new_id, now
from service.storage.reservations import note_answer

INTERRUPTED = {"code": "interrupted", "detail": "the service stopped before this task ended"}
NO_SPACE = "the disk is full: the task has not done all of its work"
WRITE_SECONDS = 0.5
"""Progress is written to the database at most this often."""

log = structlog.get_logger()


class Progress:
    """The progress of a job, and its request to stop."""

    def __init__(self, database: Database, task_id: str, note_cancel: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._task_id = task_id
        self._note_cancel = note_cancel
        self._has_ended = False
        self._canceled = threading.Event()
        self._written = 0.0
        self._lock = threading.Lock()
        self._planned_documents = 0
        self._encoded_documents = 0
        self._planned_passages = 0
        self._kept_passages = 0
        self.done = 0
        self.total = 0
        self.passages_done = 0

    def expect(self, total: int) -> None:
        """Set the total amount of work."""
        self.total = total
        self._write(force=True)

    def advance(self, count: int) -> None:
        """Add completed work. Raises Canceled if the job was canceled."""
        self.done += count
        self._write(force=False)
        self.check()

    def plan_passages(self, documents: int, passages: int, kept: int = 0) -> None:
        """Add the passages of further documents: those to encode, and those with stored vectors.

        Called by threads that encode.
        """
        with self._lock:
            self._planned_documents += documents
            self._encoded_documents += documents if passages else 0
            self._planned_passages += passages
            self._kept_passages += kept

    def advance_passages(self, count: int) -> None:
        """Add encoded passages. They are not written to the database, so that encoding waits for no transaction."""
        with self._lock:
            self.passages_done += count

    @property
    def passages(self) -> dict[str, int]:
        """The passages that are encoded, and their total: an estimate until every document is cut."""
        with self._lock:
            left = max(0, self.total - self._planned_documents)
            mean = self._planned_passages / max(1, self._encoded_documents)
            return {"passages_done": self.passages_done, "passages_total": self._planned_passages + round(left * mean)}

    @property
    def passage_counts(self) -> dict[str, int]:
        """The counts of passages in the result of a task."""
        return {"passages": self.passages_done, "passages_kept": self._kept_passages}

    @property
    def is_canceled(self) -> bool:
        """Whether the job was asked to stop."""
        return self._canceled.is_set()

    def check(self) -> None:
        """Raise Canceled if the job was canceled."""
        if self.is_canceled:
            raise Canceled("canceled")

    def cancel(self) -> None:
        """Ask the job to stop at its next step."""
        with self._lock:
            if not self._has_ended:
                self._note_cancel()
        self._canceled.set()

    def end(self) -> None:
        """Note that the work has ended: a later request to stop changes nothing."""
        with self._lock:
            self._has_ended = True

    def _write(self, force: bool) -> None:
        if not force and time.monotonic() - self._written < WRITE_SECONDS:
            return
        self._written = time.monotonic()
        with self._database.write() as connection:
            update_task(connection, self._task_id, progress_done=self.done, progress_total=self.total)


Work = Callable[[Progress], dict[str, Any]]


class Jobs:
    """Runs jobs in the order of their start, at most `workers` at the same time, and one of each lane."""

    def __init__(self, database: Database, most_kept: int, workers: int = 2) -> None:
        self._database = database
        self._most_kept = most_kept
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="job")
        self._lanes = Lanes(self._pool)
        self._resumes = False
        self._running: dict[str, Progress] = {}
        self._unrecorded: dict[str, dict[str, Any]] = {}
        """Outcomes that a full disk kept from the database. They are shown, and written with the next task."""
        self._finished = threading.Condition()
        self._closing = False

    def abandon_unfinished(self) -> None:
        """Mark the unfinished tasks of an earlier process as failed. Accepted documents are resumed in a new task."""
        with self._database.write() as connection:
            fail_unfinished_tasks(connection, INTERRUPTED)

    def start(
        self, kind: TaskType, collection: str | None, work: Work, note_cancel: Callable[[], None] = lambda: None
    ) -> str:
        """Enqueue work and return the id of its task, which is durable on return.

        Raises Problem 503 `too_many_tasks` if the setting `max_tasks` of tasks are unfinished.
        """
        with self._database.write() as connection:
            task_id = self.enqueued(connection, kind, collection)
        self.run(task_id, work, note_cancel=note_cancel)
        return task_id

    @contextmanager
    def resuming(self) -> Iterator[None]:
        """Refuse no task inside: the work of an earlier process was accepted before."""
        self._resumes = True
        try:
            yield
        finally:
            self._resumes = False

    def enqueued(self, connection: Connection, kind: TaskType, collection: str | None) -> str:
        """Record a task in the transaction of the work that it goes on with; return its id. The caller calls `run`.

        Raises Problem 503 `too_many_tasks`.
        """
        return self._recorded(connection, type=kind, collection=collection, status="enqueued")

    def run(
        self,
        task_id: str,
        work: Work,
        clean: Callable[[], None] = lambda: None,
        note_cancel: Callable[[], None] = lambda: None,
        lane: Hashable = None,
    ) -> None:
        """Start the work of an enqueued task whose record is committed.

        clean: called when the end of the task is recorded, or cannot be; not after an interruption by `close`.
        note_cancel: called when the task is asked to stop, before the work notices: also while the task waits.
        lane: tasks of the same lane run one at a time, in the order of these calls. A task that was canceled while it
            waited ends without its turn.
        """
        self._record_late()
        progress = self._running[task_id] = Progress(self._database, task_id, note_cancel)
        call = partial(self._run, task_id, work, progress, clean)
        if lane is None:
            self._pool.submit(call)
        else:
            self._lanes.add(lane, task_id, call)
            if progress.is_canceled:  # before it waited
                self._lanes.skip(task_id)

    def finished(
        self, connection: Connection, kind: TaskType, collection: str, result: dict[str, Any], count: int
    ) -> str:
        """Record work as a succeeded task in the transaction of the work; return its id. The caller commits."""
        done = {"progress_done": count, "progress_total": count, "finished_at": now()}
        return self._recorded(connection, type=kind, collection=collection, status="succeeded", result=result, **done)

    def _recorded(self, connection: Connection, **values: Any) -> str:
        """Insert a task, and note it as the answer of the request that starts it; return its id."""
        task_id = new_id()
        self._delete_oldest(connection)
        insert_task(connection, id=task_id, **values)
        note_answer(202, _body(find_task(connection, task_id), None), f"/v1/tasks/{task_id}")
        return task_id

    def _record_late(self) -> None:
        """Write the outcomes that an earlier failure kept from the database."""
        late = dict(self._unrecorded)
        if not late:
            return
        try:
            with self._database.write() as connection:
                for ended, values in late.items():
                    update_task(connection, ended, **values)
        except Exception as error:
            log.warning("task_not_recorded", reason=str(error))
            return
        for ended in late:
            self._unrecorded.pop(ended, None)

    def is_running(self, task_id: str) -> bool:
        """Return whether a task has not ended yet."""
        return task_id in self._running

    def wait(self, task_id: str, seconds: float) -> bool:
        """Wait for a task to end; return whether it ended."""
        with self._finished:
            return self._finished.wait_for(lambda: task_id not in self._running, seconds)

    def cancel(self, task_id: str) -> None:
        """Ask a task to stop. A task that has ended does not change."""
        progress = self._running.get(task_id)
        if progress:
            progress.cancel()
            self._lanes.skip(task_id)

    def show(self, task_id: str) -> dict[str, Any]:
        """Return a task as JSON. Raises Problem 404 if it does not exist."""
        with self._database.read() as connection:
            row = find_task(connection, task_id)
        if row is None:
            raise not_found("task")
        running = self._running.get(task_id)
        row = SimpleNamespace(**{**row._mapping, **self._unrecorded.get(task_id, {})})
        return _body(row, running.passages if running else None)

    def close(self) -> None:
        """Cancel every job and wait until all have ended. The next process resumes their work."""
        self._closing = True
        for progress in list(self._running.values()):
            progress.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, task_id: str, work: Work, progress: Progress, clean: Callable[[], None]) -> None:
        status, result, error = "succeeded", None, None
        self._mark_begun(task_id)
        try:
            result = work(progress)
        except Canceled:
            status, error = ("failed", INTERRUPTED) if self._closing else ("canceled", None)
        except Exception as unexpected:
            problem = problem_of(unexpected)
            is_generic = problem is not unexpected and problem.code == INSUFFICIENT_STORAGE
            detail = NO_SPACE if is_generic else problem.detail
            status, error = "failed", {"code": problem.code, "detail": detail}
            _log_failure("task_failed", task_id)
        progress.end()
        figures = {"progress_done": progress.done, "progress_total": progress.total}
        outcome = {"status": status, "result": result, "error": error, "finished_at": now(), **figures}
        try:
            self._set(task_id, **outcome)
        except Exception:
            self._unrecorded[task_id] = outcome
            _log_failure("task_not_recorded", task_id)
        try:
            if error is not INTERRUPTED:
                clean()
                self._record_late()  # the cleaning may have freed the space that the outcome lacked
        except Exception:
            _log_failure("task_not_cleaned", task_id)
        finally:
            with self._finished:
                self._running.pop(task_id, None)
                self._finished.notify_all()

    def _mark_begun(self, task_id: str) -> None:
        """Show a task as processing. The work begins even where this fails: its own end frees what its start took."""
        try:
            self._set(task_id, status="processing")
        except Exception:
            _log_failure("task_not_marked", task_id)

    def _set(self, task_id: str, **values: Any) -> None:
        with self._database.write() as connection:
            update_task(connection, task_id, **values)

    def _delete_oldest(self, connection: Connection) -> None:
        """Delete the oldest finished tasks, so that another task does not exceed the limit."""
        statuses = task_statuses(connection)
        surplus = len(statuses) + 1 - self._most_kept
        if surplus <= 0:
            return
        finished = [task_id for task_id, status in statuses.items() if status not in UNFINISHED][:surplus]
        if not finished and not self._resumes:
            raise too_many_tasks()
        delete_tasks(connection, finished)


def _log_failure(event: str, task_id: str) -> None:
    """Log the exception that is being handled. The outcome of a task does not depend on its line in the log.

    A Problem is an answer to the caller, and a full disk no fault of the code: their lines have no traceback.
    """
    with suppress(Exception):
        error = sys.exception()
        if isinstance(error, Problem):
            log.warning(event, task=task_id, code=error.code, detail=error.detail)
        elif is_full(error):
            log.warning(event, task=task_id, code=INSUFFICIENT_STORAGE, detail=str(error))
        else:
            log.exception(event, task=task_id)


def is_unended(row: Any) -> bool:
    """Return whether a task has not ended, or has ended because the service stopped."""
    return row.status in UNFINISHED or (row.status == "failed" and (row.error or {}).get("code") == INTERRUPTED["code"])


def name_successor(connection: Connection, task_id: str, successor: str) -> None:
    """Name the task that goes on with the work of an interrupted task in the error of that task. The caller commits."""
    row = find_task(connection, task_id)
    if row is not None and is_unended(row):
        detail = f"{INTERRUPTED['detail']}; the task {successor} goes on with its work"
        update_task(connection, task_id, error=INTERRUPTED | {"detail": detail})


def too_many_tasks() -> Problem:
    """Return the problem of a task for which there is no place."""
    return Problem(503, "too_many_tasks", "too many tasks are waiting", headers={"Retry-After": "5"})


def _body(row: Any, passages: dict[str, int] | None) -> dict[str, Any]:
    """Return a task as JSON. The passages are counted by the running job, else by the result."""
    if passages is None and row.result and "passages" in row.result:
        passages = dict.fromkeys(("passages_done", "passages_total"), row.result["passages"])
    return {
        "id": row.id,
        "type": row.type,
        "collection": row.collection,
        "status": row.status,
        "progress": {"done": row.progress_done, "total": row.progress_total, **(passages or {})},
        "result": row.result,
        "error": row.error,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
    }
