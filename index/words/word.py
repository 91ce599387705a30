"""A word of a query, and a term of the index that stands for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from index.words.query_words import Alternative, Source
from index.words.tokens import Token, is_unspaced


@dataclass(frozen=True)
class Word:
    """A word of the query: its place in the text, as the vocabulary writes it, and its term in the index.

    part: whether it is a part of the word at that place, such as a compound.
    """

    token: Token
    folded: str
    term: str
    part: bool = False


def overlaps(words: Sequence[Word]) -> tuple[bool, ...]:
    """Return for each two neighbouring words whether they are pairs of characters that share one in the text."""
    return tuple(one.token.end > two.token.start and is_unspaced(one.term) for one, two in pairwise(words))


@dataclass(frozen=True)
class Substitute:
    """A term of the index that stands for the word at a position of the query, or the terms of a phrase.

    term: the terms of a phrase have spaces between them. of_phrase: whether the term counts as one word of a phrase,
    which is a substitute of its own. keeps_weight: whether the word at the position keeps its weight although this term
    is in more documents.
    """

    position: int
    term: str
    idf: float
    factor: float
    source: Source
    of_phrase: bool = False
    keeps_weight: bool = False

    def numbered(self, number: int, share: float) -> Alternative:
        """Return the substitute by the number of its term. share: how much the word at its position counts."""
        idf = self.idf * share
        return Alternative(self.position, number, idf, self.factor, self.source, self.of_phrase, self.keeps_weight)

    @property
    def searched(self) -> list[tuple[str, float]]:
        """The terms that find its documents, with their factors. The words of a phrase are found through the phrase."""
        if self.of_phrase:
            return []
        terms = self.term.split(" ")
        return [(term, self.factor / len(terms)) for term in terms]
