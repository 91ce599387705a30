"""Which documents a query attends to: those with near keys, those with its words, those it is remembered for.

Sees one generation and one query; knows no model beyond the vectors that it is matched with. What it returns is what
attention scores, for all candidates alike: a document that only words found still gets its exact dense evidence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from index.candidates.base import MISSING
from index.generation.generation import Generation
from index.ranking.attention import Candidates
from index.records import FACTS, LEXICAL, Floats, Ints, Mask

MEMORY_RADIUS = 0.5
"""Cosine from which on a past query is near enough to be remembered; beyond it memory changes nothing, to the bit."""
LONG_QUERY = 64
"""Words from which on a query counts as long as can be."""
RAREST_WEIGHT = 12.0
"""About the idf of a word that no document has, in a collection of 100,000."""
PEAK_DEPTH = 10
"""Best scores that tell how peaked a query's words are."""


class Mode(StrEnum):
    """Which evidence a search uses."""

    HYBRID = "hybrid"
    DENSE = "dense"
    WORDS = "words"


@dataclass(frozen=True)
class CandidateSet:
    """The N candidates of one query.

    places (N,) ascending; words (N, len(LEXICAL)) and facts (len(FACTS),) as `Candidates` has them; memory_key (m,)
    positions in the memory, memory_candidate (m,) the candidate that each confirms, memory_cosine (m,) with this query,
    memory_weight (m,).
    """

    doc_indices: Ints
    words: Floats
    facts: Floats
    memory_key: Ints
    memory_candidate: Ints
    memory_cosine: Floats
    memory_weight: Floats


def retrieve(
    generation: Generation,
    projected: Floats,
    vector: Floats,
    text: str,
    count: int,
    mode: Mode = Mode.HYBRID,
    allowed: Mask | None = None,
    excluded_query: str | None = None,
    extra: Ints | None = None,
) -> CandidateSet:
    """Return the candidates of a query: `count` by keys, `count` by words, and all within the radius of memory.

    projected (H, D) is what keys are matched with, vector (D,) the unit query; allowed (N,) bool; unseen is a source
    whose memory is left out: a training example or a held-out query must not see its own; extra (E,) are places wanted
    in any case.
    """
    allowed = generation.alive if allowed is None else allowed & generation.alive
    memory = generation.memory
    found = [np.empty(0, np.int64) if extra is None else extra]
    if mode is not Mode.WORDS:
        found += generation.nearest(projected, count, allowed)
    best = np.empty(0, np.int64)
    if mode is not Mode.DENSE:
        rows, _ = generation.words.search(text, max(count, PEAK_DEPTH), _allowed_rows(generation, allowed))
        placed = generation.doc_indices(rows)
        best = _present(placed)
        found.append(_present(placed[:count]))
    near, cosine = np.empty(0, np.int64), _none()
    if mode is Mode.HYBRID:
        near, cosine = memory.near(vector, MEMORY_RADIUS, excluded_query)
    doc_index = generation.doc_indices(memory.rows[near])
    usable = doc_index != MISSING
    usable[usable] = allowed[doc_index[usable]]
    near, cosine, doc_index = near[usable], cosine[usable], doc_index[usable]
    doc_indices = np.unique(np.concatenate([*found, doc_index]))
    words, facts = np.zeros((len(doc_indices), len(LEXICAL)), np.float32), np.full(len(FACTS), 0.5, np.float32)
    if mode is not Mode.DENSE:
        words, facts = _lexical(generation, text, doc_indices, best)
    candidate = np.searchsorted(doc_indices, doc_index)
    return CandidateSet(doc_indices, words, facts, near, candidate, cosine, memory.weights[near])


def assemble(generation: Generation, sets: Sequence[CandidateSet], mode: Mode = Mode.HYBRID) -> Candidates:
    """Return the flat arrays that attention reads for B queries; keys are gathered once, however many share them."""
    width = max((len(one.doc_indices) for one in sets), default=0)
    counts = np.asarray([len(one.doc_indices) for one in sets], np.int64)
    slots = np.concatenate([b * width + np.arange(n) for b, n in enumerate(counts)] or [np.empty(0, np.int64)])
    doc_indices = np.concatenate([one.doc_indices for one in sets] or [np.empty(0, np.int64)])
    first = (
        generation.columns.first_key.take(doc_indices)
        if mode is not Mode.WORDS
        else np.zeros(len(doc_indices), np.int64)
    )
    keys_each = generation.columns.first_key.take(doc_indices + 1) - first if mode is not Mode.WORDS else first
    pair_slot = np.repeat(slots, keys_each)
    ends = np.cumsum(keys_each)
    pair_key = np.repeat(first - (ends - keys_each), keys_each)
    pair_key += np.arange(len(pair_key))
    used, local = _distinct(pair_key, len(sets))
    words = np.zeros((len(sets), width, len(LEXICAL)), np.float32)
    mask = np.zeros((len(sets), width), np.bool_)
    for b, one in enumerate(sets):
        words[b, : counts[b]], mask[b, : counts[b]] = one.words, True
    memory_slots = [b * width + one.memory_candidate for b, one in enumerate(sets)]
    return Candidates(
        keys=generation.key_vectors(used),
        pair_query=pair_slot // max(1, width),
        pair_key=local,
        pair_slot=pair_slot,
        pair_kind=generation.columns.key_kind.take(pair_key),
        words=words,
        facts=np.stack([one.facts for one in sets]) if sets else np.zeros((0, len(FACTS)), np.float32),
        mask=mask,
        memory_slot=np.concatenate(memory_slots or [np.empty(0, np.int64)]),
        memory_cosine=np.concatenate([one.memory_cosine for one in sets] or [_none()]),
        memory_weight=np.concatenate([one.memory_weight for one in sets] or [_none()]),
    )


def _distinct(pair_key: Ints, queries: int) -> tuple[Ints, Ints]:
    """Return the keys of pairs, each once and ascending, and which of them each pair has; one query repeats none."""
    if queries == 1:
        return pair_key, np.arange(len(pair_key))
    used, local = np.unique(pair_key, return_inverse=True)
    return used, local


def _none() -> Floats:
    return np.empty(0, np.float32)


def _present(doc_indices: Ints) -> Ints:
    present: Ints = doc_indices[doc_indices != MISSING]
    return present


def _allowed_rows(generation: Generation, allowed: Mask) -> Ints | None:
    """Return the rows that words may return, or None when a deletion-free scan gives the same."""
    if allowed is generation.alive or bool((allowed == generation.alive).all()):
        return None
    return generation.rows[allowed]


def query_facts(weight: Floats, scores: Floats) -> Floats:
    """Return FACTS (F,) of a query whose words have these weights (Q,) and whose best BM25 scores are these.

    length: the logarithm of 1 + its words, over that of 1 + LONG_QUERY. rarest: the largest weight of a word over that
    of a word of no document in a large collection. peaked: how far the best score stands out from the mean of the ten
    best, 0 where all are alike. A part number is short, rare and peaked; a question is none of these.
    """
    length = math.log1p(len(weight)) / math.log1p(LONG_QUERY)
    rarest = float(weight.max(initial=0.0)) / RAREST_WEIGHT
    ten = np.zeros(PEAK_DEPTH)
    ten[: min(len(scores), PEAK_DEPTH)] = scores[:PEAK_DEPTH]
    peaked = 1 - float(ten.mean()) / float(ten[0]) if ten[0] > 0 else 0.0
    return np.asarray([length, rarest, peaked], np.float32).clip(0, 1)


def _lexical(generation: Generation, text: str, doc_indices: Ints, best: Ints) -> tuple[Floats, Floats]:
    """Return the lexical evidence (N, len(LEXICAL)) of these places, and the facts of the query.

    best (M,) are the places of the query's best documents by words. BM25 is taken over the best of theirs, whether or
    not they are among the places: counted here for all alike, exactly, whatever found them.
    """
    query, weight = generation.words.weigh(text)
    at = np.searchsorted(doc_indices, best).clip(max=max(0, len(doc_indices) - 1))
    missing = np.flatnonzero(doc_indices[at] != best) if len(doc_indices) else np.arange(len(best))
    at[missing] = len(doc_indices) + np.arange(len(missing))
    both = np.concatenate([doc_indices, best[missing]])
    scores, matches = generation.match(query, weight, both)
    top = np.sort(scores[at])[::-1]
    shares = np.minimum(scores / top[0], np.float32(1)) if len(top) and top[0] > 0 else np.zeros_like(scores)
    evidence = np.stack([shares, *matches], axis=1)
    return evidence[: len(doc_indices)], query_facts(weight, top)
