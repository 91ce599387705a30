"""A partition: a searcher with a part of the documents, which answers the requests of coordinators.

Its methods are the requests. Each names the watermark that its state must have reached.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import orjson

from index.errors import SearchError
from index.generation.generation import Generation
from index.partitions.merged_words import PartTotals, frequencies_in
from index.partitions.part import PartEvidence, candidates_of, evidence_of, nominate
from index.ranking import heatmaps
from index.ranking.search import Ranking
from index.records import Floats, Ints, Mask
from index.words.postings import Counted
from index.words.vocabulary import Counts
from service.http.access import Caller
from service.partitions.messages import (
    Newest,
    Nominated,
    Page,
    PartSearch,
    Selected,
    Standing,
    State,
    Wanted,
    Words,
    WordsOfKey,
)
from service.runtime.collection import CollectionState
from service.runtime.served_collection import Serving
from service.search import repository, selection
from service.search.closest_sentence import Span, sentences_of
from service.search.field_columns import Scalar, columns_of
from service.search.hits import Searched, hits_by_place
from service.search.named_documents import doc_indices_of, in_context
from service.search.pending_vectors import awaits_vectors
from service.search.restriction import allowed_documents, having_all_words, visible_words
from service.search.serving import model_of_version
from service.searchers.document_part import DocumentPart
from service.searchers.searcher_runtime import SearcherRuntime

WAIT_SECONDS = 1.0
"""Most time that a request waits for the state that it requires."""


class PartitionBehind(SearchError):
    """The partition does not have the state that a request requires."""


class Partition:
    """The requests that a partition answers. Any number may run at once."""

    def __init__(self, runtime: SearcherRuntime, part: DocumentPart) -> None:
        self._runtime, self._part = runtime, part

    def ping(self) -> bool:
        """Return at once."""
        return True

    def words(self, wanted: Wanted, asked: Sequence[tuple[str, str]]) -> Words:
        """Return the sums over the words of the part, and the counts of these pairs of field and term."""
        state = self._state(wanted)
        before = self._state_of_words(state)  # before the generation: at worst the sums are newer than it says
        generation = state.generation
        return Words(before, PartTotals.of(generation), frequencies_in(generation.words.postings, asked))

    def frequencies(self, wanted: Wanted, asked: Sequence[tuple[str, str]], seen_by: Caller | None = None) -> list[int]:
        """Return the number of documents with each of these pairs of field and term.

        seen_by: counts only the documents that this caller sees, as below.
        """
        return frequencies_in(self._counts(wanted, seen_by), asked)

    def with_prefix(self, wanted: Wanted, field: str, prefix: str, seen_by: Caller | None = None) -> Sequence[Counted]:
        """Return the terms of a field that begin with a prefix, with their documents."""
        return self._counts(wanted, seen_by).with_prefix(field, prefix)

    def seen_documents(self, wanted: Wanted, seen_by: Caller) -> int:
        """Return the number of documents that a caller sees."""
        return self._counts(wanted, seen_by).documents

    def _counts(self, wanted: Wanted, seen_by: Caller | None) -> Counts:
        state = self._state(wanted)
        generation = state.generation
        if seen_by is None or seen_by.condition is None:
            return generation.words.postings
        seen = partial(visible_words, self._runtime, state, generation, seen_by.condition)
        return generation.words.of_reader(seen_by.filter or "", seen).seen

    def nominate(self, search: PartSearch, vectors: Floats, asked: Floats | None) -> Nominated:
        """Return the candidates of the part for the search vectors (H, D), with evidence for the query vector asked."""
        state = self._state(search.wanted)

        def work() -> Nominated:
            standing = self._standing(state, search.version)
            generation, head = state.generation, self._model(state, search.version).head
            query = replace(search.query, allowed=self._allowed(state, generation, search))
            found = nominate(generation, head, query, vectors, asked)
            return Nominated(found, self._as_seen(standing, state, generation, search, query.allowed))

        return state.with_sound_index(work)

    def evidence_of(self, search: PartSearch, asked: Floats, rows: Ints, with_values: bool) -> PartEvidence:
        """Return the evidence for the documents with these rows, scored by the query vector asked (D,)."""
        state = self._state(search.wanted)
        head = self._model(state, search.version).head
        return state.with_sound_index(
            lambda: evidence_of(state.generation, head, search.query, asked, rows, with_values)
        )

    def values_of(self, wanted: Wanted, rows: Ints) -> tuple[Ints, Floats]:
        """Return the rows (n,) of those documents among `rows` that the part has, and their values (n, V)."""
        state = self._state(wanted)

        def work() -> tuple[Ints, Floats]:
            generation = state.generation
            doc_indices = generation.doc_indices(rows)
            has = doc_indices >= 0
            return rows[has], generation.value_vectors(doc_indices[has])

        return state.with_sound_index(work)

    def rows_of(self, search: PartSearch, ids: Sequence[str]) -> dict[str, int]:
        """Return id -> row of the documents among these ids that the part has, and that the key lets pass."""
        state = self._state(search.wanted)
        generation = state.generation
        found = doc_indices_of(self._runtime.database, state, generation, ids, search.caller.condition)
        return {id: int(generation.rows[at]) for id, at in found.items()}

    def select(self, search: PartSearch, ids: Sequence[str]) -> Selected:
        """Return the documents among these ids that pass, and what facets and sorting are about."""
        state = self._state(search.wanted)
        standing = self._standing(state, search.version)
        generation, database = state.generation, self._runtime.database
        allowed = self._allowed(state, generation, search)
        standing = self._as_seen(standing, state, generation, search, allowed)
        found = doc_indices_of(database, state, generation, ids)
        passing = {id: int(generation.rows[at]) for id, at in found.items() if allowed is None or allowed[at]}
        request = search.request
        chosen = selection.select(database, state, generation, request, search.query.read, allowed)
        columns = chosen.columns
        count = chosen.count()
        if columns is None or chosen.matching is None:
            return Selected(passing, {}, standing, None, (), (), count)
        matching = generation.rows[chosen.matching]
        facets = {name: columns.of(name, matching).counts() for name in request.facets or ()}
        if chosen.ordered is None:
            return Selected(passing, facets, standing, None, (), (), count)
        first = chosen.ordered[: search.window]
        rows, order = generation.rows[first], generation.columns.id_order.take(first)
        fields = [rule.rpartition(":")[0] for rule in request.sort or ()]
        fields += [request.distinct] if request.distinct else []
        values = [columns.of(name, rows).first() for name in fields]
        by = list(zip(*values, strict=True))
        return Selected(passing, facets, standing, rows.tolist(), order.tolist(), by, count)

    def has_others(self, search: PartSearch, values: Sequence[Scalar], shown: Ints) -> bool:
        """Return whether documents that may be hits have other values of `distinct` than these, or have none.

        shown: the rows of documents without a value that do not count.
        """
        state = self._state(search.wanted)
        generation, request = (
            state.generation,
            search.request.model_copy(update={"facets": None, "sort": None, "count": False}),
        )
        allowed = self._allowed(state, generation, search)
        chosen = selection.select(self._runtime.database, state, generation, request, search.query.read, allowed)
        return chosen.has_others(values, shown)

    def newest(self, search: PartSearch, count: int) -> Newest:
        """Return the newest documents that pass, at most `count`."""
        state = self._state(search.wanted)
        standing = self._standing(state, search.version)
        generation = state.generation
        allowed = self._allowed(state, generation, search)
        passing = generation.alive if allowed is None else generation.alive & allowed
        newest = generation.rows[np.flatnonzero(passing)[::-1][:count]]
        return Newest(newest, self._as_seen(standing, state, generation, search, allowed))

    def first_values(self, wanted: Wanted, field: str, rows: Sequence[int]) -> dict[int, Scalar | None]:
        """Return row -> first value of a filterable field, for the documents that the part has."""
        state = self._state(wanted)
        generation = state.generation
        own = np.asarray(rows, np.int64)
        own = own[generation.doc_indices(own) >= 0]
        columns = columns_of(self._runtime.database, state, int(own.max(initial=-1)))
        return dict(zip(own.tolist(), columns.of(field, own).first(), strict=True))

    def metadata(self, wanted: Wanted, rows: Sequence[int], fields: Sequence[str]) -> dict[int, dict[str, Any]]:
        """Return row -> these fields of the metadata, for the documents that the part has."""
        self._state(wanted)
        with self._runtime.database.read() as connection:
            found = repository.metadata(connection, list(rows))
        return {row: {name: of[name] for name in fields if name in of} for row, of in found.items()}

    def hits(self, search: PartSearch, page: Page) -> bytes:
        """Return the hits of a page that are still stored, as JSON: pairs of a row and a hit.

        All metadata of a document are a text, so that the coordinator answers with their stored JSON.
        """
        state = self._state(search.wanted)

        def work() -> bytes:
            searched = self._searched(state, search, page)
            found = hits_by_place(self._runtime, state, search.request, searched, as_json=str)
            rows = searched.generation.rows[searched.ranking.doc_indices].tolist()
            return orjson.dumps([[rows[place], hit] for place, hit in found.items()])

        return state.with_sound_index(work)

    def sentences(self, search: PartSearch, page: Page) -> list[tuple[int, list[Span]]]:
        """Return the row and the sentences of each of these documents."""
        state = self._state(search.wanted)

        def work() -> list[tuple[int, list[Span]]]:
            searched = self._searched(state, search, page)
            spans = sentences_of(self._runtime, searched)
            rows = searched.generation.rows[searched.ranking.doc_indices].tolist()
            return [(row, [span for span in spans if span.rank == rank]) for rank, row in enumerate(rows)]

        return state.with_sound_index(work)

    def words_by_keys(self, search: PartSearch, page: Page, without: Floats, each: int) -> list[WordsOfKey]:
        """Return the strongest keys of each document of a page. without, each: as for `heatmaps.words_by_keys`."""
        state = self._state(search.wanted)

        def work() -> list[WordsOfKey]:
            searched = self._searched(state, search, page)
            generation, ranking = searched.generation, searched.ranking
            ranks, head = searched.page.tolist(), searched.serving.head
            found = heatmaps.words_by_keys(generation, head, searched.query, ranking, ranks, without, each)
            rows = generation.rows[ranking.doc_indices].tolist()
            scored = zip(found.keys, found.cosines, found.cells.T, strict=True)
            return [WordsOfKey(rows[rank], key, float(cosine), cells) for (rank, key), cosine, cells in scored]

        return state.with_sound_index(work)

    def _state(self, wanted: Wanted) -> CollectionState:
        """Return a collection in the wanted state, after a wait. Raises PartitionBehind."""
        if wanted.parts != self._part.count:
            raise PartitionBehind("the partition is of a deployment with another number of parts")
        state = self._reached(wanted)
        if state is None:
            self._runtime.wait_for(lambda: self._reached(wanted) is not None, WAIT_SECONDS)
            state = self._reached(wanted)
        if state is None:
            raise PartitionBehind("the partition has not reached the state that is asked for")
        return state

    def _reached(self, wanted: Wanted) -> CollectionState | None:
        found = (one for one in self._runtime.collections.values() if one.id == wanted.collection)
        state = next(found, None)
        if state is None or self._runtime.epoch != wanted.epoch or state.generation.watermark < wanted.watermark:
            return None
        return state

    def _state_of_words(self, state: CollectionState) -> State:
        return self._runtime.epoch, state.documents_watermark

    def _standing(self, state: CollectionState, version: int) -> Standing:
        degraded = state.degraded_by(self._model(state, version))
        return Standing(self._state_of_words(state), degraded, state.awaits_vectors)

    def _as_seen(
        self,
        standing: Standing,
        state: CollectionState,
        generation: Generation,
        search: PartSearch,
        allowed: Mask | None,
    ) -> Standing:
        """Return a standing as the caller of a search sees it, whose key may have a filter."""
        condition = search.caller.condition
        if condition is None or not standing.awaits_vectors:
            return standing
        head, ids = self._model(state, search.version).head, search.request.context
        named = in_context(self._runtime.database, state, generation, search.query, head, ids, condition).context
        return replace(standing, awaits_vectors=awaits_vectors(state, generation, allowed, condition, named))

    def _model(self, state: CollectionState, version: int) -> Serving:
        if state.serving.version == version:
            return state.serving
        return model_of_version(self._runtime, state, version)

    def _allowed(self, state: CollectionState, generation: Generation, search: PartSearch) -> Mask | None:
        """Return (N,) bool: the documents that pass the filter, the operators, the key and the rules; None for all."""
        request, condition = search.request, search.caller.condition
        allowed = allowed_documents(self._runtime, state, generation, request.filter, search.parsed, condition)
        if request.all_words and search.query.read is not None:
            allowed = having_all_words(generation, search.query.read, allowed)
        if not search.hidden:
            return allowed
        allowed = generation.alive.copy() if allowed is None else allowed & generation.alive
        hidden = doc_indices_of(self._runtime.database, state, generation, search.hidden)
        allowed[list(hidden.values())] = False
        return allowed

    def _searched(self, state: CollectionState, search: PartSearch, page: Page) -> Searched:
        """Return the documents of a page that the part has, as the whole ranking of a search."""
        generation = state.generation
        doc_indices = generation.doc_indices(page.rows)
        has = np.flatnonzero(doc_indices >= 0)
        doc_indices = doc_indices[has]
        ranking = Ranking(
            doc_indices=doc_indices,
            logits=page.logits[has],
            weights=page.weights[has],
            parts=page.parts[has],
            null_weight=0.0,
            temperature=1.0,
            asked=page.asked,
            candidates=candidates_of(generation, search.query, np.sort(doc_indices)),
            retrieve_ms=0.0,
            attend_ms=0.0,
        )
        places = np.arange(len(has))
        return Searched(
            generation=generation,
            serving=self._model(state, search.version),
            query=search.query,
            ranking=ranking,
            page=places,
            best=places,
            has_more=False,
            parsed=search.parsed,
            corrections=(),
            everything=search.query.read is None,
            facets=None,
            matching=None,
            pinned_by=_by_doc_index(generation, page.rules),
            exploration=None,
            caller=search.caller,
        )


def _by_doc_index(generation: Generation, rules: Mapping[int, str]) -> dict[int, str]:
    found = generation.doc_indices(np.asarray(list(rules), np.int64)).tolist()
    return {at: rule for at, rule in zip(found, rules.values(), strict=True) if at >= 0}
