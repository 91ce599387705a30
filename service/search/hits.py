"""Makes the hits of a page: stored fields, highlights, and explanations."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from index.generation.generation import Generation
from index.ranking.explanation import explain_keys, explain_parts
from index.ranking.retrieval import Query
from index.ranking.search import Ranking
from index.records import KeyKind
from service.runtime.collection import CollectionState, Serving
from service.runtime.runtime import Runtime
from service.search import repository
from service.search.highlights import Highlighter
from service.search.past_queries import past_queries
from service.search.schemas import SearchIn

highlighter_for = lru_cache(32)(Highlighter)


@dataclass(frozen=True)
class Searched:
    """A ranking, with the query, the generation and the model that produced it."""

    generation: Generation
    serving: Serving
    query: Query
    ranking: Ranking


def page_of_hits(
    runtime: Runtime, state: CollectionState, request: SearchIn, searched: Searched, page: slice
) -> list[dict[str, Any]]:
    """Return the hits of a page, without documents that were deleted since the generation was published."""
    ranking = searched.ranking
    rows = [int(row) for row in searched.generation.rows[ranking.doc_indices[page]]]
    stored = repository.stored_fields(runtime.database, rows)
    highlight = highlighter_for(state.settings.language).for_query(request.q)
    hits: list[dict[str, Any]] = []
    for rank, row in enumerate(rows, request.offset):
        if row not in stored:
            continue
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
            hit["explain"] = _explanation(runtime, state, searched, rank)
        hits.append(hit)
    return hits


def _explanation(runtime: Runtime, state: CollectionState, searched: Searched, rank: int) -> dict[str, Any]:
    keys = explain_keys(searched.generation, searched.serving.head, searched.query, searched.ranking, rank)
    row = int(searched.generation.rows[searched.ranking.doc_indices[rank]])
    past = past_queries(runtime, state, row, [key for key in keys if key.query_key is not None])
    shown = []
    for key in keys:
        fields: dict[str, Any] = {"kind": key.kind.label, "cosine": key.score, "share": key.share}
        if key.kind is KeyKind.QUERY:
            fields |= past[key.query_key or ""]
        else:
            fields |= {"start": key.start, "end": key.end}
        shown.append(fields)
    return {"parts": explain_parts(searched.ranking, rank), "keys": shown}
