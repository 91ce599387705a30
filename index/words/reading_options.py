"""How the text of a query is read: corrections, completions, synonyms, stop words and compounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from index.words.analyzers import analyzer_for
from index.words.query_words import Field
from index.words.question_words import QuestionWords
from index.words.tokens import spaced
from index.words.word import Word

CACHED_TERMS = 65_536
"""Words of synonyms and of queries whose terms are cached: each change of an entry reads all entries."""


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
    question_words: QuestionWords | None = None
    """Words of questions that are left out of them; None leaves out none."""
    synonyms: "Synonyms | None" = None
    participles: bool = False
    """Whether participles and their verbs stand for each other (`index.words.participles`)."""
    compounds: bool = False
    """Whether compounds are split, and words found in compounds (`index.words.compounds`)."""

    def kept_in_question(self, text: str, words: Sequence[Word]) -> set[int]:
        """Return the positions of the words of a query that stay in a question: an unfinished last word, and words with
        synonyms."""
        kept = {len(words) - 1} if self.prefix and words[-1].token.end == len(text) else set()
        if self.synonyms is not None:
            for first, end, _ in self.synonyms.of([word.folded for word in words]):
                kept.update(range(first, end))
        return kept


class Synonyms:
    """The synonyms of a collection. Equal by identity, so that options with them can be cached.

    A word of a query has the synonyms that are declared for it. If there are none, it has those of all declared words
    with its term: the other forms of its word, as documents match them.
    """

    def __init__(self, replacements: Mapping[str, Sequence[str]], language: str = "none") -> None:
        """replacements: word or words, in lower case -> the words or phrases that may replace it.

        language: the language of the collection (`index.words.analyzers`), which has the terms of words.
        """
        self._language = language
        self._replacements = {tuple(text.split()): list(others) for text, others in replacements.items()}
        self._longest = max(map(len, self._replacements), default=0)
        self._declared: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for words in self._replacements:
            self._declared.setdefault(self._terms(words), []).append(words)

    def of(self, words: Sequence[str]) -> list[tuple[int, int, str]]:
        """Return (first, end, replacement) for each replacement of the words [first, end) of a query, in lower case."""
        terms = self._terms(words)
        return [
            (first, end, other)
            for first in range(len(words))
            for end in range(first + 1, min(first + self._longest, len(words)) + 1)
            for other in self._others(tuple(words[first:end]), terms[first:end])
        ]

    def _others(self, words: tuple[str, ...], terms: tuple[str, ...]) -> Sequence[str]:
        """Return the replacements of words with these terms."""
        own = self._replacements.get(words)
        if own is not None:
            return own
        of_terms: dict[tuple[str, ...], str] = {}  # two forms of a replacement would count twice
        for declared in self._declared.get(terms, ()):
            for other in self._replacements[declared]:
                of_terms.setdefault(self._terms(other.split()), other)
        return [other for others, other in of_terms.items() if others != terms]

    def _terms(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the term of each word: the word itself if the analyzer leaves nothing of it."""
        return tuple(_term(self._language, word) for word in words)


@lru_cache(CACHED_TERMS)
def _term(language: str, word: str) -> str:
    found = analyzer_for(language).analyze(word)
    return found[0] if found else word


EXACTLY = ReadingOptions()


def folded(text: str) -> str:
    """Return words as the vocabulary writes them: in lower case, without accents, one space between words."""
    return " ".join(analyzer_for("none").analyze(spaced(text)))
