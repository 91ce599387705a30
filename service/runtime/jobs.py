"""Work that outlives its request: a row in `tasks`, a thread that does it, progress, and a way to stop it."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from sqlalchemy import delete, insert, select, update

from index.errors import Canceled
from service.http.problems import Problem, not_found, problem_of
from service.storage.database import Database, new_id, now
from service.storage.tables import Task

UNFINISHED = ("enqueued", "processing")
INTERRUPTED = {"code": "interrupted", "detail": "the service stopped before this task ended"}
WRITE_SECONDS = 0.5
"""Progress is written to the database at most this often."""

log = structlog.get_logger()


class Progress:
    """What a job tells about itself, and where it learns that it should stop."""

    def __init__(self, database: Database, task_id: str) -> None:
        self._database = database
        self._task_id = task_id
        self._canceled = threading.Event()
        self._written = 0.0
        self.done = 0
        self.total = 0

    def expect(self, total: int) -> None:
        """Say how much work there is in all."""
        self.total = total
        self._write(force=True)

    def advance(self, count: int) -> None:
        """Say that so much more is done; raises Canceled when the job was asked to stop."""
        self.done += count
        self._write(force=False)
        self.check()

    def check(self) -> None:
        """Raise Canceled when the job was asked to stop."""
        if self._canceled.is_set():
            raise Canceled("canceled")

    def cancel(self) -> None:
        """Ask the job to stop at its next step."""
        self._canceled.set()

    def _write(self, force: bool) -> None:
        if not force and time.monotonic() - self._written < WRITE_SECONDS:
            return
        self._written = time.monotonic()
        with self._database.write() as connection:
            figures = {"progress_done": self.done, "progress_total": self.total}
            connection.execute(update(Task).where(Task.id == self._task_id).values(figures))


Work = Callable[[Progress], dict[str, Any]]


class Jobs:
    """Runs jobs, a few at a time, in the order they came."""

    def __init__(self, database: Database, most_kept: int, workers: int = 2) -> None:
        self._database = database
        self._most_kept = most_kept
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="job")
        self._running: dict[str, Progress] = {}
        self._finished = threading.Condition()
        self._closing = False

    def abandon_unfinished(self) -> None:
        """Mark what a former process left behind as failed; accepted documents are resumed apart from their task."""
        with self._database.write() as connection:
            stale = update(Task).where(Task.status.in_(UNFINISHED))
            connection.execute(stale.values(status="failed", error=INTERRUPTED, finished_at=now()))

    def start(self, kind: str, collection: str | None, work: Work) -> str:
        """Enqueue work and return the id of its task, which is durable on return.

        Raises Problem 503 `too_many_tasks` when as many as are kept are still unfinished.
        """
        task_id = new_id()
        with self._database.write() as connection:
            self._make_room(connection)
            row = {"id": task_id, "type": kind, "collection": collection, "status": "enqueued", "created_at": now()}
            connection.execute(insert(Task).values(progress_done=0, progress_total=0, **row))
        progress = self._running[task_id] = Progress(self._database, task_id)
        self._pool.submit(self._run, task_id, work, progress)
        return task_id

    def finished(self, kind: str, collection: str, result: dict[str, Any], count: int) -> str:
        """Record work that was done before its answer as a task that has succeeded; return its id."""
        task_id = new_id()
        with self._database.write() as connection:
            self._make_room(connection)
            row = {"id": task_id, "type": kind, "collection": collection, "status": "succeeded", "result": result}
            figures = {"progress_done": count, "progress_total": count, "created_at": now(), "finished_at": now()}
            connection.execute(insert(Task).values(**row, **figures))
        return task_id

    def is_running(self, task_id: str) -> bool:
        """Whether a task has not ended yet."""
        return task_id in self._running

    def wait(self, task_id: str, seconds: float) -> bool:
        """Wait for a task to end; return whether it did."""
        with self._finished:
            return self._finished.wait_for(lambda: task_id not in self._running, seconds)

    def cancel(self, task_id: str) -> None:
        """Ask a task to stop; one that has ended stays as it is."""
        progress = self._running.get(task_id)
        if progress:
            progress.cancel()

    def show(self, task_id: str) -> dict[str, Any]:
        """Return a task as the contract shows it; raises the 404 of one that is not known."""
        with self._database.read() as connection:
            row = connection.execute(select(Task.__table__).where(Task.id == task_id)).one_or_none()
        if row is None:
            raise not_found("task")
        return _body(row)

    def close(self) -> None:
        """Ask every job to stop and wait for them; what they leave is taken up by the next process."""
        self._closing = True
        for progress in list(self._running.values()):
            progress.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, task_id: str, work: Work, progress: Progress) -> None:
        status, result, error = "succeeded", None, None
        try:
            self._set(task_id, status="processing")
            result = work(progress)
        except Canceled:
            status, error = ("failed", INTERRUPTED) if self._closing else ("canceled", None)
        except Exception as unexpected:
            problem = problem_of(unexpected)
            status, error = "failed", {"code": problem.code, "detail": problem.detail}
            log.exception("task_failed", task=task_id)
        figures = {"progress_done": progress.done, "progress_total": progress.total}
        try:
            self._set(task_id, status=status, result=result, error=error, finished_at=now(), **figures)
        finally:
            with self._finished:
                self._running.pop(task_id, None)
                self._finished.notify_all()

    def _set(self, task_id: str, **values: Any) -> None:
        with self._database.write() as connection:
            connection.execute(update(Task).where(Task.id == task_id).values(**values))

    def _make_room(self, connection: Any) -> None:
        ids = connection.execute(select(Task.id, Task.status).order_by(Task.id)).all()
        surplus = len(ids) + 1 - self._most_kept
        if surplus <= 0:
            return
        ended = [row.id for row in ids if row.status not in UNFINISHED][:surplus]
        if not ended:
            raise Problem(503, "too_many_tasks", "too many tasks are waiting", headers={"Retry-After": "5"})
        connection.execute(delete(Task).where(Task.id.in_(ended)))


def _body(row: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "type": row.type,
        "collection": row.collection,
        "status": row.status,
        "progress": {"done": row.progress_done, "total": row.progress_total},
        "result": row.result,
        "error": row.error,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
    }
