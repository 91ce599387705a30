"""The order in which past queries are dropped, and the past queries that fit into a number of bytes.

Sees ranks and bytes. The kept past queries are the longest beginning of the order whose bytes are within the limit.
They are a function of the set of past queries. A change takes logarithmic time, and time for the past queries that it
moves in or out.
"""

from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from index.memory.rank import Rank

SPARE = 64
"""A heap is rebuilt once it has more outdated entries than this and more than half of its entries are outdated."""


class Place(NamedTuple):
    """The place of a past query in the order; kept is False for a dropped past query."""

    rank: Rank
    bytes: int
    kept: bool


class _Backwards:
    """A rank that sorts backwards, so that a heap gives the greatest rank first."""

    __slots__ = ("rank",)

    def __init__(self, rank: Rank) -> None:
        self.rank = rank

    def __lt__(self, other: "_Backwards") -> bool:
        return other.rank < self.rank


class DropOrder:
    """Divides past queries into kept and dropped. The last element of a rank is the query key.

    The heaps may have outdated entries; an entry counts if the place of its query has the same rank in the same part.
    """

    def __init__(self, max_bytes: int | None) -> None:
        self.max_bytes = max_bytes
        """The limit; None for no limit. `settle` applies a new limit."""
        self.kept_bytes = 0
        """The bytes of the kept past queries."""
        self.dropped = 0
        """The number of dropped past queries."""
        self._places: dict[str, Place] = {}
        self._last_kept: list[_Backwards] = []
        self._first_dropped: list[Rank] = []
        self._moved: dict[str, bool] = {}
        """Query key -> whether it was kept when `settle` last returned, for those that changed their part since."""

    @property
    def kept_count(self) -> int:
        """The number of kept past queries."""
        return len(self._places) - self.dropped

    def kept(self) -> list[str]:
        """Return the kept past queries."""
        return [query_key for query_key, place in self._places.items() if place.kept]

    def all_dropped(self) -> list[str]:
        """Return the dropped past queries."""
        return [query_key for query_key, place in self._places.items() if not place.kept]

    def is_dropped(self, query_key: str) -> bool:
        """Return whether this past query is dropped; False for an unknown query."""
        place = self._places.get(query_key)
        return place is not None and not place.kept

    def put(self, rank: Rank, bytes: int) -> None:
        """Add a past query, or give it another rank and size."""
        query_key = rank[-1]
        before = self._places.get(query_key)
        if before is not None and before[:2] == (rank, bytes):
            return
        self.remove(query_key)
        first = self._dropped_first()
        self._set(Place(rank, bytes, kept=first is None or rank < first))

    def remove(self, query_key: str) -> None:
        """Remove a past query without confirmations."""
        place = self._places.pop(query_key, None)
        if place is not None:
            self._moved.setdefault(query_key, place.kept)
            self._count(place, -1)

    def settle(self) -> tuple[list[str], list[str]]:
        """Apply the limit; return the past queries that are dropped now and those that are kept now, by query key.

        Both contain only past queries that changed their part since the last call. A new past query that is kept is in
        neither.
        """
        limit = inf if self.max_bytes is None else self.max_bytes
        while self.kept_bytes > limit:
            place = self._places[self._kept_last()[-1]]
            self.remove(place.rank[-1])
            self._set(place._replace(kept=False))
        while (first := self._dropped_first()) is not None:
            place = self._places[first[-1]]
            if self.kept_bytes + place.bytes > limit:
                break
            self.remove(first[-1])
            self._set(place._replace(kept=True))
        moved, self._moved = self._moved, {}
        self._rebuild_heaps()
        now = {query_key: self._places[query_key].kept for query_key in moved if query_key in self._places}
        out = sorted(query_key for query_key, kept in now.items() if not kept and moved[query_key])
        return out, sorted(query_key for query_key, kept in now.items() if kept and not moved[query_key])

    def _set(self, place: Place) -> None:
        self._moved.setdefault(place.rank[-1], True)  # a new past query is in memory before its place is known
        self._places[place.rank[-1]] = place
        self._count(place, 1)
        if place.kept:
            heappush(self._last_kept, _Backwards(place.rank))
        else:
            heappush(self._first_dropped, place.rank)

    def _count(self, place: Place, sign: int) -> None:
        if place.kept:
            self.kept_bytes += sign * place.bytes
        else:
            self.dropped += sign

    def _kept_last(self) -> Rank:
        """Return the greatest rank of the kept past queries; there is one."""
        while not self._is_at(self._last_kept[0].rank, kept=True):
            heappop(self._last_kept)
        return self._last_kept[0].rank

    def _dropped_first(self) -> Rank | None:
        """Return the least rank of the dropped past queries, None without any."""
        while self._first_dropped and not self._is_at(self._first_dropped[0], kept=False):
            heappop(self._first_dropped)
        return self._first_dropped[0] if self._first_dropped else None

    def _is_at(self, rank: Rank, kept: bool) -> bool:
        place = self._places.get(rank[-1])
        return place is not None and place.kept == kept and place.rank == rank

    def _rebuild_heaps(self) -> None:
        kept = len(self._places) - self.dropped
        if len(self._last_kept) - kept > max(SPARE, kept):
            self._last_kept = [_Backwards(place.rank) for place in self._places.values() if place.kept]
            heapify(self._last_kept)
        if len(self._first_dropped) - self.dropped > max(SPARE, self.dropped):
            self._first_dropped = [place.rank for place in self._places.values() if not place.kept]
            heapify(self._first_dropped)
