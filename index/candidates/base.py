"""The contract of a candidate index: which keys are nearest to a query, among those that are allowed."""

from typing import Protocol

from index.records import Floats, Ints, Mask

MISSING = -1
"""The position in a row of results that no allowed key was left for."""


class CandidateIndex(Protocol):
    """An immutable index over keys (K, D): its positions are the rows it was built from.

    Every implementation passes tests/contracts/candidate_index.py; `ExactIndex` is the truth they are compared with.
    """

    count: int
    """K."""

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        """Return the inner products (B, k) and positions (B, k) of the best keys, best first.

        queries (B, D), finite, not necessarily unit; allowed (K,) bool, None allows all. A row with fewer than k
        allowed keys is padded with MISSING and -inf. Safe to call from several threads at once.
        """
        ...
