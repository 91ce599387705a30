"""The log: events as lines of JSON on stderr."""

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog


def configure_logging(level: str) -> None:
    """Log each event as a line of JSON to stderr."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=cast(TextIO, _Unfailing(sys.stderr))),
        cache_logger_on_first_use=False,
    )


class _Unfailing:
    """A file whose lines are lost where they cannot be written: the work that logs goes on.

    The disk of the log may be full, and the process that reads it may have ended.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: the file is closed
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()
