"""How the text of a query is read: corrections, completions, synonyms, stop words and compounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from index.words.analyzers import analyzer_for
from index.words.query_words import Field
from index.words.tokens import spaced


@dataclass(frozen=True)
class ReadingOptions:
    """How the text of a query is read. The default reads it exactly."""

    typos: bool = False
    """Whether words that no document contains are corrected."""
    prefix: bool = False
    """Whether the last word may be unfinished."""
    one_edit: int = 4
    """Least length of a word that is corrected by one edit."""
    two_edits: int = 8
    """Least length of a word that is corrected by two edits."""
    uncorrected: frozenset[str] = frozenset()
    """Words that are never corrected, in lower case."""
    uncorrected_fields: frozenset[Field] = frozenset()
    """Fields of documents in which corrections do not match."""
    known: frozenset[str] = frozenset()
    """Words of the language, in lower case: the encoder knows their meaning, and they are not corrected either."""
    stop_words: frozenset[str] = frozenset()
    """Words that are left out of a query that has other words, in lower case."""
    synonyms: "Synonyms | None" = None
    compounds: bool = False
    """Whether compounds are split, and words found in compounds (`index.words.compounds`)."""
    reader: str | None = None
    """Readers share no cached words with others: a faster answer would tell what another reader typed."""


class Synonyms:
    """The synonyms of a collection. Equal by identity, so that options with them can be cached."""

    def __init__(self, replacements: Mapping[str, Sequence[str]]) -> None:
        """replacements: word or words, in lower case -> the words or phrases that may replace it."""
        self._replacements = {tuple(text.split()): list(others) for text, others in replacements.items()}
        self._longest = max(map(len, self._replacements), default=0)

    def of(self, words: Sequence[str]) -> list[tuple[int, int, str]]:
        """Return (first, end, replacement) for each replacement of the words [first, end) of a query."""
        return [
            (first, end, other)
            for first in range(len(words))
            for end in range(first + 1, min(first + self._longest, len(words)) + 1)
            for other in self._replacements.get(tuple(words[first:end]), ())
        ]


EXACTLY = ReadingOptions()


def folded(text: str) -> str:
    """Return words as the vocabulary writes them: in lower case, without accents, one space between words."""
    return " ".join(analyzer_for("none").analyze(spaced(text)))
