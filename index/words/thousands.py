"""Numbers with and without separators of thousands: `10000 mAh`, `10,000 mAh`, `10.000mAh`.

A separator cuts a text into words, so a number with separators is a run of words in the index. A number of a query has
the other form beside its own, with its unit where that is written without a space.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from index.words.tokens import Token

SEPARATORS = frozenset(" ,.'\u00a0\u2009\u202f\u2019")
"""What stands between the groups of a number: one of these characters."""
WHOLE = re.compile(r"([1-9]\d{3,8})([^\W\d_]*)")
"""A number without separators, of four to nine digits, and its unit."""
FIRST_GROUP = re.compile(r"[1-9]\d{0,2}")
GROUP = re.compile(r"(\d{3})([^\W\d_]*)")
"""A further group of a number. The last one may have a unit."""


class OtherForm(NamedTuple):
    """Another form of a number at the words [first, last] of a query, unit included; words have spaces between them."""

    first: int
    last: int
    text: str


class _Number(NamedTuple):
    """A number of a query: its first and last word, its digits, its unit where that is typed without a space, and
    whether it is typed with separators."""

    first: int
    last: int
    digits: str
    unit: str
    separated: bool


def other_forms(text: str, words: Sequence[tuple[Token, str]]) -> Iterator[OtherForm]:
    """Yield the other forms of the numbers of a query. words: each word's place in the text, and how it is searched."""
    for number in _numbers(text, words):
        first, last, digits, unit, separated = number
        groups = f"{int(digits):,}".replace(",", " ")
        other = digits if separated else groups
        if unit:
            yield OtherForm(first, last, f"{other}{unit}")
            yield OtherForm(first, last, f"{other} {unit}")
            continue
        yield OtherForm(first, last, other)
        following = words[last + 1][1] if last + 1 < len(words) else ""
        if (
            following.isalpha() and not separated
        ):  # the last group of a number is joined with its unit as other codes are
            yield OtherForm(first, last + 1, f"{groups}{following}")


def _numbers(text: str, words: Sequence[tuple[Token, str]]) -> Iterator[_Number]:
    at = 0
    while at < len(words):
        number = _whole(words, at) or _separated(text, words, at)
        if number is not None:
            yield number
        at = at + 1 if number is None else number.last + 1


def _whole(words: Sequence[tuple[Token, str]], at: int) -> _Number | None:
    found = WHOLE.fullmatch(words[at][1])
    return None if found is None else _Number(at, at, found[1], found[2], separated=False)


def _separated(text: str, words: Sequence[tuple[Token, str]], first: int) -> _Number | None:
    """Return the number whose first group is a word; None if no further group follows, or more than three do."""
    if FIRST_GROUP.fullmatch(words[first][1]) is None:
        return None
    digits, unit, last = words[first][1], "", first
    while not unit and last + 1 < len(words):
        between = text[words[last][0].end : words[last + 1][0].start]
        group = GROUP.fullmatch(words[last + 1][1])
        if between not in SEPARATORS or group is None:
            break
        digits, unit, last = digits + group[1], group[2], last + 1
    return _Number(first, last, digits, unit, separated=True) if last > first and WHOLE.fullmatch(digits) else None
