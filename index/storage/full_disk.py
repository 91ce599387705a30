"""Recognises the errors of a full disk, whichever library raises them."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SQLITE_FULL = 13
"""The result code of SQLite (`sqlite3.OperationalError.sqlite_errorcode`)."""
PROBE_BYTES = 256 * 1024
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


@contextmanager
def full_disk_as_os_error() -> Iterator[None]:
    """Raise OSError with ENOSPC in place of another error of a full disk, such as a ValueError of the word index."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or not is_full(error):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error


class NotSynced(OSError):
    """A full disk kept a commit from being synced: it is undone, but its bytes may be in the file.

    A process that ends before its next commit has stored it: the next start reads the whole file.
    """


def lacks_space(folder: Path) -> bool:
    """Return whether a file of PROBE_BYTES finds no space in a folder. For errors without a reason; it writes."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(os.urandom(PROBE_BYTES))  # bytes that no file system compresses
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return is_full(error)
    return False
