"""The contract of a candidate index: it finds the keys nearest to a query, among the allowed keys."""

from pathlib import Path
from typing import Protocol

from index.records import Floats, Ints, Mask

MISSING = -1
"""The position that pads a row of results with fewer than k allowed keys."""


class CandidateIndex(Protocol):
    """An immutable index over keys (K, D). A position is the row of a key.

    Every implementation passes tests/contracts/candidate_index.py. `ExactIndex` is the reference.
    """

    count: int
    """K."""

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        """Return the inner products (B, k) and positions (B, k) of the best keys, best first.

        queries (B, D), finite, not necessarily unit; allowed (K,) bool, None allows all. A row with fewer than k
        allowed keys is padded with MISSING and -inf. Safe to call from several threads at once.
        """
        ...


class SealedIndex(CandidateIndex, Protocol):
    """A candidate index over the sealed keys of a generation, which can be saved."""

    def save(self, path: Path) -> None:
        """Write the index to a file, without a sync or a checksum: the caller provides both with its manifest."""
        ...
