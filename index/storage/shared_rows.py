"""Arrays in append-only files that several processes map: one process appends rows, the others read the first rows.

A reader is told by other means how many rows there are; the rows up to that number never change.
"""

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.errors import DamagedFile
from index.storage.files import write_at

LEAST_ROWS = 256


class SharedRows:
    """The writing side. The file is sparse beyond its rows, so that readers can map rows before they are written."""

    def __init__(self, path: Path) -> None:
        """Create an empty file, in place of an earlier one."""
        self.path = path
        self.count = 0
        self._capacity = 0
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows after the last. Raises OSError, such as for a full disk; the number of rows is then as before."""
        if not len(rows):
            return
        contiguous = np.ascontiguousarray(rows)
        row_bytes = contiguous.nbytes // len(rows)
        total = self.count + len(rows)
        descriptor = os.open(self.path, os.O_RDWR)  # not kept open: a service may have thousands of these files
        try:
            if total > self._capacity:
                self._capacity = max(LEAST_ROWS, 2 * total)
                os.ftruncate(descriptor, self._capacity * row_bytes)
            write_at(descriptor, contiguous.reshape(-1).view(np.uint8).data, self.count * row_bytes)
        finally:
            os.close(descriptor)
        self.count = total


class MappedRows:
    """The reading side: maps a file of rows, and maps it again when it has grown beyond the map."""

    def __init__(self, path: Path, kind: np.dtype[Any], shape: tuple[int, ...] = ()) -> None:
        """kind, shape: the type of a number, and the shape of a row."""
        self.path = path
        self._kind, self._shape = kind, shape
        self._rows: NDArray[Any] = np.empty((0, *shape), kind)

    def first(self, count: int) -> NDArray[Any]:
        """Return a view of the first rows (count, ...). Raises DamagedFile if the file is missing or shorter."""
        if count > len(self._rows):
            self._rows = self._mapped()
            if count > len(self._rows):
                raise DamagedFile(f"{self.path.name} is shorter than its {count} rows")
        return self._rows[:count]

    def _mapped(self) -> NDArray[Any]:
        row_bytes = self._kind.itemsize * int(np.prod(self._shape, dtype=np.int64))
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise DamagedFile(f"{self.path.name} is missing") from error
        try:
            count = os.fstat(descriptor).st_size // row_bytes
            if not count:
                return np.empty((0, *self._shape), self._kind)
            mapped = mmap.mmap(descriptor, count * row_bytes, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
        return np.frombuffer(mapped, self._kind).reshape(count, *self._shape)
