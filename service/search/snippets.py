"""Crops the text of a hit to the part that answers the query."""

from collections.abc import Sequence
from typing import Any

Span = tuple[int, int]
ELLIPSIS = "…"
BORDER = 24
"""Most characters that a crop is moved by, so that it begins and ends between words."""


def snippet(text: str, marks: Sequence[Span], best: Span, length: int) -> dict[str, Any]:
    """Return {"text", "highlights"}: at most about `length` characters of a text, with the query words in them.

    marks: the spans of query words in the text. best: the span of the passage with the most attention. The crop is the
    part of that passage with the most distinct query words; without a query word in it, of the whole text; without any,
    the beginning of the passage.
    """
    inside = [mark for mark in marks if best[0] <= mark[0] < best[1]] or list(marks)
    start = _best_start(text, inside, length) if inside else best[0]
    if len(text) <= length:
        start, end = 0, len(text)
    else:
        start = _word_border(text, max(0, min(start, len(text) - length)))
        end = _word_end(text, min(len(text), start + length))
    before, after = ELLIPSIS if start > 0 else "", ELLIPSIS if end < len(text) else ""
    shift = len(before) - start
    shown = [{"start": a + shift, "end": b + shift} for a, b in marks if a >= start and b <= end]
    return {"text": f"{before}{text[start:end]}{after}", "highlights": shown}


def _best_start(text: str, marks: Sequence[Span], length: int) -> int:
    """Return where a crop begins that contains the most distinct marked words; the first such crop."""
    words = [text[a:b].casefold() for a, b in marks]
    best, most, first = marks[0][0], 0, 0
    counts: dict[str, int] = {}
    for last, (_, end) in enumerate(marks):
        counts[words[last]] = counts.get(words[last], 0) + 1
        while end - marks[first][0] > length and first < last:
            counts[words[first]] -= 1
            if not counts[words[first]]:
                del counts[words[first]]
            first += 1
        if len(counts) > most:
            best, most = marks[first][0], len(counts)
    return max(0, best - length // 4)


def _word_border(text: str, start: int) -> int:
    """Return the first word border at or after `start`, if it is near."""
    if start == 0 or text[start - 1].isspace():
        return start
    for at in range(start, min(len(text), start + BORDER)):
        if text[at].isspace():
            return at + 1
    return start


def _word_end(text: str, end: int) -> int:
    """Return the last word border at or before `end`, if it is near."""
    if end == len(text) or text[end].isspace():
        return end
    for at in range(end, max(0, end - BORDER), -1):
        if text[at - 1].isspace():
            return at - 1
    return end
