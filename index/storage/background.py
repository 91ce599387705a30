"""Work in the background, one task at a time, at a lower priority than searches and writes."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from index.storage.priority import lower_priority


class Background:
    """A background thread that runs one task at a time. The thread starts with the first task."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "background", initializer=lower_priority)
        self._running: Future[None] | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Run the task in the background. If a task is running, drop the request; the caller may repeat it later."""
        if self._running is None or self._running.done():
            self._running = self._thread.submit(work)

    def wait(self) -> None:
        """Wait until no task is running, whether the last task succeeds or fails."""
        if self._running is not None:
            wait([self._running])

    def settle(self) -> None:
        """Wait until no task is running; raises the error of the last task, if it failed."""
        if self._running is not None:
            self._running.result()

    def close(self) -> None:
        """Wait until no task is running, and end the thread."""
        self._thread.shutdown()
