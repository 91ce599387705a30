"""Asks a database whether it answers, as often as its askers need and at most once a second.

The question is asked as a search asks, on a connection of its own. A connection of the pool could be in use.
"""

import asyncio
import time
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from service.storage.database import DatabaseReader, DatabaseUnreachable

FRESH_SECONDS = 1.0
"""For this long an answer counts, so that many askers are one question."""
WAIT_SECONDS = 2.0
"""A database that has not answered within this time does not answer. A lost network says so only after six seconds."""


class DatabaseProbe:
    """Asks one question at a time, in a thread that begins with the first. `require` runs on one event loop."""

    def __init__(self, database: DatabaseReader) -> None:
        self._database = database
        self._thread: Thread | None = None
        self._questions: SimpleQueue[Future[bool] | None] = SimpleQueue()
        self._question: Future[bool] | None = None
        self._asked_at = 0.0

    async def require(self) -> None:
        """Raise DatabaseUnreachable unless the database answers, or has answered within a second.

        Waits until WAIT_SECONDS after the question was asked, and not at all if it was asked longer ago.
        """
        question = self._question
        if question is None or (question.done() and time.monotonic() >= self._asked_at + FRESH_SECONDS):
            question = self._ask()
        if not question.done():
            with suppress(TimeoutError):
                left = self._asked_at + WAIT_SECONDS - time.monotonic()
                await asyncio.wait_for(asyncio.wrap_future(question), left)
        if not question.done() or not question.result():
            raise DatabaseUnreachable("the database does not answer")

    def close(self) -> None:
        """Ask nothing more. The thread ends after its question; one that the database keeps ends with the process."""
        self._questions.put(None)

    def _ask(self) -> Future[bool]:
        if self._thread is None:
            # a daemon, which the interpreter does not wait for: a database that hangs may never answer
            thread = Thread(target=self._answer, name="database-probe", daemon=True)
            thread.start()
            self._thread = thread
        question = self._question = Future()
        question.set_running_or_notify_cancel()  # an asker who leaves does not cancel the question of the others
        self._asked_at = time.monotonic()
        self._questions.put(question)
        return question

    def _answer(self) -> None:
        while (question := self._questions.get()) is not None:
            question.set_result(self._answers())

    def _answers(self) -> bool:
        try:
            self._database.fetch("SELECT 1", ())
        except Exception:  # whatever keeps a search from its rows
            return False
        return True
