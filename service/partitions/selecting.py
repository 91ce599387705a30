"""What a search over partitions selects besides its ranking: pinned documents, facets, and the order of `sort`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from index.ranking.search import Ranking
from index.records import Ints
from service.partitions.messages import Selected
from service.partitions.searched_parts import SearchedParts
from service.runtime.rules import Rule
from service.search import pinning
from service.search.field_columns import Scalar, facet, sort_key
from service.search.pinning import Pins
from service.search.schemas import SearchIn
from service.search.selection import MAX_FACET_VALUES, first_of_each, passing_ranks

Entry = tuple[int, tuple[Scalar | None, ...]]
"""A row, and its values for the rules of `sort`, then for `distinct`."""


@dataclass(frozen=True)
class Selection:
    """The selection of a search.

    ordered (n,): the rows up to the end of the page in the order of `sort`, and one more; None without `sort`.
    """

    parts: SearchedParts
    request: SearchIn
    pins: Pins
    facets: dict[str, Any] | None = None
    ordered: Ints | None = None

    @property
    def required(self) -> Ints:
        """The rows that are ranked in any case."""
        return self.pins.doc_indices if self.ordered is None else self.ordered

    def among(self, ranking: Ranking) -> "Selection":
        """Return the selection without pinned documents that are not ranked: they are gone, or their partition is."""
        kept = np.isin(self.pins.doc_indices, ranking.doc_indices)
        if kept.all():
            return self
        rows = set(self.pins.doc_indices[kept].tolist())
        rules = {row: rule for row, rule in self.pins.rules.items() if row in rows}
        return replace(self, pins=Pins(self.pins.doc_indices[kept], self.pins.positions[kept], rules))

    def ranks(self, ranking: Ranking) -> Ints:
        """Return the 0-based ranks of the hits in their order, as `service.search.selection.Selection` does."""
        ranks = passing_ranks(ranking, self.request)
        if self.ordered is not None:
            rank_of = {row: rank for rank, row in enumerate(ranking.doc_indices.tolist())}
            shown = np.asarray([rank_of[row] for row in self.ordered.tolist() if row in rank_of], np.int64)
            return shown[np.isin(shown, ranks)]
        if self.request.distinct:
            ranks = pinning.pinned_first(ranks, self.pins, ranking.doc_indices)
            values = self.parts.first_values(self.request.distinct, ranking.doc_indices[ranks])
            ranks = ranks[first_of_each(values)]
        return pinning.placed(ranks, self.pins, ranking.doc_indices)


def selected(parts: SearchedParts, request: SearchIn, rules: Sequence[Rule]) -> Selection:
    """Return the selection of a search that these rules match. Partitions are asked only where it needs them."""
    pinned = [] if request.sort else sorted({id for rule in rules for id, _ in rule.pins})
    if not (pinned or request.facets or request.sort):
        return Selection(parts, request, pinning.NONE)
    found = parts.select(pinned)
    rows_of = {id: row for one in found for id, row in one.rows_of.items()}
    facets = _facets(found, request.facets) if request.facets else None
    ordered = _ordered(found, request, parts.search.window) if request.sort else None
    return Selection(parts, request, pinning.pins_of(rules, rows_of) if pinned else pinning.NONE, facets, ordered)


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


def _ordered(found: Sequence[Selected], request: SearchIn, window: int) -> Ints:
    """Return the first rows (window,) in the order of `sort`."""
    entries = [entry for one in found for entry in zip(one.ordered or (), one.sorted_by, strict=True)]
    entries.sort(key=lambda entry: entry[0])
    for place, rule in reversed(list(enumerate(request.sort or ()))):  # stable, so an earlier rule decides
        entries = _sorted_by(entries, place, rule.endswith(":desc"))
    rows = np.asarray([row for row, _ in entries], np.int64)
    if request.distinct:
        rows = rows[first_of_each([values[-1] for _, values in entries])]
    return rows[:window]


def _sorted_by(entries: Sequence[Entry], place: int, falling: bool) -> list[Entry]:
    """Return the entries by their values at a place; those without a value come last."""
    keyed = [(sort_key(value), entry) for entry in entries if (value := entry[1][place]) is not None]
    keyed.sort(key=lambda one: one[0], reverse=falling)
    return [entry for _, entry in keyed] + [entry for entry in entries if entry[1][place] is None]
