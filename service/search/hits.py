"""Makes the hits of a page: stored fields, highlights, and explanations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from index.generation.generation import Generation
from index.ranking.explanation import best_passage, explain_keys, explain_parts
from index.ranking.exploration import Exploration
from index.ranking.retrieval import Query, read_query
from index.ranking.search import Ranking
from index.ranking.word_scores import runs_of_terms, terms_alone
from index.records import Ints, KeyKind
from index.words.query_syntax import ParsedQuery
from index.words.query_words import Field
from service.http.access import Caller
from service.http.problems import Problem
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection, Serving
from service.search import repository
from service.search.highlights import Highlighter
from service.search.past_queries import past_queries
from service.search.schemas import SearchIn
from service.search.snippets import snippet

highlighter_for = lru_cache(32)(Highlighter)


OWN_FIELDS = ("title", "text", "url", "metadata")
"""Fields of a hit that `fields` selects; other names select metadata fields."""
MAX_CHARACTERS = 32_000_000
"""Characters of the texts in an answer, at most."""
PART = 32
"""Hits whose texts are read at once."""
BEST = 3
"""Hits whose sentences may be the answer."""


@dataclass(frozen=True)
class Searched:
    """A ranking, with the query, the generation and the model that produced it.

    page (n,): the 0-based ranks of the hits of the page, in the order in which they are shown. best (n,): the ranks of
    the first BEST hits, whatever the page. facets, matching: None unless they are requested. everything: whether the
    query has no words, so that all documents are hits. pinned_by: doc index of each pinned document -> id of the rule
    that pins it. exploration: the drawn order of all hits, None if the search is not explored; `page` has this order
    already.
    caller: past queries are explained to callers that may read the log.
    """

    generation: Generation
    serving: Serving
    query: Query
    ranking: Ranking
    page: Ints
    best: Ints
    has_more: bool
    parsed: ParsedQuery
    corrections: Sequence[tuple[str, str]]
    everything: bool
    facets: dict[str, Any] | None
    matching: int | None
    pinned_by: Mapping[int, str]
    exploration: Exploration | None
    caller: Caller


def page_of_hits(
    runtime: SearchRuntime, state: ServedCollection, request: SearchIn, searched: Searched
) -> list[dict[str, Any]]:
    """Return the hits of a page, without documents that were deleted since the generation was published.

    Raises Problem 422 if their texts have more than MAX_CHARACTERS.
    """
    return list(hits_by_place(runtime, state, request, searched, is_bounded=True).values())


def hits_by_place(
    runtime: SearchRuntime,
    state: ServedCollection,
    request: SearchIn,
    searched: Searched,
    as_json: Callable[[str], Any] = orjson.Fragment,
    is_bounded: bool = False,
) -> dict[int, dict[str, Any]]:
    """Return the hits as `page_of_hits` does, by their 0-based places in the page.

    as_json: what stands for the stored JSON of all metadata of a hit. is_bounded: whether their texts are, as above.
    Texts are read in parts: those that the hits do not have are soon forgotten.
    """
    ranking = searched.ranking
    rows = [int(row) for row in searched.generation.rows[ranking.doc_indices[searched.page]]]
    marker = highlighter_for(state.settings.language).for_terms(*_highlighted(searched))
    hits: dict[int, dict[str, Any]] = {}
    characters = 0
    for place, (rank, row) in enumerate(zip(searched.page.tolist(), rows, strict=True)):
        if place % PART == 0:
            stored = repository.stored_fields(runtime.database, rows[place : place + PART])
        if row not in stored:
            continue
        metadata = stored[row][-1]
        position = request.offset + 1 + place
        hit = stored_hit(stored[row], position, float(ranking.weights[rank]), float(ranking.logits[rank]))
        hit["metadata"] = as_json(metadata)
        rule = searched.pinned_by.get(int(ranking.doc_indices[rank]))
        if rule is not None:
            hit["pinned"] = True
        shown = hit if request.fields is None else with_fields(hit, metadata, request.fields)
        marked = ("title", "text") if request.snippet else [name for name in ("title", "text") if name in shown]
        marks = marker({name: hit[name] for name in marked})
        shown["highlights"] = [one for one in marks if one["field"] in shown]
        if request.snippet:
            spans = [(one["start"], one["end"]) for one in marks if one["field"] == "text"]
            best = best_passage(searched.generation, searched.serving.head, ranking, rank)
            near = marker.near_passage(hit["text"], spans, best, request.snippet_length)
            shown["snippet"] = snippet(hit["text"], near, best, request.snippet_length)
        if request.explain:
            shown["explain"] = _explanation(runtime, state, searched, rank)
            if rule is not None:
                shown["explain"]["rule"] = rule
        hits[place] = shown
        characters += len(shown.get("text") or "")
        if is_bounded:
            require_room(characters, len(hits))
    return hits


def require_room(characters: int, count: int) -> None:
    """Require that the texts of so many hits do not have too many characters. Raises Problem 422."""
    if characters > MAX_CHARACTERS:
        too_many = f"the texts of {count} hits have more than {MAX_CHARACTERS:,} characters"
        detail = f"{too_many}; ask for fewer hits, or for other fields"
        raise Problem(422, "answer_too_large", detail, [{"pointer": "/limit", "detail": detail}])


def stored_hit(stored: Sequence[Any], position: int, score: float, logit: float) -> dict[str, Any]:
    """Return a hit with all fields of a document, as `repository.stored_fields` returns them."""
    _, id, title, text, url, metadata = stored
    return {
        "id": id,
        "position": position,
        "score": score,
        "logit": logit,
        "title": title,
        "text": text,
        "url": url,
        "metadata": orjson.Fragment(metadata),
    }


def with_fields(hit: dict[str, Any], metadata: str, fields: Sequence[str]) -> dict[str, Any]:
    """Return a hit with these fields only; names that are not fields of a hit select metadata fields."""
    names = set(fields)
    shown = {name: value for name, value in hit.items() if name not in OWN_FIELDS or name in names}
    of_metadata = names.difference(OWN_FIELDS)
    if of_metadata and "metadata" not in names:
        values = orjson.loads(metadata)
        shown["metadata"] = {name: values[name] for name in fields if name in of_metadata and name in values}
    return shown


def _highlighted(searched: Searched) -> tuple[dict[str, frozenset[str]], Sequence[tuple[str, ...]]]:
    """Return the terms of the index that are marked in the hits, by field, and those that are marked only as a run."""
    if searched.everything:
        return dict.fromkeys(Field, frozenset()), ()
    reading = read_query(searched.generation, searched.query)
    terms = frozenset(term for term, _ in terms_alone(reading))
    runs = runs_of_terms(reading)
    if not reading.corrected_terms:
        return dict.fromkeys(Field, terms), runs
    corrected = terms.union(term for term, _ in reading.corrected_terms)
    return {field: terms if field in reading.words.uncorrected_fields else corrected for field in Field}, runs


def _explanation(runtime: SearchRuntime, state: ServedCollection, searched: Searched, rank: int) -> dict[str, Any]:
    keys = explain_keys(searched.generation, searched.serving.head, searched.query, searched.ranking, rank)
    if not searched.caller.reads_log:
        keys = [key for key in keys if key.kind is not KeyKind.QUERY]
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
