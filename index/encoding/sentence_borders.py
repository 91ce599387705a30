"""Finds where sentences begin and end, by the rules by which the splitter of `index.encoding.chunking` cuts.

Source: Unicode Standard Annex 29, sentence boundaries. A line ends a sentence. A full stop ends none before a digit, in
an abbreviation such as U.S., and where the next letter is a small letter. A full stop between spaces ends one always,
which the splitter does not know: texts that were cut into words have small letters alone.
"""

import re
from collections.abc import Iterator

FULL_STOPS = ".\u2024\ufe52\uff0e"
OTHER_ENDS = (
    "!?\u0589\u061f\u06d4\u0964\u0965\u104b\u1362\u1367\u203c\u203d\u2047-\u2049\u3002\ufe56\ufe57\uff01\uff1f\uff61"
)
CLOSING = (
    "\"'()\\[\\]{}\u00ab\u00bb\u2018-\u201f\u2039\u203a\u3008-\u3011\u3014-\u301b\uff08\uff09\uff3b\uff3d\uff5b\uff5d"
)
"""Quotation marks and brackets."""
LINE_ENDS = "\n\r\x85\u2028\u2029"
SPACES = " \t\x0b\x0c\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
GOING_ON = "\\-,:;\u055d\u060c\u060d\u2013\u2014\u3001\uff0c\uff0d\uff1a\uff1b\uff64"
"""Signs before which a sentence does not end."""
END = re.compile(
    f"(?:(?<![{FULL_STOPS}{OTHER_ENDS}])[{FULL_STOPS}{OTHER_ENDS}]*(?:(?P<stop>[{FULL_STOPS}])|[{OTHER_ENDS}])"
    f"(?![{FULL_STOPS}{OTHER_ENDS}])(?P<after>[{CLOSING}]*[{SPACES}]*))"
    f"(?:(?P<line>\r\n|[{LINE_ENDS}])|(?![{GOING_ON}{FULL_STOPS}{OTHER_ENDS}]))"
    f"|(?P<empty>\r\n|[{LINE_ENDS}])"
)
"""A row of signs is tried once, from its first to its last sign: the time would grow with the cube of its length."""
NEXT_LETTER = re.compile(rf"[^\W\d_]|[{FULL_STOPS}{OTHER_ENDS}{LINE_ENDS}]")
STEPS = (256, 1024, 4096)
"""Characters before a position in which the beginning of its sentence is looked for, one number after the other."""
NEXT_CHARACTERS = 256
"""Characters after a full stop in which the next letter is looked for."""
MOST_SIGNS = 64
"""Characters before a position that may end a sentence at it."""


def whole_sentences(text: str, start: int, end: int, most: int) -> tuple[int, int]:
    """Return the span of the sentences of which [start, end) has a part, without spaces at its ends.

    A span that would have more than `most` characters is returned as it is.
    """
    first, last = _begin(text, start), _end(text, end, most + 1)
    found = text[first:last].strip()
    if last - first > most or not found:
        return start, end
    first = text.index(found, first)
    return first, first + len(found)


def _begin(text: str, start: int) -> int:
    """Return the last border at or before a position, 0 if it is farther away than the last step."""
    for step in STEPS:
        found = [border for border in _borders(text, max(0, start - step), start, start) if border <= start]
        if found:
            return found[-1]
    return 0


def _end(text: str, end: int, most: int) -> int:
    """Return the first border at or after a position, or the position `most` characters after it."""
    last = min(len(text), end + most)
    return next((at for at in _borders(text, max(0, end - MOST_SIGNS), last, last) if at >= end), last)


def _borders(text: str, start: int, begun: int, end: int) -> Iterator[int]:
    """Yield the positions behind the sentences whose last signs begin in text[start:begun].

    end: about how far the text is read. A search reads a long text at many places, so none may read to its end.
    """
    for match in END.finditer(text, start, min(len(text), end + MOST_SIGNS)):
        if match.start() >= begun:
            return
        if match["line"] or match["empty"] or not match["stop"] or _is_last(text, match):
            yield match.end()


def _is_last(text: str, match: re.Match[str]) -> bool:
    """Return whether a full stop ends a sentence."""
    at, after = match.start("stop"), text[match.end() : match.end() + 1]
    if not match["after"] and (after.isdigit() or (after.isupper() and text[max(0, at - 1) : at].isalpha())):
        return False
    if match["after"] and text[max(0, at - 1) : at].isspace():  # a full stop between spaces, as in cut texts
        return True
    letter = NEXT_LETTER.search(text, match.end(), match.end() + NEXT_CHARACTERS)
    return letter is None or not letter[0].islower()
