"""Words with a hyphen and a short part: `e-mail`, `t-shirt`, `x-ray`.

A hyphen cuts a text into words, so `e-mail` is two words of the index, which are mostly in the same documents. As two
words they would be twice the evidence of one: of `e-mail spam` documents about e-mail would have two words of three.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from index.words.tokens import is_of_letters
from index.words.vocabulary import Vocabulary
from index.words.word import Word

HYPHENS = frozenset("-\u2010\u2011")
"""The hyphen of keyboards, and the characters that are only hyphens."""
SHORT_PART = 2
"""Most letters of a short part. Longer parts say something by themselves: `three-dimensional`."""


def shares_of_words(text: str, words: Sequence[Word], vocabulary: Vocabulary) -> list[float]:
    """Return how much each word of a query (Q,) counts, in (0, 1]: 1, and less for the parts of a word with a hyphen.

    The parts count together what one word counts that is in the documents that have all of them. Codes such as
    `tn-2110` are left as they are: each part distinguishes the documents that have the other.
    """
    shares = [1.0] * len(words)
    for first in _first_parts(text, words):
        terms = [words[first].term, words[first + 1].term]
        together = " ".join(terms)
        if count := vocabulary.count_in_all(together):
            share = vocabulary.idf_of(count) / sum(map(vocabulary.term_idf, terms))
            shares[first : first + 2] = [min(1.0, share)] * 2
    return shares


def _first_parts(text: str, words: Sequence[Word]) -> Iterator[int]:
    """Yield the position of the first part of each word of letters with a hyphen and a short part.

    `e-mail-address` is such a word and another one; `time-to-failure` has none, as its short part joins the others.
    """
    joined = [text[one.token.end : other.token.start] in HYPHENS for one, other in pairwise(words)]
    of_letters = [is_of_letters(word.folded) for word in words]
    short = [len(word.folded) <= SHORT_PART for word in words]
    for at, is_joined in enumerate(joined):
        if is_joined and of_letters[at] and of_letters[at + 1]:
            begins = short[at] and not (at and joined[at - 1])
            ends = short[at + 1] and not (at + 1 < len(joined) and joined[at + 1])
            if begins or ends:
                yield at
