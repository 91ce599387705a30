"""The past queries that a change of a memory concerns: searches far from all of them have the same ranking after it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from index.candidates.inner_products import inner_products
from index.memory.memory import Memory
from index.memory.query_key import bare_key
from index.records import Floats

EDGE = 1e-3
"""Cosines are summed in another order here than in a search, so a past query this little beyond the radius counts."""


@dataclass(frozen=True, eq=False)
class ChangedQueries:
    """Past queries whose memory keys differ between two memories.

    bare_keys: their texts without punctuation (`bare_key`). vectors (n, D): their unit vectors.
    """

    bare_keys: frozenset[str]
    vectors: Floats

    def __len__(self) -> int:
        return len(self.vectors)

    def concern(self, bare_keys: Iterable[str], vectors: Iterable[Floats], radius: float) -> bool:
        """Return whether the ranking of a query may differ: it has the same words as a changed past query, or is near.

        bare_keys: of the query as it was typed, and as it was corrected. vectors (D,) each: the unit vectors that a
        search compares with past queries.
        """
        if not self.bare_keys.isdisjoint(bare_keys):
            return True
        return any((inner_products(self.vectors, one) >= radius - EDGE).any() for one in vectors)


def changed_queries(before: Memory, now: Memory) -> ChangedQueries | None:
    """Return the past queries whose memory keys differ in two memories. None: any query may be concerned.

    That is so where `now` was not made from `before` by appending, where its vectors are indexed anew, because lists
    may miss other past queries then, and where `before` is empty, because searches do not encode every text for it.
    """
    if before.packing is not now.packing or before.sealed is not now.sealed or not before.count:
        return None
    positions = now.spans.differing(before.spans)
    names = now.growable_names.rows[positions].tolist()
    return ChangedQueries(frozenset(map(bare_key, names)), now.vectors[positions].astype(np.float32, copy=False))


def merged(changes: Sequence[ChangedQueries]) -> ChangedQueries:
    """Return one or more changes as one."""
    if len(changes) == 1:
        return changes[0]
    names = frozenset[str]().union(*(change.bare_keys for change in changes))
    return ChangedQueries(names, np.concatenate([change.vectors for change in changes]))
