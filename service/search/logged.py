"""Logged searches: the impression of a search, and how it is shown."""

from typing import Any

from index.learning.examples import expected_examinations
from index.memory.click_worth import ASSUMED_CURVE
from index.memory.query_key import as_query_key
from service.http.problems import not_found
from service.runtime.explored_slates import ANSWERED
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection
from service.search import repository
from service.search.exploring import exact_count
from service.search.hits import Searched
from service.search.schemas import SearchIn
from service.storage.database import now
from service.storage.tenants import shown_name

SHOWN = ("id", "position", "logit", "score", "pinned")
"""Fields of a hit that its impression keeps. Learning leaves pinned hits out: the ranker did not place them."""

SELECTING = {"limit", "offset", "filter", "mode", "candidates"}
"""Parameters of a search that its impression keeps."""
ALSO_SELECTING = {"explore", "typos", "prefix", "operators", "all_words", "distinct", "min_logit", "max_null_weight"}
"""Further parameters that the impression of a search with exploration keeps, where they are not the default."""


def impression(state: ServedCollection, request: SearchIn, searched: Searched, body: dict[str, Any]) -> dict[str, Any]:
    """Return the stored record of a search with this answer."""
    shown = [{name: hit[name] for name in SHOWN if name in hit} for hit in body["hits"]]
    wanted = request.model_dump(include=SELECTING | ({"context"} if request.context else set()))
    if "candidates" not in request.model_fields_set:
        wanted["candidates"] = searched.query.count
    if searched.caller.filter is not None:
        wanted["key_filter"] = searched.caller.filter
    if body["answered"] is False:
        wanted[ANSWERED] = False
    if request.explore:
        wanted |= request.model_dump(include=ALSO_SELECTING, exclude_defaults=True)
        _add_selection(shown, searched)
    return {
        "query_id": body["query_id"],
        "collection_id": state.id,
        "text": request.q,
        "query_key": as_query_key(request.q),
        "client_id": searched.caller.client(request.client_id),
        "session_id": searched.caller.session(request.session_id),
        "request": wanted,
        "shown": shown,
        "null_weight": body["attention"]["null_weight"],
        "model_version": searched.serving.version,
        "generation": searched.generation.watermark,
        "created_at": now(),
    }


def _add_selection(shown: list[dict[str, Any]], searched: Searched) -> None:
    """Add the selection probabilities to the shown hits of a search that was explored."""
    if searched.exploration is None:
        return
    ranks = searched.page.tolist()
    for hit in shown:
        place = hit["position"] - 1  # exploration concerns the first page only
        hit["selection_probability"] = float(searched.exploration.probabilities[place])
        if ranks[place] < exact_count(searched.ranking) and not hit.get("pinned"):
            hit["exact_rating"] = True


def show_query(runtime: SearchRuntime, state: ServedCollection, query_id: str) -> dict[str, Any]:
    """Return a logged search: the request, the hits with their propensities, and the model."""
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        row = repository.impression(connection, state.id, query_id)
    if row is None:
        raise not_found("query")
    return {
        "query_id": row.query_id,
        "q": row.text,
        "client_id": shown_name(row.client_id),
        "session_id": shown_name(row.session_id),
        "request": {name: value for name, value in row.request.items() if name != ANSWERED},
        "shown": [
            hit | {"propensity": expected_examinations({hit["position"]: 1}, ASSUMED_CURVE)} for hit in row.shown
        ],
        "null_weight": row.null_weight,
        "answered": row.request.get(ANSWERED),
        "model": {"version": row.model_version},
        "generation": row.generation,
        "created_at": row.created_at,
    }
