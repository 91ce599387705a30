"""Orders calls: those of the same lane run one at a time, in the order in which they were added.

A call that waits occupies no thread. Calls of different lanes run at the same time.
"""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

Call = Callable[[], None]


class Lanes:
    """Submits the calls of each lane to an executor, each when the call before it has ended."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, dict[str, Call]] = {}
        """Lane with a call that was submitted -> name -> call that waits for its turn, in their order."""

    def add(self, lane: Hashable, name: str, call: Call) -> None:
        """Submit a call when all earlier calls of the lane have returned or raised. name: different for each call.

        Raises RuntimeError if the executor is shut down.
        """
        with self._lock:
            if lane in self._waiting:
                self._waiting[lane][name] = call
                return
            self._waiting[lane] = {}
            self._executor.submit(self._run, lane, call)

    def skip(self, name: str) -> None:
        """Submit a waiting call at once, beside its lane. A call that does not wait is left as it is."""
        with self._lock:
            call = next((waiting.pop(name) for waiting in self._waiting.values() if name in waiting), None)
        if call is not None:
            self._submit(call)

    def _run(self, lane: Hashable, call: Call) -> None:
        try:
            call()
        finally:
            self._go_on(lane)

    def _go_on(self, lane: Hashable) -> None:
        """Submit the next call of a lane. If the executor is shut down, the calls that wait never run."""
        with self._lock:
            waiting = self._waiting[lane]
            if not waiting:
                del self._waiting[lane]
                return
            self._submit(self._run, lane, waiting.pop(next(iter(waiting))))

    def _submit(self, call: Callable[..., None], *arguments: Any) -> None:
        # RuntimeError: it is shut down, or has no further thread; then a thread that it has runs the call
        with suppress(RuntimeError):
            self._executor.submit(call, *arguments)
