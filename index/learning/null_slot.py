"""Calibrates the null slot of a head on searches: with labelled queries after training, or with made queries before.

Every query is searched twice: among all documents, and without the documents that answer it. The second search is a
search of its own. To hide the answers among the candidates of the first would understate its evidence: BM25 is a share
of the best document's score. The ranking depends on no number that is fitted here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from index.candidates.base import MISSING
from index.generation.generation import Generation
from index.learning.examples import Feedback
from index.learning.held_out import sample
from index.learning.made_queries import MadeQuery, SourceText, make_queries
from index.learning.null_calibration import Array, NullFit, fit_cautious, null_evidence
from index.ranking.attention import AttentionHead, Candidates
from index.ranking.retrieval import CandidateSet, Query, assemble, retrieve
from index.ranking.search import project, search
from index.records import Floats, Ints, KeyKind, Mask

NULL_QUERIES = 300
"""Labelled queries that the null slot is calibrated on, at most."""
ANSWERED_DEPTH = 10
"""A query counts as answered if a document that answers it is among the first so many."""
LEAST_MADE = 50
"""Least made queries that are answered; with fewer the null slot is not calibrated."""
MADE_CONFIDENCE = 0.0
"""`confidence` of `fit_cautious` for made queries: they are harder than real ones, which is margin enough."""


@dataclass(frozen=True)
class NullEvidence:
    """The evidence for the null weight (`null_evidence`) of queries.

    answered (n, 2): of the first search of the queries with an answer among their first ANSWERED_DEPTH documents;
    unanswered (m, 2): of the second search of all queries.
    """

    answered: Array
    unanswered: Array


def calibrate_null(
    generation: Generation,
    head: AttentionHead,
    feedback: Sequence[Feedback],
    head_for: Callable[[str], AttentionHead | None] | None = None,
) -> AttentionHead:
    """Return the head with its null slot calibrated on labelled queries; not calibrated if they are too few.

    head_for: query key -> the head that did not train on this query, None if there is none; such queries are left out.
    The head that trained on a query finds more evidence for it than for a new query.
    """
    evidence = labelled_evidence(generation, head, feedback, head_for)
    fit = fit_cautious(evidence.answered, evidence.unanswered)
    return with_fit(head, fit) if fit else head.with_null(head.config.null, calibrated=False)


def calibrate_from_texts(
    generation: Generation, head: AttentionHead, made: Sequence[MadeQuery], vectors: Floats
) -> AttentionHead | None:
    """Return the head with its null slot calibrated on queries made of the collection's own texts.

    vectors (len(made), D): their unit vectors, encoded as queries. Deterministic. None with fewer than LEAST_MADE made
    queries that find their document: the head stays as it is.
    """
    evidence = made_evidence(generation, head, made, vectors)
    if len(evidence.answered) < LEAST_MADE:
        return None
    fit = fit_cautious(evidence.answered, evidence.unanswered, usual=True, confidence=MADE_CONFIDENCE)
    return with_fit(head, fit) if fit else None


def calibrate_from_documents(
    generation: Generation, head: AttentionHead, texts: Sequence[SourceText], encode: Callable[[Sequence[str]], Floats]
) -> tuple[AttentionHead, int]:
    """Return the head with its null slot calibrated on queries made of these texts, and their number.

    encode: texts to unit vectors (len(texts), D) of queries. With too few queries the head is returned as it is.
    """
    made = make_queries(texts)
    if len(made) < LEAST_MADE:
        return head, len(made)
    calibrated = calibrate_from_texts(generation, head, made, encode([one.text for one in made]))
    return calibrated or head, len(made)


def with_fit(head: AttentionHead, fit: NullFit) -> AttentionHead:
    """Return the head with this calibrated null slot."""
    return head.with_null((fit.offset, fit.slope, fit.peak))


def labelled_evidence(
    generation: Generation,
    head: AttentionHead,
    feedback: Sequence[Feedback],
    head_for: Callable[[str], AttentionHead | None] | None = None,
) -> NullEvidence:
    """Return the evidence of at most NULL_QUERIES queries with a confirmed document (`calibrate_null`)."""
    known = [one for one in feedback if any(gain > 0 for gain in one.gains.values())]
    heads = {one.query_key: head_for(one.query_key) if head_for else head for one in known}
    known = [one for one in known if heads[one.query_key] is not None]
    searches = []
    for one in sample(known, NULL_QUERIES, 0):
        ranker = heads[one.query_key]
        assert ranker is not None
        relevant = _living(generation, [row for row, gain in one.gains.items() if gain > 0])
        query = one.as_query()
        first = search(generation, ranker, query)
        second = search(generation, ranker, replace(query, allowed=_without(generation, relevant)))
        found = bool(np.isin(first.doc_indices[:ANSWERED_DEPTH], relevant).any())
        searches.append((first.logits, second.logits, found))
    return _evidence(searches)


def made_evidence(
    generation: Generation, head: AttentionHead, made: Sequence[MadeQuery], vectors: Floats
) -> NullEvidence:
    """Return the evidence of made queries (`calibrate_from_texts`)."""
    searches = []
    for one, vector in zip(made, vectors, strict=True):
        source = _living(generation, [one.row])
        if not len(source):
            continue
        query = Query(one.text, vector)
        found, first = _attended(generation, head, query, (int(source[0]), one.kind))
        _, second = _attended(generation, head, replace(query, allowed=_without(generation, source)))
        best = found[np.lexsort((found, -first))][:ANSWERED_DEPTH]
        searches.append((first, second, int(source[0]) in best))
    return _evidence(searches)


def _evidence(searches: Sequence[tuple[Floats, Floats, bool]]) -> NullEvidence:
    answered = [null_evidence(first) for first, _, found in searches if found]
    unanswered = [null_evidence(second) for _, second, _ in searches]
    return NullEvidence(np.reshape(answered, (-1, 2)), np.reshape(unanswered, (-1, 2)))


def _attended(
    generation: Generation, head: AttentionHead, query: Query, made_of: tuple[int, KeyKind] | None = None
) -> tuple[Ints, Floats]:
    """Return the candidates (N,) of a query and their logits (N,), without the key that the query is made of.

    made_of: doc index and kind of that key.
    """
    found = retrieve(generation, replace(query, signals=bool(len(head.trees))), project(head, query.vector))
    inputs = assemble(generation, [found], with_values=head.hops, with_fields=bool(head.priors.fields))
    if made_of is not None:
        inputs = _without_key(inputs, found, query.vector, *made_of)
    logits: Floats = head(query.vector[None], inputs).logits[0, :-1]
    return found.doc_indices, logits


def _without_key(inputs: Candidates, found: CandidateSet, vector: Floats, doc: int, kind: KeyKind) -> Candidates:
    """Return the candidates without the key of this kind and document that is nearest to the query."""
    slot = int(np.searchsorted(found.doc_indices, doc))
    own = np.flatnonzero((inputs.pair_slot == slot) & (inputs.pair_kind == int(kind)))
    if not len(own) or slot == len(found.doc_indices) or found.doc_indices[slot] != doc:
        return inputs
    keep = np.ones(len(inputs.pair_slot), np.bool_)
    keep[own[np.argmax(inputs.keys[inputs.pair_key[own]] @ vector)]] = False
    pairs = {name: getattr(inputs, name)[keep] for name in ("pair_query", "pair_key", "pair_slot", "pair_kind")}
    return replace(inputs, **pairs)


def _living(generation: Generation, rows: Sequence[int]) -> Ints:
    """Return the doc indices of the living documents among these rows."""
    found = generation.doc_indices(np.asarray(rows, np.int64))
    living: Ints = found[found != MISSING]
    return living


def _without(generation: Generation, doc_indices: Ints) -> Mask:
    """Return the mask (N,) of the living documents without these."""
    allowed: Mask = generation.alive.copy()
    allowed[doc_indices] = False
    return allowed
