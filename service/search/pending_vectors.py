"""Says whether an answer is less than it should be because the vectors of documents are still being made."""

from index.filters.conditions import FilterNode
from index.generation.generation import Generation
from index.records import Ints, Mask
from service.runtime.served_collection import ServedCollection

VECTORS_PENDING = "vectors_pending"
"""Some documents are searchable by words only, because their vectors are still being made."""


def awaits_vectors(
    state: ServedCollection,
    generation: Generation,
    allowed: Mask | None,
    forced: FilterNode | None,
    named: Ints | None = None,
) -> bool:
    """Return whether documents are searchable by words only, because their vectors are still being made.

    allowed (N,) bool: the documents that the request may find; None for all. forced: the filter of the caller's key.
    With it, other documents do not exist for the caller. named (n,): the doc indices of documents that the request
    names, such as its context; they count even where its own filter keeps them from being found.
    """
    if forced is None or allowed is None or not state.awaits_vectors:
        return state.awaits_vectors
    waiting = generation.found_by_words_only
    return bool((waiting & allowed).any() or (named is not None and waiting[named].any()))
