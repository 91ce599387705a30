"""Letters that an apostrophe joins to a word: the s of `women's`, the article of `l'ordinateur`.

As words of a query they would be rare in short titles, so that any name such as L'Oréal had evidence for them.
"""

from collections.abc import Sequence

from index.characters import APOSTROPHES
from index.words.word import Word

ELIDED = frozenset("c d j l m n s t qu".split())
"""Articles, pronouns and the like of French, Italian and Catalan before an apostrophe."""

_APOSTROPHES = frozenset(APOSTROPHES)


def without_joined_letters(text: str, words: Sequence[Word]) -> list[Word]:
    """Return the words of a query without the letters that are joined to others; all if no other is left."""
    return [word for word in words if not _is_possessive(text, word) and not _is_elided(text, word)] or list(words)


def _is_possessive(text: str, word: Word) -> bool:
    start = word.token.start
    return word.folded == "s" and start > 1 and text[start - 1] in APOSTROPHES and text[start - 2].isalnum()


def _is_elided(text: str, word: Word) -> bool:
    end = word.token.end
    return word.folded in ELIDED and text[end : end + 1] in _APOSTROPHES and text[end + 1 : end + 2].isalpha()
