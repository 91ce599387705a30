"""The documents that the word library finds, their exact BM25 scores, and which of these documents are the best."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from index.candidates.base import MISSING
from index.candidates.distinct import distinct
from index.generation.generation import Generation
from index.records import Floats, Ints, Mask
from index.words.query_words import QueryWords, Source, number_words
from index.words.slots import without_phrases
from index.words.word_search import Reading

MORE_WORDS = 4
"""One document by words is found more for so many, before exact scores decide."""
MORE_COMPLETED = 100
"""Documents that are found more for a word with several completions, which the library cannot count together."""


def found_by_words(
    generation: Generation, reading: Reading, count: int, allowed: Mask, idf: Mapping[str, float] | None
) -> Ints:
    """Return the doc indices of the allowed documents (N,) bool with the best scores of the word library.

    The `count` best, and one more for MORE_WORDS of them: the library scores with rounded lengths. idf: the idf of the
    terms in the whole collection, where the generation has a part of its documents. The library cannot count several
    completions together, so MORE_COMPLETED documents more are found there. It knows no order of words. Where documents
    may be left out, those with a whole synonym of several words are added, and the best by all other words.
    """
    among = _allowed_rows(generation, allowed)
    corrected = None
    if reading.corrected_terms:
        corrected = generation.rows[allowed & generation.documents_with_corrections(reading.words)]
    most = count + -(-count // MORE_WORDS)
    if any(len(slot.completed) > 1 for slot in reading.slots):
        most += MORE_COMPLETED

    def find(read: Reading, rows: Ints | None) -> Ints:
        return generation.words.find(read, most, rows, corrected, generation.id_order_of, idf)[0]

    rows = find(reading, among)
    if reading.words.phrases and len(rows) == most:
        whole = generation.rows[allowed & generation.documents_with_phrases(reading.words)]
        whole = whole if len(whole) <= most else find(reading, whole)
        others = find(replace(reading, slots=without_phrases(reading.slots)), among)
        rows = distinct(np.concatenate([rows, whole, others]))
    found = generation.doc_indices(rows)
    doc_indices: Ints = found[found != MISSING]
    return doc_indices


def _allowed_rows(generation: Generation, allowed: Mask) -> Ints | None:
    """Return the rows of the allowed documents, or None if no living document is excluded."""
    if allowed is generation.alive or bool((allowed == generation.alive).all()):
        return None
    return generation.rows[allowed]


def terms_alone(reading: Reading) -> tuple[tuple[str, float], ...]:
    """Return the terms that are evidence without others: not the pairs of a synonym that is a run without spaces."""
    if not reading.words.phrases:
        return reading.terms
    alone = np.isin(number_words([term for term, _ in reading.terms]), reading.words.words)
    return tuple(pair for pair, is_alone in zip(reading.terms, alone.tolist(), strict=True) if is_alone)


def runs_of_terms(reading: Reading) -> list[tuple[str, ...]]:
    """Return the terms of each synonym that has terms which are no evidence without the others, in order."""
    alone = {term for term, _ in terms_alone(reading)}
    every = [term for term, _ in reading.terms]
    if len(alone) == len(set(every)):
        return []
    by_number = dict(zip(number_words(every).tolist(), every, strict=True))
    phrases = (tuple(by_number[number] for number in phrase.words) for phrase in reading.words.phrases)
    return [phrase for phrase in phrases if not alone.issuperset(phrase)]


def bm25_scores(query: QueryWords, by_source: Floats) -> Floats:
    """Return the BM25 score of each document (n,) from its scores by source (n, len(Source))."""
    scores: Floats = by_source[:, Source.EXACT] if query.exact else by_source.sum(axis=1)
    return scores


def best_scored(generation: Generation, query: QueryWords, found: Ints, scores: Floats, count: int) -> Ints:
    """Return the places in found (n,) of the `count` documents with the best exact scores (n,), best first.

    Leaves out documents that have only a part of a synonym: the word library finds them, and their score is 0.
    """
    best = generation.best_first(found, scores)[:count]
    return best[scores[best] > 0] if query.phrases else best
