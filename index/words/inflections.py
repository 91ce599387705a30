"""Tells whether a word is a regular form of a word of the language, such as `frying` of `fry`.

The encoder has a token for `fry` and none for `frying`, which is spelled right all the same. The endings are English,
as most words of the default encoder are. Where the encoder knows the form in another spelling, as `beginning` for
`begining`, the word is mistyped.
"""

from collections.abc import Iterator, Set

ENDINGS = ("s", "es", "ed", "ing", "er", "ers", "ly")
CHANGING = frozenset(ENDINGS) - {"s", "ly"}
"""Endings before which a word may lose its `e` or double its last letter."""
LEAST_LETTERS = 4
"""Least letters before the ending. With three, twice as many mistyped words look like regular forms."""


def is_regular_form(word: str, known: Set[str]) -> bool:
    """Return whether a word in lower case is a known word with one of the endings."""
    if word.endswith(("ies", "ied")) and word[:-3] + "y" in known:
        return True
    return any(_has_ending(word, ending, known) for ending in ENDINGS if word.endswith(ending))


def _has_ending(word: str, ending: str, known: Set[str]) -> bool:
    base = word.removesuffix(ending)
    if len(base) < LEAST_LETTERS:
        return False
    if ending in CHANGING and base + "e" in known:
        return True
    if ending in CHANGING and base[-1] == base[-2] and base[:-1] in known and base[:-1] + ending not in known:
        return not known.isdisjoint(base + other for other in CHANGING)  # `grammer` is none: no form doubles the m
    return base in known and known.isdisjoint(_other_spellings(base, ending))


def _other_spellings(base: str, ending: str) -> Iterator[str]:
    """Yield how a word may change before an ending."""
    if ending == "s":
        yield base + "es"
    if ending == "ly":
        yield base + "ally"
        yield base + "lly"
    if ending in CHANGING:
        yield base + base[-1] + ending
    if base[-1] == "e":
        yield base[:-1] + ending
        yield base[:-1] + ending.removeprefix("l")
    if base[-1] == "y":
        yield base[:-1] + ("ies" if ending == "s" else f"i{ending}")
