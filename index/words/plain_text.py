"""Plain text: a text as its words are compared, and where each of its characters stands in the text.

Composed and decomposed accents are equal (Unicode NFC), accents without a composed form are left out, and so are
characters that are not visible inside a word, such as a soft hyphen. The signs of Indic vowels and of Arabic vowels
belong to the word. The joiners U+200C and U+200D stay: they distinguish words.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

USUAL = (
    "\x00-\xac\xae-\u012f\u0131-\u02ff\u1e00-\u1eff"  # Latin
    "\u0370-\u0373\u0375-\u037d\u037f-\u0386\u0388-\u0482\u048a-\u0590"  # Greek, Cyrillic, Armenian
    "\u05be\u05d0-\u05ea\u0620-\u064a\u0660-\u066f\u0671-\u06d5"  # Hebrew, Arabic
    "\u2010-\u2027\u2030-\u205e\u2070-\u20cf\u2100-\u2125\u2127-\u2129"  # signs
    "\u212c-\u2328\u232b-\u2adb\u2add-\u2bff"
    "\U0001f000-\U0001faff"  # emoji
)
"""Characters that are plain and are separated by spaces or signs, as the inside of a character class."""
UNUSUAL = re.compile(f"[^{USUAL}]")
"""A text without these characters is plain."""
INVISIBLE = "\u00ad\u034f\u180b-\u180d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
"""Soft hyphen, word joiner, byte order mark and variation selectors."""
ACCENTS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20dc\u302a-\u302f\u3099\u309a\ufe20-\ufe2f"
"""Combining accents. Those that remain in NFC have no composed form."""
SPACE_WITHOUT_WIDTH = "\u200b"
AFTER_WORD = "\u0e80-\u109f\u1780-\u17ff\u1950-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
"""Lao, Tibetan, Burmese, Khmer and Tai characters: after these, a space without width separates words."""
CAPITAL_I = "\u0130"
"""I with a dot. Its small letter would be an i with a combining dot."""
MARK_BLOCKS = (
    range(0x300, 0xE31),
    range(0xE50, 0x3000),
    range(0xA66F, 0xAC00),
    range(0x10000, 0x12000),
    range(0x1E000, 0x1E950),
)
"""Where marks are, without those of Thai and Japanese, which are cut into pairs (`index.words.tokens`)."""


def _ranges(codes: Iterator[int]) -> str:
    """Return ascending code points as the inside of a character class."""
    found: list[list[int]] = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in found)


MARKS = _ranges(code for code in chain(*MARK_BLOCKS) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
"""Characters that belong to the letter before them, as the inside of a character class."""
EXTENDING = f"{MARKS}{ACCENTS}{INVISIBLE}{SPACE_WITHOUT_WIDTH}\u0e38-\u0e3a\u0e48-\u0e4b\u1160-\u11ff\ud7b0-\ud7fb"
"""Characters that are composed with those before them, change places, or are left out; the last are Thai and Hangul."""
LEFT_OUT = re.compile(f"[{ACCENTS}{INVISIBLE}{SPACE_WITHOUT_WIDTH}{CAPITAL_I}]")
EXTENSION = re.compile(f"[{EXTENDING}]+")
CACHED_PIECES = 10_000
"""Characters with their extending characters whose plain length is cached."""
_INVISIBLE = re.compile(f"[{INVISIBLE}]+|(?<![{AFTER_WORD}]){SPACE_WITHOUT_WIDTH}+")
_ACCENTS = re.compile(f"[{ACCENTS}]+")


class Traced(NamedTuple):
    """A plain text; its character at i was made of the characters [starts[i], ends[i]) of the original text."""

    text: str
    starts: list[int]
    ends: list[int]


def is_plain(text: str) -> bool:
    """Return whether a text is known to be plain."""
    if text.isascii() or UNUSUAL.search(text) is None:
        return True
    return LEFT_OUT.search(text) is None and unicodedata.is_normalized("NFC", text)


def plain(text: str) -> str:
    """Return a text as its words are compared."""
    if is_plain(text):
        return text
    composed = unicodedata.normalize("NFC", _INVISIBLE.sub("", text))
    return _ACCENTS.sub("", composed).replace(CAPITAL_I, "I")


def traced(text: str) -> Traced:
    """Return a plain text with the place of each of its characters in the original text."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end, length in _pieces(text):
        if length == end - start:
            starts += range(start, end)
            ends += range(start + 1, end + 1)
        else:
            starts += [start] * length
            ends += [end] * length
    return Traced(plain(text), starts, ends)


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and plain length of pieces that become plain independently, in their order."""
    done = 0
    for extension in EXTENSION.finditer(text):
        start, end = max(done, extension.start() - 1), extension.end()
        if start > done:
            yield from _without_extension(text, done, start)
        yield start, end, _length(text[start:end])
        done = end
    if done < len(text):
        yield from _without_extension(text, done, len(text))


def _without_extension(text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces of a part of a text without extending characters."""
    if UNUSUAL.search(text, start, end) is None:
        yield start, end, end - start
    else:
        yield from ((at, at + 1, _length(text[at])) for at in range(start, end))


@lru_cache(CACHED_PIECES)
def _length(piece: str) -> int:
    return len(plain(piece))
