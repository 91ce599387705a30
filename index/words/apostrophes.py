"""Letters that an apostrophe joins to a word: the s of `women's`, the article of `l'ordinateur`.

As words of a query they would be rare in short titles, so that any name such as L'Oréal had evidence for them.
"""

from collections.abc import Sequence

from index.characters import APOSTROPHES
from index.words.word import Word

ELIDED = frozenset("c d j l m n s t qu".split())
"""Articles, pronouns and the like of French, Italian and Catalan before an apostrophe."""


def without_joined_letters(text: str, words: Sequence[Word]) -> list[Word]:
    """Return the words of a query without the letters that are joined to others; all if no other is left."""
    if not words:
        return []
    following = [*words[1:], None]
    kept = [
        word
        for word, after in zip(words, following, strict=True)
        if not _is_possessive(text, word) and not _is_elided(text, word, after)
    ]
    return kept or list(words)


def _is_possessive(text: str, word: Word) -> bool:
    start = word.token.start
    return word.folded == "s" and start > 1 and text[start - 1] in APOSTROPHES and text[start - 2].isalnum()


def _is_elided(text: str, word: Word, after: Word | None) -> bool:
    """Return whether a word is joined to the next one; the m of `m's` is not, which has a possessive."""
    if word.folded not in ELIDED or after is None or after.folded == "s":
        return False
    return after.token.start == word.token.end + 1 and text[word.token.end] in APOSTROPHES and after.folded[0].isalpha()
