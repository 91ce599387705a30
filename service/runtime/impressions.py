"""The log of impressions: a thread writes them in batches, so that a search does not wait for the disk."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from service.http.metrics import LOST_IMPRESSIONS
from service.runtime.collection_repository import collection_ids
from service.runtime.feedback_repository import insert_impressions
from service.runtime.repeated_failures import RepeatedFailures
from service.storage.database import Database

BATCH = 500
"""Impressions of a transaction."""
MOST_QUEUED = 20 * BATCH
GATHERED_SECONDS = 0.1
"""Time for which a batch is gathered. A transaction for each impression would take as long as its search."""

LOOK_SECONDS = 1.0
"""Time after which a waiting flush looks whether the thread still runs."""


class ImpressionLog:
    """Queues impressions and writes them in a thread. After `flush`, all queued impressions are durable or lost.

    Impressions of collections that were deleted meanwhile are left out.

    The thread is woken for a batch and not for each impression: each time it would interrupt a search.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.sources: list[Callable[[], None]] = []
        """Functions that queue the impressions that other processes have sent."""
        self._failures = RepeatedFailures("impression_lost")
        self._waiting: deque[dict[str, Any] | threading.Event | None] = deque()
        self._has_some = threading.Event()
        self._is_due = threading.Event()
        """Whether the queued impressions are written at once: at a full batch, a flush, or the end."""
        self._thread = threading.Thread(target=self._write_all, name="impressions", daemon=True)
        self._thread.start()

    def add(self, impression: dict[str, Any]) -> None:
        """Queue a row of `queries`. Waits while MOST_QUEUED are queued."""
        self._put(impression)
        if len(self._waiting) >= BATCH:
            self._is_due.set()
            while len(self._waiting) >= MOST_QUEUED and self._thread.is_alive():
                time.sleep(GATHERED_SECONDS)

    def flush(self) -> None:
        """Wait until every impression queued so far, here and in other processes, is committed.

        Raises RuntimeError if the thread has ended.
        """
        for drain in list(self.sources):
            drain()
        reached = threading.Event()
        self._put(reached)
        self._is_due.set()
        while not reached.wait(LOOK_SECONDS):
            if not self._thread.is_alive() and not reached.is_set():
                raise RuntimeError("the thread that writes impressions has ended")

    def close(self) -> None:
        """Write the queued impressions and end the thread."""
        self._put(None)
        self._is_due.set()
        self._thread.join()

    def _put(self, one: dict[str, Any] | threading.Event | None) -> None:
        self._waiting.append(one)
        if not self._has_some.is_set():
            self._has_some.set()

    def _write_all(self) -> None:
        ended = False
        while not ended:
            taken = self._gathered()
            ended = None in taken
            rows = [one for one in taken if isinstance(one, dict)]
            for start in range(0, len(rows), BATCH):
                with suppress(Exception):  # a failure is logged; the thread goes on where even that fails
                    self._write(rows[start : start + BATCH])
            for one in taken:
                if isinstance(one, threading.Event):
                    one.set()

    def _gathered(self) -> list[dict[str, Any] | threading.Event | None]:
        """Return what is queued, as soon as something is due or has waited for its time."""
        self._has_some.wait()
        self._is_due.wait(GATHERED_SECONDS)
        self._has_some.clear()  # before the queue is read: what comes later has the thread read it again
        self._is_due.clear()
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def _write(self, rows: list[dict[str, Any]]) -> None:
        try:
            if rows:
                with self._database.write() as connection:
                    known = collection_ids(connection)
                    if kept := [row for row in rows if row["collection_id"] in known]:
                        insert_impressions(connection, kept)
        except Exception as error:
            if len(rows) == 1:
                LOST_IMPRESSIONS.inc()
                self._failures.failed(error)
                return
            for row in rows:  # a row may be one that cannot be stored; the other rows are
                self._write([row])
