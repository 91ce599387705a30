"""What a search over partitions selects besides its ranking: pinned documents, facets, and the order of `sort`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from index.ranking.search import Ranking
from index.records import Ints
from service.partitions.messages import Selected
from service.partitions.searched_parts import SearchedParts
from service.runtime.candidate_steps import STEP
from service.runtime.rules import Rule
from service.search import pinning
from service.search.field_columns import Scalar, facet, sort_key
from service.search.passing import Ranked, first_of_each, passing_in_order, ranks_in_order
from service.search.pinning import Pins
from service.search.schemas import SearchIn
from service.search.selection import MAX_FACET_VALUES, selects_by_logit

Entry = tuple[bytes, int, tuple[Scalar | None, ...]]
"""The bytes that order equal documents, a row, and its values for the rules of `sort`, then for `distinct`."""


@dataclass(frozen=True)
class Selection:
    """The selection of a search.

    ordered: the rows in the order of `sort`, None without it. by_logit: whether the hits are those of them that pass
    `min_logit`.
    """

    parts: SearchedParts
    request: SearchIn
    pins: Pins
    facets: dict[str, Any] | None = None
    matching: int | None = None
    ordered: "SortedRows | None" = None
    by_logit: bool = False

    def ranked(self, rank: Callable[[Ints], Ranking], kept: Ints) -> Ranked:
        """Return the ranking and its hits. rank: rows that are ranked in any case -> a ranking.

        kept (k,): the rows of hits that keep their places before others.
        """
        if self.ordered is None:
            ranking = rank(self.pins.doc_indices)
            pins, values = self.among(ranking).pins, self._distinct_values
            return ranking, pinning.ranks_of_hits(self.request, ranking, pins, kept, values)
        if self.by_logit:
            return passing_in_order(self.request, self.ordered.first, rank, self._distinct_values)
        rows = self.ordered.first(self.parts.search.window)
        ranking = rank(rows)
        return ranking, ranks_in_order(ranking, rows, self.request)

    def lacks(self, ranking: Ranking, ranks: Ints) -> bool:
        """Return whether documents that may be hits have a value of `distinct` that no document at these ranks has."""
        shown = ranking.doc_indices[ranks]
        values = [value for value in self._distinct_values(shown) if value is not None]
        return self.parts.has_others(values, shown)

    def among(self, ranking: Ranking) -> "Selection":
        """Return the selection without pinned documents that are not ranked: they are gone, or their partition is."""
        kept = np.isin(self.pins.doc_indices, ranking.doc_indices)
        if kept.all():
            return self
        rows = set(self.pins.doc_indices[kept].tolist())
        rules = {row: rule for row, rule in self.pins.rules.items() if row in rows}
        return replace(self, pins=Pins(self.pins.doc_indices[kept], self.pins.positions[kept], rules))

    def _distinct_values(self, rows: Ints) -> list[Scalar | None]:
        """Return the value of `distinct` of each document (n,)."""
        return self.parts.first_values(self.request.distinct or "", rows)


class SortedRows:
    """The rows of a search in the order of `sort`. Partitions are asked for more of them as more are read."""

    def __init__(self, parts: SearchedParts, found: Sequence[Selected], by_logit: bool) -> None:
        """by_logit: as for `Selection`."""
        self._parts, self._by_logit, self._count = parts, by_logit, parts.search.window
        self._rows = self._ordered(found)

    def first(self, count: int) -> Ints:
        """Return the first rows, at most `count`. More rows are asked for in steps, each with all rows before."""
        if count > self._count <= len(self._rows):
            self._count = max(count, STEP * self._count)
            self._rows = self._ordered(self._parts.sorted_further(self._count))
        return self._rows[:count]

    def _ordered(self, found: Sequence[Selected]) -> Ints:
        request = self._parts.search.request
        entries = [entry for one in found for entry in zip(one.ids, one.ordered or (), one.sorted_by, strict=True)]
        entries.sort(key=lambda entry: entry[:2])
        for place, rule in reversed(list(enumerate(request.sort or ()))):  # stable, so an earlier rule decides
            entries = _sorted_by(entries, place, rule.endswith(":desc"))
        rows = np.asarray([row for _, row, _ in entries], np.int64)
        if request.distinct and not self._by_logit:
            rows = rows[first_of_each([values[-1] for *_, values in entries])]
        return rows[: self._count]


def selected(parts: SearchedParts, request: SearchIn, rules: Sequence[Rule]) -> Selection:
    """Return the selection of a search that these rules match. Partitions are asked only where it needs them."""
    pinned = [] if request.sort else sorted({id for rule in rules for id, _ in rule.pins})
    if not (pinned or request.facets or request.sort or request.count):
        return Selection(parts, request, pinning.NONE)
    found = parts.select(pinned)
    rows_of = {id: row for one in found for id, row in one.rows_of.items()}
    facets = _facets(found, request.facets) if request.facets else None
    matching = sum(one.matching or 0 for one in found) if request.count else None
    pins = pinning.pins_of(rules, rows_of) if pinned else pinning.NONE
    if not request.sort:
        return Selection(parts, request, pins, facets, matching)
    by_logit = selects_by_logit(request, parts.search.query.read)
    return Selection(parts, request, pins, facets, matching, SortedRows(parts, found, by_logit), by_logit)


def _facets(found: Sequence[Selected], fields: Sequence[str]) -> dict[str, Any]:
    """Return the facets over the documents of all partitions."""
    facets = {}
    for name in fields:
        total: dict[tuple[type, Scalar], int] = {}
        for one in found:
            for value, count in one.facets.get(name, ()):
                total[type(value), value] = total.get((type(value), value), 0) + count
        counted = sorted(
            ((value, count) for (_, value), count in total.items()), key=lambda one: (-one[1], str(one[0]))
        )
        facets[name] = facet(counted, MAX_FACET_VALUES)
    return facets


def _sorted_by(entries: Sequence[Entry], place: int, falling: bool) -> list[Entry]:
    """Return the entries by their values at a place; those without a value come last."""
    keyed = [(sort_key(value), entry) for entry in entries if (value := entry[-1][place]) is not None]
    keyed.sort(key=lambda one: one[0], reverse=falling)
    return [entry for _, entry in keyed] + [entry for entry in entries if entry[-1][place] is None]
