"""The log: events as lines of JSON on stderr, and so are the messages and warnings of libraries."""

import logging
import sys
import warnings
from contextlib import suppress
from typing import TextIO, cast

import structlog


def configure_logging(level: str) -> None:
    """Log each event as a line of JSON to stderr, and each message and warning that would be a line of text there."""
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
    logging.lastResort = _Messages(logging.WARNING)
    warnings.showwarning = _log_warning


class _Messages(logging.Handler):
    """Logs the messages of libraries that configure no handler of their own, such as uvicorn.

    No message is an error for the library that logs it. A level between two standard levels is logged as the lower.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            structlog.get_logger().log(
                min(record.levelno // 10 * 10, logging.CRITICAL),
                "library_message",
                library=record.name,
                message=record.getMessage(),
                exc_info=record.exc_info,
            )
        except Exception:  # the arguments of a message are of any type, and may not fit its format
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Log that a message could not be written, and where it comes from. `logging` would write lines of text."""
        where = f"{record.pathname}:{record.lineno}"
        structlog.get_logger().error("library_message_failed", library=record.name, where=where, exc_info=True)


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning of Python. The arguments are those of `warnings.showwarning`."""
    where = f"{filename}:{lineno}"
    structlog.get_logger().warning("python_warning", category=category.__name__, message=str(message), where=where)


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
