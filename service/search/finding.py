"""Finds the hits of a search: reads the query, restricts the documents, ranks, selects and orders.

A search for `*`, or for operators alone, has no words: it returns all documents that pass, the newest first.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from index.filters.conditions import And, In
from index.filters.parser import parse_filter, value_of
from index.generation.generation import Generation
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Mode, Query, read_query
from index.ranking.search import Ranking, browse, search
from index.records import Ints, Mask
from index.words.query_reading import Reading, ReadingOptions
from index.words.query_syntax import ParsedQuery, parse_query
from index.words.term_matching import documents_with, documents_with_phrase
from service.http.problems import not_found
from service.runtime.collection import CollectionState, Serving
from service.runtime.model_files import load_version
from service.runtime.runtime import Runtime
from service.search import pinning, repository, selection
from service.search.field_columns import Columns, columns_of
from service.search.hits import Searched
from service.search.schemas import MAX_WINDOW, SearchIn
from service.search.stopwatch import Stopwatch

EVERYTHING = "*"


def find(runtime: Runtime, state: CollectionState, request: SearchIn, stopwatch: Stopwatch) -> Searched:
    """Return the hits of a search, with all that its answer reports."""
    selection.require_filterable(state, request)
    generation = state.generation
    serving = _serving(runtime, state, request)
    parsed = parse_query(request.q, state.settings.filterable) if request.operators else ParsedQuery(request.q)
    allowed = _allowed(runtime, state, generation, request.filter, parsed)
    everything = parsed.text.strip() in ("", EVERYTHING)
    state.require_encoder(runtime.encoder)
    stopwatch.lap("filter")
    query, reading = _query(runtime, generation, request, parsed.text, allowed, everything)
    pins = pinning.NONE
    if reading is not None:
        query, pins = pinning.apply_rules(runtime.database, state, generation, query, reading.text)
    if request.sort:
        pins = pinning.NONE
    stopwatch.lap("encode")
    columns = None
    if request.facets or request.sort or request.distinct:
        columns = columns_of(runtime.database, state, int(generation.rows[-1]) if len(generation.rows) else -1)
    matching = None
    if request.facets or request.sort:
        matching = selection.matching_documents(generation, reading, query.allowed)
    wanted = _sorted(generation, request, columns, matching)
    if everything:
        ranking = browse(generation, serving.head, query, MAX_WINDOW, wanted)
    else:
        required = pins.doc_indices if wanted is None else wanted[: _window(request)]
        ranking = search(generation, serving.head, query, required)
    stopwatch.split(retrieve=ranking.retrieve_ms, attend=ranking.attend_ms)
    ranks = _ranks(generation, request, ranking, columns, wanted, pins)
    page = ranks[request.offset : request.offset + request.limit]
    facets = None
    if request.facets and columns is not None and matching is not None:
        facets = selection.count_facets(columns, request.facets, generation.rows[matching])
    return Searched(
        generation=generation,
        serving=serving,
        query=query,
        ranking=ranking,
        page=page,
        has_more=len(ranks) > request.offset + request.limit,
        parsed=parsed,
        corrections=() if reading is None else reading.corrections,
        everything=everything,
        facets=facets,
        pinned_by=pins.rules,
    )


def _query(
    runtime: Runtime, generation: Generation, request: SearchIn, text: str, allowed: Mask | None, everything: bool
) -> tuple[Query, Reading | None]:
    """Return the query and its reading; a query for everything has none, and is not encoded."""
    count = max(request.candidates, request.offset + request.limit + 1)
    if everything:
        return Query(EVERYTHING, np.zeros(generation.dim, np.float32), Mode(request.mode), count, allowed), None
    options = _reading_options(generation.reading, request)
    query = Query(text, np.empty(0, np.float32), Mode(request.mode), count, allowed, reading=options)
    reading = read_query(generation, query)
    vector = runtime.query_vector(reading.text)
    as_typed = reading.text == text or not len(generation.memory.rows)  # without memory its vector is not needed
    memory_vector = None if as_typed else runtime.query_vector(text)
    return replace(query, vector=vector, memory_vector=memory_vector), reading


def _reading_options(of_collection: ReadingOptions, request: SearchIn) -> ReadingOptions:
    typos = of_collection.typos if request.typos is None else request.typos
    prefix = request.prefix == "last"
    if (typos, prefix) == (of_collection.typos, of_collection.prefix):
        return of_collection
    return replace(of_collection, typos=typos, prefix=prefix)


def _window(request: SearchIn) -> int:
    return request.offset + request.limit + 1


def _sorted(generation: Generation, request: SearchIn, columns: Columns | None, matching: Mask | None) -> Ints | None:
    """Return the doc indices of all matching documents in the order of `sort`, None without it."""
    if not request.sort or columns is None or matching is None:
        return None
    doc_indices = np.flatnonzero(matching)
    ordered: Ints = doc_indices[selection.sorted_documents(columns, request.sort, generation.rows[doc_indices])]
    if request.distinct:
        values = columns.of(request.distinct, generation.rows[ordered])
        ordered = ordered[selection.first_of_each(values.first())]
    return ordered


def _ranks(
    generation: Generation,
    request: SearchIn,
    ranking: Ranking,
    columns: Columns | None,
    wanted: Ints | None,
    pins: pinning.Pins,
) -> Ints:
    """Return the 0-based ranks of the hits in the order in which they are shown.

    Thresholds do not remove pinned documents, and `distinct` keeps them before other documents with their value.
    """
    if wanted is not None:
        rank_of = {doc_index: rank for rank, doc_index in enumerate(ranking.doc_indices.tolist())}
        ranks = np.asarray([rank_of[one] for one in wanted[: _window(request)].tolist()], np.int64)
        passing = set(selection.passing_ranks(ranking, request).tolist())
        return ranks[[rank in passing for rank in ranks.tolist()]] if len(passing) < len(rank_of) else ranks
    ranks = selection.passing_ranks(ranking, request)
    if request.distinct and columns is not None:
        ranks = pinning.pinned_first(ranks, pins, ranking.doc_indices)
        values = columns.of(request.distinct, generation.rows[ranking.doc_indices[ranks]])
        ranks = ranks[selection.first_of_each(values.first())]
    return pinning.placed(ranks, pins, ranking.doc_indices)


def _allowed(
    runtime: Runtime, state: CollectionState, generation: Generation, condition: str | None, parsed: ParsedQuery
) -> Mask | None:
    """Return (N,) bool by doc index, True for documents that pass the filter and the operators; None for all."""
    nodes: list[Any] = []
    if condition and condition.strip():
        nodes.append(parse_filter(condition, state.settings.filterable))
    nodes += [In(field, (value_of(value),)) for field, value in parsed.conditions]
    masks: list[Mask] = []
    if nodes:
        with runtime.database.read() as connection:
            rows = repository.matching_rows(connection, state.id, And(tuple(nodes)))
        doc_indices = generation.doc_indices(rows)
        mask = np.zeros(len(generation.rows), np.bool_)
        mask[doc_indices[doc_indices >= 0]] = True
        masks.append(mask)
    masks += _with_phrases(generation, parsed)
    return np.logical_and.reduce(masks) if masks else None


def _with_phrases(generation: Generation, parsed: ParsedQuery) -> list[Mask]:
    """Return a mask (N,) for each phrase and excluded word that has words."""
    words, first = generation.columns.tokens, generation.columns.first_token
    masks: list[Mask] = []
    for texts, kept in ((parsed.phrases, True), (parsed.excluded, False)):
        for text in texts:
            numbers = generation.words.number(text)
            if len(numbers) == 1:
                masks.append(documents_with(words, first, numbers) == kept)
            elif len(numbers):
                masks.append(documents_with_phrase(words, first, numbers) == kept)
    return masks


def _serving(runtime: Runtime, state: CollectionState, request: SearchIn) -> Serving:
    if request.model == "champion":
        return state.serving
    version: int | None = None if request.model == "challenger" else request.model
    with runtime.database.read() as connection:
        if version is None:
            version = repository.challenger_version(connection, state.id)
        if version is None or not repository.has_model(connection, state.id, version):
            raise not_found("model")
    return Serving(version, _head(state.id, state.initial, version, runtime))


@lru_cache(16)
def _head(collection_id: int, initial: HeadConfig, version: int, runtime: Runtime) -> AttentionHead:
    return load_version(collection_id, initial, version, runtime.settings.data)
