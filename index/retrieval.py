"""Which documents a query attends to: those with near keys, those with its words, those it is remembered for.

Sees one generation and one query; knows no model beyond the vectors that it is matched with. What it returns is what
attention scores, for all candidates alike: a document that only words found still gets its exact dense evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch

from index.attention import Candidates
from index.candidates.base import MISSING
from index.generation import Generation, Memory
from index.records import Floats, Ints, Mask

MEMORY_RADIUS = 0.5
"""Cosine from which on a past query is near enough to be remembered; beyond it memory changes nothing, to the bit."""


class Mode(StrEnum):
    """Which evidence a search uses."""

    HYBRID = "hybrid"
    DENSE = "dense"
    WORDS = "words"


@dataclass(frozen=True)
class CandidateSet:
    """The N candidates of one query.

    places (N,) ascending; words (N,) BM25 over its maximum for this query; memory_key (m,) positions in the memory,
    memory_candidate (m,) the candidate that each confirms, memory_cosine (m,) with this query, memory_weight (m,).
    """

    places: Ints
    words: Floats
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
    unseen: str | None = None,
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
    best_words = 0.0
    if mode is not Mode.DENSE:
        rows, scores = generation.words.search(text, max(count, 1), _allowed_rows(generation, allowed))
        found.append(_present(generation.places(rows[:count])))
        best_words = float(scores.max(initial=0.0))
    near, cosine = (
        _near(memory, vector, unseen) if mode is Mode.HYBRID else (np.empty(0, np.int64), np.empty(0, np.float32))
    )
    place = generation.places(memory.rows[near])
    usable = place != MISSING
    usable[usable] = allowed[place[usable]]
    near, cosine, place = near[usable], cosine[usable], place[usable]
    places = np.unique(np.concatenate([*found, place]))
    words = _words(generation, text, places, best_words)
    candidate = np.searchsorted(places, place)
    return CandidateSet(places, words, near, candidate, cosine, memory.weights[near])


def assemble(generation: Generation, sets: Sequence[CandidateSet], mode: Mode = Mode.HYBRID) -> Candidates:
    """Return the flat arrays that attention reads for B queries; keys are gathered once, however many share them."""
    width = max((len(one.places) for one in sets), default=0)
    counts = np.asarray([len(one.places) for one in sets], np.int64)
    slots = np.concatenate([b * width + np.arange(n) for b, n in enumerate(counts)] or [np.empty(0, np.int64)])
    places = np.concatenate([one.places for one in sets] or [np.empty(0, np.int64)])
    first = generation.first_key[places] if mode is not Mode.WORDS else np.zeros(len(places), np.int64)
    keys_each = generation.first_key[places + 1] - first if mode is not Mode.WORDS else first
    pair_slot = np.repeat(slots, keys_each)
    ends = np.cumsum(keys_each)
    within = np.arange(len(pair_slot)) - np.repeat(ends - keys_each, keys_each)
    pair_key = np.repeat(first, keys_each) + within
    used, local = np.unique(pair_key, return_inverse=True)
    words, mask = np.zeros((len(sets), width), np.float32), np.zeros((len(sets), width), np.bool_)
    for b, one in enumerate(sets):
        words[b, : counts[b]], mask[b, : counts[b]] = one.words, True
    memory_slots = [b * width + one.memory_candidate for b, one in enumerate(sets)]
    return Candidates(
        keys=torch.from_numpy(generation.keys[used]),
        pair_query=torch.from_numpy(pair_slot // max(1, width)),
        pair_key=torch.from_numpy(local.astype(np.int64)),
        pair_slot=torch.from_numpy(pair_slot),
        pair_kind=torch.from_numpy(generation.key_kind[pair_key]),
        words=torch.from_numpy(words),
        mask=torch.from_numpy(mask),
        memory_slot=torch.from_numpy(np.concatenate(memory_slots or [np.empty(0, np.int64)])),
        memory_cosine=torch.from_numpy(np.concatenate([one.memory_cosine for one in sets] or [_none()])),
        memory_weight=torch.from_numpy(np.concatenate([one.memory_weight for one in sets] or [_none()])),
    )


def _none() -> Floats:
    return np.empty(0, np.float32)


def _near(memory: Memory, vector: Floats, unseen: str | None) -> tuple[Ints, Floats]:
    if not len(memory.ids):
        return np.empty(0, np.int64), _none()
    cosine = np.einsum("md,d->m", memory.vectors, vector)  # row by row: the same bits whatever else is remembered
    near = np.flatnonzero(cosine >= MEMORY_RADIUS)
    if unseen is not None:
        near = near[np.asarray([memory.sources[at] != unseen for at in near], np.bool_)]
    return near, cosine[near]


def _present(places: Ints) -> Ints:
    present: Ints = places[places != MISSING]
    return present


def _allowed_rows(generation: Generation, allowed: Mask) -> Ints | None:
    """Return the rows that words may return, or None when a deletion-free scan gives the same."""
    if bool((allowed == generation.alive).all()):
        return None
    return generation.rows[allowed]


def _words(generation: Generation, text: str, places: Ints, best: float) -> Floats:
    """Return BM25 over its best for this query, whether or not the best document is among these places."""
    if best <= 0:
        return np.zeros(len(places), np.float32)
    shares: Floats = np.minimum(generation.words.score(text, generation.rows[places]) / np.float32(best), np.float32(1))
    return shares
