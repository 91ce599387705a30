"""One search: candidates, exact evidence, soft attention, and the ranking with its explanation.

Sees one generation and one head, both immutable, so any number of searches may run at once.
"""

import time
from dataclasses import dataclass

import numpy as np

from index.generation.generation import Generation
from index.ranking.array_api import softmax
from index.ranking.attention import EVIDENCE, AttentionHead
from index.ranking.retrieval import CandidateSet, Mode, assemble, retrieve
from index.records import Floats, Ints, KeyKind, Mask

FAINTEST_SHARE = np.float32(1e-30)
"""What a key's weight counts as where its exponential is no number above zero: its score is still a mean over heads."""


@dataclass(frozen=True)
class Query:
    """A query as the index sees it: its text for words, its unit vector (D,), and how to search."""

    text: str
    vector: Floats
    mode: Mode = Mode.HYBRID
    count: int = 200
    """Candidates wanted from keys and from words each; their union is attended to."""
    allowed: Mask | None = None
    """(N,) bool over the generation's places: what a filter lets through."""


@dataclass(frozen=True)
class Ranking:
    """All candidates of a query, best first; ties go to the document that came first.

    places, logits, weights (N,); parts (N, len(EVIDENCE)) add up to the logits; the weights and null_weight sum to 1.
    """

    doc_indices: Ints
    logits: Floats
    weights: Floats
    parts: Floats
    null_weight: float
    temperature: float
    asked: Floats
    """The vector (D,) that keys were matched with: the query's, after the second hop where there is one."""
    candidates: CandidateSet
    retrieve_ms: float
    attend_ms: float

    @property
    def entropy(self) -> float:
        """Entropy in nats of the weights over candidates and null slot: low = sure, high = undecided."""
        weights = np.append(self.weights, self.null_weight).astype(float)
        positive = weights[weights > 0]
        return float(-(positive * np.log(positive)).sum())


@dataclass(frozen=True)
class KeyShare:
    """A key's part in a hit: the cosine that it was matched with and its share of its kind's pooled score.

    source is that of a past query, confirmations how many are merged in it; start and end are characters of the
    document's text for its own keys.
    """

    kind: KeyKind
    score: float
    share: float
    start: int = 0
    end: int = 0
    query_key: str | None = None
    confirmations: int = 0


def project(head: AttentionHead, vector: Floats) -> Floats:
    """Return the vectors (H, D) that keys are matched with for a unit query (D,)."""
    projected: Floats = head.score.search_vectors(vector[None])[0]
    return projected


def search(generation: Generation, head: AttentionHead, query: Query, excluded_query: str | None = None) -> Ranking:
    """Return the ranking of one query; unseen is the source whose memory a held-out query must not profit from.

    Where the head has a second hop, what the query found draws it on: candidates near e + g answer join the others, and
    all are attended to from there.
    """
    started = time.perf_counter()
    candidates = _candidates(generation, head, query, query.vector, excluded_query)
    spent = time.perf_counter() - started
    asked = query.vector[None]
    inputs = assemble(generation, [candidates], query.mode)
    attention = head.attend(head.dense(asked, inputs), inputs)
    if head.hops and query.mode is not Mode.WORDS:
        asked = head.hopped(asked, attention, inputs)
        before = time.perf_counter()
        candidates = _candidates(generation, head, query, asked[0], excluded_query, candidates.doc_indices)
        spent += time.perf_counter() - before
        inputs = assemble(generation, [candidates], query.mode)
        attention = head.attend(head.dense(asked, inputs), inputs)
    logits = attention.logits[0]
    order = np.lexsort((candidates.doc_indices, -logits[:-1]))
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


def _candidates(
    generation: Generation,
    head: AttentionHead,
    query: Query,
    asked: Floats,
    excluded_query: str | None,
    extra: Ints | None = None,
) -> CandidateSet:
    return retrieve(
        generation,
        project(head, asked),
        query.vector,
        query.text,
        query.count,
        mode=query.mode,
        allowed=query.allowed,
        excluded_query=excluded_query,
        extra=extra,
    )


def explain_parts(ranking: Ranking, position: int) -> dict[str, float]:
    """Return the parts of the logit of the hit at a 0-based position, by name; they add up to it."""
    return {name: float(part) for name, part in zip(EVIDENCE, ranking.parts[position], strict=True)}


def explain_keys(
    generation: Generation, head: AttentionHead, query: Query, ranking: Ranking, position: int
) -> list[KeyShare]:
    """Return the keys behind the hit at a 0-based position: its own, then the past queries that confirm it."""
    doc_index = int(ranking.doc_indices[position])
    shares = [] if query.mode is Mode.WORDS else _own_keys(generation, head, ranking.asked, doc_index)
    found = ranking.candidates
    mine = found.doc_indices[found.memory_candidate] == doc_index
    near = np.exp(float(np.exp(head.log_memory_sharpness)) * (found.memory_cosine[mine] - 1))
    weight = found.memory_weight[mine] * near
    total = float(np.abs(weight).sum()) or 1.0
    for key, cosine, part in zip(found.memory_key[mine], found.memory_cosine[mine], weight, strict=True):
        memory = generation.memory
        query_key, count = memory.query_keys[memory.query_index[key]], int(memory.counts[key])
        shares.append(
            KeyShare(KeyKind.QUERY, float(cosine), float(part) / total, query_key=query_key, confirmations=count)
        )
    return shares


def _own_keys(generation: Generation, head: AttentionHead, asked: Floats, doc_index: int) -> list[KeyShare]:
    keys = slice(int(generation.first_key[doc_index]), int(generation.first_key[doc_index + 1]))
    own = generation.vectors(np.arange(keys.start, keys.stop))
    each = np.arange(len(own))
    scores = head.score(asked[None], own, np.zeros_like(each), each)
    by_head = softmax(asked[None] @ head.head_gate)[0]
    sharpness = np.exp(head.log_sharpness)
    kinds = generation.key_kind[keys]
    shares = []
    for kind in np.unique(kinds):
        of_kind = np.flatnonzero(kinds == kind)
        weight = np.exp(sharpness[kind] * (scores[of_kind] - scores[of_kind].max(axis=0)))
        weight = np.maximum(weight, FAINTEST_SHARE)
        weight = by_head * weight / weight.sum(axis=0)  # a key's share of the pooled score, over heads and in all
        score = (weight * scores[of_kind]).sum(axis=1) / weight.sum(axis=1)
        for offset, share, matched in zip(of_kind, weight.sum(axis=1), score, strict=True):
            start, end = (int(side[keys.start + offset]) for side in (generation.key_start, generation.key_end))
            shares.append(KeyShare(KeyKind(int(kind)), float(matched), float(share), start, end))
    return shares
