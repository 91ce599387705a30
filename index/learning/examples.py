"""Training examples from feedback: for each query its candidates, their gains and their propensities.

Sees rows and vectors, never events or SQL. The memory of an example's own query is left out of its candidates and its
evidence: with it, memory would look perfect in training and generalise badly.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.candidates.base import MISSING
from index.encoding.encoder import Encoder
from index.generation.generation import Generation
from index.learning.contrasts import Contrasts
from index.learning.slates import Slate, Slates, stacked
from index.memory.click_worth import ASSUMED_CURVE
from index.memory.query_key import bare_key
from index.ranking.array_api import Array
from index.ranking.attention import Candidates
from index.ranking.retrieval import CandidateSet, Query, assemble, read_query, retrieve, with_vectors
from index.records import EncodedQuery, Floats, Ints
from index.words.reading_options import ReadingOptions

FOLDS = 10
TEST_FOLDS = 2
"""Folds whose queries no model is ever trained on. The other folds are split again to select a recipe."""
LONGEST_KNOWN_WORD = 100
"""Characters of a word that tokenizers cut into parts; WordPiece has the unknown token for a longer one."""
UNKNOWN = 0
"""The number of all clients without a name together."""
MAX_SILENT = 50_000
"""Most queries without feedback in a log: those with the lowest hashes."""
SOLVED_UNCLICKED = 0.1
"""Probability that a document that was examined and not clicked solved a session, by the text of its hit."""

Showings = Mapping[int, Mapping[int, int]]
"""Counts of impressions or clicks: row -> 1-based position -> count."""
ClientClicks = Mapping[int, Mapping[int, int]]
"""Who clicked: row -> number of a client -> clicks. Clients are numbered within a log; UNKNOWN has no name."""


@dataclass(frozen=True)
class Solved:
    """A session that the user marked as solved: the list shown, row -> 1-based position, and the rows clicked."""

    shown: Mapping[int, int]
    clicked: frozenset[int]


@dataclass(frozen=True)
class InContext:
    """A list with a click that was shown in a session after other actions.

    context: rows of documents that the user acted on before, the newest last. shown: row -> 1-based position. clicked:
    rows.
    """

    context: tuple[int, ...]
    shown: Mapping[int, int]
    clicked: frozenset[int]


@dataclass(frozen=True)
class Feedback:
    """All feedback on one query: gains of documents, and for clicks also the impressions of all documents.

    query_key is the unit of splitting and of memory. gains are grades, below 0 for an irrelevant document; the gain of
    clicks is their sum over clients and lists. shown counts the impressions of every document over all logged lists of
    the query, with and without clicks; it is None for judgments, for which positions do not matter. clicks counts the
    clicks on these impressions. examined are the rows at most one position below the lowest click on their list, which
    were surely examined; None if unknown. sessions are the sessions marked as solved. confidence, in (0, 1], is the
    weight of the query in the loss. contexts are its newest lists with a click and a context; training reads them for
    the parameter `context` alone. explored are explored lists, only for a run that learns from them. vector is the unit
    vector of the text that searches encode, after corrections. memory_vector is the unit vector of the typed text, None
    if searches encode that text. known is the share of the tokens of the encoded text that the encoder knows, 0 if no
    text was encoded. contrasts compare the impressions of each document with its earlier impressions
    (`index.learning.contrasts`). clients says who clicked: None if that is not known.
    """

    query_key: str
    text: str
    vector: Floats
    gains: Mapping[int, float]
    shown: Showings | None = None
    clicks: Showings | None = None
    examined: frozenset[int] | None = None
    sessions: tuple[Solved, ...] = ()
    confidence: float = 1.0
    contexts: tuple[InContext, ...] = ()
    explored: tuple[Slate, ...] = ()
    memory_vector: Floats | None = None
    known: float = 1.0
    contrasts: Contrasts = ()
    clients: ClientClicks | None = None

    def as_query(self, **more: Any) -> Query:
        """Return the query as a search sends it, without its own memory. more: other fields of `Query`."""
        return Query(
            self.text,
            self.vector,
            excluded_query=self.query_key,
            memory_vector=self.memory_vector,
            encoded=self.known > 0,
            known=self.known,
            **more,
        )

    @property
    def is_silent(self) -> bool:
        """Whether it has impressions only: no gain, no solved session. It has a vector only with explored lists."""
        return not self.gains and not self.sessions and (not len(self.vector) or bool(self.explored))


def with_search_vectors(
    generation: Generation,
    feedback: Sequence[Feedback],
    encoder: Callable[[], Encoder],
    reading: ReadingOptions | None = None,
) -> list[Feedback]:
    """Return feedback with the vectors that searches for its texts have (`index.ranking.retrieval.with_vectors`).

    The vectors of the feedback encode the texts that were typed; without a vector it stays as it is. encoder: loads the
    encoder, and is called if a text is corrected, or has a letter beyond ASCII or a very long word, so that some of its
    tokens may be unknown. reading: how texts are read; None: as the generation says.
    """
    typed = {one.text.rstrip(): one.vector for one in feedback if len(one.vector)}

    def encode(text: str) -> EncodedQuery:
        vector = typed.get(text.rstrip())
        if vector is None:
            return encoder().encode_query(text)
        is_plain = text.isascii() and max(map(len, text.split()), default=0) <= LONGEST_KNOWN_WORD
        return EncodedQuery(vector, 1.0 if is_plain else encoder().known_share(text))

    def searched(one: Feedback) -> Feedback:
        query = Query(one.text, np.zeros(generation.dim, np.float32), reading=reading)
        query = with_vectors(query, read_query(generation, query), encode, has_memory=True)
        known = query.known if query.encoded else 0.0
        return replace(one, vector=query.vector, memory_vector=query.memory_vector, known=known)

    return [searched(one) if len(one.vector) else one for one in feedback]


@dataclass(frozen=True)
class Example:
    """One training query; gains >= 0, log_propensity and solved are (N,), aligned with its candidates.

    slates: its explored lists, None for an example of another interpretation.
    """

    feedback: Feedback
    candidates: CandidateSet
    gains: Floats
    log_propensity: Floats
    solved: Floats
    slates: Slates | None = None


@dataclass(frozen=True)
class Batch:
    """B examples as arrays: query (B, D), flat candidates, gains, log_propensity and solved (B, N), confidence (B,).

    slates: the explored lists of all examples, None if they have none.
    """

    query: Array
    candidates: Candidates
    gains: Array
    log_propensity: Array
    solved: Array
    confidence: Array
    slates: Slates | None = None


def expected_examinations(impressions: Mapping[int, int], curve: Floats) -> float:
    """Return the expected examinations of a document: sum_p n_p curve[p - 1] over its impressions (position -> n_p)."""
    return sum(times * float(curve[min(position, len(curve)) - 1]) for position, times in impressions.items())


def hash_of(query_key: str) -> int:
    """Return a hash of a query key in [0, 2^64): the same on every machine and in every release."""
    return int.from_bytes(hashlib.sha256(query_key.encode("utf-8", "replace")).digest()[:8], "big")


def fold_of(query_key: str) -> int:
    """Return the fold in [0, FOLDS) of a query key. All spellings of its words have the same fold."""
    return hash_of(bare_key(query_key)) % FOLDS


def half_of(query_key: str) -> int:
    """Return 0 or 1 for a query key, independent of its fold; the same for all spellings of its words."""
    return hash_of(bare_key(query_key)) // 16 % 2


def split(feedback: Sequence[Feedback]) -> tuple[list[Feedback], list[Feedback]]:
    """Return the queries to learn from and the held-out test queries, by fold."""
    ordered = sorted(feedback, key=lambda one: one.query_key)
    learn = [one for one in ordered if fold_of(one.query_key) >= TEST_FOLDS]
    test = [one for one in ordered if fold_of(one.query_key) < TEST_FOLDS]
    return learn, test


def make_example(
    generation: Generation, feedback: Feedback, projected: Floats, count: int, curve: Floats | None = ASSUMED_CURVE
) -> Example:
    """Return the example of one query: judged documents among retrieved documents, or clicked among shown documents.

    projected (H, D) are the search vectors; `count` candidates are retrieved by keys and `count` by words. A judged
    document that was not retrieved is left out: it would differ from the hard negatives only by being added. Documents
    that were never shown could not be clicked, and are not candidates of a click example.

    curve[p - 1] > 0 is the examination probability of position p: every document shown is a candidate, and its log
    propensity comes from its expected examinations. None is the naive interpretation: only the documents in `examined`
    are candidates, all with the same propensity.
    """
    implicit = feedback.shown is not None
    rows = _click_candidates(feedback, curve is None) if implicit else []
    shown = generation.doc_indices(np.asarray(rows, np.int64))
    shown = shown[shown != MISSING]
    query = feedback.as_query(count=0 if implicit else count, signals=True)
    candidates = retrieve(generation, query, projected, required=shown)
    if implicit:
        candidates = _only(candidates, np.sort(shown))
    found = generation.rows[candidates.doc_indices]
    gains = gains_of(feedback, found)
    propensity = log_propensity(feedback.shown, curve, found)
    return Example(feedback, candidates, gains, propensity, _solved(feedback.sessions, curve, found))


def make_batch(
    generation: Generation, examples: Sequence[Example], with_values: bool = False, with_fields: bool = False
) -> Batch:
    """Return the examples as arrays; with_values gathers the values, which the second hop needs."""
    sets = [example.candidates for example in examples]
    candidates = assemble(generation, sets, with_values=with_values, with_fields=with_fields)
    shape = candidates.mask.shape
    return Batch(
        query=np.stack([example.feedback.vector for example in examples]),
        candidates=candidates,
        gains=_padded([example.gains for example in examples], shape),
        log_propensity=_padded([example.log_propensity for example in examples], shape),
        solved=_padded([example.solved for example in examples], shape),
        confidence=np.asarray([example.feedback.confidence for example in examples], np.float32),
        slates=stacked(slates) if (slates := [one.slates for one in examples if one.slates is not None]) else None,
    )


def make_examples(
    generation: Generation,
    feedback: Sequence[Feedback],
    project: Callable[[Floats], Floats],
    count: int,
    curve: Floats | None = ASSUMED_CURVE,
) -> list[Example]:
    """Return the examples with a gain or a solved session, and at least two candidates."""
    examples = []
    for one in feedback:
        example = make_example(generation, one, project(one.vector), count, curve)
        if (example.gains.any() or example.solved.any()) and len(example.gains) > 1:
            examples.append(example)
    return examples


def _click_candidates(feedback: Feedback, naive: bool) -> list[int]:
    """Return the rows of the candidates of a click example."""
    shown = feedback.shown or {}
    examined = feedback.examined if naive and feedback.examined is not None else shown.keys()
    solved = {row for session in feedback.sessions for row in session.shown}
    return sorted(set(feedback.gains) | set(examined) | solved)


def gains_of(feedback: Feedback, rows: Ints) -> Floats:
    """Return (N,) max(grade, 0) of each document, 0 without feedback.

    The loss makes a distribution of the gains (docs/math.md, 7). A negative grade would take weight from the sum.
    """
    return np.asarray([max(0.0, feedback.gains.get(row, 0.0)) for row in rows.tolist()], np.float32)


def log_propensity(shown: Showings | None, curve: Floats | None, rows: Ints) -> Floats:
    """Return (N,) log of the expected examinations relative to their maximum, <= 0; 0 for a document never shown."""
    if shown is None or curve is None or not len(rows):
        return np.zeros(len(rows), np.float32)
    return relative_log(np.asarray([expected_examinations(shown.get(row, {}), curve) for row in rows.tolist()]))


def relative_log(examinations: NDArray[np.float64]) -> Floats:
    """Return (N,) log of expected examinations (N,), N > 0, relative to their maximum; 0 for a document never shown."""
    largest = examinations.max()
    relative = np.where(examinations > 0, examinations, largest) / (largest or 1.0)
    return np.log(np.where(relative > 0, relative, 1.0)).astype(np.float32)


def _solved(sessions: Sequence[Solved], curve: Floats | None, rows: Ints) -> Floats:
    """Return (N,) P(solved | n) of each document, the mean over sessions; zeros without sessions."""
    chance = np.zeros(len(rows), np.float64)
    certain = np.ones(1, np.float32) if curve is None else curve
    for session in sessions:
        for n, row in enumerate(rows.tolist()):
            if row in session.clicked:
                chance[n] += 1.0
            elif row in session.shown:
                chance[n] += SOLVED_UNCLICKED * expected_examinations({session.shown[row]: 1}, certain)
    return (chance / max(1, len(sessions))).astype(np.float32)


def _only(candidates: CandidateSet, doc_indices: Ints) -> CandidateSet:
    """Return the candidates restricted to these doc indices."""
    keep = np.isin(candidates.doc_indices, doc_indices)
    kept_memory = keep[candidates.memory_candidate]
    renumbered = np.cumsum(keep) - 1
    return replace(
        candidates,
        doc_indices=candidates.doc_indices[keep],
        words=candidates.words[keep],
        memory_key=candidates.memory_key[kept_memory],
        memory_candidate=renumbered[candidates.memory_candidate[kept_memory]],
        memory_cosine=candidates.memory_cosine[kept_memory],
        memory_weight=candidates.memory_weight[kept_memory],
        memory_same=candidates.memory_same[kept_memory],
        exact=(),  # the example's own query is excluded
        signals=None if candidates.signals is None else candidates.signals[keep],
        id_order=None if candidates.id_order is None else candidates.id_order[keep],
    )


def _padded(rows: Sequence[Floats], shape: tuple[int, ...]) -> Floats:
    padded = np.zeros(shape, np.float32)
    for b, row in enumerate(rows):
        padded[b, : len(row)] = row
    return padded
