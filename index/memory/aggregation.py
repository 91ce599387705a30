"""Merges confirmations into memory keys, one for each past query and document; ages them and limits their number.

Sees rows, vectors, grades, positions and times. The result is a function of the set of confirmations, the day and the
worth of clicks. It does not depend on the order of confirmations, nor on confirmations that were added and removed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from index.memory.click_worth import ASSUMED_WORTH, ClickWorth
from index.memory.confirmation import Confirmation, Pair
from index.memory.exact import ClickCount, exact_rating, liking_clients, may_qualify, united
from index.memory.grades import (
    NO_GRADES,
    NONE,
    Bounds,
    DecayClock,
    Grader,
    GradeSums,
    best_clicked,
    grade_sums,
    pair_weight,
    weight_of,
)
from index.memory.query_key import bare_key
from index.records import Floats, MemoryKey

LEAST_WEIGHT = 0.01
"""A key is dropped if its weight, without regard to other documents of its query, is below this absolute value: its
confirmations are old, or likes and dislikes cancel."""

TenantRows = dict[str, dict[str, list[int]]]
"""Query key -> tenant -> rows."""
TenantClicks = Mapping[str, Mapping[str, Mapping[int, ClickCount]]]
"""Query key -> tenant -> row -> count of clicks."""


@dataclass(frozen=True)
class _Merged:
    """The merged confirmations of a pair; moment is the time of the latest, exact the exact rating."""

    judged: bool
    weight: float
    moment: int
    count: int
    exact: float


class Confirmations:
    """All confirmations of a collection, and the memory keys that they merge into. For one writer at a time.

    Merged results are kept, so the cost of a change depends on the pairs that it affects. `change` returns the query
    keys whose memory keys may have changed.
    """

    def __init__(
        self, decay_clock: DecayClock, bounds: Bounds | None = None, worth: ClickWorth = ASSUMED_WORTH
    ) -> None:
        self._grader = Grader(decay_clock, worth)
        self._bounds = bounds or Bounds()
        self._by_id: dict[int, Confirmation] = {}
        self._by_query_key: dict[str, dict[int, dict[int, Confirmation]]] = {}
        """Query key -> row -> id."""
        self._spellings: dict[str, tuple[str, ...]] = {}
        """Bare key -> the query keys that have it and differ from it: most queries have no punctuation."""
        self._unrated: dict[str, set[int]] = {}
        """Bare key -> rows whose exact ratings have to be computed, where several query keys have the bare key."""
        self._vectors: dict[str, list[Floats]] = {}
        """Query key -> its distinct vectors; usually one."""
        self._event_moments: dict[str, dict[Pair, list[int]]] = {}
        """Client -> pair -> moments of its events."""
        self._pairs_over_limit: dict[str, set[Pair]] = {}
        """Client -> the pairs beyond `pairs_per_client`."""
        self._sums: dict[str, dict[int, GradeSums]] = {}
        """Query key -> row."""
        self._best: dict[str, Mapping[str, float]] = {}
        """Query key -> `best_clicked` of its rows, if a tenant has one."""
        self._outdated: dict[str, None] = {}
        """Query keys whose sums have an earlier worth of clicks."""
        self._merged: dict[int, dict[str, _Merged]] = {}
        """Row -> query key, including those beyond `keys_per_document`."""
        self._keys_over_limit: dict[int, set[str]] = {}
        """Row -> the query keys beyond `keys_per_document`."""
        self._clicks: dict[str, dict[str, dict[int, ClickCount]]] = {}
        """Query key -> tenant -> row -> the impressions that showed the document."""
        self._changed_tenants: dict[str, set[str]] = {}
        """Query key -> the tenants whose events have changed since their clicks were counted."""

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def decay_clock(self) -> DecayClock:
        """The day and the half-life of the merged grades."""
        return self._grader.clock

    def age(self, decay_clock: DecayClock) -> None:
        """Merge all confirmations again, for another day or half-life."""
        self._grader = replace(self._grader, clock=decay_clock)
        self._update({(query_key, row) for query_key, rows in self._by_query_key.items() for row in rows})

    def use_worth(self, worth: ClickWorth) -> None:
        """Use another worth of clicks: `weigh_outdated` merges the past queries again, `change` those affected."""
        if worth != self._grader.worth:
            self._grader = replace(self._grader, worth=worth)
            self._outdated = dict.fromkeys(self._by_query_key)

    def weigh_outdated(self, most: int) -> set[str]:
        """Merge at most so many past queries of an earlier worth again; return the affected query keys."""
        return self._update(
            {(query_key, row) for query_key in islice(self._outdated, most) for row in self._by_query_key[query_key]}
        )

    def change(self, added: Iterable[Confirmation], removed: Iterable[int] = ()) -> set[str]:
        """Remove these ids, add these confirmations, and return the affected query keys.

        An added confirmation replaces a confirmation with the same id. Unknown ids are ignored.
        """
        pairs: set[Pair] = set()
        clients: set[str] = set()
        for old in (self._by_id.pop(id) for id in removed if id in self._by_id):
            self._remove(old, pairs, clients)
        for new in added:
            replaced = self._by_id.pop(new.id, None)
            if replaced is not None:
                self._remove(replaced, pairs, clients)
            self._add(new, pairs, clients)
        for client in clients:
            pairs |= self._limit_client(client)
        return self._update(pairs)

    def of_query(self, query_key: str) -> list[Confirmation]:
        """Return the confirmations of a past query, in no fixed order."""
        return [one for by_id in self._by_query_key.get(query_key, {}).values() for one in by_id.values()]

    def keys(self, query_keys: Iterable[str] | None = None) -> dict[str, list[MemoryKey]]:
        """Return the memory keys of these query keys, or of all, by row; an empty list if there are none."""
        return {
            query_key: self._keys_of(query_key)
            for query_key in (self._by_query_key if query_keys is None else query_keys)
        }

    def clicked_by_several(self, query_keys: Iterable[str]) -> TenantRows:
        """Return the rows whose documents clicks may qualify, where the clicks of a tenant that likes one have to be
        counted.

        Those are the tenants with a changed event, or no tenant if none has, and the tenants without a count. So the
        cost of an event does not depend on the number of tenants.
        """
        found: TenantRows = {}
        for query_key in query_keys:
            for row in self._by_query_key.get(query_key, {}):
                counted = self._counted(query_key, row)
                if may_qualify(counted):
                    liking = liking_clients(counted)
                    for tenant in {each.tenant for each in counted if each.client in liking}:
                        if self._has_to_be_counted(query_key, tenant, row):
                            found.setdefault(query_key, {}).setdefault(tenant, []).append(row)
        return found

    def use_clicks(self, query_keys: Iterable[str], clicks: TenantClicks) -> set[str]:
        """Use these counts of clicks, and for `query_keys` no earlier ones of the tenants with a changed event.

        Returns the affected query keys.
        """
        affected = set(query_keys)
        for query_key in query_keys:
            after = self._clicks.setdefault(query_key, {})
            rows = {row for tenant in self._to_count(query_key) for row in after.pop(tenant, {})}
            for tenant, counts in clicks.get(query_key, {}).items():
                after.setdefault(tenant, {}).update(counts)
                rows |= counts.keys()
            if not after:
                del self._clicks[query_key]
            self._changed_tenants.pop(query_key, None)
            for row in rows & self._by_query_key.get(query_key, {}).keys():
                self._merge(query_key, row)
        return affected | self._rate()

    def discard_clicks(self, query_keys: Iterable[str]) -> None:
        """Forget the counts of clicks of these queries, whose impressions have changed. `use_clicks` has to follow."""
        for query_key in query_keys:
            tenants = self._clicks.get(query_key, {}).keys()
            self._changed_tenants[query_key] = self._to_count(query_key) | tenants

    def _to_count(self, query_key: str) -> set[str]:
        return self._changed_tenants.get(query_key, {""})

    def _has_to_be_counted(self, query_key: str, tenant: str, row: int) -> bool:
        return tenant in self._to_count(query_key) or row not in self._clicks.get(query_key, {}).get(tenant, {})

    def _update(self, pairs: set[Pair]) -> set[str]:
        rows_of: dict[str, set[int]] = {}
        for query_key, row in pairs:
            rows_of.setdefault(query_key, set()).add(row)
        changed = {row for query_key, rows in rows_of.items() for row in self._weigh(query_key, rows)}
        for query_key, rows in rows_of.items():
            bare = bare_key(query_key)
            if any(one != query_key for one in self._spelled(bare)):
                self._unrated.setdefault(bare, set()).update(rows)
        query_keys = rows_of.keys() | self._rate()
        for row in changed:
            query_keys |= self._limit_document(row)
        return query_keys

    def _weigh(self, query_key: str, rows: set[int]) -> set[int]:
        """Merge these rows of a query again; return the rows of which the weights may have changed."""
        by_row = self._by_query_key.get(query_key, {})
        if query_key in self._outdated:
            del self._outdated[query_key]
            rows = rows | by_row.keys()
        sums = self._sums.pop(query_key, {})
        for row in rows:
            sums.pop(row, None)
            if row in by_row:
                sums[row] = grade_sums(self._counted(query_key, row), self._grader, self._bounds)
        before, best = self._best.pop(query_key, NONE), best_clicked(sums.values())
        if sums:
            self._sums[query_key] = sums
        if best:
            self._best[query_key] = best
        for row in rows:
            self._merge(query_key, row)
        if best == before:
            return rows
        for row in sums.keys() - rows:
            merged = self._merged.get(row, {})
            if query_key in merged:
                merged[query_key] = replace(merged[query_key], weight=pair_weight(sums[row], best))
        return rows | sums.keys()

    def _add(self, new: Confirmation, pairs: set[Pair], clients: set[str]) -> None:
        if new.grade:
            new = self._with_shared_vector(new)
        self._by_id[new.id] = new
        if new.query_key not in self._by_query_key:
            self._by_query_key[new.query_key] = {}
            bare = bare_key(new.query_key)
            if bare != new.query_key:
                self._spellings[bare] = (*self._spellings.get(bare, ()), new.query_key)
        self._by_query_key[new.query_key].setdefault(new.row, {})[new.id] = new
        pairs.add(new.pair)
        if not new.judged:
            self._changed_tenants.setdefault(new.query_key, set()).add(new.tenant)
        if new.client is not None and not new.judged:
            self._event_moments.setdefault(new.client, {}).setdefault(new.pair, []).append(new.moment)
            clients.add(new.client)

    def _with_shared_vector(self, new: Confirmation) -> Confirmation:
        """Return the confirmation with the stored vector of its query key, if that is equal."""
        vectors = self._vectors.setdefault(new.query_key, [])
        for vector in vectors:
            if vector is new.vector:
                return new
            if np.array_equal(vector, new.vector):
                return replace(new, vector=vector)
        vectors.append(new.vector)
        return new

    def _remove(self, old: Confirmation, pairs: set[Pair], clients: set[str]) -> None:
        rows = self._by_query_key[old.query_key]
        del rows[old.row][old.id]
        if not rows[old.row]:
            del rows[old.row]
        if not rows:
            del self._by_query_key[old.query_key]
            self._vectors.pop(old.query_key, None)
            bare = bare_key(old.query_key)
            if bare != old.query_key:
                left = tuple(one for one in self._spellings.pop(bare) if one != old.query_key)
                self._spellings |= {bare: left} if left else {}
        pairs.add(old.pair)
        if not old.judged:
            self._changed_tenants.setdefault(old.query_key, set()).add(old.tenant)
        if old.client is not None and not old.judged:
            moments = self._event_moments[old.client]
            moments[old.pair].remove(old.moment)
            if not moments[old.pair]:
                del moments[old.pair]
            clients.add(old.client)

    def _limit_client(self, client: str) -> set[Pair]:
        """Keep the latest pairs of a client; return the pairs that now start or stop to count."""
        moments = self._event_moments[client]
        if not moments:
            del self._event_moments[client]
        before = self._pairs_over_limit.pop(client, set())
        limit = self._bounds.pairs_per_client
        over_limit: set[Pair] = set()
        if len(moments) > limit:
            over_limit = set(sorted(moments, key=lambda pair: (-max(moments[pair]), pair))[limit:])
            self._pairs_over_limit[client] = over_limit
        return before ^ over_limit

    def _rate(self) -> set[str]:
        """Give all query keys of the unrated words the exact ratings of these words; return those with another."""
        changed = set()
        for bare, rows in self._unrated.items():
            for row in rows:
                spellings, rating = self._spelled(bare), self._rating(bare, row)
                of_row = self._merged.get(row, {})
                for one in spellings:
                    if one in of_row and of_row[one].exact != rating:
                        of_row[one] = replace(of_row[one], exact=rating)
                        changed.add(one)
        self._unrated.clear()
        return changed

    def _spelled(self, bare: str) -> tuple[str, ...]:
        """Return the query keys with these words."""
        others = self._spellings.get(bare, ())
        return (bare, *others) if bare in self._by_query_key else others

    def _rating(self, bare: str, row: int) -> float:
        """Return the exact rating of a document for some words, from all query keys that have them.

        The clicks of a query key count if they alone may qualify the document: only these are counted again after a
        change.
        """
        confirmations: list[Confirmation] = []
        clicks: list[ClickCount] = []
        for one in self._spelled(bare):
            counted = self._counted(one, row)
            confirmations += counted
            by_tenant = self._clicks.get(one)
            if by_tenant and may_qualify(counted):
                clicks += [by_row[row] for by_row in by_tenant.values() if row in by_row]
        return exact_rating(confirmations, united(clicks))

    def _counted(self, query_key: str, row: int) -> Collection[Confirmation]:
        """Return the confirmations of a pair, without those of clients for which the pair is over the limit."""
        confirmations = self._by_query_key.get(query_key, {}).get(row, {}).values()
        if not self._pairs_over_limit:
            return confirmations
        pair = (query_key, row)
        return [
            each
            for each in confirmations
            if each.judged or each.client is None or pair not in self._pairs_over_limit.get(each.client, ())
        ]

    def _merge(self, query_key: str, row: int) -> None:
        sums = self._sums.get(query_key, {}).get(row, NO_GRADES)
        merged = self._merged.setdefault(row, {})
        merged.pop(query_key, None)
        if abs(weight_of(sums.total)) >= LEAST_WEIGHT:
            counted = self._counted(query_key, row)
            graded = [each.moment for each in counted if each.grade]
            exact, bare = 0.0, bare_key(query_key)
            if len(self._spelled(bare)) > 1:
                self._unrated.setdefault(bare, set()).add(row)
            else:
                exact = self._rating(bare, row)
            weight = pair_weight(sums, self._best.get(query_key, NONE))
            merged[query_key] = _Merged(bool(sums.judged), weight, max(graded), len(graded), exact)

    def _limit_document(self, row: int) -> set[str]:
        """Keep the judged, then the strongest keys of a document; return the query keys that start or stop to count."""
        merged = self._merged.get(row, {})
        if not merged:
            self._merged.pop(row, None)

        def rank(query_key: str) -> tuple[bool, float, int, str]:
            one = merged[query_key]
            return not one.judged, -abs(one.weight), -one.moment, query_key

        before, limit = self._keys_over_limit.pop(row, set()), self._bounds.keys_per_document
        over_limit: set[str] = set()
        if len(merged) > limit:
            over_limit = set(sorted(merged, key=rank)[limit:])
            self._keys_over_limit[row] = over_limit
        return before ^ over_limit

    def _keys_of(self, query_key: str) -> list[MemoryKey]:
        rows = [
            row
            for row in sorted(self._by_query_key.get(query_key, {}))
            if query_key in self._merged.get(row, {}) and query_key not in self._keys_over_limit.get(row, ())
        ]
        if not rows:
            return []
        vector = self._vector_of(query_key)
        merged = [(row, self._merged[row][query_key]) for row in rows]
        return [MemoryKey(row, vector, each.weight, query_key, each.count, each.exact) for row, each in merged]

    def _vector_of(self, query_key: str) -> Floats:
        """Return the vector of the latest confirmed spelling of the query."""
        if len(self._vectors[query_key]) == 1:
            return self._vectors[query_key][0]
        confirmations = [
            each for by_id in self._by_query_key[query_key].values() for each in by_id.values() if each.grade
        ]
        last = max(each.moment for each in confirmations)
        vectors = {id(each.vector): each.vector for each in confirmations if each.moment == last}
        return min(vectors.values(), key=lambda vector: vector.tobytes())
