"""Cuts text into words: runs of letters and digits, and pairs of characters where a script has no spaces.

Chinese, Japanese, Korean and Thai text is cut into overlapping pairs of characters (bigrams), without a dictionary. A
word of two characters is found as a pair, a longer word as a sequence of pairs. Source: McNamee and Mayfield 2004
(character n-gram tokenisation). Halfwidth Katakana becomes ordinary Katakana (Unicode NFKC).
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"  # Hangul
)
"""The characters whose runs are cut into pairs, as the inside of a character class."""
TONE_MARKS = frozenset(map(chr, range(0x0E47, 0x0E4F)))
"""Thai marks that are left out, as accents are."""
HALFWIDTH = re.compile("[\uff66-\uff9d][\uff9e\uff9f]?")
"""A halfwidth Katakana with its voice mark, which is a character of its own."""
UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
RUN = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
WORD = re.compile(r"[^\W_]+")
"""A word of a text without unspaced characters: faster than RUN."""


class Token(NamedTuple):
    """A word of a text, and its character offsets [start, end)."""

    start: int
    end: int
    text: str


def tokens(text: str, end: int | None = None) -> Iterator[Token]:
    """Yield the words of a text in reading order; the pairs of an unspaced run overlap. end: the characters to read."""
    for run in RUN.finditer(text, 0, len(text) if end is None else end):
        if is_unspaced(run[0][0]):
            yield from _pairs(text, run.start(), run.end())
        else:
            yield Token(run.start(), run.end(), run[0])


def spaced(text: str) -> str:
    """Return the text with unspaced runs cut into pairs, for an analyzer that cuts at spaces."""

    def pairs(run: re.Match[str]) -> str:
        return f" {' '.join(token.text for token in _pairs(text, run.start(), run.end()))} "

    return UNSPACED_RUN.sub(pairs, text)


def has_unspaced(text: str, end: int) -> bool:
    """Return whether the first `end` characters of a text have a character of a script without spaces."""
    return not text.isascii() and UNSPACED_RUN.search(text, 0, end) is not None


def is_unspaced(word: str) -> bool:
    """Return whether a word consists of characters of a script without spaces."""
    return UNSPACED_RUN.fullmatch(word) is not None


def _pairs(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the pairs of adjacent characters of an unspaced run; a run of one character is a word by itself."""
    if HALFWIDTH.search(text, start, end) is None:
        letters = [(at, at + 1, text[at]) for at in range(start, end) if text[at] not in TONE_MARKS]
    else:
        letters = list(_widened(text, start, end))
    if len(letters) == 1:
        yield Token(letters[0][0], end, letters[0][2])
    for (first, _, left), (_, last, right) in pairwise(letters):
        yield Token(first, last, left + right)


def _widened(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, character) of an unspaced run, halfwidth Katakana as ordinary Katakana."""
    at = start
    while at < end:
        halfwidth = HALFWIDTH.match(text, at, end)
        after = at + 1 if halfwidth is None else halfwidth.end()
        if text[at] not in TONE_MARKS:
            yield at, after, unicodedata.normalize("NFKC", text[at:after]) if halfwidth else text[at]
        at = after
