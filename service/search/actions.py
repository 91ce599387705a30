"""Answers a search: encode the query, find candidates, attend, make hits; then log the impression."""

import time
from typing import Any

from index.errors import DamagedKeys
from index.learning.examples import ASSUMED_CURVE, expected_examinations
from index.memory.query_key import as_query_key
from index.ranking.search import pooled_value
from index.words.query_syntax import ParsedQuery
from service.http.problems import not_found
from service.runtime.collection import CollectionState
from service.runtime.loader import rebuild_index
from service.runtime.runtime import Runtime
from service.search import repository
from service.search.finding import find
from service.search.hits import Searched, page_of_hits
from service.search.predictions import predictions
from service.search.schemas import SearchIn
from service.search.stopwatch import Stopwatch
from service.storage.database import new_id, now

SHOWN = ("id", "position", "logit", "score", "pinned")
"""Fields of a hit that its impression keeps. Learning leaves pinned hits out: the ranker did not place them."""


def answer(runtime: Runtime, state: CollectionState, request: SearchIn, arrived: float | None = None) -> dict[str, Any]:
    """Return the response body of a search, and queue its impression for the log.

    If the index is damaged, it is rebuilt and the search runs again.
    arrived: the arrival of the request, by `time.perf_counter`; the reported time includes the wait since then.
    """
    stopwatch = Stopwatch(time.perf_counter() if arrived is None else arrived)
    stopwatch.lap("queue")
    generation = state.generation
    try:
        return _answer(runtime, state, request, stopwatch)
    except DamagedKeys:
        rebuild_index(runtime.database, state, generation)
        return _answer(runtime, state, request, stopwatch)


def _answer(runtime: Runtime, state: CollectionState, request: SearchIn, stopwatch: Stopwatch) -> dict[str, Any]:
    searched = find(runtime, state, request, stopwatch)
    hits = page_of_hits(runtime, state, request, searched)
    if len(hits) < len(searched.page):
        with state.lock:  # a writer deleted documents and holds the lock until the generation without them is published
            searched = find(runtime, state, request, stopwatch)
            hits = page_of_hits(runtime, state, request, searched)
    stopwatch.lap("fields")
    ranking = searched.ranking
    body = {
        "query_id": new_id(),
        "hits": hits,
        "score_kind": "attention_weight",
        "attention": {
            "temperature": ranking.temperature,
            "entropy": ranking.entropy,
            "null_weight": ranking.null_weight,
            "shown_mass": float(ranking.weights[searched.page].sum()),
            "candidates": len(ranking.doc_indices),
        },
        "page": {"limit": request.limit, "offset": request.offset, "has_more": searched.has_more},
        "model": {"version": searched.serving.version, "alias": _alias(request)},
        "generation": searched.generation.watermark,
        "degraded": list(searched.serving.degraded),
        "corrections": [{"from": one, "to": other} for one, other in searched.corrections],
    }
    if searched.facets is not None:
        body["facets"] = searched.facets
    if request.operators:
        body["operators"] = _operators(searched.parsed)
    if request.pooled:
        body["pooled"] = pooled_value(searched.generation, ranking).tolist()
    if request.predict:
        body["predictions"] = predictions(runtime, searched.generation, ranking, request.predict)
    body |= stopwatch.report()
    if request.log and not searched.everything:
        runtime.impressions.add(_impression(state, request, searched, body))
    return body


def _operators(parsed: ParsedQuery) -> dict[str, Any]:
    conditions = [{"field": field, "value": value} for field, value in parsed.conditions]
    return {"phrases": parsed.phrases, "excluded": parsed.excluded, "conditions": conditions}


def _alias(request: SearchIn) -> str | None:
    return request.model if isinstance(request.model, str) else None


def _impression(state: CollectionState, request: SearchIn, searched: Searched, body: dict[str, Any]) -> dict[str, Any]:
    shown = [{name: hit[name] for name in SHOWN if name in hit} for hit in body["hits"]]
    return {
        "query_id": body["query_id"],
        "collection_id": state.id,
        "text": request.q,
        "query_key": as_query_key(request.q),
        "client_id": request.client_id,
        "session_id": request.session_id,
        "request": request.model_dump(include={"limit", "offset", "filter", "mode", "candidates"}),
        "shown": shown,
        "null_weight": body["attention"]["null_weight"],
        "model_version": searched.serving.version,
        "generation": searched.generation.watermark,
        "created_at": now(),
    }


def show_query(runtime: Runtime, state: CollectionState, query_id: str) -> dict[str, Any]:
    """Return a logged search: the request, the hits with their propensities, and the model."""
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        row = repository.impression(connection, state.id, query_id)
    if row is None:
        raise not_found("query")
    return {
        "query_id": row.query_id,
        "q": row.text,
        "client_id": row.client_id,
        "session_id": row.session_id,
        "request": row.request,
        "shown": [
            hit | {"propensity": expected_examinations({hit["position"]: 1}, ASSUMED_CURVE)} for hit in row.shown
        ],
        "null_weight": row.null_weight,
        "model": {"version": row.model_version},
        "generation": row.generation,
        "created_at": row.created_at,
    }
