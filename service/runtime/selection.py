"""Which documents a filter lets through: as rows for a search, as ids for a deletion."""

import numpy as np
from sqlalchemy import select

from index.filters.conditions import FilterNode
from index.generation.generation import Generation
from index.records import Mask
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.storage.filter_sql import to_sql
from service.storage.tables import Document


def matching_places(runtime: Runtime, state: CollectionState, generation: Generation, node: FilterNode) -> Mask:
    """Return (N,) bool over the generation's places: the documents that the filter lets through."""
    with runtime.database.read() as connection:
        condition = to_sql(node, Document.__table__.c.metadata)
        rows = connection.execute(select(Document.row).where(Document.collection_id == state.id, condition)).scalars()
        doc_indices = generation.doc_indices(np.fromiter(rows, np.int64))
    allowed = np.zeros(len(generation.rows), np.bool_)
    allowed[doc_indices[doc_indices >= 0]] = True
    return allowed


def matching_ids(runtime: Runtime, state: CollectionState, node: FilterNode) -> list[str]:
    """Return the ids of the documents that the filter lets through."""
    with runtime.database.read() as connection:
        condition = to_sql(node, Document.__table__.c.metadata)
        wanted = select(Document.id).where(Document.collection_id == state.id, condition)
        return list(connection.execute(wanted).scalars())
