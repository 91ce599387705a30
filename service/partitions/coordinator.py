"""Answers a search whose documents are in partitions, as `service.search.actions` answers it from one generation.

The coordinator reads and encodes the query, ranks what the partitions find, and puts the page together. Documents are
named by rows. It has no documents itself; models, settings, rules and keys are those of its copy of the database.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from index.partitions.parted import PartedDocuments
from index.ranking.heatmaps import WordsByKeys
from index.ranking.retrieval import Mode, Query, with_vectors
from index.ranking.search import Ranking, browse_documents, rank, with_required
from index.records import Floats, Ints
from index.words.query_syntax import ParsedQuery, parse_query
from index.words.word_search import Reading
from service.http.access import OWNER, Caller
from service.partitions.calls import Calls
from service.partitions.collection_words import CollectionWords, WordsOfCollections
from service.partitions.messages import Page, PartSearch, Wanted
from service.partitions.searched_parts import SearchedParts
from service.partitions.selecting import Selection, selected
from service.runtime.rules import Rule
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection, Serving
from service.search import exploring, pinning, selection
from service.search.actions import (
    EVERYTHING,
    body_of,
    candidate_count,
    reading_options,
    reads_vector,
)
from service.search.closest_sentence import closest
from service.search.hits import BEST, Searched
from service.search.logged import impression
from service.search.matrix import MATRIX, matrix
from service.search.passing import Ranked
from service.search.pending_vectors import VECTORS_PENDING
from service.search.predictions import predicted
from service.search.restriction import conditions_of
from service.search.rounds import Found, find
from service.search.schemas import MAX_WINDOW, SearchIn
from service.search.serving import serving_model
from service.search.stopwatch import Stopwatch

PARTITION_AWAY = "partition_away"
"""A partition did not answer, so its documents are missing."""


@dataclass(frozen=True)
class Prepared:
    """A search before it is ranked. reading: None for a search without words."""

    search: PartSearch
    serving: Serving
    reading: Reading | None
    words: CollectionWords
    rules: Sequence[Rule] = ()


@dataclass(frozen=True)
class RankedSearch:
    """A ranked search, with what it selected besides, and the partitions that it asked."""

    prepared: Prepared
    parts: SearchedParts
    found: Found
    chosen: Selection

    @property
    def ranking(self) -> Ranking:
        """The ranking of the page."""
        return self.found.ranking


class Coordinator:
    """Answers searches from partitions."""

    def __init__(self, runtime: SearchRuntime, calls: Calls) -> None:
        self._runtime, self._calls = runtime, calls
        self._words = WordsOfCollections(calls)

    def answer(
        self, state: ServedCollection, request: SearchIn, arrived: float | None = None, caller: Caller = OWNER
    ) -> dict[str, Any]:
        """Return the response body of a search, and queue its impression for the log, as `actions.answer` does.

        Raises Problem 503 `partitions_away`.
        """
        stopwatch = Stopwatch.since(arrived)
        selection.require_filterable(state, request)
        state.require_encoder(self._runtime.encoder)
        serving = serving_model(self._runtime, state, request)
        ranked = self._ranked(state, serving, request, caller, stopwatch)
        searched = self._searched(ranked, state)
        hits = _page(ranked, searched)
        if len(hits) < len(searched.page) and not ranked.parts.away:  # documents were replaced or deleted meanwhile
            ranked = self._ranked(state, serving, request, caller, stopwatch)
            searched = self._searched(ranked, state)
            hits = _page(ranked, searched)
        body = body_of(request, searched, hits)
        self._add_computed(body, ranked, searched)
        stopwatch.lap("fields")
        if request.explain == MATRIX:
            words_by_keys = partial(_words_by_keys, ranked)
            body["matrix"] = matrix(self._runtime, request, searched, hits, words_by_keys)
            stopwatch.lap("matrix")
        body |= stopwatch.report()
        self._add_standing(body, state, ranked)
        if request.log and not searched.everything:
            self._runtime.impressions.add(impression(state, request, searched, body))
        return body

    def _wanted(self, state: ServedCollection) -> Wanted:
        return Wanted(state.id, state.generation.watermark, self._runtime.epoch, len(self._calls))

    def _ranked(
        self, state: ServedCollection, serving: Serving, request: SearchIn, caller: Caller, stopwatch: Stopwatch
    ) -> RankedSearch:
        """Rank the search. Where the documents have changed since their words were asked for, rank it once more."""
        wanted = self._wanted(state)
        language, newest = state.settings.language, (self._runtime.epoch, state.documents_watermark)
        words = self._words.of(wanted, language, newest, request.q, caller)
        ranked = self._rank(self._prepared(state, serving, request, caller, words), stopwatch)
        found = ranked.parts.standings
        if not words.is_of([found[at].state if at in found else None for at in range(len(self._calls))]):
            words = self._words.renewed(wanted, language, request.q, caller)
            ranked = self._rank(self._prepared(state, serving, request, caller, words), stopwatch)
        return ranked

    def _rank(self, prepared: Prepared, stopwatch: Stopwatch) -> RankedSearch:
        stopwatch.lap("encode")
        request, head = prepared.search.request, prepared.serving.head
        parts = SearchedParts(self._calls, prepared.search)
        query = prepared.search.query
        if request.context and head.context and prepared.reading is not None and query.by_keys:
            rows = parts.rows_of(request.context)
            query = replace(query, context=np.unique(np.asarray(list(rows.values()), np.int64)))
        chosen = selected(parts, request, prepared.rules)
        everything = prepared.reading is None

        def ranked(query: Query, kept: Ints) -> Ranked:
            def of(required: Ints) -> Ranking:
                if everything:
                    rows = required
                    if chosen.ordered is None:
                        rows = with_required(parts.newest(MAX_WINDOW), required)
                    ranking = browse_documents(head, query, rows)
                else:
                    ranking = rank(PartedDocuments(parts), head, query, required)
                stopwatch.split(retrieve=ranking.retrieve_ms, attend=ranking.attend_ms)
                return ranking

            return chosen.ranked(of, kept)

        found = find(request, query, ranked, chosen.lacks, everything)
        return RankedSearch(prepared, parts, found, chosen.among(found.ranking))

    def _prepared(
        self,
        state: ServedCollection,
        serving: Serving,
        request: SearchIn,
        caller: Caller,
        words: CollectionWords,
    ) -> Prepared:
        """Return the search with its reading, and the rules that match it."""
        parsed = parse_query(request.q, state.settings.filterable) if request.operators else ParsedQuery(request.q)
        conditions_of(state, request.filter, parsed, caller.condition)  # an error of the filter is of the request
        wanted = self._wanted(state)
        if parsed.text.strip() in ("", EVERYTHING):
            unread = np.zeros(state.dim, np.float32)
            query = Query(EVERYTHING, unread, Mode(request.mode), candidate_count(request))
            reading = None
        else:
            query, reading = self._query(state, request, caller, parsed, words)
        rules = pinning.matching_rules(state, query, reading) if len(state.rules) else []
        pinned = max((position for rule in rules for _, position in rule.pins), default=0)
        query = replace(query, count=max(query.count, 0 if request.sort else pinned))
        hidden = tuple(id for rule in rules for id in rule.hides)
        search = PartSearch(wanted, serving.version, request, caller, parsed, query, hidden)
        return Prepared(search, serving, reading, words, rules)

    def _query(
        self, state: ServedCollection, request: SearchIn, caller: Caller, parsed: ParsedQuery, words: CollectionWords
    ) -> tuple[Query, Reading]:
        text = parsed.text
        reading, statistics = words.read(text, reading_options(state.reading, request, parsed))
        mode, unread = Mode(request.mode), np.zeros(state.dim, np.float32)
        count = candidate_count(request, reading)
        query = Query(text, unread, mode, count, typed=request.q, read=reading, statistics=statistics, encoded=False)
        if not reads_vector(state, request):
            return query, reading
        encode = partial(self._runtime.encoded_query, caller=caller)
        return with_vectors(query, reading, encode, has_memory=True), reading

    def _searched(self, ranked: RankedSearch, state: ServedCollection) -> Searched:
        """Return the ranking with its page, as the parts of an answer read it. Its documents are rows."""
        prepared, ranking, chosen = ranked.prepared, ranked.ranking, ranked.chosen
        request, everything, ranks = prepared.search.request, prepared.reading is None, ranked.found.ranks
        exploration = None if everything else exploring.drawn(request, ranking, ranks, chosen.pins)
        ordered = ranks if exploration is None else ranks[exploration.order]
        return Searched(
            generation=state.generation,
            serving=prepared.serving,
            query=replace(prepared.search.query, count=ranked.found.query.count),
            ranking=ranking,
            page=ordered[request.offset : request.offset + request.limit],
            best=ranks[:BEST],
            has_more=ranked.found.has_more,
            parsed=prepared.search.parsed,
            corrections=() if prepared.reading is None else prepared.reading.corrections,
            everything=everything,
            facets=chosen.facets,
            matching=chosen.matching,
            pinned_by=chosen.pins.rules,
            exploration=exploration,
            caller=prepared.search.caller,
        )

    def _add_computed(self, body: dict[str, Any], ranked: RankedSearch, searched: Searched) -> None:
        """Add what is computed from values, metadata and sentences of the candidates."""
        request, ranking, parts = ranked.prepared.search.request, ranked.ranking, ranked.parts
        rows = ranking.doc_indices
        if request.pooled:
            body["pooled"] = np.einsum("n,nv->v", ranking.weights, parts.values_of(rows)).tolist()
        if request.predict:
            metadata = parts.metadata(rows, request.predict)
            body["predictions"] = predicted(ranking, rows.tolist(), metadata, request.predict)
        if request.answer:
            unanswered = searched.everything or body["answered"] is False
            body["answer"] = None if unanswered else self._sentence(ranked, searched)

    def _sentence(self, ranked: RankedSearch, searched: Searched) -> dict[str, Any] | None:
        found = ranked.parts.sentences(_page_of(ranked, searched.best))
        rows = ranked.ranking.doc_indices[searched.best].tolist()
        places = zip(searched.best.tolist(), rows, strict=True)
        spans = [replace(span, rank=place) for place, row in places for span in found.get(row, ())]
        return closest(self._runtime, searched, spans)

    def _add_standing(self, body: dict[str, Any], state: ServedCollection, ranked: RankedSearch) -> None:
        """Say why the answer is less than it should be, and which share of the documents was not asked."""
        request, parts = ranked.prepared.search.request, ranked.parts
        of_parts = [reason for one in parts.standings.values() for reason in one.degraded]
        reasons = dict.fromkeys([*state.degraded_by(ranked.prepared.serving), *of_parts])
        if any(one.awaits_vectors for one in parts.standings.values()) and request.mode != "words":
            reasons[VECTORS_PENDING] = None
        words = ranked.prepared.words
        if away := parts.away | words.missing:
            reasons[PARTITION_AWAY] = None
            body["missing_share"] = _share(away, words.documents)
            self._words.forget(state.id)
        body["degraded"] = list(reasons)


def _share(away: set[int], documents: Sequence[int | None]) -> float:
    """Return the share of the documents that are in these partitions; those of an unknown number have the mean."""
    known = [count for count in documents if count is not None]
    mean = sum(known) / len(known) if sum(known) else 1.0
    counts = [mean if count is None else count for count in documents]
    return sum(counts[number] for number in away) / (sum(counts) or 1)


def _page_of(ranked: RankedSearch, ranks: Ints) -> Page:
    """Return the documents at these 0-based ranks, as the partitions read them."""
    ranking = ranked.ranking
    rows = ranking.doc_indices[ranks]
    rules = {row: rule for row, rule in ranked.chosen.pins.rules.items() if row in set(rows.tolist())}
    return Page(ranking.asked, rows, ranking.logits[ranks], ranking.weights[ranks], ranking.parts[ranks], rules)


def _page(ranked: RankedSearch, searched: Searched) -> list[dict[str, Any]]:
    """Return the hits of the page, without documents that were deleted meanwhile."""
    found = ranked.parts.hits(_page_of(ranked, searched.page))
    first = ranked.prepared.search.request.offset + 1
    rows = ranked.ranking.doc_indices[searched.page].tolist()
    return [found[row] | {"position": position} for position, row in enumerate(rows, first) if row in found]


def _words_by_keys(ranked: RankedSearch, ranks: Sequence[int], without: Floats, each: int) -> WordsByKeys:
    """Return the words by keys of the hits at these 0-based ranks, as the partitions find their keys."""
    found = ranked.parts.words_by_keys(_page_of(ranked, np.asarray(ranks, np.int64)), without, each)
    rows = ranked.ranking.doc_indices[list(ranks)].tolist()
    keys = [(rank, one) for rank, row in zip(ranks, rows, strict=True) for one in found.get(row, ())]
    cells = np.asarray([one.cells for _, one in keys], np.float32).reshape(len(keys), len(without))
    cosines = np.asarray([one.cosine for _, one in keys], np.float32)
    return WordsByKeys([(rank, one.key) for rank, one in keys], cosines, cells.T)
