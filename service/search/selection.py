"""Selects and orders the hits of a ranking: thresholds, sorting, distinct values; and counts facets.

Facets and sorting are about all documents that pass the filter and contain a word of the query, not about the
candidates alone.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from index.generation.generation import Generation
from index.ranking.search import Ranking
from index.records import Ints, Mask
from index.words.query_reading import Reading
from service.http.problems import Problem
from service.runtime.collection import CollectionState
from service.search.field_columns import Columns, Scalar, facet
from service.search.schemas import SearchIn

MAX_FACET_VALUES = 100


def require_filterable(state: CollectionState, request: SearchIn) -> None:
    """Raise Problem 422 if facets, sort or distinct name a field that is not filterable."""
    named = {"facets": request.facets or [], "distinct": [request.distinct] if request.distinct else []}
    named["sort"] = [rule.rpartition(":")[0] for rule in request.sort or []]
    for parameter, fields in named.items():
        for index, field in enumerate(fields):
            if field not in state.settings.filterable:
                known = ", ".join(state.settings.filterable) or "none"
                detail = f"the field {field!r} is not filterable; filterable fields: {known}"
                pointer = f"/{parameter}" if parameter == "distinct" else f"/{parameter}/{index}"
                raise Problem(422, "field_not_filterable", detail, [{"pointer": pointer, "detail": detail}])


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
