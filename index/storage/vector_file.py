"""Vectors in a file that only grows, mapped into memory: the system loads what is read and drops it again when short.

Whoever was given the first K rows sees these and no more, whatever is appended. Rows are written with `pwrite` and read
through the map: a full disk is then an error of the write, not a signal. After a start a row is compared with its
checksum when it is first read, so that a start reads none and a damaged one is never used.
"""

import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from index.errors import DamagedFile, DamagedKeys
from index.records import Floats, Ints

LEAST_ROWS = 256
"""Room of a new map; a map that is too small is followed by one of twice the rows."""
ROWS_AT_ONCE = 65_536
"""Compared at a time: 100 MB at 384 dimensions."""
GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: its multiples are spread evenly over 64 bits (Knuth, TAOCP 3, 6.4)."""

Checksums = NDArray[np.uint64]


def checksums(vectors: Floats) -> Checksums:
    """Return a checksum of each row (K,) of vectors (K, D): its words times odd numbers, summed modulo 2^64.

    A change within one word always changes the sum, as odd numbers have an inverse; any other is missed once in 2^64.
    """
    words = np.ascontiguousarray(vectors).view(np.uint32 if vectors.shape[1] % 2 else np.uint64).astype(np.uint64)
    factors = (np.arange(1, words.shape[1] + 1, dtype=np.uint64) * np.uint64(GOLDEN)) | np.uint64(1)
    sums: Checksums = np.einsum("kw,w->k", words, factors)
    return sums


class VectorFile:
    """Rows (K, D) float32 of a file. One writer at a time; readers hold views, which outlive the file's name."""

    def __init__(self, path: Path, dim: int, create: bool = True) -> None:
        self.path = path
        self._dim, self._row_bytes = dim, 4 * dim
        self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0), 0o644)
        self._map: Floats = np.empty((0, dim), np.float32)

    @classmethod
    def open(cls, path: Path, dim: int, count: int) -> tuple["VectorFile", Floats]:
        """Return the file and its first `count` rows, of which none is read; raises DamagedFile if there are fewer."""
        try:
            file = cls(path, dim, create=False)
        except OSError as error:
            raise DamagedFile(f"{path.name} is missing") from error
        if os.fstat(file._descriptor).st_size < count * file._row_bytes:
            raise DamagedFile(f"{path.name} is shorter than its {count} rows")
        if count:
            file._map_rows(count)  # no more than there are: the file stays as its manifest has it
        return file, file._map

    def extended(self, seen: int, added: Floats) -> Floats:
        """Return the first `seen` rows and after them these (n, D), which are written over what nobody was given."""
        numbers = np.ascontiguousarray(added, np.float32).reshape(-1)
        data, offset = numbers.view(np.uint8).data, seen * self._row_bytes  # a copy would hold Python's lock
        while len(data):
            written = os.pwrite(self._descriptor, data, offset)
            data, offset = data[written:], offset + written
        return self._rows(seen + len(added))

    def sync(self, count: int) -> None:
        """Make the first `count` rows durable and give back the room behind them."""
        os.ftruncate(self._descriptor, count * self._row_bytes)
        os.fsync(self._descriptor)

    def _rows(self, count: int) -> Floats:
        if count > len(self._map):
            room = max(LEAST_ROWS, 2 * count)
            size = os.fstat(self._descriptor).st_size
            os.ftruncate(self._descriptor, max(size, room * self._row_bytes))  # sparse: it takes no disk
            self._map_rows(room)
        return self._map[:count]

    def _map_rows(self, room: int) -> None:
        mapped = mmap.mmap(self._descriptor, room * self._row_bytes, access=mmap.ACCESS_READ)
        self._map = np.frombuffer(mapped, np.float32).reshape(room, self._dim)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


class ChecksumGuard:
    """What is not proven yet of rows that were saved: each is compared with its checksum when it is first read.

    Rows from len(sums) on were written by this process. Threads may compare the same row twice; that does no harm.
    """

    def __init__(self, sums: Checksums | None = None, name: str = "") -> None:
        self._sums, self._name = np.empty(0, np.uint64) if sums is None else sums, name
        self._proven = np.zeros(len(self._sums), np.bool_)

    def read(self, vectors: Floats, positions: Ints) -> Floats:
        """Return the vectors (n, D) at these positions of all, once they are proven; raises DamagedKeys."""
        found = vectors.take(positions, axis=0)
        self.check(positions, found)
        return found

    def check(self, positions: Ints, vectors: Floats) -> None:
        """Compare the vectors (n, D) that were read at these positions (n,); raises DamagedKeys."""
        sums = self._sums
        if not len(sums):
            return
        doubted = np.flatnonzero(positions < len(sums))
        doubted = doubted[~self._proven[positions[doubted]]]
        if not len(doubted):
            return
        wrong = checksums(vectors[doubted]) != sums[positions[doubted]]
        if wrong.any():
            raise DamagedKeys(f"{self._name}: key {positions[doubted[wrong][0]]} differs from its checksum")
        self._proven[positions[doubted]] = True
        if self._proven.all():
            self._sums = np.empty(0, np.uint64)  # nothing is doubted any more

    def check_all(self, vectors: Floats) -> None:
        """Compare all rows, for whoever reads them as a whole; raises DamagedKeys."""
        end = min(len(self._sums), len(vectors))
        for start in range(0, end, ROWS_AT_ONCE):
            positions = np.arange(start, min(end, start + ROWS_AT_ONCE))
            self.check(positions, vectors[positions[0] : positions[-1] + 1])
