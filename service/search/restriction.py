"""Restricts a search to the documents that pass its filter and its operators."""

from typing import Any

import numpy as np

from index.filters.conditions import FilterNode, In
from index.filters.parser import parse_filter, value_of
from index.generation.generation import Generation
from index.records import Mask
from index.words.query_syntax import ParsedQuery
from index.words.term_matching import documents_with_phrase
from index.words.visible_words import VisibleWords
from index.words.word_search import Reading
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection
from service.search.kept_filters import passing_all


def allowed_documents(
    runtime: SearchRuntime,
    state: ServedCollection,
    generation: Generation,
    condition: str | None,
    parsed: ParsedQuery,
    forced: FilterNode | None = None,
) -> Mask | None:
    """Return (N,) bool by doc index, True for documents that pass the filter and the operators; None for all.

    forced: the filter of the caller's key, which every document must pass too.
    """
    nodes = conditions_of(state, condition, parsed, forced)
    masks: list[Mask] = []
    masks += passing_all(runtime.database, state, generation, nodes)
    masks += _with_phrases(generation, parsed)
    return np.logical_and.reduce(masks) if masks else None


def having_all_words(generation: Generation, reading: Reading, allowed: Mask | None) -> Mask:
    """Return (N,) bool: the allowed documents that have every word of a query, or what stands for it."""
    found = generation.documents_with_all(reading.words, reading.overlaps)
    return found if allowed is None else found & allowed


def visible_words(
    runtime: SearchRuntime, state: ServedCollection, generation: Generation, condition: FilterNode
) -> VisibleWords:
    """Return the words of the documents that a key with a filter may find: no other word corrects or completes."""
    passing = passing_all(runtime.database, state, generation, [condition])
    return generation.visible_words(np.logical_and.reduce(passing))


def conditions_of(
    state: ServedCollection, condition: str | None, parsed: ParsedQuery, forced: FilterNode | None = None
) -> list[FilterNode]:
    """Return the conditions that every document must pass. Raises FilterSyntax."""
    nodes: list[Any] = [] if forced is None else [forced]
    if condition and condition.strip():
        nodes.append(parse_filter(condition, state.settings.filterable))
    return nodes + [In(field, (value_of(value),)) for field, value in parsed.conditions]


def _with_phrases(generation: Generation, parsed: ParsedQuery) -> list[Mask]:
    """Return a mask (N,) for each phrase and each excluded word or phrase that has words."""
    columns = generation.columns
    masks: list[Mask] = []
    for texts, kept in ((parsed.phrases, True), (parsed.excluded, False)):
        for text in texts:
            phrase = generation.words.phrase(text)
            if phrase:
                found = documents_with_phrase(columns.tokens, columns.first_token, columns.title_words, phrase)
                masks.append(found == kept)
    return masks
