"""The journal: frames that the writing process appends, and that workers apply in order. A new journal replaces it.

The position in the cells is raised after the frames are written, so a worker that reads the position first sees whole
frames. Journals are derived from the database, are not synced, and are deleted at the start.
"""

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.storage.files import write_at
from index.storage.frames import frames
from service.workers.cells import LENGTH_BITS

Frame = tuple[dict[str, Any], Mapping[str, NDArray[np.generic]]]
MOST_BYTES = 64 * 2**20
MOST_SECONDS = 86_400.0


def journal_path(folder: Path, number: int) -> Path:
    """Return the file of a journal."""
    return folder / f"journal-{number}"


class Journal:
    """The writing side of one journal."""

    def __init__(self, folder: Path, number: int) -> None:
        self.path, self.number, self.length = journal_path(folder, number), number, 0
        self._began = time.monotonic()
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    @property
    def is_outdated(self) -> bool:
        """Whether another journal should begin: it is long, or it holds the texts of past queries for too long."""
        return self.length > MOST_BYTES or time.monotonic() > self._began + MOST_SECONDS

    @property
    def position(self) -> int:
        """The position after the last frame."""
        return self.number << LENGTH_BITS | self.length

    def append(self, data: bytes) -> None:
        """Write frames after the last. Raises OSError; the position is then as before."""
        write_at(self._descriptor, memoryview(data), self.length)
        self.length += len(data)

    def remove(self) -> None:
        """Delete the file."""
        os.close(self._descriptor)
        self.path.unlink(missing_ok=True)


class JournalReader:
    """The reading side: follows one journal after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.position = 0
        self._descriptor: int | None = None

    def read(self, position: int) -> tuple[bool, Iterable[Frame]]:
        """Return whether another journal begins, and the frames up to a position. Raises OSError if the file is gone.

        The frames count as read.
        """
        number, length = position >> LENGTH_BITS, position & (1 << LENGTH_BITS) - 1
        begins = number != self.position >> LENGTH_BITS
        if begins:
            descriptor = os.open(journal_path(self._folder, number), os.O_RDONLY)
            self.close()
            self._descriptor = descriptor
        start = 0 if begins else self.position & (1 << LENGTH_BITS) - 1
        assert self._descriptor is not None
        data = os.pread(self._descriptor, length - start, start)
        while len(data) < length - start:  # a read of more than 2 GB comes in parts
            more = os.pread(self._descriptor, length - start - len(data), start + len(data))
            if not more:
                raise OSError(f"journal {number} is shorter than its {length} bytes")
            data += more
        self.position = position
        return begins, frames(data)

    def restart(self) -> None:
        """Read the journal from its beginning the next time."""
        self.close()
        self.position = 0

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
