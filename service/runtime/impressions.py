"""What was shown, written by one thread in batches, so that a search does not wait for the disk."""

import queue
import threading
import time
from typing import Any

import structlog
from sqlalchemy import insert

from service.storage.database import Database
from service.storage.tables import Impression

BATCH = 500
GATHERED_SECONDS = 0.1
"""From the first impression of a batch: a transaction of its own for each would cost as much as its search."""
log = structlog.get_logger()


class ImpressionLog:
    """Takes impressions at once and writes them soon; `flush` returns when all that were taken are durable."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: queue.Queue[dict[str, Any] | threading.Event | None] = queue.Queue(maxsize=20 * BATCH)
        self._thread = threading.Thread(target=self._write_all, name="impressions", daemon=True)
        self._thread.start()

    def add(self, impression: dict[str, Any]) -> None:
        """Take one row of `queries`; waits when the disk is far behind."""
        self._queue.put(impression)

    def flush(self) -> None:
        """Wait until everything that was taken before is committed."""
        reached = threading.Event()
        self._queue.put(reached)
        reached.wait()

    def close(self) -> None:
        """Write what is left and end."""
        self._queue.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        ended = False
        while not ended:
            taken = self._gathered()
            self._write([one for one in taken if isinstance(one, dict)])
            ended = None in taken
            for one in taken:
                if isinstance(one, threading.Event):
                    one.set()

    def _gathered(self) -> list[dict[str, Any] | threading.Event | None]:
        """Return what comes until a batch is full, its time is over, or somebody waits for what is in it."""
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
                    connection.execute(insert(Impression), rows)
        except Exception:
            if len(rows) == 1:
                log.exception("impression_lost")
                return
            for row in rows:  # one that cannot be stored, as its collection is gone, does not take others with it
                self._write([row])
