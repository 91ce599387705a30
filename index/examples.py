"""Training examples from feedback: for each query its candidates, what was confirmed, and where things were shown.

Sees rows and vectors, never events or SQL. An example's own memory keys are left out of its candidates and its
evidence, since with them memory would look perfect and generalise badly.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from index.attention import Candidates
from index.generation import Generation
from index.records import Floats, Ints
from index.retrieval import CandidateSet, assemble, retrieve

FOLDS = 10
TEST_FOLDS = 2
"""Of FOLDS: the share of queries that no model is ever trained on; the rest is split again to choose a recipe."""
EXAMINATION_DECAY = 0.7
"""eta of the chance position^-eta that a shown place is looked at, until the log itself is asked (Joachims 2017)."""


@dataclass(frozen=True)
class Feedback:
    """What is known of one query: gains of confirmed documents, and for clicks the documents that were looked at.

    source is the unit of splitting and of memory: all feedback on one query text. shown maps a row to its 1-based
    position for every document known to have been looked at; None for judgments, where position plays no part.
    """

    source: str
    text: str
    vector: Floats
    gains: Mapping[int, float]
    shown: Mapping[int, int] | None = None


@dataclass(frozen=True)
class Example:
    """One query as training sees it; gains and log_propensity are (N,), aligned with its candidates."""

    feedback: Feedback
    candidates: CandidateSet
    gains: Floats
    log_propensity: Floats


@dataclass(frozen=True)
class Batch:
    """B examples as tensors: query (B, D), the flat candidates, gains and log_propensity (B, N)."""

    query: Tensor
    candidates: Candidates
    gains: Tensor
    log_propensity: Tensor


def examination(position: float) -> float:
    """Return the chance that the 1-based position of a shown list is looked at."""
    return float(position**-EXAMINATION_DECAY)


def fold_of(source: str) -> int:
    """Return the fold in [0, FOLDS) of a query text: the same on every machine, for ever."""
    return int.from_bytes(hashlib.sha256(source.encode("utf-8", "replace")).digest()[:8], "big") % FOLDS


def split(feedback: Sequence[Feedback]) -> tuple[list[Feedback], list[Feedback]]:
    """Return the queries to learn from and the held-out test queries, by fold."""
    ordered = sorted(feedback, key=lambda one: one.source)
    learn = [one for one in ordered if fold_of(one.source) >= TEST_FOLDS]
    test = [one for one in ordered if fold_of(one.source) < TEST_FOLDS]
    return learn, test


def make_example(generation: Generation, feedback: Feedback, projected: Floats, count: int) -> Example:
    """Return the example of one query: judged documents among retrieved ones, or clicked among those looked at.

    projected (H, D) is what keys are matched with; count candidates are retrieved by keys and by words each. A judged
    document that was not retrieved is left out: put among hard negatives it is the odd one out, and what tells it from
    them is how it got there.
    """
    implicit = feedback.shown is not None
    wanted = sorted(set(feedback.gains) | set(feedback.shown or ())) if implicit else []
    extra = generation.places(np.asarray(wanted, np.int64))
    candidates = retrieve(
        generation,
        projected,
        feedback.vector,
        feedback.text,
        0 if implicit else count,
        unseen=feedback.source,
        extra=extra[extra >= 0],
    )
    if implicit:
        candidates = _only(candidates, np.sort(extra[extra >= 0]))
    rows = generation.rows[candidates.places]
    gains = np.asarray([feedback.gains.get(row, 0.0) for row in rows.tolist()], np.float32)
    return Example(feedback, candidates, gains, _log_propensity(feedback.shown, rows))


def make_batch(generation: Generation, examples: Sequence[Example]) -> Batch:
    """Return the examples as tensors."""
    candidates = assemble(generation, [example.candidates for example in examples])
    shape = tuple(candidates.words.shape)
    return Batch(
        query=torch.from_numpy(np.stack([example.feedback.vector for example in examples])),
        candidates=candidates,
        gains=_padded([example.gains for example in examples], shape),
        log_propensity=_padded([example.log_propensity for example in examples], shape),
    )


def make_examples(
    generation: Generation,
    feedback: Sequence[Feedback],
    project: Callable[[Floats], Floats],
    count: int,
) -> list[Example]:
    """Return the examples that have something to learn: a gain, and another candidate to be preferred to."""
    examples = []
    for one in feedback:
        example = make_example(generation, one, project(one.vector), count)
        if example.gains.any() and len(example.gains) > 1:
            examples.append(example)
    return examples


def _log_propensity(shown: Mapping[int, int] | None, rows: Ints) -> Floats:
    if shown is None:
        return np.zeros(len(rows), np.float32)
    positions = np.asarray([shown.get(row, 1) for row in rows.tolist()], np.float32)
    logarithm: Floats = (-EXAMINATION_DECAY * np.log(positions)).astype(np.float32)
    return logarithm


def _only(candidates: CandidateSet, places: Ints) -> CandidateSet:
    """Return the candidates restricted to these places."""
    keep = np.isin(candidates.places, places)
    kept_memory = keep[candidates.memory_candidate]
    renumbered = np.cumsum(keep) - 1
    return CandidateSet(
        candidates.places[keep],
        candidates.words[keep],
        candidates.memory_key[kept_memory],
        renumbered[candidates.memory_candidate[kept_memory]],
        candidates.memory_cosine[kept_memory],
        candidates.memory_weight[kept_memory],
    )


def _padded(rows: Sequence[Floats], shape: tuple[int, ...]) -> Tensor:
    padded = np.zeros(shape, np.float32)
    for b, row in enumerate(rows):
        padded[b, : len(row)] = row
    return torch.from_numpy(padded)
