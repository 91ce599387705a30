"""Recognises the errors of a full disk, whichever library raises them."""

import errno

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SQLITE_FULL = 13
"""The result code of SQLite (`sqlite3.OperationalError.sqlite_errorcode`)."""
MESSAGES = ("database or disk is full", "no space left on device", "os error 28", "disk quota exceeded")
"""What the errors of SQLite and of the word index say, in lower case."""


def is_full(error: BaseException | None) -> bool:
    """Return whether an error, or the error that caused it, is of a full disk."""
    if error is None:
        return False
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    if getattr(error, "sqlite_errorcode", None) == SQLITE_FULL:
        return True
    said = str(error).lower()
    return any(message in said for message in MESSAGES) or is_full(getattr(error, "orig", None) or error.__cause__)
