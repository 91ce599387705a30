"""One search: candidates, exact evidence, soft attention, and the ranking.

Sees one generation and one head, both immutable, so any number of searches may run at once.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from index.generation.generation import Generation
from index.ranking.attention import EVIDENCE, AttentionHead, Candidates
from index.ranking.exact_matches import exact_boost, title_boost
from index.ranking.retrieval import CandidateSet, Mode, Query, assemble, retrieve
from index.ranking.same_words import same_words_boost
from index.records import FACTS, LEXICAL, Floats, Ints
from index.words.query_words import QueryWords


@dataclass(frozen=True)
class Ranked:
    """All candidates, best first; equal logits are in the order of the document ids.

    doc_indices, logits, weights (N,); parts (N, E) add up to the logits; the weights and null_weight sum to 1.
    """

    doc_indices: Ints
    logits: Floats
    weights: Floats
    parts: Floats
    null_weight: float
    temperature: float

    @property
    def entropy(self) -> float:
        """The entropy in nats of the weights over the candidates and the null slot."""
        weights = np.append(self.weights, self.null_weight).astype(float)
        positive = weights[weights > 0]
        return float(-(positive * np.log(positive)).sum())


@dataclass(frozen=True)
class Ranking(Ranked):
    """All candidates of a query; the parts are in the order of PARTS.

    asked (D,) is the query vector that scored the keys: e, drawn by the context, after the second hop.
    """

    asked: Floats
    candidates: CandidateSet
    retrieve_ms: float
    attend_ms: float


WHOLE = 0.85
"""Least coverage of a document with all words of a query: a correction by one edit, a completion and a synonym count
.9 of a word."""


ROUNDING = 1e-5
"""What a coverage may differ by."""


def has_all_words(ranking: Ranking, query: QueryWords) -> bool:
    """Return whether the first document has all words of the query, or words that stand for them.

    A coverage that no document reaches without one of the words is enough too: parts of compounds, and corrections by
    two edits, count much less than the word that they stand for.
    """
    if not len(ranking.doc_indices) or not len(query.weight):
        return False
    found = ranking.candidates
    first = np.searchsorted(found.doc_indices, ranking.doc_indices[0])
    without_one = 1 - float(query.weight.min() / query.weight.sum())
    return bool(found.words[first, LEXICAL.index("coverage")] >= min(WHOLE, without_one + ROUNDING))


def reads_fields(head: AttentionHead, query: Query) -> bool:
    """Return whether the ranking of a query reads the metadata of the candidates."""
    return bool(head.priors.fields) and query.mode is Mode.HYBRID


def project(head: AttentionHead, vector: Floats) -> Floats:
    """Return the search vectors (H, D) of a unit query (D,)."""
    projected: Floats = head.search_vectors(vector[None])[0]
    return projected


@dataclass(frozen=True)
class Gathered:
    """The candidates of a query with the evidence for them.

    dense (1, N, DENSE): as `AttentionHead.dense` returns it. best_first: scores (N,) -> the order of the candidates.
    """

    candidates: CandidateSet
    inputs: Candidates
    dense: Floats
    best_first: Callable[[Floats], Ints]
    retrieve_seconds: float


class Source(Protocol):
    """Where the documents are: in a generation, or in parts."""

    def gather(
        self, query: Query, asked: Floats, vectors: Floats, required: Ints | None, with_values: bool
    ) -> Gathered:
        """Return the candidates that the search vectors (H, D) find, with the evidence for the query vector (1, D).

        required (E,): documents that are ranked in any case. with_values: whether the inputs have values.
        """

    def values_of(self, documents: Ints) -> Floats:
        """Return the values (n, V) of these documents."""


@dataclass(frozen=True)
class OneGeneration:
    """All documents are in one generation; documents are doc indices."""

    generation: Generation
    head: AttentionHead

    def gather(
        self, query: Query, asked: Floats, vectors: Floats, required: Ints | None, with_values: bool
    ) -> Gathered:
        started, generation = time.perf_counter(), self.generation
        candidates = retrieve(generation, query, vectors, required)
        spent = time.perf_counter() - started
        inputs = assemble(generation, [candidates], query.by_keys, with_values, reads_fields(self.head, query))
        dense = self.head.dense(asked, inputs)
        return Gathered(candidates, inputs, dense, partial(generation.best_first, candidates.doc_indices), spent)

    def values_of(self, documents: Ints) -> Floats:
        return self.generation.value_vectors(documents)


def search(generation: Generation, head: AttentionHead, query: Query, required: Ints | None = None) -> Ranking:
    """Return the ranking of one query in a generation. required (E,): doc indices that are ranked in any case."""
    return rank(OneGeneration(generation, head), head, query, required)


def rank(source: Source, head: AttentionHead, query: Query, required: Ints | None = None) -> Ranking:
    """Return the ranking of one query. required (E,): documents that are ranked in any case.

    With a context, candidates near the drawn query are added to the candidates of e, and all are ranked for the drawn
    query. With a second hop, candidates near e' = e + g answer are added, and all are ranked for e'. Trees
    and priors count in the mode `hybrid` alone, trees only for queries that are encoded: they were fitted to all
    evidence.
    """
    started = time.perf_counter()
    with_trees = bool(len(head.trees)) and query.mode is Mode.HYBRID and query.encoded
    if with_trees:
        query = replace(query, signals=True)
    hops = head.hops and query.by_keys
    asked, vectors = _asked(source, head, query)
    found = source.gather(query, asked, vectors, required, hops)
    spent = found.retrieve_seconds
    if hops:
        asked = head.hopped(asked, head.candidate_logits(found.dense, found.inputs), found.inputs)
        found = source.gather(query, asked, project(head, asked[0]), found.candidates.doc_indices, False)
        spent += found.retrieve_seconds
    attention = head.attend(found.dense, found.inputs)
    if with_trees:
        attention = head.with_trees(attention, found.inputs)
    if query.mode is Mode.HYBRID:
        attention = head.with_priors(attention, found.inputs)
    candidates = found.candidates
    titled = title_boost(attention.logits[0, :-1], candidates.titled)
    if titled is not None:
        attention = head.raised(attention, "phrase", titled[None], found.inputs.mask)
    same = same_words_boost(head, found.inputs)
    if same is not None:
        attention = head.raised(attention, "memory", same, found.inputs.mask)
    boost = exact_boost(attention.logits[0, :-1], candidates)
    if boost is not None:
        attention = head.raised(attention, "memory", boost[None], found.inputs.mask)
    logits = attention.logits[0]
    order = found.best_first(logits[:-1])
    return Ranking(
        doc_indices=candidates.doc_indices[order],
        logits=logits[:-1][order],
        weights=attention.weights[0, :-1][order],
        parts=attention.parts[0][order],
        null_weight=float(attention.weights[0, -1]),
        temperature=float(np.exp(-head.log_inverse_temperature)),
        asked=asked[0],
        candidates=candidates,
        retrieve_ms=1000 * spent,
        attend_ms=1000 * (time.perf_counter() - started - spent),
    )


def _asked(source: Source, head: AttentionHead, query: Query) -> tuple[Floats, Floats]:
    """Return the query vector (1, D), drawn by its context, and the vectors that the index is searched with.

    Without a context, or with a head whose `context` is 0, it is the query itself.
    """
    asked, vectors = query.vector[None], project(head, query.vector)
    if query.context is None or not len(query.context) or not query.by_keys or not head.context:
        return asked, vectors
    context = source.values_of(query.context)
    context = context[context.any(axis=1)]  # a document whose vectors are not made yet has no value
    if not len(context):
        return asked, vectors
    asked = head.in_context(asked, context)
    return asked, np.concatenate([vectors, project(head, asked[0])])


def pooled_value(generation: Generation, ranking: Ranking) -> Floats:
    """Return the pooled value (V,): sum_n alpha_n v_n over all candidates; the value of the null slot is zero."""
    values = generation.value_vectors(ranking.doc_indices)
    pooled: Floats = np.einsum("n,nv->v", ranking.weights, values)
    return pooled


def browse(
    generation: Generation, head: AttentionHead, query: Query, count: int, wanted: Ints | None, required: Ints
) -> Ranking:
    """Return all documents that pass, as the ranking of a query without words: equal logits, the newest first.

    At most `count` documents, and after them those of `required` (m,) that are not among them. wanted (n,): these doc
    indices, in this order, instead of the newest.
    """
    if wanted is None:
        passing = generation.alive if query.allowed is None else generation.alive & query.allowed
        wanted = np.flatnonzero(passing)[::-1]
    return browse_documents(head, query, with_required(wanted[:count], required))


def with_required(shown: Ints, required: Ints) -> Ints:
    """Return these documents (n,), and after them those of `required` (m,) that are not among them."""
    return np.concatenate([shown, required[~np.isin(required, shown)]])


def browse_documents(head: AttentionHead, query: Query, shown: Ints) -> Ranking:
    """Return these documents (n,), in this order, as the ranking of a query without words: equal logits."""
    none, no_floats = np.empty(0, np.int64), np.empty(0, np.float32)
    evidence = np.zeros((len(shown), len(LEXICAL)), np.float32)
    facts = np.zeros(len(FACTS), np.float32)
    return Ranking(
        doc_indices=shown,
        logits=np.zeros(len(shown), np.float32),
        weights=np.full(len(shown), 1 / max(1, len(shown)), np.float32),
        parts=np.zeros((len(shown), len(EVIDENCE)), np.float32),
        null_weight=float(not len(shown)),
        temperature=float(np.exp(-head.log_inverse_temperature)),
        asked=query.vector,
        candidates=CandidateSet(shown, evidence, facts, none, none, no_floats, no_floats, none.astype(np.bool_)),
        retrieve_ms=0.0,
        attend_ms=0.0,
    )
