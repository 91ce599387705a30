"""Training examples from feedback: for each query its candidates, what was confirmed, and where things were shown.

Sees rows and vectors, never events or SQL. An example's own memory keys are left out of its candidates and its
evidence, since with them memory would look perfect and generalise badly.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from index.candidates.base import MISSING
from index.generation.generation import Generation
from index.ranking.array_api import Array
from index.ranking.attention import Candidates
from index.ranking.retrieval import CandidateSet, Query, assemble, retrieve
from index.records import Floats, Ints

FOLDS = 10
TEST_FOLDS = 2
"""Of FOLDS: the share of queries that no model is ever trained on; the rest is split again to choose a recipe."""
EXAMINATION_DECAY = 0.7
"""eta of the chance position^-eta that a shown place is looked at, until the log itself is asked (Joachims 2017)."""
POSITIONS = 100
"""Length of a curve of examination; places further down are taken for the last one."""
SOLVED_UNCLICKED = 0.1
"""Chance that a document which was looked at and not clicked solved a session that was solved: by what its hit said."""

ASSUMED: Floats = (np.arange(1, POSITIONS + 1) ** -EXAMINATION_DECAY).astype(np.float32)
"""The curve taken for granted where a log says too little of its own: curve[p - 1] is the chance of a look at p."""
ASSUMED.setflags(write=False)

Showings = Mapping[int, Mapping[int, int]]
"""Row -> 1-based position -> how many times."""


@dataclass(frozen=True)
class Solved:
    """A list whose searcher said that it solved the problem: row -> 1-based position, and the rows clicked."""

    shown: Mapping[int, int]
    clicked: frozenset[int]


@dataclass(frozen=True)
class Feedback:
    """What is known of one query: gains of confirmed documents, and for clicks where all documents were shown.

    source is the unit of splitting and of memory: all feedback on one query text. gains are grades, of clicks their
    sum over clients and lists. shown counts the showings of every document over all logged lists of the query, with a
    click or without; None for judgments, where position plays no part. clicks counts the clicks among them. examined
    are the rows that stood no deeper than one place below a click on their own list: what was surely looked at; None
    where that is not told apart from shown. sessions are the lists that solved their searcher's problem.
    """

    query_key: str
    text: str
    vector: Floats
    gains: Mapping[int, float]
    shown: Showings | None = None
    clicks: Showings | None = None
    examined: frozenset[int] | None = None
    sessions: tuple[Solved, ...] = ()


@dataclass(frozen=True)
class Example:
    """One query as training sees it; gains, log_propensity and solved are (N,), aligned with its candidates."""

    feedback: Feedback
    candidates: CandidateSet
    gains: Floats
    log_propensity: Floats
    solved: Floats


@dataclass(frozen=True)
class Batch:
    """B examples as arrays: query (B, D), the flat candidates; gains, log_propensity and solved (B, N)."""

    query: Array
    candidates: Candidates
    gains: Array
    log_propensity: Array
    solved: Array


def looks(showings: Mapping[int, int], curve: Floats) -> float:
    """Return how often a document was looked at, to be expected: its showings (position -> times) times the curve."""
    return sum(times * float(curve[min(position, len(curve)) - 1]) for position, times in showings.items())


def fold_of(query_key: str) -> int:
    """Return the fold in [0, FOLDS) of a query text: the same on every machine, for ever."""
    return int.from_bytes(hashlib.sha256(query_key.encode("utf-8", "replace")).digest()[:8], "big") % FOLDS


def split(feedback: Sequence[Feedback]) -> tuple[list[Feedback], list[Feedback]]:
    """Return the queries to learn from and the held-out test queries, by fold."""
    ordered = sorted(feedback, key=lambda one: one.query_key)
    learn = [one for one in ordered if fold_of(one.query_key) >= TEST_FOLDS]
    test = [one for one in ordered if fold_of(one.query_key) < TEST_FOLDS]
    return learn, test


def make_example(
    generation: Generation, feedback: Feedback, projected: Floats, count: int, curve: Floats | None = ASSUMED
) -> Example:
    """Return the example of one query: judged documents among retrieved ones, or clicked among those shown.

    projected (H, D) is what keys are matched with; count candidates are retrieved by keys and by words each. A judged
    document that was not retrieved is left out: put among hard negatives it is the odd one out, and what tells it from
    them is how it got there. Documents that were never shown could not be clicked, and are no candidates of clicks.

    curve[p - 1] > 0 is the chance that position p is looked at: every document shown is a candidate, and its log
    propensity is that of its expected looks. None is the naive reading: all that was examined was looked at alike.
    """
    implicit = feedback.shown is not None
    wanted = _click_candidates(feedback, curve is None) if implicit else []
    shown = generation.doc_indices(np.asarray(wanted, np.int64))
    shown = shown[shown != MISSING]
    query = Query(feedback.text, feedback.vector, count=0 if implicit else count, excluded_query=feedback.query_key)
    candidates = retrieve(generation, query, projected, required=shown)
    if implicit:
        candidates = _only(candidates, np.sort(shown))
    rows = generation.rows[candidates.doc_indices]
    gains = np.asarray([feedback.gains.get(row, 0.0) for row in rows.tolist()], np.float32)
    log_propensity = _log_propensity(feedback.shown, curve, rows)
    return Example(feedback, candidates, gains, log_propensity, _solved(feedback.sessions, curve, rows))


def make_batch(generation: Generation, examples: Sequence[Example], with_values: bool = False) -> Batch:
    """Return the examples as arrays; values are gathered where a second hop reads them."""
    candidates = assemble(generation, [example.candidates for example in examples], with_values=with_values)
    shape = candidates.mask.shape
    return Batch(
        query=np.stack([example.feedback.vector for example in examples]),
        candidates=candidates,
        gains=_padded([example.gains for example in examples], shape),
        log_propensity=_padded([example.log_propensity for example in examples], shape),
        solved=_padded([example.solved for example in examples], shape),
    )


def make_examples(
    generation: Generation,
    feedback: Sequence[Feedback],
    project: Callable[[Floats], Floats],
    count: int,
    curve: Floats | None = ASSUMED,
) -> list[Example]:
    """Return the examples that have something to learn: a gain or a solved session, and another candidate."""
    examples = []
    for one in feedback:
        example = make_example(generation, one, project(one.vector), count, curve)
        if (example.gains.any() or example.solved.any()) and len(example.gains) > 1:
            examples.append(example)
    return examples


def _click_candidates(feedback: Feedback, naive: bool) -> list[int]:
    """Return the rows that a click example chooses among."""
    shown = feedback.shown or {}
    among = feedback.examined if naive and feedback.examined is not None else shown.keys()
    solved = {row for session in feedback.sessions for row in session.shown}
    return sorted(set(feedback.gains) | set(among) | solved)


def _log_propensity(shown: Showings | None, curve: Floats | None, rows: Ints) -> Floats:
    """Return (N,) log of the expected looks over the most of them, <= 0; what was never shown counts as the most."""
    if shown is None or curve is None or not len(rows):
        return np.zeros(len(rows), np.float32)
    looked = np.asarray([looks(shown.get(row, {}), curve) for row in rows.tolist()])
    most = looked.max()
    relative = np.where(looked > 0, looked, most) / (most or 1.0)
    return np.log(np.where(relative > 0, relative, 1.0)).astype(np.float32)


def _solved(sessions: Sequence[Solved], curve: Floats | None, rows: Ints) -> Floats:
    """Return (N,) the chance that each document solved a session drawn from these; zeros where there is none."""
    chance = np.zeros(len(rows), np.float64)
    certain = np.ones(1, np.float32) if curve is None else curve
    for session in sessions:
        for n, row in enumerate(rows.tolist()):
            if row in session.clicked:
                chance[n] += 1.0
            elif row in session.shown:
                chance[n] += SOLVED_UNCLICKED * looks({session.shown[row]: 1}, certain)
    return (chance / max(1, len(sessions))).astype(np.float32)


def _only(candidates: CandidateSet, doc_indices: Ints) -> CandidateSet:
    """Return the candidates restricted to these places."""
    keep = np.isin(candidates.doc_indices, doc_indices)
    kept_memory = keep[candidates.memory_candidate]
    renumbered = np.cumsum(keep) - 1
    return CandidateSet(
        candidates.doc_indices[keep],
        candidates.words[keep],
        candidates.facts,
        candidates.memory_key[kept_memory],
        renumbered[candidates.memory_candidate[kept_memory]],
        candidates.memory_cosine[kept_memory],
        candidates.memory_weight[kept_memory],
    )


def _padded(rows: Sequence[Floats], shape: tuple[int, ...]) -> Floats:
    padded = np.zeros(shape, np.float32)
    for b, row in enumerate(rows):
        padded[b, : len(row)] = row
    return padded
