"""Answers a request for recommendations: find the documents, attend to the liked documents, make hits.

Nothing is logged: an impression has a query, and learning must not read a liked document as a query.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from index.candidates.base import MISSING
from index.filters.conditions import FilterNode
from index.generation.generation import Generation
from index.ranking.recommendation import PARTS, Taste, explain_taste, recommend
from index.ranking.search import Ranked
from index.records import Ints
from index.words.query_syntax import ParsedQuery
from service.http.problems import Problem
from service.recommend.schemas import MAX_WINDOW, RecommendIn
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection, Serving
from service.search import repository
from service.search.hits import PART, require_room, stored_hit, with_fields
from service.search.named_documents import stored_doc_indices
from service.search.pending_vectors import VECTORS_PENDING, awaits_vectors
from service.search.restriction import allowed_documents
from service.search.stopwatch import Stopwatch
from service.storage.database import new_id

CANDIDATES = 200
"""Number of candidates of the pages that end before it; all later pages have MOST_CANDIDATES."""
MOST_CANDIDATES = MAX_WINDOW + 1
WHOLE = ParsedQuery("*")
"""The query that restricts nothing."""


@dataclass(frozen=True)
class Recommended:
    """A recommendation with its state. ids: doc index -> id, of the liked and disliked documents."""

    generation: Generation
    serving: Serving
    taste: Taste
    ids: dict[int, str]
    recommendation: Ranked


class _Outdated(Exception):
    """A document of the request is stored and not in the generation, or a document of the page is deleted."""


def answer(
    runtime: SearchRuntime,
    state: ServedCollection,
    request: RecommendIn,
    arrived: float,
    forced: FilterNode | None = None,
) -> dict[str, Any]:
    """Return the response body. arrived: the arrival of the request, by `time.perf_counter`. forced: the filter of the
    caller's key.

    Raises Problem 404 for an unknown document, 422 for a document that is both liked and disliked. If the index is
    damaged, it is rebuilt and the recommendation is computed again.
    """
    stopwatch = Stopwatch.since(arrived)
    _require_one_opinion(request)
    return state.with_sound_index(lambda: _current(runtime, state, request, stopwatch, forced))


def _current(
    runtime: SearchRuntime,
    state: ServedCollection,
    request: RecommendIn,
    stopwatch: Stopwatch,
    forced: FilterNode | None,
) -> dict[str, Any]:
    """Return the response body. Where a writer changed a document meanwhile, wait for its generation and try again."""
    try:
        return _answer(runtime, state, request, stopwatch, forced)
    except _Outdated:
        with state.complete():
            return _answer(runtime, state, request, stopwatch, forced, is_complete=True)


def _answer(
    runtime: SearchRuntime,
    state: ServedCollection,
    request: RecommendIn,
    stopwatch: Stopwatch,
    forced: FilterNode | None,
    is_complete: bool = False,
) -> dict[str, Any]:
    generation, serving = state.generation, state.serving
    named = [*request.like, *request.dislike]
    doc_index_of = stored_doc_indices(runtime.database, state, generation, named, forced)
    if any(id not in doc_index_of for id in named):  # also no later generation has it
        raise _unknown_documents(request, doc_index_of)
    if MISSING in doc_index_of.values():
        raise _unknown_documents(request, _searchable(doc_index_of)) if is_complete else _Outdated
    taste = Taste(*(_distinct(doc_index_of[id] for id in ids) for ids in (request.like, request.dislike)))
    allowed = allowed_documents(runtime, state, generation, request.filter, WHOLE, forced)
    stopwatch.lap("filter")
    window = request.offset + request.limit
    count = CANDIDATES if window < CANDIDATES else MOST_CANDIDATES  # one more than pages need: is there a next one?
    found = recommend(generation, serving.head, taste, count, allowed)
    stopwatch.lap("attend")
    ids = {doc_index: id for id, doc_index in doc_index_of.items()}
    recommended = Recommended(generation, serving, taste, ids, found)
    hits = _hits(runtime, request, recommended)
    if hits is None and not is_complete:
        raise _Outdated
    stopwatch.lap("fields")
    body = _body(request, recommended, hits or []) | stopwatch.report()
    body["degraded"] += state.degraded_by(serving)
    if awaits_vectors(state, generation, allowed, forced, _distinct(doc_index_of.values())):
        body["degraded"].append(VECTORS_PENDING)
    return body


def _require_one_opinion(request: RecommendIn) -> None:
    """Raise Problem 422 for a document that is both liked and disliked."""
    detail = "the document is also in like"
    both = [at for at, id in enumerate(request.dislike) if id in set(request.like)]
    if both:
        errors = [{"pointer": f"/dislike/{at}", "detail": detail} for at in both]
        raise Problem(422, "invalid_request", "a document cannot be both liked and disliked", errors)


def _distinct(doc_indices: Any) -> Ints:
    return np.unique(np.asarray(list(doc_indices), np.int64))


def _searchable(doc_index_of: dict[str, int]) -> dict[str, int]:
    return {id: doc_index for id, doc_index in doc_index_of.items() if doc_index != MISSING}


def _unknown_documents(request: RecommendIn, known: dict[str, int]) -> Problem:
    """Return the problem 404 with the position of every document that does not exist."""
    detail = "there is no searchable document with this id"
    errors = [
        {"pointer": f"/{name}/{at}", "detail": detail}
        for name, ids in (("like", request.like), ("dislike", request.dislike))
        for at, id in enumerate(ids)
        if id not in known
    ]
    return Problem(404, "document_not_found", f"{len(errors)} of the documents do not exist", errors)


def _hits(runtime: SearchRuntime, request: RecommendIn, recommended: Recommended) -> list[dict[str, Any]] | None:
    """Return the hits of the page, None if a document was deleted since the generation was published."""
    found = recommended.recommendation
    page = slice(request.offset, request.offset + request.limit)
    rows = recommended.generation.rows[found.doc_indices[page]].tolist()
    hits: list[dict[str, Any]] = []
    characters = 0
    for at, row in enumerate(rows):
        if at % PART == 0:
            stored = repository.stored_fields(runtime.database, rows[at : at + PART])
        if row not in stored:
            return None
        rank = request.offset + at
        hit = stored_hit(stored[row], rank + 1, float(found.weights[rank]), float(found.logits[rank]))
        if request.fields is not None:
            hit = with_fields(hit, stored[row][-1], request.fields)
        hits.append(hit | ({"explain": _explanation(recommended, rank)} if request.explain else {}))
        characters += len(hit.get("text") or "")
        require_room(characters, len(hits))
    return hits


def _explanation(recommended: Recommended, rank: int) -> dict[str, Any]:
    found = recommended.recommendation
    taste = explain_taste(recommended.generation, recommended.taste, int(found.doc_indices[rank]))
    return {
        "parts": dict(zip(PARTS, found.parts[rank].tolist(), strict=True)),
        "keys": [],
        "documents": [
            {"id": recommended.ids[one.doc_index], "part": one.part, "cosine": one.cosine, "share": one.share}
            for one in taste
        ],
    }


def _body(request: RecommendIn, recommended: Recommended, hits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the response body without its times. The null slot of a model is calibrated for queries alone."""
    found = recommended.recommendation
    window = slice(request.offset, request.offset + request.limit)
    return {
        "query_id": new_id(),
        "hits": hits,
        "score_kind": "attention_weight",
        "attention": {
            "temperature": found.temperature,
            "entropy": found.entropy,
            "null_weight": found.null_weight,
            "null_calibrated": False,
            "shown_mass": float(found.weights[window].sum()),
            "candidates": len(found.doc_indices),
        },
        "answered": None,
        "page": {
            "limit": request.limit,
            "offset": request.offset,
            "has_more": len(found.doc_indices) > request.offset + request.limit,
        },
        "model": {"version": recommended.serving.version, "alias": "champion"},
        "generation": recommended.generation.watermark,
        "degraded": [],
    }
