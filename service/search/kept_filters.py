"""The documents that pass the filters of the last searches.

The database evaluates a filter for all documents once, and then only for later ones: a stored document never changes, a
new version is a new row. So a filter that is sent again, as that of a tenant's key, costs no reading.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from index.filters.conditions import And, FilterNode
from index.filters.merging import merged
from index.generation.generation import Generation
from index.records import Ints, Mask
from service.runtime.served_collection import ServedCollection
from service.search import repository
from service.storage.database import DatabaseReader

KEPT_BYTES = 16_000_000
"""Bytes of the filters of a collection that are kept, those used last. The last one is kept in any case."""
SPARE_ROWS = 10_000
"""Rows of replaced documents that a filter may have beside as many rows as the collection has documents."""
_NONE = np.empty(0, np.int64)
_NO_MASK = np.empty(0, np.bool_)


@dataclass
class _Passing:
    """The rows that pass a filter, up to the row `last`, ascending; and the mask of a generation."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    rows: Ints = field(default_factory=lambda: _NONE)
    last: int = 0
    mask: Mask = field(default_factory=lambda: _NO_MASK)
    made_of: tuple[Ints, Mask] | None = None
    """The rows of the generation of `mask`, and which of them are alive."""

    @property
    def bytes(self) -> int:
        return self.rows.nbytes + self.mask.nbytes

    def of(self, database: DatabaseReader, collection_id: int, generation: Generation, node: FilterNode) -> Mask:
        """Return (N,) bool, True for the documents of a generation that pass. It is not to be changed."""
        with self.lock:
            if (
                self.made_of is None
                or self.made_of[0] is not generation.rows
                or self.made_of[1] is not generation.alive
            ):
                self._extend(database, collection_id, generation, node)
                doc_indices = generation.doc_indices(self.rows)
                mask = np.zeros(len(generation.rows), np.bool_)
                mask[doc_indices[doc_indices >= 0]] = True
                mask.flags.writeable = False
                self.mask, self.made_of = mask, (generation.rows, generation.alive)
            return self.mask

    def _extend(self, database: DatabaseReader, collection_id: int, generation: Generation, node: FilterNode) -> None:
        newest = int(generation.rows[-1]) if len(generation.rows) else 0
        if len(self.rows) > SPARE_ROWS + 2 * np.count_nonzero(generation.alive):  # most are of replaced documents
            self.rows, self.last = _NONE, 0
        if self.last >= newest:
            return
        with database.read() as connection:
            later = repository.matching_rows(connection, collection_id, node, self.last)
        later.sort()
        # the database may be ahead of the generation: its newest rows are read again
        self.rows, self.last = np.concatenate([self.rows, later[later <= newest]]), newest


class KeptFilters:
    """The filters of a collection that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, _Passing] = {}
        """The text of a condition -> the documents that pass it; the last used is the last."""

    def of(self, database: DatabaseReader, collection_id: int, generation: Generation, node: FilterNode) -> Mask:
        """Return (N,) bool, True for the documents of a generation that pass a condition. It is not to be changed."""
        name = repr(node)  # equal conditions may differ: Python's True is 1
        with self._lock:
            passing = self._kept[name] = self._kept.pop(name) if name in self._kept else _Passing()
        mask = passing.of(database, collection_id, generation, node)
        with self._lock:
            while len(self._kept) > 1 and sum(one.bytes for one in self._kept.values()) > KEPT_BYTES:
                del self._kept[next(iter(self._kept))]
        return mask


def passing_all(
    database: DatabaseReader, state: ServedCollection, generation: Generation, nodes: Sequence[FilterNode]
) -> list[Mask]:
    """Return a mask (N,) bool for each condition, True for the documents that pass it. They are not to be changed.

    The parts of a conjunction are conditions of their own: the filter of a key is kept beside those of its searches.
    """
    kept = state.kept_filters
    if not isinstance(kept, KeptFilters):
        kept = state.kept_filters = KeptFilters()
    masks = []
    for node in nodes:
        parts = node.nodes if isinstance(node, And) else (node,)
        masks += [kept.of(database, state.id, generation, merged(part)) for part in parts]
    return masks
