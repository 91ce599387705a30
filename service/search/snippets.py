"""Crops the text of a hit to the part that answers the query."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from index.words.tokens import has_unspaced, tokens

Span = tuple[int, int]
ELLIPSIS = "…"
BORDER = 24
"""Most characters that a border of a crop is moved by, so that it cuts no word, and no character as it is seen."""
FIRST_UNSPACED = "\u0e01"
"""No character of a script without spaces comes before it (`index.words.tokens`)."""
PAIR = 2
"""Characters of a pair."""
EXTENDING = re.compile(
    "[\u0e33\u0eb3\u1160-\u11ff\u200c\u200d\ud7b0-\ud7fb\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
"""Characters that belong to the one before them, beside the marks: Thai and Lao am, the later letters of a Hangul
syllable, joiners, halfwidth voice marks, skin tones and tags. Source: Unicode UAX 29."""
JOINER = "\u200d"
"""The character after it belongs to the one before it."""
FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""Two of them are a flag."""


def snippet(text: str, marks: Sequence[Span], best: Span, length: int) -> dict[str, Any]:
    """Return {"text", "highlights"}: at most about `length` characters of a text, with the query words in them.

    marks: the spans of query words in the text. best: the span of the passage with the most attention. The crop is the
    part of that passage with the most distinct query words; without a query word in it, of the whole text; without any,
    the beginning of the passage. In scripts without spaces a query word is a pair of characters, and a pair is in other
    words too: there the crop is of the whole text if a part of it has more of the pairs.
    """
    start, end = (0, len(text)) if len(text) <= length else _crop(text, marks, best, length)
    before, after = (ELLIPSIS if rest and not rest.isspace() else "" for rest in (text[:start], text[end:]))
    shift = len(before) - start
    shown = [{"start": a + shift, "end": b + shift} for a, b in _clipped(marks, start, end)]
    return {"text": f"{before}{text[start:end]}{after}", "highlights": shown}


def _clipped(marks: Sequence[Span], start: int, end: int) -> list[Span]:
    """Return the marks inside a crop. Of marks over its border, which may be longer than it, the parts inside.

    A part of one character is left out: it would be another word.
    """
    parts = [((a, b), (max(a, start), min(b, end))) for a, b in marks if a < end and b > start]
    return [part for mark, part in parts if part == mark or part[1] - part[0] >= PAIR]


def _crop(text: str, marks: Sequence[Span], best: Span, length: int) -> Span:
    """Return the span of the crop of a text of more than `length` characters. It begins with no white space."""
    stop = len(text.rstrip())
    wanted, last = best[0], stop
    if marks:
        last, part_end = _best_part(text, marks, best, length)
        wanted = last - max(0, min(length // 4, length - BORDER - (part_end - last)))
    start = max(0, min(wanted, stop - length))
    start = _word_border(text, start, last)
    start += len(text[start:stop]) - len(text[start:stop].lstrip())
    end = min(stop, start + length)
    return start, _word_end(text, end, start + length // 2)


def _best_part(text: str, marks: Sequence[Span], best: Span, length: int) -> Span:
    """Return the span of the query words that are shown."""
    inside = [mark for mark in marks if best[0] <= mark[0] < best[1]] or marks
    words = [text[start : min(end, start + length)].casefold() for start, end in inside]
    if text.isascii() or max(words) < FIRST_UNSPACED or not any(has_unspaced(word, len(word)) for word in set(words)):
        return _most_words(inside, words, length)[0]
    everywhere, pairs = _pairs(text, marks, length)
    part, most = _most_words(everywhere, pairs, length)
    if len(inside) == len(marks):
        return part
    in_passage = [at for at, (start, _) in enumerate(everywhere) if best[0] <= start < best[1]]
    own, count = _most_words([everywhere[at] for at in in_passage], [pairs[at] for at in in_passage], length)
    return part if most > count else own


def _pairs(text: str, marks: Sequence[Span], length: int) -> tuple[list[Span], list[str]]:
    """Return the marked words and their spans, the pairs of a script without spaces each as a word.

    Of a mark, `length` characters are read: a crop shows no more of them.
    """
    words = [text[start : min(end, start + length)].casefold() for start, end in marks]
    cut = {word: [*tokens(word)] if len(word) > PAIR else [(0, len(word), word)] for word in set(words)}
    spans = [(start + a, start + b) for (start, _), word in zip(marks, words, strict=True) for a, b, _ in cut[word]]
    return spans, [pair for word in words for _, _, pair in cut[word]]


def _most_words(marks: Sequence[Span], words: Sequence[str], length: int) -> tuple[Span, int]:
    """Return the span of at most `length` characters that has the most distinct words, and their number.

    words: the word of each mark. Of equal parts it is the first one, without words at its beginning that come again.
    """
    best, most, first = marks[0], 0, 0
    counts: dict[str, int] = {}
    for last, (_, end) in enumerate(marks):
        counts[words[last]] = counts.get(words[last], 0) + 1
        while first < last and (end - marks[first][0] > length or counts[words[first]] > 1):
            counts[words[first]] -= 1
            if not counts[words[first]]:
                del counts[words[first]]
            first += 1
        if len(counts) > most:
            best, most = (marks[first][0], end), len(counts)
    return best, most


def _word_border(text: str, start: int, last: int) -> int:
    """Return the first word border in [start, last], if it is near; otherwise a border of characters."""
    if start == 0 or text[start - 1].isspace():
        return start
    for at in range(start, min(last, start + BORDER)):
        if text[at].isspace():
            return at + 1
    return _character_border(text, start, 0)


def _word_end(text: str, end: int, least: int) -> int:
    """Return the last word border in [least, end], if it is near; otherwise a border of characters."""
    if end == len(text) or text[end].isspace():
        return end
    for at in range(end, max(least, end - BORDER), -1):
        if text[at - 1].isspace():
            return at - 1
    return _character_border(text, end, least)


def _character_border(text: str, at: int, least: int) -> int:
    """Return the last position in [least, at] that is not inside a character as it is seen, if it is near."""
    for border in range(at, max(least, at - BORDER) - 1, -1):
        if border == 0 or not _is_inside(text, border):
            return border
    return at


def _is_inside(text: str, at: int) -> bool:
    """Return whether the character at a position belongs to the one before it."""
    one = text[at]
    if one.isascii():
        return False
    if one in FLAG_LETTERS:
        before = text[:at]
        return (at - len(before.rstrip(FLAG_LETTERS))) % 2 == 1
    return text[at - 1] == JOINER or unicodedata.category(one)[0] == "M" or EXTENDING.match(one) is not None
