"""Statistics of the words of a whole collection, for a search in a part of its documents."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WordStatistics:
    """What BM25 needs of all documents of a collection.

    mean_words and mean_title_words: the mean number of words of a document, at least 1, and of its title. idf: of the
    terms that a query is searched with.
    """

    mean_words: float
    mean_title_words: float
    idf: Mapping[str, float]
