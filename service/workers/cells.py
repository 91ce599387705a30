"""A small file that all processes of a service map: numbers that one process writes and the others read.

Each number has 8 bytes, is aligned and has one writer, so that it is read whole, without a lock.
"""

import mmap
import os
from pathlib import Path

import numpy as np

MAX_WORKERS = 64
POSITION, CLOSED, BUSY = 0, 8, 8 + MAX_WORKERS
"""Where the numbers stand: the position of the feed, then for each process the connections that it has closed, and
whether all its search threads are busy."""
CELLS = 8 + 2 * MAX_WORKERS
LENGTH_BITS = 40
"""A position is the number of a journal, shifted by LENGTH_BITS, and its length in bytes."""
NO_POSITION = 0
"""Nothing is published, or it cannot be: workers pass every request on."""


class Cells:
    """The numbers. `create` makes the file, `open` maps it in another process."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR)
        try:
            self._map = mmap.mmap(descriptor, CELLS * 8)
        finally:
            os.close(descriptor)
        self._numbers = np.frombuffer(self._map, np.uint64)

    @classmethod
    def create(cls, path: Path) -> "Cells":
        """Return new numbers, all 0. The file has its place on the disk, so that no later write can fail."""
        path.write_bytes(bytes(CELLS * 8))
        return cls(path)

    @property
    def position(self) -> int:
        """Return the position of the feed, or NO_POSITION."""
        return int(self._numbers[POSITION])

    @position.setter
    def position(self, position: int) -> None:
        self._numbers[POSITION] = position

    def closed(self, worker: int) -> int:
        """Return the number of connections that a process has closed."""
        return int(self._numbers[CLOSED + worker])

    def count_closed(self, worker: int) -> None:
        """Count a closed connection of this process."""
        self._numbers[CLOSED + worker] += np.uint64(1)

    def reset(self, worker: int) -> None:
        """Forget the numbers of a process that ended."""
        self._numbers[CLOSED + worker] = 0
        self._numbers[BUSY + worker] = 0

    def set_busy(self, worker: int, is_busy: bool) -> None:
        """Tell whether this process has no thread that is free for a further search."""
        self._numbers[BUSY + worker] = int(is_busy)

    @property
    def busy(self) -> int:
        """The number of processes that have no thread that is free for a further search."""
        return int(self._numbers[BUSY : BUSY + MAX_WORKERS].sum())
