"""Signals of a document for a query that are no parts of the evidence: words of the title, rarest words, length.

Only trees read them (`index.ranking.trees`): on most collections their linear weights gain nothing, but a split can
distinguish a document whose title lacks the rarest word of the query. Source: Robertson et al. 2004 (BM25 of fields).
"""

import numpy as np

from index.records import SIGNALS, Floats, Ints
from index.words.query_words import QueryWords
from index.words.term_matching import K1, B, Doubles, Occurrences, occurrence_words

LARGEST_WEIGHT = 12.0
"""Approximate idf of a word that occurs in no document of a collection of 100,000."""
LONG_DOCUMENT = 10.0
"""The signal `length` is log(1 + words) over it."""


def document_signals(query: QueryWords, found: Occurrences, title_words: Ints, mean_title: float) -> Floats:
    """Return SIGNALS (N, len(SIGNALS)) of N documents for a query.

    found: the occurrences of the query's words; title_words (N,): the number of words of each title; mean_title: its
    mean over the collection. title_coverage: the share of the query's words, by weight, in the title. title_density:
    the number of distinct query words in the title over the words of the title. title_bm25: BM25 of the title over the
    sum of the weights. rarest, best_match, missing: the weight of the rarest query word if the document has it, the
    largest weight of a matched word over the largest weight, and the largest weight of a word that the document lacks.
    length: the logarithm of the number of words. A phrase that stands for a word counts once, and its words not again.
    """
    documents, slots = len(found.lengths), len(query.weight)
    signals = np.zeros((documents, len(SIGNALS)), np.float32)
    signals[:, SIGNALS.index("length")] = np.log1p(found.lengths) / LONG_DOCUMENT
    if not slots:
        return signals
    weight = query.weight.astype(np.float64)
    slot = query.slot.take(found.word)
    in_title = found.within < title_words.take(found.document)
    share = _shares(query, found, slot) if query.phrases else None
    title_share = None if share is None else share[in_title]
    title = _counts(found.document[in_title], slot[in_title], title_share, documents, slots)
    has, in_the_title = _counts(found.document, slot, share, documents, slots) > 0, title > 0
    norm = K1 * (1 - B + B * title_words / max(1.0, mean_title))
    rarest = int(weight.argmax())
    columns = {
        "title_coverage": np.einsum("nw,w->n", in_the_title, weight) / weight.sum(),
        "title_density": in_the_title.sum(axis=1) / np.maximum(title_words, 1),
        "title_bm25": np.einsum("nw,w->n", title * (K1 + 1) / (title + norm[:, None]), weight) / weight.sum(),
        "rarest": has[:, rarest] * weight[rarest] / LARGEST_WEIGHT,
        "best_match": np.where(has, weight, 0.0).max(axis=1) / weight[rarest],
        "missing": np.where(has, 0.0, weight).max(axis=1) / LARGEST_WEIGHT,
    }
    for name, values in columns.items():
        signals[:, SIGNALS.index(name)] = values
    return signals


def _shares(query: QueryWords, found: Occurrences, slot: Ints) -> Doubles:
    """Return what each hit (hits,) counts: 1, or its share of a phrase; 0 for a word within a phrase of its slot."""
    words = occurrence_words(query).take(found.word)
    of_phrase = words > 1
    place = found.position * len(query.weight) + slot
    within = ~of_phrase & np.isin(place, place[of_phrase])
    return np.where(within, 0.0, 1 / words)


def _counts(document: Ints, slot: Ints, share: Doubles | None, documents: int, slots: int) -> Ints | Doubles:
    """Return how often each slot of the query occurs in each document (documents, slots). share: None for 1 each."""
    counts = np.bincount(document * slots + slot, share, documents * slots)
    return counts.reshape(documents, slots)
