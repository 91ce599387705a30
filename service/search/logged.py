"""Logged searches: the impression of a search, and how it is shown."""

from typing import Any

from index.learning.examples import expected_examinations
from index.memory.click_worth import ASSUMED_CURVE
from index.memory.query_key import as_query_key
from service.http.problems import not_found
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.search import repository
from service.search.hits import Searched
from service.search.schemas import SearchIn
from service.storage.database import now

SHOWN = ("id", "position", "logit", "score", "pinned")
"""Fields of a hit that its impression keeps. Learning leaves pinned hits out: the ranker did not place them."""


def impression(state: CollectionState, request: SearchIn, searched: Searched, body: dict[str, Any]) -> dict[str, Any]:
    """Return the stored record of a search with this answer."""
    selecting = {"limit", "offset", "filter", "mode", "candidates", *(["context"] if request.context else [])}
    shown = [{name: hit[name] for name in SHOWN if name in hit} for hit in body["hits"]]
    return {
        "query_id": body["query_id"],
        "collection_id": state.id,
        "text": request.q,
        "query_key": as_query_key(request.q),
        "client_id": request.client_id,
        "session_id": request.session_id,
        "request": request.model_dump(include=selecting),
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
