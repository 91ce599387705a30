"""The path of a query: encode, candidates, attention, hits; then the impression is logged."""

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import select

from index.errors import DamagedKeys
from index.filters.parser import parse_filter
from index.generation.generation import Generation
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Mode
from index.ranking.search import Query, Ranking, explain_keys, explain_parts, search
from index.records import KeyKind
from service.http.problems import not_found
from service.runtime.collection import CollectionState, Serving
from service.runtime.loader import rebuild_index
from service.runtime.model_files import load_version
from service.runtime.query_text import normalise
from service.runtime.runtime import Runtime
from service.runtime.selection import matching_mask
from service.search.highlights import Highlighter
from service.search.past_queries import past_queries
from service.search.predictions import predictions
from service.search.schemas import SearchIn
from service.search.stopwatch import Stopwatch
from service.storage.database import new_id, now
from service.storage.tables import Alias, Model

STORED_FIELDS = "SELECT row, id, title, text, url, metadata FROM documents WHERE row IN"
highlighter_for = lru_cache(32)(Highlighter)


@dataclass(frozen=True)
class Searched:
    """One search with all that its answer is made from."""

    generation: Generation
    serving: Serving
    query: Query
    ranking: Ranking


def answer(runtime: Runtime, state: CollectionState, request: SearchIn, arrived: float | None = None) -> dict[str, Any]:
    """Return the answer of a search; its impression is on its way to the log. A damaged index is rebuilt first.

    arrived: when the request came, by `time.perf_counter`; what it waited since counts as the time that it took.
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
    searched = _search(runtime, state, request, stopwatch)
    page = slice(request.offset, request.offset + request.limit)
    hits = _hits(runtime, state, request, searched, page)
    if len(hits) < len(searched.ranking.doc_indices[page]):
        with state.lock:  # documents are being replaced or deleted: wait for the generation without them
            pass
        searched = _search(runtime, state, request, stopwatch)
        hits = _hits(runtime, state, request, searched, page)
    stopwatch.lap("fields")
    query_id = new_id()
    ranking = searched.ranking
    body = {
        "query_id": query_id,
        "hits": hits,
        "score_kind": "attention_weight",
        "attention": {
            "temperature": ranking.temperature,
            "entropy": ranking.entropy,
            "null_weight": ranking.null_weight,
            "shown_mass": float(ranking.weights[page].sum()),
            "candidates": len(ranking.doc_indices),
        },
        "page": {"limit": request.limit, "offset": request.offset, "has_more": len(ranking.doc_indices) > page.stop},
        "model": {"version": searched.serving.version, "alias": _alias(request)},
        "generation": searched.generation.watermark,
        "degraded": list(searched.serving.degraded),
        **_predicted(runtime, request, searched),
        **stopwatch.told(),
    }
    if request.log:
        runtime.impressions.add(_impression(state, request, searched, body))
    return body


def _search(runtime: Runtime, state: CollectionState, request: SearchIn, stopwatch: Stopwatch) -> Searched:
    generation = state.generation
    serving = _serving(runtime, state, request)
    allowed = None
    if request.filter and request.filter.strip():
        node = parse_filter(request.filter, state.settings.filterable)
        allowed = matching_mask(runtime, state, generation, node)
    state.require_encoder(runtime.encoder)
    stopwatch.lap("filter")
    vector = runtime.query_vector(request.q)
    stopwatch.lap("encode")
    count = max(request.candidates, request.offset + request.limit + 1)
    query = Query(request.q, vector, Mode(request.mode), count, allowed)
    ranking = search(generation, serving.head, query)
    stopwatch.split(retrieve=ranking.retrieve_ms, attend=ranking.attend_ms)
    return Searched(generation, serving, query, ranking)


def _serving(runtime: Runtime, state: CollectionState, request: SearchIn) -> Serving:
    if request.model == "champion":
        return state.serving
    version: int | None = None if request.model == "challenger" else request.model
    with runtime.database.read() as connection:
        if version is None:
            version = connection.execute(
                select(Alias.version).where(Alias.collection_id == state.id, Alias.name == "challenger")
            ).scalar()
        known = connection.execute(
            select(Model.version).where(Model.collection_id == state.id, Model.version == version)
        ).scalar()
    if known is None:
        raise not_found("model")
    return Serving(known, _head(state.id, state.initial, known, runtime))


@lru_cache(16)
def _head(collection_id: int, initial: HeadConfig, version: int, runtime: Runtime) -> AttentionHead:
    return load_version(collection_id, initial, version, runtime.settings.data)


def _alias(request: SearchIn) -> str | None:
    return request.model if isinstance(request.model, str) else None


def _hits(
    runtime: Runtime, state: CollectionState, request: SearchIn, searched: Searched, page: slice
) -> list[dict[str, Any]]:
    ranking = searched.ranking
    rows = [int(row) for row in searched.generation.rows[ranking.doc_indices[page]]]
    stored = _stored(runtime, rows)
    highlight = highlighter_for(state.settings.language).of(request.q)
    hits: list[dict[str, Any]] = []
    for rank, row in enumerate(rows, request.offset):
        if row not in stored:
            continue  # deleted since this generation was published
        _, id, title, text, url, metadata = stored[row]
        hit = {
            "id": id,
            "position": rank + 1,
            "score": float(ranking.weights[rank]),
            "logit": float(ranking.logits[rank]),
            "title": title,
            "text": text,
            "url": url,
            "metadata": orjson.Fragment(metadata),
            "highlights": highlight({"title": title, "text": text}),
        }
        if request.explain:
            hit["explain"] = _explain(runtime, state, searched, rank)
        hits.append(hit)
    return hits


def _predicted(runtime: Runtime, request: SearchIn, searched: Searched) -> dict[str, Any]:
    if not request.predict:
        return {}
    return {"predictions": predictions(runtime, searched.generation, searched.ranking, request.predict)}


def _stored(runtime: Runtime, rows: list[int]) -> dict[int, tuple[Any, ...]]:
    """Return row -> (row, id, title, text, url, metadata as JSON text)."""
    return {row[0]: row for row in runtime.database.fetch(f"{STORED_FIELDS} ({','.join('?' * len(rows))})", rows)}


def _explain(runtime: Runtime, state: CollectionState, searched: Searched, rank: int) -> dict[str, Any]:
    keys = explain_keys(searched.generation, searched.serving.head, searched.query, searched.ranking, rank)
    row = int(searched.generation.rows[searched.ranking.doc_indices[rank]])
    past = past_queries(runtime, state, row, [key for key in keys if key.query_key is not None])
    shown = []
    for key in keys:
        one: dict[str, Any] = {"kind": key.kind.label, "cosine": key.score, "share": key.share}
        if key.kind is KeyKind.QUERY:
            one |= past[key.query_key or ""]
        else:
            one |= {"start": key.start, "end": key.end}
        shown.append(one)
    return {"parts": explain_parts(searched.ranking, rank), "keys": shown}


def _impression(state: CollectionState, request: SearchIn, searched: Searched, body: dict[str, Any]) -> dict[str, Any]:
    shown = [{name: hit[name] for name in ("id", "position", "logit", "score")} for hit in body["hits"]]
    return {
        "query_id": body["query_id"],
        "collection_id": state.id,
        "text": request.q,
        "query_key": normalise(request.q),
        "client_id": request.client_id,
        "session_id": request.session_id,
        "request": request.model_dump(include={"limit", "offset", "filter", "mode", "candidates"}),
        "shown": shown,
        "null_weight": body["attention"]["null_weight"],
        "model_version": searched.serving.version,
        "generation": searched.generation.watermark,
        "created_at": now(),
    }
