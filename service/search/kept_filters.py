"""The documents that pass the filters of the last searches.

The database evaluates a filter for all documents once, and then only for later ones: a stored document never changes, a
new version is a new row. A filter that is sent again, such as the filter of a tenant's key, reads no stored document.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from index.filters.conditions import FilterNode
from index.filters.merging import merged
from index.generation.generation import Generation
from index.records import Ints, Mask
from service.runtime.served_collection import ServedCollection
from service.search import repository
from service.storage.database import DatabaseReader

KEPT_BYTES, BYTES_PER_DOCUMENT = 16_000_000, 64
"""Bytes of the filters of a collection that are kept, those used last: so many, or so many for each document if that is
more. A broad filter takes 10 bytes for each document."""
LEAST_KEPT = 4
"""Filters that are always kept: a search may have the filter of its key, its own filter and conditions in its text."""
ENTRY_BYTES = 2_000
"""Bytes of a filter beside its rows and its text."""
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
    counted: int = 0
    """The bytes with which the filter counts among those that are kept."""

    @property
    def bytes(self) -> int:
        """The bytes of memory, about."""
        return ENTRY_BYTES + self.rows.nbytes + 2 * self.mask.nbytes  # with `alive` of its generation

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
            later = repository.matching_rows(connection, collection_id, node, self.last, newest, len(generation.rows))
        later.sort()
        self.rows, self.last = np.concatenate([self.rows, later]), newest


class KeptFilters:
    """The filters of a collection that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, _Passing] = {}
        """The text of a condition -> the documents that pass it; the last used is the last."""
        self._bytes = 0

    def of(self, database: DatabaseReader, collection_id: int, generation: Generation, node: FilterNode) -> Mask:
        """Return (N,) bool, True for the documents of a generation that pass a condition. It is not to be changed."""
        name = repr(node)  # equal conditions may differ: Python's True is 1
        with self._lock:
            passing = self._kept[name] = self._kept.pop(name) if name in self._kept else _Passing()
        mask = passing.of(database, collection_id, generation, node)
        with self._lock:
            if self._kept.get(name) is passing:  # else other searches have removed it meanwhile
                size = passing.bytes + len(name)
                self._bytes, passing.counted = self._bytes + size - passing.counted, size
            most = max(KEPT_BYTES, BYTES_PER_DOCUMENT * len(generation.rows))
            while len(self._kept) > LEAST_KEPT and self._bytes > most:
                self._bytes -= self._kept.pop(next(iter(self._kept))).counted
        return mask


def passing_all(
    database: DatabaseReader, state: ServedCollection, generation: Generation, nodes: Sequence[FilterNode]
) -> list[Mask]:
    """Return a mask (N,) bool for each condition, True for the documents that pass it. They are not to be changed."""
    kept = state.kept_filters
    if not isinstance(kept, KeptFilters):
        kept = state.kept_filters = KeptFilters()
    return [kept.of(database, state.id, generation, merged(node)) for node in nodes]
