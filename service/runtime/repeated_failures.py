"""Logs a failure that repeats in a loop once with its traceback, and later with a count alone."""

import threading
from contextlib import suppress

import structlog

log = structlog.get_logger()


class RepeatedFailures:
    """The failures of one loop. The second, fourth, eighth, ... of the same failures is a line without a traceback."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def failed(self, error: BaseException) -> None:
        """Log a failure; failures with the same type and message are the same.

        A failure that cannot be logged does not end the loop.
        """
        reason = f"{type(error).__name__}: {error}"
        with self._lock:
            count = self._counts[reason] = self._counts.get(reason, 0) + 1
        with suppress(Exception):
            if count == 1:
                log.error(self._event, exc_info=error)
            elif count & (count - 1) == 0:
                log.error(self._event, reason=reason, count=count)

    def succeeded(self) -> None:
        """Forget the failures: the next failure is logged with its traceback again."""
        with self._lock:
            self._counts.clear()
