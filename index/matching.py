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


class Matches(NamedTuple):
    """coverage, proximity and phrase, each (N,) in [0, 1]."""

    coverage: Floats
    proximity: Floats
    phrase: Floats


def number_words(words: Iterable[str]) -> Words:
    """Return one number per word, (T,): a checksum of its bytes, the same everywhere, so that no vocabulary is kept."""
    return np.fromiter((zlib.crc32(word.encode("utf-8", "replace")) for word in words), np.uint32)


def match_words(query: Words, weight: Floats, words: Words, first_word: Ints, places: Ints) -> Matches:
    """Return how the documents at these places match a query.

    query (Q,) in reading order and weight (Q,) > 0, the same for equal words; words (T',) of all documents one after
    the other, document n's being first_word[n]:first_word[n + 1]; places (N,).
    """
    distinct, at, of_query = np.unique(query, return_index=True, return_inverse=True)
    weights = weight[at].astype(np.float64)
    lengths = first_word[places + 1] - first_word[places]
    if not len(distinct) or not lengths.any():
        nothing = np.zeros(len(places), np.float32)
        return Matches(nothing, nothing, nothing)
    held = np.concatenate([words[first_word[place] : first_word[place + 1]] for place in places.tolist()])
    position, word = _hits(held, distinct)
    ends = np.cumsum(lengths)
    document = np.searchsorted(ends, position, side="right")
    within = position - (ends - lengths)[document]
    coverage = _covered(document, word, weights, len(places)) / weights.sum()
    proximity = _best_window(document, within, word, weights, lengths) / weights.sum()
    phrase = _neighbours(document, position, word, weights, of_query, len(places))
    return Matches(*(one.astype(np.float32) for one in (coverage, proximity, phrase)))


def _hits(held: Words, distinct: Words) -> tuple[Ints, Ints]:
    """Return where words of the query stand among those held (T,), ascending, and which of the distinct each is.

    Most words are none of the query's: a table by their last bits passes over these without a comparison.
    """
    possible = np.zeros(TABLE, np.bool_)
    possible[distinct % TABLE] = True
    position = np.flatnonzero(possible[held % TABLE])
    word = np.searchsorted(distinct, held[position]).clip(max=len(distinct) - 1)
    exact = distinct[word] == held[position]
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
    covered: Doubles = met @ weight
    return covered
