"""Fields in which corrected words do not match, such as titles that are product codes.

The words of a document are in one sequence: those of the title, then those of the text. The number of words of the
title tells the field of a word. Letters: N documents, T words of all documents, W wanted words.
"""

from collections.abc import Set as AbstractSet

import numpy as np

from index.records import Ints, Mask
from index.words.query_words import Field, QueryWords, Source, Words
from index.words.term_matching import Occurrences, positions_of


def without_corrections(query: QueryWords, found: Occurrences, title_words: Ints) -> Occurrences:
    """Return the occurrences without corrected words in the fields in which they do not match.

    title_words (N,): the number of words of the title of each document of the occurrences.
    """
    corrected = query.source.take(found.word) == Source.CORRECTED
    in_title = found.within < title_words.take(found.document)
    kept = ~corrected | _is_outside(in_title, query.uncorrected_fields)
    return Occurrences(found.document[kept], found.within[kept], found.position[kept], found.word[kept], found.lengths)


def documents_outside(
    excluded: AbstractSet[Field], wanted: Words, words: Words, first_word: Ints, title_words: Ints
) -> Mask:
    """Return (N,) bool, True for documents that contain a wanted word (W,) outside the excluded fields.

    words (T,), first_word (N + 1,) and title_words (N,) are those of all documents, as in `Columns`.
    """
    position = positions_of(wanted, words)
    document = np.searchsorted(first_word, position, side="right") - 1
    in_title = position - first_word.take(document) < title_words.take(document)
    found = np.zeros(len(title_words), np.bool_)
    found[document[_is_outside(in_title, excluded)]] = True
    return found


def _is_outside(in_title: Mask, excluded: AbstractSet[Field]) -> Mask:
    """Return (n,) bool, True for words outside the excluded fields. in_title (n,): the words of titles."""
    outside: Mask = np.where(in_title, Field.TITLE not in excluded, Field.TEXT not in excluded)
    return outside
