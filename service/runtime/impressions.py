"""The log of impressions: a thread writes them in batches, so that a search does not wait for the disk."""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from service.runtime.feedback_repository import insert_impressions
from service.runtime.repeated_failures import RepeatedFailures
from service.storage.database import Database

BATCH = 500
GATHERED_SECONDS = 0.1
"""Time for which a batch is gathered. A transaction for each impression would take as long as its search."""

LOOK_SECONDS = 1.0
"""Time after which a waiting flush looks whether the thread still runs."""


class ImpressionLog:
    """Queues impressions and writes them in a thread. After `flush`, all queued impressions are durable or lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.sources: list[Callable[[], None]] = []
        """Functions that queue the impressions that other processes have sent."""
        self._failures = RepeatedFailures("impression_lost")
        self._queue: queue.Queue[dict[str, Any] | threading.Event | None] = queue.Queue(maxsize=20 * BATCH)
        self._thread = threading.Thread(target=self._write_all, name="impressions", daemon=True)
        self._thread.start()

    def add(self, impression: dict[str, Any]) -> None:
        """Queue a row of `queries`. Waits while the queue is full."""
        self._queue.put(impression)

    def flush(self) -> None:
        """Wait until every impression queued so far, here and in other processes, is committed.

        Raises RuntimeError if the thread has ended.
        """
        for drain in list(self.sources):
            drain()
        reached = threading.Event()
        self._queue.put(reached)
        while not reached.wait(LOOK_SECONDS):
            if not self._thread.is_alive() and not reached.is_set():
                raise RuntimeError("the thread that writes impressions has ended")

    def close(self) -> None:
        """Write the queued impressions and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        ended = False
        while not ended:
            taken = self._gathered()
            ended = None in taken
            with suppress(Exception):  # a failure is logged; the thread goes on where even that fails
                self._write([one for one in taken if isinstance(one, dict)])
            for one in taken:
                if isinstance(one, threading.Event):
                    one.set()

    def _gathered(self) -> list[dict[str, Any] | threading.Event | None]:
        """Return the next batch: it ends when it is full, when its time is over, or at a flush or close."""
        taken = [self._queue.get()]
        until = time.monotonic() + GATHERED_SECONDS
        while len(taken) < BATCH and isinstance(taken[-1], dict):
            try:
                taken.append(self._queue.get(timeout=max(0.0, until - time.monotonic())))
            except queue.Empty:
                break
        return taken

    def _write(self, rows: list[dict[str, Any]]) -> None:
        try:
            if rows:
                with self._database.write() as connection:
                    insert_impressions(connection, rows)
        except Exception as error:
            if len(rows) == 1:
                self._failures.failed(error)
                return
            for row in rows:  # a row of a deleted collection cannot be stored; the other rows are
                self._write([row])
