"""Term matching: how many words of a query a document contains, how near to each other, and in which order.

BM25 counts each word separately. Three more features treat the document as a sequence. Coverage is the share of the
query's words, by weight, that occur in the document. Proximity is the same share within the best window. Phrase is the
share of the query's adjacent word pairs, by weight, that are adjacent in the document. All lie in [0, 1]. This module
sees words as numbers, never text.

Source: Metzler and Croft 2005 (the sequential dependence model: single words, windows, ordered pairs).
Letters: Q words of a query, T words of the candidates, N candidates.
"""

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.records import Floats, Ints

Words = NDArray[np.uint32]
Doubles = NDArray[np.float64]
BLOCK_WORDS = 16
"""A window is two adjacent blocks: 32 words, starting at every 16th word; about one or two sentences."""
TABLE = 1 << 16
"""Size of a table over the last 16 bits of a word's number, which distinguish most words."""
K1, B = 1.2, 0.75
"""BM25: saturation of the term frequency, and normalisation by the document length."""


class Matches(NamedTuple):
    """Coverage, proximity and phrase, each (N,) in [0, 1]."""

    coverage: Floats
    proximity: Floats
    phrase: Floats


class Occurrences(NamedTuple):
    """The occurrences of a query's words in N documents; arrays are (hits,), by document and position, if not noted."""

    document: Ints
    """The document, in [0, N)."""
    within: Ints
    """The position in the document."""
    position: Ints
    """The position in the concatenation of the N documents."""
    word: Ints
    """The word, in [0, distinct words of the query)."""
    lengths: Ints
    """The number of words of each document (N,)."""
    first: Ints
    """The first position of each distinct word in the query (distinct words,)."""
    of_query: Ints
    """The words of the query (Q,), as indexes of distinct words."""


def number_words(words: Iterable[str]) -> Words:
    """Return a number per word (T,), the CRC-32 of its bytes: the same on every machine, without a vocabulary."""
    return np.fromiter((zlib.crc32(word.encode("utf-8", "replace")) for word in words), np.uint32)


def find_words(query: Words, words: Words, first_word: Ints, doc_indices: Ints) -> Occurrences:
    """Return the occurrences of the words of a query (Q,), in reading order, in the documents doc_indices (N,).

    words (T',): the words of all documents of the collection; document n has words[first_word[n]:first_word[n + 1]].
    """
    distinct, first, of_query = np.unique(query, return_index=True, return_inverse=True)
    begins = first_word.take(doc_indices)
    lengths = first_word.take(doc_indices + 1) - begins
    ends = np.cumsum(lengths)
    positions = np.repeat(begins - (ends - lengths), lengths)
    positions += np.arange(len(positions))
    position, word = _hits(words.take(positions), distinct)
    document = np.searchsorted(ends, position, side="right")
    within = position - (ends - lengths).take(document)
    return Occurrences(document, within, position, word, lengths, first, of_query)


def match(found: Occurrences, weight: Floats) -> Matches:
    """Return the matches of N documents; weight (Q,) > 0 is the weight of each query word, the same for equal words."""
    weights, documents = weight[found.first].astype(np.float64), len(found.lengths)
    if not len(found.position):
        nothing = np.zeros(documents, np.float32)
        return Matches(nothing, nothing, nothing)
    coverage = _covered(found.document, found.word, weights, documents) / weights.sum()
    proximity = _best_window(found.document, found.within, found.word, weights, found.lengths) / weights.sum()
    phrase = _phrase(found.document, found.position, found.word, weights, found.of_query, documents)
    return Matches(*(share.astype(np.float32) for share in (coverage, proximity, phrase)))


def bm25(found: Occurrences, weight: Floats, mean_length: float) -> Floats:
    """Return BM25 scores (N,) (Robertson and Zaragoza 2009). A repeated query word counts repeatedly.

    weight (Q,): the idf of each query word. mean_length: the mean number of words of a document of the collection.
    """
    words, documents = len(found.first), len(found.lengths)
    if not len(found.position):
        return np.zeros(documents, np.float32)
    counts = np.bincount(found.document * words + found.word, minlength=documents * words).reshape(documents, words)
    norm = K1 * (1 - B + B * found.lengths / mean_length)
    weights = weight[found.first] * np.bincount(found.of_query, minlength=words)
    saturated = counts * (K1 + 1) / (counts + norm[:, None])
    scores: Floats = np.einsum("nw,w->n", saturated, weights).astype(np.float32)  # no BLAS: see index.inner_products
    return scores


def _hits(words: Words, distinct: Words) -> tuple[Ints, Ints]:
    """Return the positions (hits,), ascending, of query words in words (T,), and the index of each in `distinct`.

    Most words are not in the query. A table over their last 16 bits excludes most of them without a comparison.
    """
    if not len(distinct):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    possible = np.zeros(TABLE, np.bool_)
    possible[distinct.astype(np.uint16)] = True
    position = possible.take(words.astype(np.uint16)).nonzero()[0]
    candidates = words.take(position)
    word = np.searchsorted(distinct, candidates)
    np.minimum(word, len(distinct) - 1, out=word)
    exact = distinct.take(word) == candidates
    return position[exact], word[exact]


def _best_window(document: Ints, within: Ints, word: Ints, weight: Doubles, lengths: Ints) -> Doubles:
    """Return the summed weight of the distinct query words in the best window of each document (N,).

    Window i consists of blocks i - 1 and i of a document; a hit in block i is in the windows i and i + 1.
    """
    blocks = -(-lengths // BLOCK_WORDS)
    first = np.cumsum(blocks) - blocks
    block = within // BLOCK_WORDS
    has_next = block + 1 < blocks[document]
    window = np.concatenate([first[document] + block, (first[document] + block + 1)[has_next]])
    covered = _covered(window, np.concatenate([word, word[has_next]]), weight, int(blocks.sum()))
    best = np.zeros(len(blocks))
    best[blocks > 0] = np.maximum.reduceat(covered, first[blocks > 0])
    return best


def _phrase(document: Ints, position: Ints, word: Ints, weight: Doubles, of_query: Ints, documents: int) -> Doubles:
    """Return the share (N,), by weight, of the query's adjacent word pairs that are adjacent in a document."""
    pairs = np.unique(of_query[:-1] * len(weight) + of_query[1:])
    both = weight[pairs // len(weight)] + weight[pairs % len(weight)]
    if not len(pairs):
        return np.zeros(documents)
    adjacent = np.flatnonzero((np.diff(position) == 1) & (np.diff(document) == 0))
    code = word[adjacent] * len(weight) + word[adjacent + 1]
    pair = np.searchsorted(pairs, code).clip(max=len(pairs) - 1)
    in_query = pairs[pair] == code
    share: Doubles = _covered(document[adjacent[in_query]], pair[in_query], both, documents) / both.sum()
    return share


def _covered(group: Ints, member: Ints, weight: Doubles, groups: int) -> Doubles:
    """Return the summed weight of the distinct members that occur in each group (groups,)."""
    occurs = np.zeros((groups, len(weight)))
    occurs[group, member] = 1.0
    covered: Doubles = np.einsum("gw,w->g", occurs, weight)  # no BLAS: see index.inner_products
    return covered
