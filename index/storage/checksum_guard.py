"""Checksums of rows, and a guard that compares each saved row with its checksum when the row is first read."""

import numpy as np
from numpy.typing import NDArray

from index.errors import DamagedKeys
from index.records import Floats, Ints

ROWS_AT_ONCE = 65_536
"""Rows that `check_all` compares at a time: 100 MB at 384 dimensions."""
GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio. Its multiples are spread evenly over 64 bits (Knuth, TAOCP 3, 6.4)."""

Checksums = NDArray[np.uint64]


def checksums(vectors: Floats) -> Checksums:
    """Return a checksum of each row (K,) of vectors (K, D): the row's words times odd numbers, summed modulo 2^64.

    A change within one word always changes the sum, because odd numbers have an inverse. Any other change goes
    undetected with probability 2^-64.
    """
    words = np.ascontiguousarray(vectors).view(np.uint32 if vectors.shape[1] % 2 else np.uint64).astype(np.uint64)
    factors = (np.arange(1, words.shape[1] + 1, dtype=np.uint64) * np.uint64(GOLDEN)) | np.uint64(1)
    sums: Checksums = np.einsum("kw,w->k", words, factors)
    return sums


class ChecksumGuard:
    """Compares each of the first len(sums) rows with its checksum when the row is first read.

    This process wrote the rows from len(sums) on; they are not compared. Several threads may compare the same row.
    """

    def __init__(self, sums: Checksums | None = None, name: str = "") -> None:
        self._sums, self._name = np.empty(0, np.uint64) if sums is None else sums, name
        self._verified = np.zeros(len(self._sums), np.bool_)

    def read(self, vectors: Floats, positions: Ints) -> Floats:
        """Return the rows (n, D) of vectors (K, D) at these positions after checking them; raises DamagedKeys."""
        found = vectors.take(positions, axis=0)
        self.check(positions, found)
        return found

    def check(self, positions: Ints, vectors: Floats) -> None:
        """Compare the vectors (n, D) that were read at these positions (n,); raises DamagedKeys."""
        sums = self._sums
        if not len(sums):
            return
        unverified = np.flatnonzero(positions < len(sums))
        unverified = unverified[~self._verified[positions[unverified]]]
        if not len(unverified):
            return
        wrong = checksums(vectors[unverified]) != sums[positions[unverified]]
        if wrong.any():
            raise DamagedKeys(f"{self._name}: key {positions[unverified[wrong][0]]} differs from its checksum")
        self._verified[positions[unverified]] = True
        if self._verified.all():
            self._sums = np.empty(0, np.uint64)  # later calls return at once

    def check_all(self, vectors: Floats) -> None:
        """Compare all rows of vectors (K, D), for callers that read them as a whole; raises DamagedKeys."""
        end = min(len(self._sums), len(vectors))
        for start in range(0, end, ROWS_AT_ONCE):
            positions = np.arange(start, min(end, start + ROWS_AT_ONCE))
            self.check(positions, vectors[positions[0] : positions[-1] + 1])
