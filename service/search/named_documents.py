"""Documents that a request names by id: their doc indices, and the context that they give a query."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from index.candidates.base import MISSING
from index.filters.conditions import FilterNode
from index.generation.generation import Generation
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Query
from service.runtime.served_collection import ServedCollection
from service.search import repository
from service.storage.database import DatabaseReader


def doc_indices_of(
    database: DatabaseReader,
    state: ServedCollection,
    generation: Generation,
    ids: Sequence[str],
    forced: FilterNode | None = None,
) -> dict[str, int]:
    """Return id -> doc index of the documents among these ids that the generation has, and that pass `forced`."""
    found = stored_doc_indices(database, state, generation, ids, forced)
    return {id: at for id, at in found.items() if at != MISSING}


def stored_doc_indices(
    database: DatabaseReader,
    state: ServedCollection,
    generation: Generation,
    ids: Sequence[str],
    forced: FilterNode | None = None,
) -> dict[str, int]:
    """Return id -> doc index of the stored documents among these ids; MISSING where the generation is older.

    forced: the filter of the caller's key. Documents that do not pass it are as if they were not stored.
    """
    if forced is None:
        rows = repository.rows_of(database, state.id, ids)
    else:
        rows = repository.passing_rows_of(database, state.id, ids, forced)
    found = generation.doc_indices(np.asarray(list(rows.values()), np.int64))
    return dict(zip(rows, found.tolist(), strict=True))


def in_context(
    database: DatabaseReader,
    state: ServedCollection,
    generation: Generation,
    query: Query,
    head: AttentionHead,
    ids: Sequence[str] | None,
    forced: FilterNode | None = None,
) -> Query:
    """Return the query with the documents of its session. Ids of documents that do not exist are ignored, and so
    are documents that do not pass `forced`, the filter of the caller's key.

    Nothing is looked up without ids, or for a model whose `context` is 0.
    """
    if not ids or not head.context:
        return query
    found = doc_indices_of(database, state, generation, ids, forced)
    return replace(query, context=np.unique(np.asarray(list(found.values()), np.int64)))
