"""A disk that fails: a hook of the recorder lets the n-th change fail, once or from then on."""

import threading
from errno import ENOSPC


class FailingDisk:
    """Counts the changes of a data directory and lets one fail (`EIO`), or one and all later ones (`ENOSPC`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: int | None = None
        self._errno = 0
        self.failed: list[str] = []
        """The changes that failed since `arm`: kind and path."""

    def arm(self, after: int, errno: int) -> None:
        """Let the change fail that comes after this number of changes."""
        with self._lock:
            self._left, self._errno, self.failed = after, errno, []

    def disarm(self) -> bool:
        """Let no further change fail; return whether one has failed."""
        with self._lock:
            self._left = None
            return bool(self.failed)

    def __call__(self, kind: str, path: str) -> int:
        """Return the error number of a change that is about to be made, 0 if it succeeds."""
        with self._lock:
            if self._left is None or (self._errno == ENOSPC and kind in ("delete", "unlink", "remove", "rmdir")):
                return 0  # a full disk can delete
            self._left -= 1
            if self._left >= 0 or (self.failed and self._errno != ENOSPC):
                return 0
            self.failed.append(f"{kind} {path}")
            return self._errno
