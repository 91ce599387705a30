"""The documents of a collection in several parts, as the source of a ranking.

The parts nominate their best documents with the evidence for them, and the best of all of them are the candidates. What
depends on all candidates is computed here: the largest BM25 score, the facts of the query, and in
`index.ranking.search` the softmax, the null slot, the second hop, the trees and the priors. So weights and explanations
do not depend on how the documents are split. Documents are named by rows.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from index.candidates.distinct import distinct
from index.generation.document_fields import NO_PAIRS, joined
from index.partitions.part import MATCHES, Nominations, PartEvidence, Scored
from index.ranking.attention import DENSE, Candidates
from index.ranking.retrieval import (
    CandidateSet,
    Mode,
    Query,
    memory_arrays,
    trust_of,
)
from index.ranking.search import Gathered
from index.ranking.word_evidence import PEAK_DEPTH, query_facts, word_parts
from index.records import FACTS, LEXICAL, SIGNALS, Floats, Ints
from index.words.query_words import Source


class Parts(Protocol):
    """The parts of a collection, wherever they are."""

    def nominate(self, query: Query, vectors: Floats, asked: Floats | None) -> Sequence[Nominations]:
        """Return what each part nominates (`part.nominate`), with its evidence for the query vector asked (D,)."""

    def evidence_of(self, query: Query, asked: Floats, rows: Ints, with_values: bool) -> Sequence[PartEvidence]:
        """Return the evidence of each part for its documents among these rows (`part.evidence_of`)."""

    def values_of(self, rows: Ints) -> Floats:
        """Return the values (n, V) of these documents."""


@dataclass(frozen=True)
class PartedDocuments:
    """The source of a ranking whose documents are in parts."""

    parts: Parts

    def gather(
        self, query: Query, asked: Floats, vectors: Floats, required: Ints | None, with_values: bool
    ) -> Gathered:
        started = time.perf_counter()
        nominated = self.parts.nominate(query, vectors, None if with_values else asked[0])
        rows, best = cut(nominated, query, required)
        known = [taken(one.evidence, rows) for one in nominated if one.evidence is not None]
        missing = np.setdiff1d(rows, np.concatenate([_NONE, *(one.rows for one in known)]))
        more = self.parts.evidence_of(query, asked[0], missing, with_values) if len(missing) else ()
        evidence = merged([*known, *more])
        exact = _merged([one.exact for one in nominated])
        candidates = _candidates(query, evidence, best, exact)
        return Gathered(
            candidates, _inputs(candidates, evidence), evidence.dense[None], _best_first(evidence),
            time.perf_counter() - started,
        )  # fmt: skip

    def values_of(self, documents: Ints) -> Floats:
        return self.parts.values_of(documents)


def cut(nominated: Sequence[Nominations], query: Query, required: Ints | None = None) -> tuple[Ints, Floats]:
    """Return the rows of the candidates, ascending, and the best BM25 scores, best first.

    The candidates are the `count` nearest of all parts for each search vector, the `count` best by words, and all
    documents that past queries confirm or that are required.
    """
    by_vector = zip(*(one.by_keys for one in nominated), strict=True)
    nearest = [_merged(lists).rows[: query.count] for lists in by_vector]
    by_words = _merged([one.by_words for one in nominated])
    confirmed = [one.confirmed for one in nominated]
    first = [one.exact.rows for one in nominated]
    more = [] if required is None else [required]
    rows = distinct(np.concatenate([_NONE, *more, *nearest, by_words.rows[: query.count], *confirmed, *first]))
    return rows, by_words.scores[: max(query.count, PEAK_DEPTH)]


def taken(evidence: PartEvidence, rows: Ints) -> PartEvidence:
    """Return the evidence for those of its documents that are among these rows, ascending."""
    kept, of_memory = np.isin(evidence.rows, rows), np.isin(evidence.memory_row, rows)
    return PartEvidence(
        rows=evidence.rows[kept],
        id_order=evidence.id_order[kept],
        dense=evidence.dense[kept],
        by_source=evidence.by_source[kept],
        matches=evidence.matches[kept],
        signals=None if evidence.signals is None else evidence.signals[kept],
        values=None if evidence.values is None else evidence.values[kept],
        memory_row=evidence.memory_row[of_memory],
        memory_cosine=evidence.memory_cosine[of_memory],
        memory_weight=evidence.memory_weight[of_memory],
        memory_same=evidence.memory_same[of_memory],
        titled=None if evidence.titled is None else evidence.titled[kept],
        fields=None if evidence.fields is None else evidence.fields.of(np.isin(evidence.fields.owners, rows)),
    )


def merged(found: Sequence[PartEvidence]) -> PartEvidence:
    """Return the evidence of all parts in one object, ascending by row."""
    given = [one for one in found if len(one.rows)]
    if not given:
        return found[0] if found else _nothing()
    rows = np.concatenate([one.rows for one in given])
    order = np.argsort(rows)
    has_signals = all(one.signals is not None for one in given)
    has_titled = all(one.titled is not None for one in given)
    has_values = all(one.values is not None for one in given)
    return PartEvidence(
        rows=rows[order],
        id_order=np.concatenate([one.id_order for one in given])[order],
        dense=np.concatenate([one.dense for one in given])[order],
        by_source=np.concatenate([one.by_source for one in given])[order],
        matches=np.concatenate([one.matches for one in given])[order],
        signals=np.concatenate([one.signals for one in given])[order] if has_signals else None,
        values=np.concatenate([one.values for one in given])[order] if has_values else None,
        memory_row=np.concatenate([one.memory_row for one in given]),
        memory_cosine=np.concatenate([one.memory_cosine for one in given]),
        memory_weight=np.concatenate([one.memory_weight for one in given]),
        memory_same=np.concatenate([one.memory_same for one in given]),
        titled=np.concatenate([one.titled for one in given])[order] if has_titled else None,
        fields=joined([one.fields for one in given]),
    )


def _merged(lists: Sequence[Scored]) -> Scored:
    """Return the documents of several lists, the best score first; equal scores in the order of the ids."""
    if not lists:
        return Scored(_NONE, np.empty(0, np.float32), np.empty(0, "S1"))
    rows, scores, ids = (
        np.concatenate([getattr(one, name) for one in lists]) for name in ("rows", "scores", "id_order")
    )
    order = np.lexsort((rows, ids, -scores))
    return Scored(rows[order], scores[order], ids[order])


def _candidates(query: Query, evidence: PartEvidence, best: Floats, exact: Scored) -> CandidateSet:
    """Return the candidates with the evidence that depends on all of them, as `retrieve` makes it of one generation."""
    count = len(evidence.rows)
    words, facts, trust = np.zeros((count, len(LEXICAL)), np.float32), np.full(len(FACTS), 0.5, np.float32), 1.0
    if query.mode is not Mode.DENSE:
        assert query.read is not None, "parts do not read a query: it comes with its reading"
        read = query.read.words
        words = word_parts(evidence.by_source, evidence.matches, best)
        facts = query_facts(read.weight[read.of_query], best)
        trust = trust_of(query, query.read)
    is_there = np.isin(exact.rows, evidence.rows)
    places = np.searchsorted(evidence.rows, exact.rows[is_there])
    return CandidateSet(
        doc_indices=evidence.rows,
        words=words,
        facts=facts,
        memory_key=np.zeros(len(evidence.memory_row), np.int64),
        memory_candidate=np.searchsorted(evidence.rows, evidence.memory_row),
        memory_cosine=evidence.memory_cosine,
        memory_weight=evidence.memory_weight,
        memory_same=evidence.memory_same,
        trust=trust,
        exact=tuple(zip(places.tolist(), exact.scores[is_there].tolist(), strict=True)),
        signals=evidence.signals,
        titled=evidence.titled,
        id_order=evidence.id_order,
    )


def _inputs(candidates: CandidateSet, evidence: PartEvidence) -> Candidates:
    """Return what attention reads besides the dense evidence, which the parts have computed from the keys."""
    no_numbers = np.empty(0, np.int64)
    return Candidates(
        keys=np.empty((0, 0), np.float32),
        pair_query=no_numbers,
        pair_key=no_numbers,
        pair_slot=no_numbers,
        pair_kind=no_numbers,
        words=candidates.words[None],
        facts=candidates.facts[None],
        mask=np.ones((1, len(candidates.doc_indices)), np.bool_),
        **memory_arrays([candidates], len(candidates.doc_indices)),
        values=None if evidence.values is None else evidence.values[None],
        trust=None if candidates.trust == 1 else np.asarray([candidates.trust], np.float32),
        signals=None if candidates.signals is None else candidates.signals[None],
        id_order=evidence.id_order[None],
        fields=None if evidence.fields is None else evidence.fields.owned_by(evidence.rows),
    )


def _best_first(evidence: PartEvidence) -> Callable[[Floats], Ints]:
    def order(scores: Floats) -> Ints:
        ordered: Ints = np.lexsort((evidence.rows, evidence.id_order, -scores))
        return ordered

    return order


def _nothing() -> PartEvidence:
    """Return the evidence of no part."""
    none = np.empty(0, np.float32)
    return PartEvidence(
        rows=_NONE,
        id_order=np.empty(0, "S1"),
        dense=np.zeros((0, DENSE), np.float32),
        by_source=np.zeros((0, len(Source)), np.float32),
        matches=np.zeros((0, MATCHES), np.float32),
        signals=np.zeros((0, len(SIGNALS)), np.float32),
        values=None,
        memory_row=_NONE,
        memory_cosine=none,
        memory_weight=none,
        memory_same=np.empty(0, np.bool_),
        titled=None,
        fields=NO_PAIRS,
    )


_NONE = np.empty(0, np.int64)
