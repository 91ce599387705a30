"""Confirmations become memory: merged per past query and document, aged, bounded per client and per document.

Sees rows, vectors, grades and times; what was clicked is not known here. Everything is derived from the set of
confirmations and the day: neither their order nor what was taken back in between can be told from the result.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from math import fsum

import numpy as np

from index.records import Floats, MemoryKey

DAY = 24 * 60 * 60 * 1000
"""Milliseconds."""
FAINTEST = 0.01
"""Weight below which a merged key is no longer remembered: faded, or as often liked as disliked."""

Pair = tuple[str, int]
"""A source and the row of a document."""


@dataclass(frozen=True)
class Bounds:
    """What keeps one client, one crowd or one document from filling the memory."""

    keys_per_document: int = 200
    """Past queries that one document is remembered for: those of the greatest weight."""
    pairs_per_client: int = 1000
    """Past query and document pairs that one client is heard on: those it acted on last. Judgments are not bounded."""
    anonymous_grade: float = 10.0
    """All confirmations of one pair that name no client count together as much as this grade at most: ten clicks."""


@dataclass(frozen=True, eq=False, slots=True)
class Confirmation:
    """One event or judgment: that the searcher of `source` (D,) found the document `row` good, or bad.

    grade is signed: 1 for a click; client is who it came from, None where nobody knows; moment is in milliseconds since
    1970, UTC; judged tells a judgment, given on purpose, from an event.
    """

    id: int
    row: int
    query_key: str
    vector: Floats
    grade: float
    client: str | None
    moment: int
    judged: bool = False

    @property
    def pair(self) -> Pair:
        """What it is about."""
        return self.query_key, self.row


@dataclass(frozen=True)
class DecayClock:
    """The day that memory is aged at, counted from 1970, and the days in which a confirmation loses half its weight."""

    today: int
    half_life_days: int | None = None

    def aged(self, one: Confirmation) -> float:
        """Return grade 0.5^(age / half-life); what comes from the future is as new as what is of today."""
        if self.half_life_days is None:
            return one.grade
        age_days = max(0, self.today - one.moment // DAY)
        return float(one.grade * 0.5 ** (age_days / self.half_life_days))


def weight_of(grade: float) -> float:
    """Return g / (1 + |g|), in (-1, 1): 1/2 for a click, 3/4 for a purchase; nothing weighs as much as two clicks."""
    return grade / (1 + abs(grade))


def grade_of(weight: float) -> float:
    """Return the grade that has this weight."""
    return weight / (1 - abs(weight))


def merged_grade(confirmations: Iterable[Confirmation], decay_clock: DecayClock, bounds: Bounds) -> float:
    """Return the grade that confirmations of one pair have together: g = sum_c o_c + clip(sum_a g_a, -A, A).

    o_c is the opinion of client c, g_a the grade of an anonymous confirmation, A `anonymous_grade`. Clients add up;
    what one client repeats does not. Sums are exactly rounded, so their order cannot be told.
    """
    clients: dict[str | None, list[Confirmation]] = {}
    for one in confirmations:
        clients.setdefault(one.client, []).append(one)
    anonymous = fsum(decay_clock.aged(one) for one in clients.pop(None, []))
    bound = bounds.anonymous_grade
    return fsum([min(bound, max(-bound, anonymous)), *(opinion(of_one, decay_clock) for of_one in clients.values())])


def opinion(confirmations: list[Confirmation], decay_clock: DecayClock) -> float:
    """Return what one client thinks of a document: the strongest of its confirmations, of the sign of the last one.

    Whoever clicks, reads and then dislikes, dislikes. Of one moment, the dislike is the later word.
    """
    if len(confirmations) == 1:
        return decay_clock.aged(confirmations[0])
    dislikes = max(confirmations, key=lambda one: (one.moment, one.grade < 0)).grade < 0
    return max((decay_clock.aged(one) for one in confirmations if (one.grade < 0) == dislikes), key=abs)


@dataclass(frozen=True)
class _Merged:
    """The key of a pair, and when it was last confirmed."""

    weight: float
    moment: int
    count: int


class Confirmations:
    """All confirmations of a collection, and the memory keys that they merge into. For one writer at a time.

    It keeps what is merged, so a change costs what it touches: `change` tells which sources may have other keys now.
    """

    def __init__(self, decay_clock: DecayClock, bounds: Bounds | None = None) -> None:
        self.decay_clock = decay_clock
        self._bounds = bounds or Bounds()
        self._all: dict[int, Confirmation] = {}
        self._by_query_key: dict[str, dict[int, dict[int, Confirmation]]] = {}
        """Source -> row -> id."""
        self._vectors: dict[str, list[Floats]] = {}
        """Those that a source was ever confirmed with; usually one, held once."""
        self._acted: dict[str, dict[Pair, list[int]]] = {}
        """Client -> pair -> moments of its events."""
        self._over_limit: dict[str, set[Pair]] = {}
        """Client -> the pairs that are beyond its bound."""
        self._merged: dict[int, dict[str, _Merged]] = {}
        """Row -> source, before the bound of the document."""
        self._left_out: dict[int, set[str]] = {}
        """Row -> the sources that are beyond its bound."""

    def __len__(self) -> int:
        return len(self._all)

    def age(self, decay_clock: DecayClock) -> None:
        """Merge all anew, at another day or half-life."""
        self.decay_clock = decay_clock
        self._update({(query_key, row) for query_key, rows in self._by_query_key.items() for row in rows})

    def change(self, added: Iterable[Confirmation], removed: Iterable[int] = ()) -> set[str]:
        """Take these ids out and these in, replacing those of the same id; return the sources that are touched."""
        touched: set[Pair] = set()
        clients: set[str] = set()
        for gone in (self._all.pop(one) for one in removed if one in self._all):
            self._take_out(gone, touched, clients)
        for one in added:
            old = self._all.pop(one.id, None)
            if old is not None:
                self._take_out(old, touched, clients)
            self._put_in(one, touched, clients)
        for client in clients:
            touched |= self._limit_client(client)
        return self._update(touched)

    def keys(self, query_keys: Iterable[str] | None = None) -> dict[str, list[MemoryKey]]:
        """Return the memory keys of these sources, or of all, by row; none for a source that is not remembered."""
        return {
            query_key: self._keys_of(query_key)
            for query_key in (self._by_query_key if query_keys is None else query_keys)
        }

    def _update(self, touched: set[Pair]) -> set[str]:
        for query_key, row in touched:
            self._merge(query_key, row)
        query_keys = {query_key for query_key, _ in touched}
        for row in {row for _, row in touched}:
            query_keys |= self._bound(row)
        return query_keys

    def _put_in(self, one: Confirmation, touched: set[Pair], clients: set[str]) -> None:
        one = self._shared(one)
        self._all[one.id] = one
        self._by_query_key.setdefault(one.query_key, {}).setdefault(one.row, {})[one.id] = one
        touched.add(one.pair)
        if one.client is not None and not one.judged:
            self._acted.setdefault(one.client, {}).setdefault(one.pair, []).append(one.moment)
            clients.add(one.client)

    def _shared(self, one: Confirmation) -> Confirmation:
        """Return a confirmation with the vector that its source has already, where it is the same."""
        vectors = self._vectors.setdefault(one.query_key, [])
        for vector in vectors:
            if vector is one.vector:
                return one
            if np.array_equal(vector, one.vector):
                return replace(one, vector=vector)
        vectors.append(one.vector)
        return one

    def _take_out(self, one: Confirmation, touched: set[Pair], clients: set[str]) -> None:
        rows = self._by_query_key[one.query_key]
        del rows[one.row][one.id]
        if not rows[one.row]:
            del rows[one.row]
        if not rows:
            del self._by_query_key[one.query_key], self._vectors[one.query_key]
        touched.add(one.pair)
        if one.client is not None and not one.judged:
            pairs = self._acted[one.client]
            pairs[one.pair].remove(one.moment)
            if not pairs[one.pair]:
                del pairs[one.pair]
            clients.add(one.client)

    def _limit_client(self, client: str) -> set[Pair]:
        """Hear a client on the pairs that it acted on last; return the pairs for which that is a change."""
        pairs = self._acted[client]
        if not pairs:
            del self._acted[client]
        before = self._over_limit.pop(client, set())
        most = self._bounds.pairs_per_client
        over_limit = (
            set() if len(pairs) <= most else set(sorted(pairs, key=lambda pair: (-max(pairs[pair]), pair))[most:])
        )
        if over_limit:
            self._over_limit[client] = over_limit
        return before ^ over_limit

    def _counted(self, query_key: str, row: int) -> Collection[Confirmation]:
        confirmed = self._by_query_key.get(query_key, {}).get(row, {}).values()
        if not self._over_limit:
            return confirmed
        pair = (query_key, row)
        return [
            one
            for one in confirmed
            if one.judged or one.client is None or pair not in self._over_limit.get(one.client, ())
        ]

    def _merge(self, query_key: str, row: int) -> None:
        counted = self._counted(query_key, row)
        weight = weight_of(merged_grade(counted, self.decay_clock, self._bounds))
        of_row = self._merged.setdefault(row, {})
        of_row.pop(query_key, None)
        if abs(weight) >= FAINTEST:
            of_row[query_key] = _Merged(weight, max(one.moment for one in counted), len(counted))

    def _bound(self, row: int) -> set[str]:
        """Keep a document's keys of the greatest weight; return the sources for which that is a change."""
        merged = self._merged[row]
        if not merged:
            del self._merged[row]

        def rank(query_key: str) -> tuple[float, int, str]:
            return -abs(merged[query_key].weight), -merged[query_key].moment, query_key

        before = self._left_out.pop(row, set())
        most = self._bounds.keys_per_document
        left_out = set() if len(merged) <= most else set(sorted(merged, key=rank)[most:])
        if left_out:
            self._left_out[row] = left_out
        return before ^ left_out

    def _keys_of(self, query_key: str) -> list[MemoryKey]:
        rows = [
            row
            for row in sorted(self._by_query_key.get(query_key, {}))
            if query_key in self._merged.get(row, {}) and query_key not in self._left_out.get(row, ())
        ]
        if not rows:
            return []
        vector = self._vector_of(query_key)
        merged = [(row, self._merged[row][query_key]) for row in rows]
        return [MemoryKey(row, vector, one.weight, query_key, one.count) for row, one in merged]

    def _vector_of(self, query_key: str) -> Floats:
        """Return the vector of the spelling that was confirmed last."""
        if len(self._vectors[query_key]) == 1:
            return self._vectors[query_key][0]
        confirmed = [one for of_row in self._by_query_key[query_key].values() for one in of_row.values()]
        last = max(one.moment for one in confirmed)
        vectors = {id(one.vector): one.vector for one in confirmed if one.moment == last}
        return min(vectors.values(), key=lambda vector: vector.tobytes())
