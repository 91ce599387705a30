"""A memory within a limit on its bytes: the kept past queries are merged, the others stay in the log (decision 0029).

A dropped past query has its rank and the ids of its confirmations here, and no vector. Its confirmations are read from
the log when they change its rank, and when it is kept again. The result is a function of the set of confirmations, the
limit, the day and the worth of clicks.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from index.memory.aggregation import Confirmations
from index.memory.confirmation import Confirmation
from index.memory.drop_order import DropOrder
from index.memory.grades import Bounds
from index.memory.rank import bytes_of, rank_of

PART = 1000
"""Past queries whose confirmations are read from the log at a time."""

ReadLog = Callable[[Sequence[str] | None], Collection[Confirmation]]
"""Query keys, or None for all, to their confirmations in the log. It sees the change that is being made."""


@dataclass(frozen=True)
class MemorySize:
    """The size of a memory. queries: kept past queries. bytes: their bytes, estimated. dropped: other past queries."""

    queries: int
    bytes: int
    max_bytes: int | None
    dropped: int


class BoundedMemory:
    """Keeps the confirmations of the kept past queries in `memory`. For one writer at a time."""

    def __init__(
        self, memory: Confirmations, dim: int, max_bytes: int | None, bounds: Bounds, read_log: ReadLog
    ) -> None:
        self._memory, self._dim, self._bounds, self._read_log = memory, dim, bounds, read_log
        self._half_life_days = memory.decay_clock.half_life_days
        self._order = DropOrder(max_bytes)
        self._dropped_ids: dict[int, str] = {}
        """Id -> query key, for the confirmations of dropped past queries."""

    @property
    def size(self) -> MemorySize:
        """The size of the memory now."""
        order = self._order
        return MemorySize(order.kept_count, order.kept_bytes, order.max_bytes, order.dropped)

    def load(self, unread: Iterable[Confirmation]) -> set[str]:
        """Fill an empty memory; return the kept query keys.

        unread: all confirmations of the log without their vectors, grouped by query.
        """
        for query_key, group in groupby(unread, lambda one: one.query_key):
            confirmations = list(group)
            self._place(query_key, confirmations)
            self._dropped_ids.update((one.id, query_key) for one in confirmations)
        self._order.settle()
        if not self._order.dropped:
            self._dropped_ids.clear()
            return self._memory.change(self._read_log(None))
        return self._keep(self._order.kept())

    def change(self, added: Iterable[Confirmation], removed: Iterable[int] = ()) -> set[str]:
        """Remove these ids and add these confirmations, which are in the log; return the affected query keys."""
        added, removed = list(added), list(removed)
        dropped = {self._dropped_ids.pop(id) for id in removed if id in self._dropped_ids}
        dropped |= {one.query_key for one in added if self._order.is_dropped(one.query_key)}
        affected = self._memory.change([one for one in added if one.query_key not in dropped], removed)
        for query_key in affected - dropped:
            self._place(query_key, self._memory.of_query(query_key))
        self._place_dropped(dropped)
        return affected | self._settle()

    def limit(self, max_bytes: int | None) -> set[str]:
        """Use another limit; return the affected query keys."""
        self._order.max_bytes = max_bytes
        return self._settle()

    def use_half_life(self, half_life_days: int | None) -> set[str]:
        """Rank all past queries by another half-life; return the affected query keys."""
        if half_life_days == self._half_life_days:
            return set()
        self._half_life_days = half_life_days
        for query_key in self._order.kept():
            self._place(query_key, self._memory.of_query(query_key))
        self._place_dropped(set(self._order.all_dropped()))
        return self._settle()

    def _place(self, query_key: str, confirmations: Collection[Confirmation]) -> None:
        if not confirmations:
            self._order.remove(query_key)
            return
        rank = rank_of(query_key, confirmations, self._half_life_days, self._bounds)
        self._order.put(rank, bytes_of(self._dim, len(confirmations)))

    def _place_dropped(self, query_keys: Iterable[str]) -> None:
        """Rank dropped past queries again, by the log."""
        for part in _parts(query_keys):
            found: dict[str, list[Confirmation]] = {query_key: [] for query_key in part}
            for one in self._read_log(part):
                found[one.query_key].append(one)
                self._dropped_ids[one.id] = one.query_key
            for query_key, confirmations in found.items():
                self._place(query_key, confirmations)

    def _settle(self) -> set[str]:
        """Move past queries out of memory and into it, by the limit; return the affected query keys."""
        out, kept = self._order.settle()
        affected: set[str] = set()
        for part in _parts(out):
            ids = {one.id: query_key for query_key in part for one in self._memory.of_query(query_key)}
            affected |= self._memory.change([], ids)
            self._dropped_ids.update(ids)
        return affected | self._keep(kept)

    def _keep(self, query_keys: Iterable[str]) -> set[str]:
        """Read the confirmations of these past queries into memory; return the affected query keys."""
        affected: set[str] = set()
        for part in _parts(query_keys):
            confirmations = self._read_log(part)
            for one in confirmations:
                self._dropped_ids.pop(one.id, None)
            affected |= self._memory.change(confirmations)
        return affected


def _parts(query_keys: Iterable[str]) -> Iterable[list[str]]:
    ordered = sorted(query_keys)
    return (ordered[start : start + PART] for start in range(0, len(ordered), PART))
