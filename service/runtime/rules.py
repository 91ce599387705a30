"""The rules of a collection in memory: the owner pins and hides documents for the queries that match a condition.

`service.rules` changes them, `service.search.pinning` applies them. This module sees texts, vectors and times, and
neither documents nor SQL.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from index.candidates.inner_products import inner_products
from index.memory.query_key import as_query_key
from index.records import Floats
from index.words.reading_options import folded
from index.words.tokens import has_unspaced, is_unspaced, tokens

Condition = Literal["exact", "contains", "near"]


@dataclass(frozen=True, eq=False)
class Rule:
    """A condition on the query, and the documents that it pins and hides."""

    id: str
    condition: Condition
    text: str
    cosine: float = 0.8
    """Least cosine between the query and the text of a `near` condition."""
    vector: Floats | None = None
    """The unit vector (D,) of the text of a `near` condition."""
    pins: tuple[tuple[str, int], ...] = ()
    """Pairs of document id and 1-based position, by position."""
    hides: tuple[str, ...] = ()
    """Document ids."""
    begins: str | None = None
    """The time from which the rule applies, as RFC 3339 text in UTC, to the millisecond; None: always."""
    ends: str | None = None
    """The time from which the rule no longer applies; None: never."""

    def applies_at(self, moment: str) -> bool:
        """Return whether the rule applies at a time, as RFC 3339 text in UTC, to the millisecond."""
        return (self.begins is None or self.begins <= moment) and (self.ends is None or moment < self.ends)


class Rulebook:
    """The rules of a collection, by id. It is immutable: a change makes another one.

    unreadable: the ids of stored rules that cannot be read, and that no query matches.
    """

    def __init__(self, rules: Iterable[Rule] = (), unreadable: Iterable[str] = ()) -> None:
        self.unreadable = frozenset(unreadable)
        self._rules = {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}
        self._by_text: dict[str, list[Rule]] = {}
        self._contains: list[tuple[list[str], Rule]] = []
        near: list[Rule] = []
        for rule in self._rules.values():
            if rule.condition == "contains":
                self._contains.append((folded(rule.text).split(), rule))
                continue
            self._by_text.setdefault(as_query_key(rule.text), []).append(rule)  # near itself, however it is corrected
            if rule.condition == "near":
                near.append(rule)
        self._near = near
        self._is_dated = any(rule.begins is not None or rule.ends is not None for rule in self._rules.values())
        self._vectors = np.asarray([rule.vector for rule in near], np.float32)  # (R, D)

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def has_near(self) -> bool:
        """Whether `matching` reads the vector of a query: a rule has a `near` condition."""
        return bool(self._near)

    @property
    def is_dated(self) -> bool:
        """Whether the rules that apply to a query may change with time alone."""
        return self._is_dated

    def __contains__(self, id: str) -> bool:
        return id in self._rules

    def with_rule(self, rule: Rule) -> "Rulebook":
        """Return these rules with a rule added or replaced."""
        return Rulebook((self._rules | {rule.id: rule}).values(), self.unreadable - {rule.id})

    def without(self, id: str) -> "Rulebook":
        """Return these rules without the rule of this id."""
        return Rulebook((rule for rule in self._rules.values() if rule.id != id), self.unreadable - {id})

    def matching(self, texts: Iterable[str], vector: Floats, moment: str) -> list[Rule]:
        """Return the rules that apply to a query at a time, by id.

        texts: the query as it was typed, and as it was corrected and completed; one of them has to match. vector (D,):
        the unit vector of the query, or zeros, which are near nothing. moment: RFC 3339 text in UTC, with milliseconds.
        """
        found = []
        for text in set(texts):
            found += self._by_text.get(as_query_key(text), [])
            words = _words_with_characters(text) if self._contains else []
            found += [rule for wanted, rule in self._contains if _in_order(wanted, words)]
        if self._near:
            cosines = inner_products(self._vectors, vector).tolist()
            found += [rule for rule, cosine in zip(self._near, cosines, strict=True) if cosine >= rule.cosine]
        by_id = {rule.id: rule for rule in found if rule.applies_at(moment)}
        return [by_id[id] for id in sorted(by_id)]


def _words_with_characters(text: str) -> list[str]:
    """Return the words of a query, each word of a script without spaces after its characters.

    A single character of a rule is then found in a longer run, as the operators of a query find it. The pairs of a run
    overlap: a character that two of them share is listed once.
    """
    plain = folded(text)
    if not has_unspaced(plain, len(plain)):
        return plain.split()
    found: list[str] = []
    end = 0
    for token in tokens(text):
        for word in folded(token.text).split():
            if len(word) > 1 and is_unspaced(word):
                found += word[1:] if token.start < end else word
            found.append(word)
        end = token.end
    return found


def _in_order(wanted: Sequence[str], words: Iterable[str]) -> bool:
    """Return whether the wanted words occur among the words in their order; other words may stand between them."""
    rest = iter(words)
    return all(word in rest for word in wanted)
