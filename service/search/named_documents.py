"""Documents that a request names by id: their doc indices, and the context that they give a query."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from index.candidates.base import MISSING
from index.generation.generation import Generation
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Query
from service.runtime.collection import CollectionState
from service.search import repository
from service.storage.database import Database


def doc_indices_of(
    database: Database, state: CollectionState, generation: Generation, ids: Sequence[str]
) -> dict[str, int]:
    """Return id -> doc index of the documents among these ids that the generation has."""
    return {id: at for id, at in stored_doc_indices(database, state, generation, ids).items() if at != MISSING}


def stored_doc_indices(
    database: Database, state: CollectionState, generation: Generation, ids: Sequence[str]
) -> dict[str, int]:
    """Return id -> doc index of the stored documents among these ids; MISSING where the generation is older."""
    rows = repository.rows_of(database, state.id, ids)
    found = generation.doc_indices(np.asarray(list(rows.values()), np.int64))
    return dict(zip(rows, found.tolist(), strict=True))


def in_context(
    database: Database,
    state: CollectionState,
    generation: Generation,
    query: Query,
    head: AttentionHead,
    ids: Sequence[str] | None,
) -> Query:
    """Return the query with the documents of its session. Ids of documents that do not exist are ignored.

    Nothing is looked up without ids, or for a model whose `context` is 0.
    """
    if not ids or not head.context:
        return query
    found = doc_indices_of(database, state, generation, ids)
    return replace(query, context=np.unique(np.asarray(list(found.values()), np.int64)))
