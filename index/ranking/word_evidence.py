"""What the best BM25 scores of a query say about the query, and about each candidate."""

import math

import numpy as np

from index.records import Floats
from index.words.query_words import Source

LONG_QUERY = 64
"""Number of words at which the fact `length` reaches 1."""
RAREST_WEIGHT = 12.0
"""Approximate idf of a word that occurs in no document of a collection of 100,000."""
PEAK_DEPTH = 10
"""Number of best BM25 scores that the fact `peaked` is computed from."""


def query_facts(weight: Floats, scores: Floats) -> Floats:
    """Return FACTS (F,) of a query from the weights (Q,) of its words and its best BM25 scores, best first.

    length: log(1 + Q) / log(1 + LONG_QUERY). rarest: the largest weight of a word over RAREST_WEIGHT. peaked: 1 - mean
    of the PEAK_DEPTH best scores over the best score, 0 if all are equal. Only heads with gates use the facts.
    """
    length = math.log1p(len(weight)) / math.log1p(LONG_QUERY)
    rarest = float(weight.max(initial=0.0)) / RAREST_WEIGHT
    ten = np.zeros(PEAK_DEPTH)
    ten[: min(len(scores), PEAK_DEPTH)] = scores[:PEAK_DEPTH]
    peaked = 1 - float(ten.mean()) / float(ten[0]) if ten[0] > 0 else 0.0
    return np.asarray([length, rarest, peaked], np.float32).clip(0, 1)


def word_parts(by_source: Floats, matches: Floats, best: Floats) -> Floats:
    """Return the word evidence (n, len(LEXICAL)) from BM25 by source (n, len(Source)) and the matches (n, 3).

    best (M,): the best BM25 scores of the query, best first. BM25 is divided by the first of them.
    """
    shares = np.zeros_like(by_source)
    if len(best) and best[0] > 0:
        shares = np.minimum(by_source / best[0], np.float32(1))
    return np.column_stack([shares[:, Source.EXACT], matches, shares[:, Source.EXACT + 1 :]])
