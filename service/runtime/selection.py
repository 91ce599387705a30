"""The documents that a filter selects: as a mask for a search, as ids for a deletion."""

import numpy as np

from index.filters.parser import FilterNode
from index.generation.generation import Generation
from index.records import Mask
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.runtime.selection_repository import filtered_ids, filtered_rows


def matching_mask(runtime: Runtime, state: CollectionState, generation: Generation, node: FilterNode) -> Mask:
    """Return (N,) bool over the generation's documents: True where the document passes the filter."""
    with runtime.database.read() as connection:
        rows = np.fromiter(filtered_rows(connection, state.id, node), np.int64)
    doc_indices = generation.doc_indices(rows)
    mask = np.zeros(len(generation.rows), np.bool_)
    mask[doc_indices[doc_indices >= 0]] = True
    return mask


def matching_ids(runtime: Runtime, state: CollectionState, node: FilterNode) -> list[str]:
    """Return the ids of the documents that pass the filter."""
    with runtime.database.read() as connection:
        return filtered_ids(connection, state.id, node)
