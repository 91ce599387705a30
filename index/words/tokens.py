"""Cuts text into words: runs of letters, digits and marks, and pairs of characters where a script has no spaces.

This is the only definition of a word: the analyzers cut `spaced` text at its spaces. Words are those of the plain text
(`index.words.plain_text`).

Chinese, Japanese, Korean and Thai text is cut into overlapping pairs of characters (bigrams), without a dictionary. A
word of two characters is found as a pair, a longer word as a sequence of pairs. Source: McNamee and Mayfield 2004
(character n-gram tokenisation). Halfwidth Katakana becomes ordinary Katakana (Unicode NFKC).
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from index.words.plain_text import MARKS, UNUSUAL, is_plain, plain, traced

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
RUN = re.compile(rf"[{UNSPACED}]+|(?:[^\W_{UNSPACED}]+|[{MARKS}]+)++")
WORD = re.compile(rf"(?:[^\W_]+|[{MARKS}]+)++")
"""A word of a text without unspaced characters: faster than RUN."""
LETTERS = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{MARKS}])*+")
USUAL_WORD = re.compile(r"[^\W_]+")
"""A word of a text of usual characters: faster than WORD."""
WORD_OR_LINE = re.compile(rf"[\w{MARKS}]+")
"""Words with the low lines between them."""
ASCII_SEPARATORS = bytes(byte if byte >= 0x80 or chr(byte).isalnum() else ord(" ") for byte in range(256))
"""Replaces the ASCII characters that separate words by spaces, in UTF-8."""
SPACED_ASCII = ASCII_SEPARATORS[:0x80].decode()
OTHER_SEPARATORS = re.compile(r"[^\x00-\x7f\w]+")
"""The separators that are not ASCII, of a text without marks."""


class Token(NamedTuple):
    """A word of a text, and its character offsets [start, end)."""

    start: int
    end: int
    text: str


def tokens(text: str, end: int | None = None) -> Iterator[Token]:
    """Yield the words of a text in reading order; the pairs of an unspaced run overlap. end: the characters to read.

    The text of a word is plain; its offsets are those of the text as it is.
    """
    read = text[:end]
    if read.isascii() or UNUSUAL.search(read) is None:
        yield from (Token(word.start(), word.end(), word[0]) for word in USUAL_WORD.finditer(read))
        return
    if is_plain(read):
        yield from plain_tokens(read)
        return
    made, starts, ends = traced(read)
    for start, stop, word in plain_tokens(made):
        yield Token(starts[start], ends[stop - 1], word)


def plain_tokens(text: str) -> Iterator[Token]:
    """Yield the words of a plain text, as `tokens` does."""
    for run in RUN.finditer(text):
        if is_unspaced(run[0][0]):
            yield from _pairs(text, run.start(), run.end())
        else:
            yield Token(run.start(), run.end(), run[0])


def spaced(text: str) -> str:
    """Return the words of a text with spaces between them, for an analyzer that cuts at spaces."""
    if text.isascii():
        return text.translate(SPACED_ASCII)
    if UNUSUAL.search(text) is not None:
        text = plain(text)
        if UNUSUAL.search(text) is not None:
            return _spaced_unusual(text)
    cut = text.encode("utf-8", "surrogatepass").translate(ASCII_SEPARATORS).decode("utf-8", "surrogatepass")
    return OTHER_SEPARATORS.sub(" ", cut)


def _spaced_unusual(text: str) -> str:
    """Return the words of a plain text, with marks or characters of a script without spaces, with spaces between."""
    if UNSPACED_RUN.search(text) is None:
        return " ".join(WORD_OR_LINE.findall(text.replace("_", " ")))
    return " ".join(token.text for token in plain_tokens(text))


def in_word(character: str) -> bool:
    """Return whether a character of a plain text belongs to a word."""
    return character.isalnum() or (not character.isascii() and WORD.match(character) is not None)


def has_unspaced(text: str, end: int) -> bool:
    """Return whether the first `end` characters of a text have a character of a script without spaces."""
    return not text.isascii() and UNSPACED_RUN.search(text, 0, end) is not None


def is_unspaced(word: str) -> bool:
    """Return whether a word consists of characters of a script without spaces."""
    return UNSPACED_RUN.fullmatch(word) is not None


def share_a_character(one: str, two: str) -> bool:
    """Return whether two words may be neighbouring pairs of a run of characters without spaces."""
    return len(one) == len(two) == 2 and one[1] == two[0] and is_unspaced(one + two)


def is_of_letters(word: str) -> bool:
    """Return whether a word has only letters with their marks. The vowel signs of Hindi are no letters in Python."""
    return word.isalpha() or (not word.isascii() and LETTERS.fullmatch(word) is not None)


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
