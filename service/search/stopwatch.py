"""Measures the consecutive parts of a search."""

import time
from typing import Any


class Stopwatch:
    """Milliseconds of each part of a search, from the arrival of its request."""

    def __init__(self, arrived: float) -> None:
        """arrived: a value of `time.perf_counter`."""
        self._arrived = self._last = arrived
        self._parts: dict[str, float] = {}

    @classmethod
    def since(cls, arrived: float | None) -> "Stopwatch":
        """Return a stopwatch with the time since the arrival of a request, by `time.perf_counter`, as the part `queue`.

        None: the request arrives now.
        """
        stopwatch = cls(time.perf_counter() if arrived is None else arrived)
        stopwatch.lap("queue")
        return stopwatch

    def lap(self, part: str) -> None:
        """Add the time since the end of the last part to this part."""
        now = time.perf_counter()
        self._add(part, 1000 * (now - self._last))
        self._last = now

    def split(self, **parts: float) -> None:
        """Add times measured elsewhere, in milliseconds, in place of the time since the end of the last part."""
        for part, milliseconds in parts.items():
            self._add(part, milliseconds)
        self._last = time.perf_counter()

    def report(self) -> dict[str, Any]:
        """Return the elapsed time as `took_ms`, and the parts as `timings_ms`."""
        took = 1000 * (time.perf_counter() - self._arrived)
        return {
            "took_ms": round(took, 3),
            "timings_ms": {part: round(milliseconds, 3) for part, milliseconds in self._parts.items()},
        }

    def _add(self, part: str, milliseconds: float) -> None:
        self._parts[part] = self._parts.get(part, 0.0) + milliseconds
