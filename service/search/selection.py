"""Selects and orders the hits of a search: sorting, distinct values, pinned documents; and counts facets.

Facets, sorting and `count` are about all documents that pass the filter and contain a word of the query, not about the
candidates alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.generation.generation import Generation
from index.ranking.search import Ranking
from index.records import Ints, Mask
from index.words.word_search import Reading
from service.http.problems import Problem
from service.runtime.served_collection import ServedCollection
from service.search import pinning
from service.search.field_columns import Columns, Scalar, columns_of, facet
from service.search.passing import Ranked, first_of_each, passing_in_order, ranks_in_order
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

    columns: the filterable fields, None unless the search needs them. matching (N,) bool: the documents that facets,
    sorting and `count` are about, None without them. ordered (n,): the doc indices of all of them in the order of
    `sort`, None without it. by_logit: whether the hits are those of them that pass `min_logit`; otherwise `ordered` has
    only the first document with each value of `distinct`. reading, allowed: as for `select`.
    """

    generation: Generation
    request: SearchIn
    columns: Columns | None = None
    matching: Mask | None = None
    ordered: Ints | None = None
    by_logit: bool = False
    reading: Reading | None = None
    allowed: Mask | None = None

    def ranked(self, rank: Callable[[Ints], Ranking], pins: pinning.Pins, kept: Ints) -> Ranked:
        """Return the ranking and its hits. rank: doc indices that are ranked in any case -> a ranking.

        kept (k,): the doc indices of hits that keep their places before others.
        """
        if self.by_logit:
            return passing_in_order(self.request, self._first, rank, self._distinct_values)
        ranking = rank(pins.doc_indices if self.ordered is None else self._window())
        return ranking, self._ranks(ranking, pins, kept)

    def lacks(self, ranking: Ranking, ranks: Ints) -> bool:
        """Return whether documents that may be hits have a value of `distinct` that no document at these ranks has."""
        shown = ranking.doc_indices[ranks]
        values = [value for value in self._distinct_values(shown) if value is not None]
        return self.has_others(values, self.generation.rows[shown])

    def has_others(self, values: Sequence[Scalar], shown: Ints) -> bool:
        """Return whether documents that may be hits have other values of `distinct` than these, or have none.

        shown: the rows of documents without a value that do not count.
        """
        assert self.columns is not None, "the search has `distinct`"
        rows, codes = self._possible
        known = self.columns.codes_of(self.request.distinct or "", values)
        return bool(np.where(codes < 0, ~np.isin(rows, shown), ~np.isin(codes, known)).any())

    @cached_property
    def _possible(self) -> tuple[Ints, Ints]:
        """The rows of all documents that may be hits, and the codes of their first values of `distinct`.

        By words, a document with one word of a synonym phrase is a hit too.
        """
        assert self.columns is not None, "the search has `distinct`"
        reading = self.reading if self.request.mode == "words" else None
        if reading is not None:
            reading = replace(reading, words=reading.words.without_parts())
        rows = self.generation.rows[matching_documents(self.generation, reading, self.allowed)]
        return rows, self.columns.of(self.request.distinct or "", rows).first_codes()

    def _ranks(self, ranking: Ranking, pins: pinning.Pins, kept: Ints) -> Ints:
        """Return the 0-based ranks of the hits in the order in which they are shown."""
        if self.ordered is not None:
            return ranks_in_order(ranking, self._window(), self.request)
        return pinning.ranks_of_hits(self.request, ranking, pins, kept, self._distinct_values)

    def count(self) -> int | None:
        """Return the number of matching documents if the search asks for it."""
        return int(self.matching.sum()) if self.request.count and self.matching is not None else None

    def facets(self) -> dict[str, Any] | None:
        """Return the facets that the search asks for, over all matching documents; None if it asks for none."""
        if not self.request.facets or self.columns is None or self.matching is None:
            return None
        return count_facets(self.columns, self.request.facets, self.generation.rows[self.matching])

    def _window(self) -> Ints:
        """Return the documents up to the page, and one more, which tells whether there is a next page."""
        return self._first(self.request.offset + self.request.limit + 1)

    def _first(self, count: int) -> Ints:
        """Return the first doc indices in the order of `sort`, at most `count`."""
        return np.empty(0, np.int64) if self.ordered is None else self.ordered[:count]

    def _distinct_values(self, doc_indices: Ints) -> list[Scalar | None]:
        """Return the value of `distinct` of each document (n,)."""
        assert self.columns is not None, "the search has `distinct`"
        return self.columns.of(self.request.distinct or "", self.generation.rows[doc_indices]).first()


def select(
    database: DatabaseReader,
    state: ServedCollection,
    generation: Generation,
    request: SearchIn,
    reading: Reading | None,
    allowed: Mask | None,
) -> Selection:
    """Return the selection of a search. reading: None for all documents; allowed (N,): None allows all."""
    columns = None
    if request.facets or request.sort or request.distinct:
        columns = columns_of(database, state, int(generation.rows[-1]) if len(generation.rows) else -1)
    if not (request.facets or request.sort or request.count):
        return Selection(generation, request, columns, reading=reading, allowed=allowed)
    matching = matching_documents(generation, reading, allowed)
    if columns is None or not request.sort:
        return Selection(generation, request, columns, matching, reading=reading, allowed=allowed)
    doc_indices = np.flatnonzero(matching)
    ids = generation.columns.id_order.take(doc_indices)
    ordered: Ints = doc_indices[sorted_documents(columns, request.sort, generation.rows[doc_indices], ids)]
    by_logit = selects_by_logit(request, reading)
    if request.distinct and not by_logit:
        values = columns.of(request.distinct, generation.rows[ordered])
        ordered = ordered[first_of_each(values.first())]
    return Selection(generation, request, columns, matching, ordered, by_logit)


def selects_by_logit(request: SearchIn, reading: Reading | None) -> bool:
    """Return whether the logits of sorted documents decide which are hits; without a reading all logits are 0."""
    return bool(request.sort) and request.min_logit is not None and reading is not None


def matching_documents(generation: Generation, reading: Reading | None, allowed: Mask | None) -> Mask:
    """Return (N,) bool, True for living, allowed documents that contain a word of the query; without a reading, all."""
    passing = generation.alive if allowed is None else generation.alive & allowed
    if reading is None:
        return passing
    return generation.documents_with(reading.words) & passing


def count_facets(columns: Columns, fields: Sequence[str], rows: Ints) -> dict[str, Any]:
    """Return the facets of these fields over the documents with these rows."""
    return {name: facet(columns.of(name, rows).counts(), MAX_FACET_VALUES) for name in fields}


def sorted_documents(columns: Columns, rules: Sequence[str], rows: Ints, ids: NDArray[np.bytes_]) -> Ints:
    """Return the order (n,) of documents by sort rules such as `price:asc`; documents without a value come last.

    Equal documents are ordered by ids (n,), as in `index.generation.columns.id_order`: not by rows (n,), because a
    change gives a document another row, and would move it between two pages.
    """
    keys = []
    for rule in reversed(rules):
        name, _, direction = rule.rpartition(":")
        ranks = columns.of(name, rows).ranks()
        missing = ranks < 0
        keys += [np.where(missing, 0, ranks if direction == "asc" else -ranks), missing]
    order: Ints = np.lexsort(keys)
    differs = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    starts = np.concatenate([[True], differs])[: len(order)]
    tied = ~starts | ~np.concatenate([differs, [True]])[: len(order)]
    group, among = np.cumsum(starts)[tied], order[tied]
    order[tied] = among[np.lexsort((ids[among], group))]
    return order
