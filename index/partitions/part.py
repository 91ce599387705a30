"""One part of the documents of a collection: what it nominates for a query, and the evidence for its candidates.

Sees a generation that has the documents of the part and the memory of the whole collection. Documents are named by
rows, which are numbers of the whole collection. A part scores nothing that depends on other documents: a query comes
with its reading and with the statistics of the whole collection.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from index.candidates.distinct import distinct
from index.generation.document_fields import FieldPairs
from index.generation.generation import Generation
from index.ranking.attention import DENSE, AttentionHead
from index.ranking.retrieval import (
    CandidateSet,
    Mode,
    Query,
    assemble,
    best_by_words,
    exact_memory,
    near_memory,
    read_query,
    titled_by,
)
from index.ranking.search import reads_fields
from index.ranking.word_evidence import PEAK_DEPTH
from index.ranking.word_scores import best_scored, bm25_scores
from index.records import FACTS, LEXICAL, SIGNALS, Floats, Ints, Mask
from index.words.query_words import Source

MATCHES = 3
"""Coverage, proximity and phrase."""


@dataclass(frozen=True)
class Scored:
    """Documents of a part with scores, best first: rows, scores (n,), and bytes (n,) that sort as their ids do."""

    rows: Ints
    scores: Floats
    id_order: NDArray[np.bytes_]


@dataclass(frozen=True)
class Nominations:
    """The candidates of a part, before the parts are compared.

    by_keys: for each search vector, the documents with the nearest keys and their scores. by_words: the best documents
    by words with their BM25 scores. confirmed (m,): rows that a near past query confirms. exact: documents that are
    confirmed for exactly this query, with their exact ratings. evidence: for all of them, None where it is not wanted.
    """

    by_keys: tuple[Scored, ...]
    by_words: Scored
    confirmed: Ints
    exact: Scored
    evidence: "PartEvidence | None" = None

    @property
    def rows(self) -> Ints:
        """The rows of all nominated documents, ascending."""
        lists = [one.rows for one in (*self.by_keys, self.by_words, self.exact)]
        return distinct(np.concatenate([*lists, self.confirmed]))


@dataclass(frozen=True)
class PartEvidence:
    """The evidence of a part for n candidates, ascending by row.

    dense (n, DENSE); by_source (n, len(Source)): BM25; matches (n, MATCHES); signals (n, len(SIGNALS)) or None; values
    (n, V) or None. memory_row, memory_cosine, memory_weight, memory_same (m,): the near past queries that confirm a
    candidate. titled (n,): whether the title has exactly the words of the query; None: not in this mode. fields: the
    metadata, by row; None if the head has no priors of fields.
    """

    rows: Ints
    id_order: NDArray[np.bytes_]
    dense: Floats
    by_source: Floats
    matches: Floats
    signals: Floats | None
    values: Floats | None
    memory_row: Ints
    memory_cosine: Floats
    memory_weight: Floats
    memory_same: Mask
    titled: Mask | None
    fields: FieldPairs | None = None


def nominate(
    generation: Generation, head: AttentionHead, query: Query, projected: Floats, asked: Floats | None
) -> Nominations:
    """Return what `retrieve` would take from this part if the part were the collection: at most `count` of each kind.

    projected (H, D): the search vectors. The best of the collection are among the best of its parts. asked (D,): the
    query vector that scores the keys of the evidence; None: no evidence. The evidence of documents that are cut later
    costs a part less than being asked again.
    """
    allowed = generation.alive if query.allowed is None else query.allowed & generation.alive
    nearest = generation.nearest_with_scores(projected, query.count, allowed) if query.by_keys else []
    _, _, _, confirmed = near_memory(generation, query, allowed)
    first, ratings = exact_memory(generation, query, allowed)
    found = Nominations(
        by_keys=tuple(_scored(generation, doc_indices, scores) for doc_indices, scores in nearest),
        by_words=_best_words(generation, query, allowed),
        confirmed=generation.rows[distinct(confirmed)],
        exact=_scored(generation, first, ratings),
    )
    if asked is None:
        return found
    return replace(found, evidence=evidence_of(generation, head, query, asked, found.rows, False))


def evidence_of(
    generation: Generation, head: AttentionHead, query: Query, asked: Floats, rows: Ints, with_values: bool
) -> PartEvidence:
    """Return the evidence for the documents with these rows (n,), ascending; a row that is gone is left out.

    asked (D,): the query vector that scores the keys.
    """
    doc_indices = generation.doc_indices(rows)
    doc_indices = doc_indices[doc_indices >= 0]
    found = candidates_of(generation, query, doc_indices)
    inputs = assemble(generation, [found], query.by_keys, with_values)
    by_source, matches, signals = _words(generation, query, doc_indices)
    dense = head.dense(asked[None], inputs)[0] if len(doc_indices) else np.zeros((0, DENSE), np.float32)
    own_rows = generation.rows[doc_indices]
    return PartEvidence(
        rows=own_rows,
        id_order=generation.columns.id_order.take(doc_indices),
        dense=dense,
        by_source=by_source,
        matches=matches,
        signals=signals,
        values=None if inputs.values is None else inputs.values[0],
        memory_row=own_rows[found.memory_candidate],
        memory_cosine=found.memory_cosine,
        memory_weight=found.memory_weight,
        memory_same=found.memory_same,
        titled=titled_by(generation, query, doc_indices),
        fields=generation.fields_of(doc_indices, own_rows) if reads_fields(head, query) else None,
    )


def candidates_of(generation: Generation, query: Query, doc_indices: Ints) -> CandidateSet:
    """Return these documents, ascending, as candidates with their past queries, without the evidence of words."""
    allowed: Mask = np.zeros(len(generation.rows), np.bool_)
    allowed[doc_indices] = True
    near, cosine, same, confirmed = near_memory(generation, query, allowed)
    return CandidateSet(
        doc_indices=doc_indices,
        words=np.zeros((len(doc_indices), len(LEXICAL)), np.float32),
        facts=np.full(len(FACTS), 0.5, np.float32),
        memory_key=near,
        memory_candidate=np.searchsorted(doc_indices, confirmed),
        memory_cosine=cosine,
        memory_weight=generation.memory.weights[near],
        memory_same=same,
    )


def _best_words(generation: Generation, query: Query, allowed: Mask) -> Scored:
    """Return the best documents by words. Their scores are exact, so that those of several parts can be compared."""
    if query.mode is Mode.DENSE:
        return _scored(generation, np.empty(0, np.int64), np.empty(0, np.float32))
    doc_indices = best_by_words(generation, query, allowed)
    words = read_query(generation, query).words
    scores = bm25_scores(words, generation.match(words, doc_indices, statistics=query.statistics)[0])
    order = best_scored(generation, words, doc_indices, scores, max(query.count, PEAK_DEPTH))
    return _scored(generation, doc_indices[order], scores[order])


def _words(generation: Generation, query: Query, doc_indices: Ints) -> tuple[Floats, Floats, Floats | None]:
    """Return BM25 by source, the matches and the signals of these documents; zeros without words."""
    count = len(doc_indices)
    if query.mode is Mode.DENSE:
        signals = np.zeros((count, len(SIGNALS)), np.float32) if query.signals else None
        return np.zeros((count, len(Source)), np.float32), np.zeros((count, MATCHES), np.float32), signals
    words = read_query(generation, query).words
    by_source, matches, signals = generation.match(words, doc_indices, query.signals, query.statistics)
    return by_source, np.column_stack(matches), signals


def _scored(generation: Generation, doc_indices: Ints, scores: Floats) -> Scored:
    return Scored(generation.rows[doc_indices], scores, generation.columns.id_order.take(doc_indices))
