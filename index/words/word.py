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
    """A term of the index that stands for the word at a position of the query."""

    position: int
    term: str
    idf: float
    factor: float
    source: Source
    of_phrase: bool = False
