"""Owns the threads, child processes and cancellations of training runs, and ends them when the service closes."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SECONDS = 10.0
"""Time for child processes to end when the service closes."""
Child = subprocess.Popen[bytes]


class TrainingSupervisor:
    """Tracks every training run by its id, from the start of its thread until the thread ends."""

    def __init__(self) -> None:
        self.closing = False
        """Whether the service is closing. A run that stops then is resumed at the next start."""
        self._threads: dict[str, threading.Thread] = {}
        self._children: dict[str, Child] = {}
        self._canceled: set[str] = set()

    @property
    def threads(self) -> list[threading.Thread]:
        """The threads that follow a run now."""
        return list(self._threads.values())

    @property
    def children(self) -> dict[str, Child]:
        """Run id -> child process, for the processes that are running now."""
        return dict(self._children)

    def start(self, run_id: str, follow: Callable[[], None]) -> None:
        """Follow a run in a thread of its own."""
        thread = threading.Thread(target=self._follow, args=(run_id, follow), name=f"training-{run_id}")
        self._threads[run_id] = thread
        thread.start()

    def is_canceled(self, run_id: str) -> bool:
        """Return whether `cancel` was called for this run."""
        return run_id in self._canceled

    @property
    def has_canceled(self) -> bool:
        """Whether a thread still follows a canceled run, whose staging folder may still exist."""
        return not self._canceled.isdisjoint(list(self._threads))

    def cancel(self, run_id: str) -> None:
        """End a run's child process, now or as soon as it starts."""
        self._canceled.add(run_id)
        child = self._children.get(run_id)
        if child is not None:
            child.terminate()

    @contextmanager
    def supervised(self, run_id: str, child: Child) -> Iterator[Child]:
        """Give the child process of a run. Inside the context `cancel` and `close` end it."""
        self._children[run_id] = child
        if self.is_canceled(run_id) or self.closing:
            child.terminate()  # the cancellation came while the child was being started
        try:
            yield child
        finally:
            self._children.pop(run_id, None)

    def close(self) -> None:
        """End every child process, by force after STOP_SECONDS, and wait for the threads."""
        self.closing = True
        for child in self.children.values():
            child.terminate()
        until = time.monotonic() + STOP_SECONDS
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        for child in self.children.values():
            child.kill()
        for thread in self.threads:
            thread.join()

    def _follow(self, run_id: str, follow: Callable[[], None]) -> None:
        try:
            follow()
        finally:
            if self._threads.get(run_id) is threading.current_thread():  # else another thread follows the run by now
                del self._threads[run_id]
                self._canceled.discard(run_id)
