"""The operators of a query: `"exact phrase"`, `-word`, `-"phrase"`, `field:value` and `field:"two words"`.

Everything else is plain text. A quotation mark without its partner, a dash inside a word or before a space, and a field
that filters may not use are plain text too, so that every text is a valid query. Quotation marks may be typographic
ones, as phones type them: “exact phrase”, „exact phrase“, «exact phrase».
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from index.characters import QUOTES

OPERATOR = re.compile(
    rf"""(?<!\S)(?:
        (?P<minus>-)?[{QUOTES}](?P<phrase>[^{QUOTES}]*)[{QUOTES}]
      | -(?P<word>[^\s{QUOTES}-][^\s{QUOTES}]*)
      | (?P<field>[^\s{QUOTES}:]+):(?:[{QUOTES}](?P<quoted>[^{QUOTES}]*)[{QUOTES}]|(?P<value>[^\s{QUOTES}]+))
    )(?!\S)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class ParsedQuery:
    """A query without its operators. text: the plain words and the phrases; empty if there are only conditions."""

    text: str
    phrases: tuple[str, ...] = ()
    """Documents contain each of these phrases."""
    excluded: tuple[str, ...] = ()
    """Documents contain none of these words and phrases."""
    conditions: tuple[tuple[str, str], ...] = ()
    """(field, value): the metadata field of a document has this value."""

    @property
    def has_operators(self) -> bool:
        """Whether the text had an operator."""
        return bool(self.phrases or self.excluded or self.conditions)


def parse_query(text: str, fields: Collection[str]) -> ParsedQuery:
    """Return the operators of a query and its text without them. fields: the fields that conditions may name."""
    phrases: list[str] = []
    excluded: list[str] = []
    conditions: list[tuple[str, str]] = []

    def plain(found: re.Match[str]) -> str:
        if found["phrase"] is not None:
            if not found["phrase"].strip():
                return ""
            (excluded if found["minus"] else phrases).append(found["phrase"].strip())
            return "" if found["minus"] else f"{found['phrase']} "  # the end of a phrase ends its last word
        if found["word"] is not None:
            excluded.append(found["word"])
            return ""
        if found["field"] not in fields:
            return found[0]
        conditions.append((found["field"], found["value"] if found["quoted"] is None else found["quoted"]))
        return ""

    rest = OPERATOR.sub(plain, text)
    ended = text[-1:].isspace() or rest[-1:].isspace()
    words = " ".join(rest.split())
    return ParsedQuery(words + " " * (ended and bool(words)), tuple(phrases), tuple(excluded), tuple(conditions))
