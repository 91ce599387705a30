"""Work that is done behind the scenes, one piece at a time, at a priority below that of searches and writes."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from index.storage.priority import lower_priority


class Background:
    """A thread that is started when there is something to do."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "background", initializer=lower_priority)
        self._under_way: Future[None] | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Do this behind the scenes, unless something is under way: whoever asks again later is not forgotten."""
        if self._under_way is None or self._under_way.done():
            self._under_way = self._thread.submit(work)

    def wait(self) -> None:
        """Wait until nothing is under way, however it ends."""
        if self._under_way is not None:
            wait([self._under_way])

    def settle(self) -> None:
        """Wait until nothing is under way; raises what went wrong with the last piece."""
        if self._under_way is not None:
            self._under_way.result()

    def close(self) -> None:
        """Wait until nothing is under way, and end."""
        self._thread.shutdown()
