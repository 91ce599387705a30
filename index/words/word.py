"""A word of a query, and a term of the index that stands for it."""

from dataclasses import dataclass

from index.words.query_words import Source
from index.words.tokens import Token


@dataclass(frozen=True)
class Word:
    """A word of the query: its place in the text, as the vocabulary writes it, and its term in the index.

    part: whether it is a part of the word at that place, such as a compound.
    """

    token: Token
    folded: str
    term: str
    part: bool = False


@dataclass(frozen=True)
class Substitute:
    """A term of the index that stands for the word at a position of the query, or the terms of a phrase.

    term: the terms of a phrase have spaces between them. of_phrase: whether the term counts as one word of a phrase,
    which is a substitute of its own.
    """

    position: int
    term: str
    idf: float
    factor: float
    source: Source
    of_phrase: bool = False

    @property
    def searched(self) -> list[tuple[str, float]]:
        """The terms that find its documents, with their factors. The words of a phrase are found through the phrase."""
        if self.of_phrase:
            return []
        terms = self.term.split(" ")
        return [(term, self.factor / len(terms)) for term in terms]
