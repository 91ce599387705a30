"""Selects and orders the hits of a ranking: thresholds, sorting, distinct values; and counts facets.

Facets and sorting are about all documents that pass the filter and contain a word of the query, not about the
candidates alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.generation.generation import Generation
from index.ranking.search import Ranking
from index.records import Ints, Mask
from index.words.word_search import Reading
from service.http.problems import Problem
from service.runtime.served_collection import ServedCollection
from service.search import pinning
from service.search.field_columns import Columns, Scalar, columns_of, facet
from service.search.schemas import SearchIn
from service.storage.database import DatabaseReader

MAX_FACET_VALUES = 100


def require_filterable(state: ServedCollection, request: SearchIn) -> None:
    """Raise Problem 422 if facets, sort or distinct name a field that is not filterable."""
    named = {"facets": request.facets or [], "distinct": [request.distinct] if request.distinct else []}
    named["sort"] = [rule.rpartition(":")[0] for rule in request.sort or []]
    for parameter, fields in named.items():
        for index, field in enumerate(fields):
            if field not in state.settings.filterable:
                known = ", ".join(state.settings.filterable) or "none"
                detail = f"this field is not filterable; filterable fields: {known}"
                pointer = f"/{parameter}" if parameter == "distinct" else f"/{parameter}/{index}"
                raise Problem(422, "field_not_filterable", detail, [{"pointer": pointer, "detail": detail}])


@dataclass(frozen=True)
class Selection:
    """The documents that a search selects, besides its ranking.

    columns: the filterable fields, None unless the search needs them. matching (N,) bool: the documents that facets and
    sorting are about, None without both. ordered (n,): the doc indices of all of them in the order of `sort`, None
    without it.
    """

    generation: Generation
    request: SearchIn
    columns: Columns | None = None
    matching: Mask | None = None
    ordered: Ints | None = None

    def required(self, pins: pinning.Pins) -> Ints:
        """Return the doc indices that are ranked in any case: those of the window in the order of `sort`, or pinned."""
        return pins.doc_indices if self.ordered is None else self._window(self.ordered)

    def ranks(self, ranking: Ranking, pins: pinning.Pins) -> Ints:
        """Return the 0-based ranks of the hits in the order in which they are shown.

        Thresholds do not remove pinned documents, and `distinct` keeps them before other documents with their value.
        """
        ranks = passing_ranks(ranking, self.request)
        if self.ordered is not None:
            rank_of = {doc_index: rank for rank, doc_index in enumerate(ranking.doc_indices.tolist())}
            shown = np.asarray([rank_of[one] for one in self._window(self.ordered).tolist()], np.int64)
            return shown[np.isin(shown, ranks)]
        if self.request.distinct and self.columns is not None:
            ranks = pinning.pinned_first(ranks, pins, ranking.doc_indices)
            values = self.columns.of(self.request.distinct, self.generation.rows[ranking.doc_indices[ranks]])
            ranks = ranks[first_of_each(values.first())]
        return pinning.placed(ranks, pins, ranking.doc_indices)

    def facets(self) -> dict[str, Any] | None:
        """Return the facets that the search asks for, over all matching documents; None if it asks for none."""
        if not self.request.facets or self.columns is None or self.matching is None:
            return None
        return count_facets(self.columns, self.request.facets, self.generation.rows[self.matching])

    def _window(self, doc_indices: Ints) -> Ints:
        """Return the documents up to the page, and one more, which tells whether there is a next page."""
        return doc_indices[: self.request.offset + self.request.limit + 1]


def select(
    database: DatabaseReader,
    state: ServedCollection,
    generation: Generation,
    request: SearchIn,
    reading: Reading | None,
    allowed: Mask | None,
) -> Selection:
    """Return the selection of a search. reading: None for all documents; allowed (N,): None allows all."""
    if not (request.facets or request.sort or request.distinct):
        return Selection(generation, request)
    columns = columns_of(database, state, int(generation.rows[-1]) if len(generation.rows) else -1)
    if not (request.facets or request.sort):
        return Selection(generation, request, columns)
    matching = matching_documents(generation, reading, allowed)
    ordered = _ordered(generation, request, columns, matching) if request.sort else None
    return Selection(generation, request, columns, matching, ordered)


def _ordered(generation: Generation, request: SearchIn, columns: Columns, matching: Mask) -> Ints:
    """Return the doc indices of all matching documents in the order of `sort`."""
    doc_indices = np.flatnonzero(matching)
    ordered: Ints = doc_indices[sorted_documents(columns, request.sort or (), generation.rows[doc_indices])]
    if request.distinct:
        values = columns.of(request.distinct, generation.rows[ordered])
        ordered = ordered[first_of_each(values.first())]
    return ordered


def matching_documents(generation: Generation, reading: Reading | None, allowed: Mask | None) -> Mask:
    """Return (N,) bool, True for living, allowed documents that contain a word of the query; without a reading, all."""
    passing = generation.alive if allowed is None else generation.alive & allowed
    if reading is None:
        return passing
    return generation.documents_with(reading.words) & passing


def count_facets(columns: Columns, fields: Sequence[str], rows: Ints) -> dict[str, Any]:
    """Return the facets of these fields over the documents with these rows."""
    return {name: facet(columns.of(name, rows).counts(), MAX_FACET_VALUES) for name in fields}


def sorted_documents(columns: Columns, rules: Sequence[str], rows: Ints) -> Ints:
    """Return the order (n,) of documents by sort rules such as `price:asc`; documents without a value come last."""
    keys = []
    for rule in reversed(rules):
        name, _, direction = rule.rpartition(":")
        ranks = columns.of(name, rows).ranks()
        missing = ranks < 0
        keys += [np.where(missing, 0, ranks if direction == "asc" else -ranks), missing]
    order: Ints = np.lexsort((rows, *keys))
    return order


def passing_ranks(ranking: Ranking, request: SearchIn) -> Ints:
    """Return the 0-based ranks of the hits that pass the thresholds."""
    if request.max_null_weight is not None and ranking.null_weight > request.max_null_weight:
        return np.empty(0, np.int64)
    if request.min_logit is None:
        return np.arange(len(ranking.doc_indices))
    ranks: Ints = np.flatnonzero(ranking.logits >= request.min_logit)
    return ranks


def first_of_each(values: Sequence[Scalar | None]) -> Ints:
    """Return the positions (n,) of the first document with each value; documents without a value are all kept."""
    seen: set[tuple[type, Scalar]] = set()
    kept = []
    for position, value in enumerate(values):
        if value is None or (type(value), value) not in seen:
            kept.append(position)
        if value is not None:
            seen.add((type(value), value))
    return np.asarray(kept, np.int64)
