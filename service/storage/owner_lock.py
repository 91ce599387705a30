"""The lock of a data directory, and the file that tells other processes about its owner."""

import fcntl
import os
import platform
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

from index.storage.files import sync_directory

LOCK_FILE = "owner.lock"
MAX_BYTES = 512
"""Bytes that are read of the lock file."""
LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\]):\d{1,5}")
"""The addresses that are believed: a command sends its API key there."""
TRIES, RETRY_SECONDS = 4, 0.05
"""A command that looks for a server holds the lock of a killed one for a moment."""
BOOT, NETWORK = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/net")


class DirectoryOwned(Exception):
    """Another process owns the data directory."""

    def __init__(self, directory: Path, pid: str) -> None:
        super().__init__(f"the data directory {directory} is owned by process {pid}")
        self.pid = pid


class OwnerLock:
    """Exclusive ownership of a data directory until the process ends.

    The lock file has the PID of the owner. If the owner is a server, it also has the server's address, and the place
    from which the address leads to this server.
    """

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # an existing directory keeps its rights
            sync_directory(directory.parent)
        self._file = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not self._is_taken():
            pid = _lines(self._file)[0] or "unknown"
            os.close(self._file)
            raise DirectoryOwned(directory, pid)
        self.announce(None)

    def _is_taken(self) -> bool:
        for left in reversed(range(TRIES)):
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if left:
                time.sleep(RETRY_SECONDS)
        return False

    def announce(self, address: str | None) -> None:
        """Name the address at which processes of this machine reach the server; None: no server."""
        lines = [str(os.getpid()), *([] if address is None else [address, place()])]
        content = "\n".join(lines).encode()
        with suppress(OSError):  # a full disk has no place for the lines; the lock does not need them
            os.pwrite(self._file, content, 0)  # first: a reader always finds the PID
        os.ftruncate(self._file, len(content))

    def release(self) -> None:
        """Release the ownership."""
        os.close(self._file)


def require_unowned(directory: Path) -> None:
    """Raise DirectoryOwned if another process owns the data directory. Makes no directory and takes no ownership."""
    try:
        file = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # without a lock file there is no owner
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DirectoryOwned(directory, _lines(file)[0] or "unknown") from None
    finally:
        os.close(file)


def address_of_server(directory: Path) -> str | None:
    """Return the address of the server that owns a data directory; None without one that this process reaches by it.

    A lock file is believed if this user owns it, no other user can write it, and the address is of the loopback
    interface: API keys are sent there.
    """
    try:
        file = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        lines = _lines(file) if _is_own(file) else []
        if len(lines) != 3 or lines[2] != place() or not LOOPBACK.fullmatch(lines[1]):
            return None
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # succeeds only if the server was killed
    except BlockingIOError:
        return lines[1]
    except OSError:
        return None
    finally:
        os.close(file)
    return None


def place() -> str:
    """Return a text that is the same for processes that reach the same server at an address of the loopback interface.

    A data directory can be shared by containers and machines, in which the same address leads to other servers.
    """
    try:
        return f"{BOOT.read_text().strip()} {os.readlink(NETWORK)}"
    except OSError:  # a system without /proc has no containers of its own
        return platform.node()


def _is_own(file: int) -> bool:
    """Return whether an open file is a regular one that only this user can write."""
    found = os.fstat(file)
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not others_write


def _lines(file: int) -> list[str]:
    return os.pread(file, MAX_BYTES, 0).decode("utf-8", "replace").split("\n")
