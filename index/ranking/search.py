"""One search: candidates, exact evidence, soft attention, and the ranking.

Sees one generation and one head, both immutable, so any number of searches may run at once.
"""

import time
from dataclasses import dataclass

import numpy as np

from index.generation.generation import Generation
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import CandidateSet, Mode, Query, assemble, retrieve
from index.records import Floats, Ints


@dataclass(frozen=True)
class Ranking:
    """All candidates of a query, best first; the lower doc index comes first among equal logits.

    doc_indices, logits, weights (N,); parts (N, len(EVIDENCE)) add up to the logits; the weights and null_weight sum to
    1; asked (D,) is the query vector that scored the keys: e, or e' after the second hop.
    """

    doc_indices: Ints
    logits: Floats
    weights: Floats
    parts: Floats
    null_weight: float
    temperature: float
    asked: Floats
    candidates: CandidateSet
    retrieve_ms: float
    attend_ms: float

    @property
    def entropy(self) -> float:
        """The entropy in nats of the weights over the candidates and the null slot."""
        weights = np.append(self.weights, self.null_weight).astype(float)
        positive = weights[weights > 0]
        return float(-(positive * np.log(positive)).sum())


def project(head: AttentionHead, vector: Floats) -> Floats:
    """Return the search vectors (H, D) of a unit query (D,)."""
    projected: Floats = head.search_vectors(vector[None])[0]
    return projected


def search(generation: Generation, head: AttentionHead, query: Query) -> Ranking:
    """Return the ranking of one query.

    With a second hop, candidates near e' = e + g answer are added to those of e, and all are ranked for e'.
    """
    started = time.perf_counter()
    hops = head.hops and query.mode is not Mode.WORDS
    candidates = retrieve(generation, query, project(head, query.vector))
    spent = time.perf_counter() - started
    asked = query.vector[None]
    inputs = assemble(generation, [candidates], query.mode, with_values=hops)
    attention = head.attend(head.dense(asked, inputs), inputs)
    if hops:
        asked = head.hopped(asked, attention, inputs)
        before = time.perf_counter()
        candidates = retrieve(generation, query, project(head, asked[0]), required=candidates.doc_indices)
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


def pooled_value(generation: Generation, ranking: Ranking) -> Floats:
    """Return the pooled value (V,): sum_n alpha_n v_n over all candidates; the value of the null slot is zero."""
    values = generation.value_vectors(ranking.doc_indices)
    pooled: Floats = np.einsum("n,nv->v", ranking.weights, values)
    return pooled
