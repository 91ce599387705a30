"""Term matching: how many words of a query a document contains, how near to each other, and in which order.

BM25 counts each word separately. Three more features treat the document as a sequence. Coverage is the share of the
query's words, by weight, that occur in the document. Proximity is the same share within the best window. Phrase is the
share of the query's adjacent word pairs, by weight, that are adjacent in the document. All lie in [0, 1]. This module
sees words as numbers, never text. A document takes the best of the words that stand for a word of the query.

Source: Metzler and Croft 2005 (the sequential dependence model: single words, windows, ordered pairs).
Letters: Q words of a query, S distinct words of a query (slots), A words that stand for them, N candidates.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.candidates.distinct import distinct
from index.records import Floats, Ints, Mask
from index.words.query_words import Phrase, QueryWords, Source, Words

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
    """The occurrences of a query's words in N documents; arrays are (hits,), by document and position."""

    document: Ints
    """The document, in [0, N)."""
    within: Ints
    """The position in the document."""
    position: Ints
    """The position in the concatenation of the N documents."""
    word: Ints
    """The word, in [0, A)."""
    lengths: Ints
    """The number of words of each document (N,)."""


def find_words(
    query: QueryWords, words: Words, first_word: Ints, doc_indices: Ints, title_words: Ints | None = None
) -> Occurrences:
    """Return the occurrences of the words of a query in the documents doc_indices (N,).

    words (T',): the words of all documents of the collection; document n has words[first_word[n]:first_word[n + 1]].
    title_words: the number of words of each title; None: no document has a title. A phrase that stands for a word
    occurs at each of its words.
    """
    begins = first_word.take(doc_indices)
    lengths = first_word.take(doc_indices + 1) - begins
    ends = np.cumsum(lengths)
    positions = np.repeat(begins - (ends - lengths), lengths)
    positions += np.arange(len(positions))
    taken = words.take(positions)
    position, word = find_positions(taken, query)
    if query.phrases:
        titles = np.zeros_like(lengths) if title_words is None else title_words.take(doc_indices)
        position, word = _with_phrases(query, position, word, taken, np.concatenate([[0], ends]), titles)
    document = np.searchsorted(ends, position, side="right")
    within = position - (ends - lengths).take(document)
    return Occurrences(document, within, position, word, lengths)


def match(query: QueryWords, found: Occurrences) -> Matches:
    """Return the matches of N documents with a query."""
    weights, documents = query.weight.astype(np.float64), len(found.lengths)
    if not len(found.position):
        nothing = np.zeros(documents, np.float32)
        return Matches(nothing, nothing, nothing)
    slot = query.slot.take(found.word)
    factor = None if query.exact else query.factor.take(found.word).astype(np.float64)
    coverage = _covered(found.document, slot, factor, weights, documents) / weights.sum()
    proximity = _best_window(found, slot, factor, weights) / weights.sum()
    phrase = _phrase(found, slot, factor, weights, query.of_query)
    return Matches(*(share.astype(np.float32) for share in (coverage, proximity, phrase)))


def bm25(query: QueryWords, found: Occurrences, mean_length: float) -> Floats:
    """Return BM25 scores by source (N, len(Source)) (Robertson and Zaragoza 2009); their sum is the score.

    A repeated query word counts repeatedly. A document takes the word with the highest score among the words that stand
    for a slot; all completions of an unfinished word count together, as a single word. mean_length: the mean number of
    words of a document of the collection.
    """
    if not query.exact:
        query, found = _with_needed_words(query, found)
    words, documents = len(query.words), len(found.lengths)
    scores = np.zeros((documents, len(Source)), np.float32)
    if not len(found.position):
        return scores
    counts = np.bincount(found.document * words + found.word, minlength=documents * words).reshape(documents, words)
    if query.phrases:
        counts //= occurrence_words(query)
    norm = K1 * (1 - B + B * found.lengths / mean_length)
    repeats = np.bincount(query.of_query, minlength=len(query.weight))
    saturated = counts * (K1 + 1) / (counts + norm[:, None])
    if query.exact:
        scores[:, Source.EXACT] = np.einsum("nw,w->n", saturated, query.idf * repeats)  # no BLAS, as in inner_products
        return scores
    gains = saturated * (query.idf * query.factor)
    by_slot = np.argsort(query.slot, kind="stable")
    first = np.searchsorted(query.slot[by_slot], np.arange(len(repeats)))
    best = np.maximum.reduceat(gains[:, by_slot], first, axis=1)
    chosen = gains >= best[:, query.slot]
    for source in Source:
        share = np.where(chosen & (query.source == source), gains, 0.0)
        scores[:, source] = np.einsum(
            "ns,s->n", np.maximum.reduceat(share[:, by_slot], first, axis=1), repeats.astype(np.float64)
        )
    return scores


def occurrence_words(query: QueryWords) -> Ints:
    """Return how many words an occurrence of each word has (A,): 1, and more for a phrase, which occurs at each."""
    found = np.ones(len(query.words), np.int64)
    for phrase, (first, count) in zip(query.phrases, zip(*_places(query), strict=True), strict=True):
        found[first : first + count] = len(phrase.words)
    return found


def _places(query: QueryWords) -> tuple[Ints, Ints]:
    """Return the first place of each phrase among the words of a query, and its count there: one for each slot."""
    numbers = np.asarray([phrase.number for phrase in query.phrases], np.uint32)
    first = np.searchsorted(query.words, numbers)
    return first, np.searchsorted(query.words, numbers, side="right") - first


def _with_needed_words(query: QueryWords, found: Occurrences) -> tuple[QueryWords, Occurrences]:
    """Return the words that occur, at least one for each slot, with one completion for each slot.

    Scores take memory for each document and word, and there may be thousands of alternatives. One completion stands for
    all of a slot: they have the same idf and factor.
    """
    stands = np.arange(len(query.words))
    completed = np.flatnonzero(query.source == Source.COMPLETED)
    _, first, slot = np.unique(query.slot[completed], return_index=True, return_inverse=True)
    stands[completed] = completed[first][slot]
    word = stands[found.word]
    kept = np.union1d(word, np.unique(query.slot, return_index=True)[1])
    columns = {name: getattr(query, name)[kept] for name in ("words", "slot", "factor", "source", "idf")}
    return query._replace(**columns), found._replace(word=np.searchsorted(kept, word))


def documents_with(words: Words, first_word: Ints, wanted: Words) -> Mask:
    """Return (N,) bool, True for the documents that contain at least one of the wanted words (W,).

    words (T,) and first_word (N + 1,) are the words of all documents of the collection.
    """
    found = np.zeros(len(first_word) - 1, np.bool_)
    found[np.searchsorted(first_word, positions_of(wanted, words), side="right") - 1] = True
    return found


def documents_with_phrase(words: Words, first_word: Ints, title_words: Ints, phrase: Sequence[Words]) -> Mask:
    """Return (N,) bool, True for documents with the words of a phrase, in this order in title or text.

    phrase: for each of its words, at least one, the numbers (W,) of the words that have it. words (T,), first_word
    (N + 1,) and title_words (N,) are those of all documents, as in `Columns`.
    """
    fewest = min(range(len(phrase)), key=lambda at: len(phrase[at]))
    starts = positions_of(phrase[fewest], words) - fewest
    starts = starts[(starts >= 0) & (starts + len(phrase) <= len(words))]
    for offset, having in enumerate(phrase):
        if offset != fewest:
            starts = starts[np.isin(words[starts + offset], having)]
    whole = _in_one_field(starts, starts + len(phrase), first_word, title_words)
    return _documents_at(starts[whole], first_word)


def documents_with_phrases(words: Words, first_word: Ints, title_words: Ints, phrases: Sequence[Phrase]) -> Mask:
    """Return (N,) bool, True for documents with at least one of the phrases (P,), P > 0, in title or text.

    words (T,), first_word (N + 1,) and title_words (N,) are those of all documents, as in `Columns`.
    """
    return _documents_at(_phrases_in(phrases, words, first_word, title_words)[0], first_word)


def _documents_at(positions: Ints, first_word: Ints) -> Mask:
    """Return (N,) bool, True for the documents that have these positions."""
    found = np.zeros(len(first_word) - 1, np.bool_)
    found[np.searchsorted(first_word, positions, side="right") - 1] = True
    return found


def _in_one_field(starts: Ints, ends: Ints, first_word: Ints, title_words: Ints) -> Mask:
    """Return whether the words from each start to its end are in one field of one document."""
    document = np.searchsorted(first_word, starts, side="right") - 1
    text = first_word.take(document) + title_words.take(document)
    whole: Mask = (ends <= text) | ((text <= starts) & (ends <= first_word.take(document + 1)))
    return whole


def _phrases_in(phrases: Sequence[Phrase], words: Words, first_word: Ints, title_words: Ints) -> tuple[Ints, Ints]:
    """Return the positions at which phrases of two or more words begin, ascending, and the phrase at each, in [0, P).

    The words are read once for all phrases. A phrase is looked up by its first two words, so that phrases with the same
    first word, such as a brand, are not compared one by one.
    """
    sizes = np.asarray([len(phrase.words) for phrase in phrases], np.int64)
    by_place = np.zeros((int(sizes.max()), len(phrases)), np.uint32)
    for at, phrase in enumerate(phrases):
        by_place[: sizes[at], at] = phrase.words
    pairs = _pair(by_place[0], by_place[1])
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    heads = positions_of(by_place[0], words[:-1])
    codes = _pair(words.take(heads), words.take(heads + 1))
    first = np.searchsorted(pairs, codes)
    head, place = _ranges(first, np.searchsorted(pairs, codes, side="right") - first)
    starts, found = heads[head], order[place]
    whole = _in_one_field(starts, starts + sizes[found], first_word, title_words)
    starts, found = starts[whole], found[whole]
    for offset in range(2, len(by_place)):
        same = sizes[found] <= offset
        same[~same] = words.take(starts[~same] + offset) == by_place[offset, found[~same]]
        starts, found = starts[same], found[same]
    return starts, found


def _pair(one: Words, two: Words) -> NDArray[np.uint64]:
    """Return a number for each pair of words."""
    return (one.astype(np.uint64) << np.uint64(32)) | two


def _ranges(first: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return the numbers first[i] .. first[i] + counts[i] - 1 of all i, one range after the other, after i for each."""
    of = np.repeat(np.arange(len(first)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + first[of]


def _with_phrases(
    query: QueryWords, position: Ints, word: Ints, words: Words, first_word: Ints, title_words: Ints
) -> tuple[Ints, Ints]:
    """Return the positions (hits,), ascending, and the words at them with the phrases of the query added."""
    starts, phrase = _phrases_in(query.phrases, words, first_word, title_words)
    first, counts = _places(query)
    occurrence, found = _ranges(first[phrase], counts[phrase])
    sizes = np.asarray([len(one.words) for one in query.phrases], np.int64)[phrase[occurrence]]
    of, at = _ranges(starts[occurrence], sizes)
    every = np.concatenate([position, at])
    order = np.argsort(every, kind="stable")
    return every[order], np.concatenate([word, found[of]])[order]


def positions_of(wanted: Words, words: Words) -> Ints:
    """Return the positions (hits,), ascending, in words (T,) that have one of the wanted words (W,)."""
    if len(wanted) == 1:
        return np.flatnonzero(words == wanted[0])
    return find_positions(words, QueryWords.of(wanted, np.ones(len(wanted), np.float32)))[0]


def find_positions(words: Words, query: QueryWords) -> tuple[Ints, Ints]:
    """Return the positions (hits,), ascending, of the query's words in words (T,), and the index of each, in [0, A).

    Most words are not in the query. A table over their last 16 bits excludes most of them without a comparison.
    """
    wanted = query.words
    if not len(wanted):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    possible = np.zeros(TABLE, np.bool_)
    possible[wanted.astype(np.uint16)] = True
    position = possible.take(words.astype(np.uint16)).nonzero()[0]
    candidates = words.take(position)
    word = np.searchsorted(wanted, candidates)
    np.minimum(word, len(wanted) - 1, out=word)
    same = wanted.take(word) == candidates
    position, word = position[same], word[same]
    if query.exact:
        return position, word
    counts = np.searchsorted(wanted, wanted, side="right")[word] - word  # a word may stand for several slots
    repeated, every = _ranges(word, counts)
    return position[repeated], every


def _best_window(found: Occurrences, slot: Ints, factor: Doubles | None, weight: Doubles) -> Doubles:
    """Return the summed weight of the distinct query words in the best window of each document (N,).

    Window i consists of blocks i - 1 and i of a document; a hit in block i is in the windows i and i + 1.
    """
    blocks = -(-found.lengths // BLOCK_WORDS)
    first = np.cumsum(blocks) - blocks
    block = found.within // BLOCK_WORDS
    has_next = block + 1 < blocks[found.document]
    window = np.concatenate([first[found.document] + block, (first[found.document] + block + 1)[has_next]])
    factors = None if factor is None else np.concatenate([factor, factor[has_next]])
    covered = _covered(window, np.concatenate([slot, slot[has_next]]), factors, weight, int(blocks.sum()))
    best = np.zeros(len(blocks))
    best[blocks > 0] = np.maximum.reduceat(covered, first[blocks > 0])
    return best


def _phrase(found: Occurrences, slot: Ints, factor: Doubles | None, weight: Doubles, of_query: Ints) -> Doubles:
    """Return the share (N,), by weight, of the query's adjacent word pairs that are adjacent in a document.

    A pair counts with the smaller of the factors of its words.
    """
    pairs = distinct(of_query[:-1] * len(weight) + of_query[1:])
    both = weight[pairs // len(weight)] + weight[pairs % len(weight)]
    documents = len(found.lengths)
    if not len(pairs):
        return np.zeros(documents)
    left, right = _adjacent(found.position, found.document)
    code = slot[left] * len(weight) + slot[right]
    pair = np.minimum(np.searchsorted(pairs, code), len(pairs) - 1)
    in_query = pairs[pair] == code
    factors = None if factor is None else np.minimum(factor[left], factor[right])[in_query]
    document = found.document[left[in_query]]
    share: Doubles = _covered(document, pair[in_query], factors, both, documents) / both.sum()
    return share


def _adjacent(position: Ints, document: Ints) -> tuple[Ints, Ints]:
    """Return the pairs of hits (left, right) at adjacent positions of a document. Several hits may share a position."""
    begins = np.searchsorted(position, position + 1, side="left")
    counts = np.searchsorted(position, position + 1, side="right") - begins
    left, right = _ranges(begins, counts)
    same = document[left] == document[right]
    return left[same], right[same]


def _covered(group: Ints, member: Ints, factor: Doubles | None, weight: Doubles, groups: int) -> Doubles:
    """Return the summed weight of the distinct members that occur in each group (groups,), times their factors."""
    occurs = np.zeros((groups, len(weight)))
    if factor is None:
        occurs[group, member] = 1.0
    else:
        np.maximum.at(occurs, (group, member), factor)
    covered: Doubles = np.einsum("gw,w->g", occurs, weight)  # no BLAS: see index.candidates.inner_products
    return covered
