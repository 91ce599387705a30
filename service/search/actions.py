"""Answers a search: read and encode the query, find candidates, attend, make hits; then log the impression.

A search for `*`, or for operators alone, has no words: it returns all documents that pass, the newest first.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from index.generation.generation import Generation
from index.ranking.retrieval import UNFINISHED_CANDIDATES, Mode, Query, read_query, with_vectors
from index.ranking.search import Ranking, browse, has_all_words, pooled_value, search
from index.records import Ints, Mask
from index.words.query_syntax import ParsedQuery, parse_query
from index.words.reading_options import ReadingOptions, folded
from index.words.word_search import Reading
from service.http.access import OWNER, Caller
from service.runtime.candidate_steps import stepped
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection
from service.search import exploring, pinning, selection
from service.search.closest_sentence import closest_sentence
from service.search.hits import BEST, Searched, page_of_hits
from service.search.logged import impression
from service.search.matrix import MATRIX, matrix
from service.search.named_documents import in_context
from service.search.passing import Ranked
from service.search.pending_vectors import VECTORS_PENDING, awaits_vectors
from service.search.predictions import predictions
from service.search.restriction import allowed_documents, having_all_words, visible_words
from service.search.rounds import find
from service.search.schemas import MAX_WINDOW, SearchIn
from service.search.serving import serving_model
from service.search.stopwatch import Stopwatch
from service.storage.database import new_id

EVERYTHING = "*"
UNANSWERED = 0.5
"""The null weight from which a calibrated model says that no document answers the query."""


def answer(
    runtime: SearchRuntime,
    state: ServedCollection,
    request: SearchIn,
    arrived: float | None = None,
    caller: Caller = OWNER,
) -> dict[str, Any]:
    """Return the response body of a search, and queue its impression for the log.

    If the index is damaged, it is rebuilt and the search runs again.
    arrived: the arrival of the request, by `time.perf_counter`; the reported time includes the wait since then.
    caller: the filter of its key comes before all other parts of the search.
    """
    return answered(runtime, state, request, Stopwatch.since(arrived), caller).body


@dataclass(frozen=True)
class Answered:
    """The response body of a search, what it is made from, and its impression if it is logged."""

    body: dict[str, Any]
    searched: Searched
    impression: dict[str, Any] | None


def answered(
    runtime: SearchRuntime, state: ServedCollection, request: SearchIn, stopwatch: Stopwatch, caller: Caller
) -> Answered:
    """Return the answer to a search with what it is made from, as `answer` does."""
    return state.with_sound_index(lambda: _answered(runtime, state, request, stopwatch, caller))


def _answered(
    runtime: SearchRuntime, state: ServedCollection, request: SearchIn, stopwatch: Stopwatch, caller: Caller
) -> Answered:
    searched = _find(runtime, state, request, stopwatch, caller)
    hits = page_of_hits(runtime, state, request, searched)
    if len(hits) < len(searched.page):
        with state.changes_after(searched.generation):  # a writer deleted documents, and publishes that next
            searched = _find(runtime, state, request, stopwatch, caller)
            hits = page_of_hits(runtime, state, request, searched)
    body = body_of(request, searched, hits)
    if request.pooled:
        body["pooled"] = pooled_value(searched.generation, searched.ranking).tolist()
    if request.predict:
        body["predictions"] = predictions(runtime, searched.generation, searched.ranking, request.predict)
    stopwatch.lap("fields")
    if request.explain == MATRIX:
        body["matrix"] = matrix(runtime, request, searched, hits)
        stopwatch.lap("matrix")
    if request.answer:
        unanswered = searched.everything or body["answered"] is False
        body["answer"] = None if unanswered else closest_sentence(runtime, searched)
        stopwatch.lap("answer")
    body |= stopwatch.report()
    body["degraded"] += state.degraded_by(searched.serving)
    query, condition = searched.query, caller.condition
    if request.mode != "words" and awaits_vectors(state, searched.generation, query.allowed, condition, query.context):
        body["degraded"].append(VECTORS_PENDING)
    logged = impression(state, request, searched, body) if request.log and not searched.everything else None
    if logged is not None:
        runtime.impressions.add(logged)
    return Answered(body, searched, logged)


def _find(
    runtime: SearchRuntime, state: ServedCollection, request: SearchIn, stopwatch: Stopwatch, caller: Caller
) -> Searched:
    """Return the ranking of a search, its page, and all that its answer reports."""
    selection.require_filterable(state, request)
    generation = state.generation
    serving = serving_model(runtime, state, request)
    parsed = parse_query(request.q, state.settings.filterable) if request.operators else ParsedQuery(request.q)
    allowed = allowed_documents(runtime, state, generation, request.filter, parsed, caller.condition)
    state.require_encoder(runtime.encoder)
    stopwatch.lap("filter")
    query, reading = _query(runtime, state, generation, request, caller, parsed, allowed)
    everything = reading is None
    if request.all_words and reading is not None:
        query = replace(query, allowed=having_all_words(generation, reading, query.allowed))
    query = in_context(runtime.database, state, generation, query, serving.head, request.context, caller.condition)
    query, pins = pinning.apply_rules(runtime.database, state, generation, query, reading, bool(request.sort))
    stopwatch.lap("encode")
    selected = selection.select(runtime.database, state, generation, request, reading, query.allowed)
    end = request.offset + request.limit

    def ranked(query: Query, kept: Ints) -> Ranked:
        def rank(required: Ints) -> Ranking:
            if everything:
                ranking = browse(generation, serving.head, query, MAX_WINDOW, selected.ordered, pins.doc_indices)
            else:
                ranking = search(generation, serving.head, query, required)
            stopwatch.split(retrieve=ranking.retrieve_ms, attend=ranking.attend_ms)
            return ranking

        return selected.ranked(rank, pins, kept)

    found = find(request, query, ranked, selected.lacks, everything)
    ranking, ranks = found.ranking, found.ranks
    exploration = None if everything else exploring.drawn(request, ranking, ranks, pins)
    ordered = ranks if exploration is None else ranks[exploration.order]
    return Searched(
        generation=generation,
        serving=serving,
        query=found.query,
        ranking=ranking,
        page=ordered[request.offset : end],
        best=ranks[:BEST],
        has_more=found.has_more,
        parsed=parsed,
        corrections=() if reading is None else reading.corrections,
        everything=everything,
        facets=selected.facets(),
        matching=selected.count(),
        pinned_by=pins.rules,
        exploration=exploration,
        caller=caller,
    )


def _query(
    runtime: SearchRuntime,
    state: ServedCollection,
    generation: Generation,
    request: SearchIn,
    caller: Caller,
    parsed: ParsedQuery,
    allowed: Mask | None,
) -> tuple[Query, Reading | None]:
    """Return the query and its reading; a query for everything has none, and is not encoded."""
    text, mode, unread = parsed.text, Mode(request.mode), np.zeros(generation.dim, np.float32)
    if text.strip() in ("", EVERYTHING):
        return Query(EVERYTHING, unread, mode, candidate_count(request), allowed), None
    options = reading_options(generation.reading, request, parsed)
    query = Query(text, unread, mode, allowed=allowed, reading=options, typed=request.q, encoded=False)
    if caller.condition is not None:
        seen = partial(visible_words, runtime, state, generation, caller.condition)
        query = replace(query, read=generation.words.of_reader(caller.filter or "", seen).read(text, options))
    reading = read_query(generation, query)
    query = replace(query, count=candidate_count(request, reading))
    if not reads_vector(state, request):
        return query, reading
    encode = partial(runtime.encoded_query, caller=caller)
    return with_vectors(query, reading, encode, bool(generation.memory.count)), reading


def candidate_count(request: SearchIn, reading: Reading | None = None) -> int:
    """Return the number of candidates by keys and by words: by default fewer while the last word is being typed.

    All pages within the candidates have the same. Pages beyond them have the least of 4, 16, 64 ... times as many that
    suffices.
    """
    end = request.offset + request.limit
    is_default = "candidates" not in request.model_fields_set
    is_unfinished = is_default and reading is not None and reading.unfinished
    return stepped(UNFINISHED_CANDIDATES if is_unfinished else request.candidates, end)


def reads_vector(state: ServedCollection, request: SearchIn) -> bool:
    """Return whether a search reads the query vector.

    A search by words reads it for rules by meaning, and to choose a passage or sentence that is shown.
    """
    return request.mode != "words" or request.snippet or request.answer or state.rules.has_near


def reading_options(of_collection: ReadingOptions, request: SearchIn, parsed: ParsedQuery) -> ReadingOptions:
    """Return how the query of a search is read in a collection that reads queries in this way.

    The words of its phrases are not corrected: documents must have them as they are.
    """
    if parsed.phrases:
        exactly = of_collection.uncorrected.union(*(folded(one).split() for one in parsed.phrases))
        of_collection = replace(of_collection, uncorrected=exactly)
    typos = of_collection.typos if request.typos is None else request.typos
    prefix = request.prefix == "last"
    if (typos, prefix) == (of_collection.typos, of_collection.prefix):
        return of_collection
    return replace(of_collection, typos=typos, prefix=prefix)


def _is_null_calibrated(request: SearchIn, searched: Searched) -> bool:
    """Return whether the null weight has the evidence that it was calibrated on: of a whole, finished query."""
    whole = request.mode == "hybrid" and searched.ranking.candidates.trust == 1
    return whole and searched.serving.head.is_null_calibrated


def _is_answered(searched: Searched) -> bool:
    """Return whether a document probably answers the query. A query without words has no words that a hit may lack."""
    if searched.ranking.null_weight < UNANSWERED:
        return True
    return not searched.everything and has_all_words(
        searched.ranking, read_query(searched.generation, searched.query).words
    )


def body_of(request: SearchIn, searched: Searched, hits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the response body without what is computed from stored values, its matrices, its answer and its times."""
    ranking, null_calibrated = searched.ranking, _is_null_calibrated(request, searched)
    body = {
        "query_id": new_id(),
        "hits": hits,
        "score_kind": "attention_weight",
        "attention": {
            "temperature": ranking.temperature,
            "entropy": ranking.entropy,
            "null_weight": ranking.null_weight,
            "null_calibrated": null_calibrated,
            "shown_mass": float(ranking.weights[searched.page].sum()),
            "candidates": len(ranking.doc_indices),
        },
        "answered": _is_answered(searched) if null_calibrated else None,
        "page": {"limit": request.limit, "offset": request.offset, "has_more": searched.has_more},
        "model": {
            "version": searched.serving.version,
            "alias": request.model if isinstance(request.model, str) else None,
        },
        "generation": searched.generation.watermark,
        "degraded": [],
        "corrections": [{"from": one, "to": other} for one, other in searched.corrections],
    }
    if searched.everything:
        body["everything"] = True
    if request.explore:
        body["explored"] = searched.exploration is not None and searched.exploration.sampled
    if searched.matching is not None:
        body["matching"] = searched.matching
    if searched.facets is not None:
        body["facets"] = searched.facets
    if request.operators:
        body["operators"] = _operators(searched.parsed)
    return body


def _operators(parsed: ParsedQuery) -> dict[str, Any]:
    conditions = [{"field": field, "value": value} for field, value in parsed.conditions]
    return {"phrases": parsed.phrases, "excluded": parsed.excluded, "conditions": conditions}
