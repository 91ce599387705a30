"""The impressions of a searcher: files in its data directory, until the primary has them.

A search queues its impression; a thread writes the queued ones to a file, and delivers the files in their order. A file
is deleted after the commit of its rows, so each row is delivered at least once; the query id of a row is its key, so it
is stored once.
"""

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import structlog
from sqlalchemy import Connection, func, select

from index.storage.files import make_durable_directory, write_atomically
from service.http.metrics import LOST_IMPRESSIONS
from service.runtime.feedback_repository import insert_impressions
from service.runtime.repeated_failures import RepeatedFailures
from service.storage.tables import COLLECTIONS
from service.storage.tables_of_administration import ERASURES
from service.storage.tenants import split

GATHERED_SECONDS = 0.1
RETRY_SECONDS = 1.0
BATCH = 500
MOST_FILES = 10_000
"""Files that wait at most. Then the oldest is dropped, and the log says so."""
Deliver = Callable[[list[dict[str, Any]]], None]
log = structlog.get_logger()


class Spool:
    """Writes impressions to files and delivers them in a thread."""

    def __init__(self, folder: Path, deliver: Deliver) -> None:
        """deliver: stores rows of `queries` in the primary, or raises an error."""
        make_durable_directory(folder)
        self._folder, self._deliver = folder, deliver
        self._failures = RepeatedFailures("impressions_not_delivered")
        self._queue: queue.Queue[dict[str, Any] | threading.Event | None] = queue.Queue(maxsize=20 * BATCH)
        self._number = max((int(path.stem) for path in self._files()), default=0)
        self._thread = threading.Thread(target=self._work, name="spool", daemon=True)
        self._thread.start()

    def add(self, impression: dict[str, Any]) -> None:
        """Queue a row of `queries`."""
        self._queue.put(impression)

    def flush(self) -> None:
        """Wait until every impression queued so far is in a file, and its delivery was tried."""
        reached = threading.Event()
        self._queue.put(reached)
        reached.wait()

    def close(self) -> None:
        """Write the queued impressions to files, try to deliver them, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    @property
    def waiting(self) -> int:
        """The number of files that are not delivered."""
        return len(self._files())

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))

    def _work(self) -> None:
        ended = False
        while not ended:
            taken = self._gathered()
            rows = [one for one in taken if isinstance(one, dict)]
            try:
                if rows:
                    self._number += 1
                    write_atomically(self._folder / f"{self._number:012}.json", orjson.dumps(rows))
            except OSError as error:
                LOST_IMPRESSIONS.inc(len(rows))
                log.warning("impression_lost", count=len(rows), reason=str(error))
            self._deliver_files()
            ended = None in taken
            for one in taken:
                if isinstance(one, threading.Event):
                    one.set()

    def _gathered(self) -> list[dict[str, Any] | threading.Event | None]:
        """Return what is queued, after a short wait for more; nothing, if nothing is queued for a while."""
        taken: list[dict[str, Any] | threading.Event | None] = []
        try:
            taken.append(self._queue.get(timeout=RETRY_SECONDS))
            while len(taken) < BATCH and isinstance(taken[-1], dict):
                taken.append(self._queue.get(timeout=GATHERED_SECONDS))
        except queue.Empty:
            pass
        return taken

    def _deliver_files(self) -> None:
        """Deliver the files, the oldest first, until one cannot be delivered."""
        files = self._files()
        for path in files[: max(0, len(files) - MOST_FILES)]:
            count = _rows_in(path)
            LOST_IMPRESSIONS.inc(count)
            log.warning("impression_lost", count=count, reason="too many wait for the primary")
            path.unlink(missing_ok=True)
        for path in files[max(0, len(files) - MOST_FILES) :]:
            try:
                self._deliver(orjson.loads(path.read_bytes()))
            except Exception as error:
                self._failures.failed(error)
                return
            self._failures.succeeded()
            path.unlink(missing_ok=True)


def _rows_in(path: Path) -> int:
    """Return the number of impressions in a file; 0 if it cannot be read."""
    try:
        return len(orjson.loads(path.read_bytes()))
    except (OSError, ValueError):
        return 0


def store_delivered(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Store impressions that a searcher delivers. The caller commits.

    Those of deleted collections are left out. Those of before an erasure may be of its subject, whom the database no
    longer knows: they lose their client and session, and keep their tenant.
    """
    known = set(connection.execute(select(COLLECTIONS.c.id)).scalars())
    erased = connection.execute(select(func.max(ERASURES.c.created_at))).scalar() or ""
    kept = [row for row in rows if row["collection_id"] in known]
    for row in kept:
        if row["created_at"] <= erased:
            row["client_id"], row["session_id"] = split(row["client_id"])[0] or None, None
    if kept:
        insert_impressions(connection, kept)
