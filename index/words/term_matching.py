"""How a document holds the words of a query: how many of them, how near to each other, and in which order.

BM25 counts each word by itself. These three measures see the document as a sequence: coverage is the share of the
query's words, by weight, that occur at all; proximity that share within the best window; phrase the share of the
query's pairs of neighbours that are neighbours there. All lie in [0, 1]. Sees numbers that stand for words, never text.

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
"""A window is two neighbouring blocks: 32 words, beginning at every sixteenth; about a sentence or two."""
TABLE = 1 << 16
"""Numbers of 16 bits: the last of a word's number tell most words apart."""


K1, B = 1.2, 0.75
"""Of BM25: how soon more of a word counts no more, and how much a long document is held to have it by its length."""


class Matches(NamedTuple):
    """coverage, proximity and phrase, each (N,) in [0, 1]."""

    coverage: Floats
    proximity: Floats
    phrase: Floats


class Occurrences(NamedTuple):
    """Where the words of a query stand in N documents; one entry per hit, all (hits,), by document and position."""

    document: Ints
    """In [0, N)."""
    within: Ints
    """Words before it in its document."""
    position: Ints
    """Words before it in all of the documents, one after the other."""
    word: Ints
    """In [0, distinct words of the query)."""
    lengths: Ints
    """Words of each document (N,)."""
    first: Ints
    """Where each distinct word first stands in the query."""
    of_query: Ints
    """The query (Q,) as numbers of distinct words."""


def number_words(words: Iterable[str]) -> Words:
    """Return one number per word, (T,): a checksum of its bytes, the same everywhere, so that no vocabulary is kept."""
    return np.fromiter((zlib.crc32(word.encode("utf-8", "replace")) for word in words), np.uint32)


def find_words(query: Words, words: Words, first_word: Ints, doc_indices: Ints) -> Occurrences:
    """Return where the words of a query (Q,), in reading order, stand in the documents at these places (N,).

    words (T',) of all documents one after the other, document n's being first_word[n]:first_word[n + 1].
    """
    distinct, first, of_query = np.unique(query, return_index=True, return_inverse=True)
    begins = first_word.take(doc_indices)
    lengths = first_word.take(doc_indices + 1) - begins
    ends = np.cumsum(lengths)
    held = np.repeat(begins - (ends - lengths), lengths)
    held += np.arange(len(held))
    position, word = _hits(words.take(held), distinct)
    document = np.searchsorted(ends, position, side="right")
    within = position - (ends - lengths).take(document)
    return Occurrences(document, within, position, word, lengths, first, of_query)


def match(found: Occurrences, weight: Floats) -> Matches:
    """Return how N documents hold the words of a query; weight (Q,) > 0, the same for equal words."""
    weights, documents = weight[found.first].astype(np.float64), len(found.lengths)
    if not len(found.position):
        nothing = np.zeros(documents, np.float32)
        return Matches(nothing, nothing, nothing)
    coverage = _covered(found.document, found.word, weights, documents) / weights.sum()
    proximity = _best_window(found.document, found.within, found.word, weights, found.lengths) / weights.sum()
    phrase = _neighbours(found.document, found.position, found.word, weights, found.of_query, documents)
    return Matches(*(one.astype(np.float32) for one in (coverage, proximity, phrase)))


def bm25(found: Occurrences, weight: Floats, mean_length: float) -> Floats:
    """Return BM25 (N,) (Robertson and Zaragoza 2009): a word counts as often as the query has it.

    weight (Q,) is the idf of each word of the query, mean_length the words of a document in the mean of its collection.
    """
    words, documents = len(found.first), len(found.lengths)
    if not len(found.position):
        return np.zeros(documents, np.float32)
    counts = np.bincount(found.document * words + found.word, minlength=documents * words).reshape(documents, words)
    norm = K1 * (1 - B + B * found.lengths / mean_length)
    asked = weight[found.first] * np.bincount(found.of_query, minlength=words)
    saturated = counts * (K1 + 1) / (counts + norm[:, None])
    scores: Floats = np.einsum("nw,w->n", saturated, asked).astype(np.float32)  # no BLAS: see index.inner_products
    return scores


def _hits(held: Words, distinct: Words) -> tuple[Ints, Ints]:
    """Return where words of the query stand among those held (T,), ascending, and which of the distinct each is.

    Most words are none of the query's: a table by their last bits passes over these without a comparison.
    """
    if not len(distinct):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    possible = np.zeros(TABLE, np.bool_)
    possible[distinct.astype(np.uint16)] = True
    position = possible.take(held.astype(np.uint16)).nonzero()[0]
    met = held.take(position)
    word = np.searchsorted(distinct, met)
    np.minimum(word, len(distinct) - 1, out=word)
    exact = distinct.take(word) == met
    return position[exact], word[exact]


def _best_window(document: Ints, within: Ints, word: Ints, weight: Doubles, lengths: Ints) -> Doubles:
    """Return the weight of the distinct words in the best window of each document (N,).

    A window is named by its second block; what a block holds, the window that begins with it holds too.
    """
    blocks = -(-lengths // BLOCK_WORDS)
    first = np.cumsum(blocks) - blocks
    block = within // BLOCK_WORDS
    followed = block + 1 < blocks[document]
    window = np.concatenate([first[document] + block, (first[document] + block + 1)[followed]])
    covered = _covered(window, np.concatenate([word, word[followed]]), weight, int(blocks.sum()))
    best = np.zeros(len(blocks))
    best[blocks > 0] = np.maximum.reduceat(covered, first[blocks > 0])
    return best


def _neighbours(document: Ints, position: Ints, word: Ints, weight: Doubles, of_query: Ints, documents: int) -> Doubles:
    """Return the share (N,), by weight, of the query's pairs of neighbours that are neighbours in a document."""
    pairs = np.unique(of_query[:-1] * len(weight) + of_query[1:])
    both = weight[pairs // len(weight)] + weight[pairs % len(weight)]
    if not len(pairs):
        return np.zeros(documents)
    beside = np.flatnonzero((np.diff(position) == 1) & (np.diff(document) == 0))
    code = word[beside] * len(weight) + word[beside + 1]
    pair = np.searchsorted(pairs, code).clip(max=len(pairs) - 1)
    asked = pairs[pair] == code
    share: Doubles = _covered(document[beside[asked]], pair[asked], both, documents) / both.sum()
    return share


def _covered(group: Ints, member: Ints, weight: Doubles, groups: int) -> Doubles:
    """Return the summed weight of the distinct members met in each group (groups,)."""
    met = np.zeros((groups, len(weight)))
    met[group, member] = 1.0
    covered: Doubles = np.einsum("gw,w->g", met, weight)  # no BLAS: see index.inner_products
    return covered
