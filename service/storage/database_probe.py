"""Asks a database whether it answers, as often as its askers need and at most once a second.

The question is asked as a search asks, on a connection of its own. A connection of the pool could be in use.
"""

import asyncio
import time
from concurrent.futures import Future, ThreadPoolExecutor

from service.storage.database import DatabaseReader, DatabaseUnreachable

FRESH_SECONDS = 1.0
"""For this long an answer counts, so that many askers are one question."""
WAIT_SECONDS = 2.0
"""A database that has not answered within this time does not answer. A lost network says so only after six seconds."""
LOOK_SECONDS = 0.01


class DatabaseProbe:
    """Asks one question at a time, in a thread that begins with the first. `require` runs on one event loop."""

    def __init__(self, database: DatabaseReader) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, "database-probe")
        self._question: Future[bool] | None = None
        self._asked_at = 0.0

    async def require(self) -> None:
        """Raise DatabaseUnreachable unless the database answers, or has answered within a second.

        Waits until WAIT_SECONDS after the question was asked, and not at all if it was asked longer ago.
        """
        question = self._question
        if question is None or (question.done() and time.monotonic() >= self._asked_at + FRESH_SECONDS):
            self._asked_at = time.monotonic()
            question = self._question = self._thread.submit(self._ask)
        while not question.done() and time.monotonic() < self._asked_at + WAIT_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
        if not question.done() or not question.result():
            raise DatabaseUnreachable("the database does not answer")

    def close(self) -> None:
        """Ask nothing more. A question that waits for its answer ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> bool:
        try:
            self._database.fetch("SELECT 1", ())
        except Exception:  # whatever keeps a search from its rows
            return False
        return True
