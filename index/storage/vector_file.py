"""Vectors in an append-only file that is mapped into memory: the system loads pages on access and can evict them.

Readers keep a view of the first K rows; later appends are invisible to them. Rows are written with `pwrite` and read
through the map, so a full disk is an error of the write, not a signal. Opening a file reads no row;
`index.storage.checksum_guard` compares each saved row with its checksum when the row is first read.
"""

import mmap
import os
from pathlib import Path

import numpy as np

from index.errors import DamagedFile
from index.records import Floats
from index.storage.files import write_at

LEAST_ROWS = 256
"""Capacity of a new map. A map that is too small is replaced by a map of twice the rows."""


class VectorFile:
    """Rows (K, D) float32 of a file. One writer at a time. Views stay valid after the file is closed or removed."""

    def __init__(self, path: Path, dim: int, create: bool = True) -> None:
        self.path = path
        self._dim, self._row_bytes = dim, 4 * dim
        self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0), 0o644)
        self._map: Floats = np.empty((0, dim), np.float32)

    @classmethod
    def open(cls, path: Path, dim: int, count: int) -> tuple["VectorFile", Floats]:
        """Return the file and a view of its first `count` rows, reading none; raises DamagedFile if it is shorter."""
        try:
            file = cls(path, dim, create=False)
        except OSError as error:
            raise DamagedFile(f"{path.name} is missing") from error
        if os.fstat(file._descriptor).st_size < count * file._row_bytes:
            raise DamagedFile(f"{path.name} is shorter than its {count} rows")
        if count:
            file._map_rows(count)  # exactly these rows, so that the file keeps the size in its manifest
        return file, file._map

    def extended(self, used: int, added: Floats) -> Floats:
        """Write the rows added (n, D) after the first `used` rows, and return a view of all used + n rows.

        Overwrites rows from `used` on; no view may include these.
        """
        numbers = np.ascontiguousarray(added, np.float32).reshape(-1)
        data = numbers.view(np.uint8).data  # copying to bytes would hold Python's lock
        write_at(self._descriptor, data, used * self._row_bytes)
        return self._rows(used + len(added))

    def sync(self, count: int) -> None:
        """Make the first `count` rows durable and truncate the file after them."""
        os.ftruncate(self._descriptor, count * self._row_bytes)
        os.fsync(self._descriptor)

    def _rows(self, count: int) -> Floats:
        if count > len(self._map):
            capacity = max(LEAST_ROWS, 2 * count)
            size = os.fstat(self._descriptor).st_size
            os.ftruncate(self._descriptor, max(size, capacity * self._row_bytes))  # sparse: takes no disk space
            self._map_rows(capacity)
        return self._map[:count]

    def _map_rows(self, capacity: int) -> None:
        mapped = mmap.mmap(self._descriptor, capacity * self._row_bytes, access=mmap.ACCESS_READ)
        self._map = np.frombuffer(mapped, np.float32).reshape(capacity, self._dim)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)
