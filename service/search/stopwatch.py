"""Where the time of a search goes, by parts that follow each other."""

import time
from typing import Any


class Stopwatch:
    """Milliseconds of each part of one search, from when its request came."""

    def __init__(self, arrived: float) -> None:
        """arrived: a moment of `time.perf_counter`."""
        self._arrived = self._last = arrived
        self._parts: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Count the time since the last part ended as this part's."""
        now = time.perf_counter()
        self._add(part, 1000 * (now - self._last))
        self._last = now

    def split(self, **parts: float) -> None:
        """Count the time since the last part ended as these parts', which measured themselves, in milliseconds."""
        for part, spent in parts.items():
            self._add(part, spent)
        self._last = time.perf_counter()

    def told(self) -> dict[str, Any]:
        """Return `took_ms` until now, and the parts of it as `timings_ms`."""
        took = 1000 * (time.perf_counter() - self._arrived)
        return {
            "took_ms": round(took, 3),
            "timings_ms": {part: round(spent, 3) for part, spent in self._parts.items()},
        }

    def _add(self, part: str, spent: float) -> None:
        self._parts[part] = self._parts.get(part, 0.0) + spent
