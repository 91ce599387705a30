"""Errors of commands, and the exit codes."""

from collections.abc import Sequence

DONE = 0
ERROR = 1
USAGE = 2
PARTLY = 3
OWNED = 73
"""Another process owns the data directory."""
INTERRUPTED = 130
TERMINATED = 143


class Failure(Exception):
    """Ends the command with an exit code. The message and the lines `more` go to stderr."""

    def __init__(self, exit_code: int, message: str, more: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.lines = [message, *more]


class Refused(Failure):
    """The service responded with a problem (RFC 9457); has its status and code."""

    def __init__(self, status: int, code: str, detail: str, more: Sequence[str] = ()) -> None:
        super().__init__(ERROR, f"{code}: {detail}", more)
        self.status = status
        self.code = code
