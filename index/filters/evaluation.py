"""The meaning of a filter: whether a document with given metadata passes it.

`matches` is the reference. `service.storage.filter_sql` expresses the same in SQL and is tested against it.

1. A filter value has no type, as in Meilisearch: `2020` and `"2020"` both equal the number 2020 and the string "2020",
   and `true` equals the boolean true and the string "true". A metadata value has a type: the boolean true never
   equals 1.
2. String comparison ignores the case of the letters A to Z and of no other letters. SQLite's `lower` does the same, so
   both implementations follow one rule.
3. A list passes if any of its elements passes. A negation is true wherever its condition is false, and therefore also
   for documents without the field.
"""

import math
from collections.abc import Iterator, Mapping
from string import ascii_lowercase, ascii_uppercase

from index.filters.conditions import (
    INT64,
    And,
    Compare,
    Contains,
    ElementTest,
    Exists,
    FilterNode,
    In,
    IsEmpty,
    IsNull,
    Not,
    Number,
    Operator,
    Or,
    Range,
    Value,
)
from index.records import MetadataValue

_FOLDING = str.maketrans(ascii_uppercase, ascii_lowercase)


def fold(text: str) -> str:
    """Return the text with A to Z in lower case and all other characters unchanged, as SQLite's `lower` does."""
    return text.translate(_FOLDING)


def matches(node: FilterNode, metadata: Mapping[str, MetadataValue | None]) -> bool:
    """Return whether a document with this metadata passes the filter."""
    match node:
        case And(nodes):
            return all(matches(each, metadata) for each in nodes)
        case Or(nodes):
            return any(matches(each, metadata) for each in nodes)
        case Not(inner):
            return not matches(inner, metadata)
        case Exists(field):
            return field in metadata
        case IsNull(field):
            return field in metadata and metadata[field] is None
        case IsEmpty(field):
            return metadata.get(field) in ("", [])
        case Compare(field, "=" | "!=" as op, value):
            return matches(In(field, (value,)), metadata) == (op == "=")
        case _:
            return any(_passes(node, element) for element in _elements(metadata.get(node.field)))


def _elements(value: MetadataValue | None) -> Iterator[str | Number]:
    """Yield the elements of a list, or the value itself; nothing for null or a missing field."""
    if isinstance(value, list):
        yield from value
    elif value is not None:
        yield value


def _passes(test: ElementTest, element: str | Number) -> bool:
    match test:
        case Contains(_, text):
            return isinstance(element, str) and fold(text) in fold(element)
        case In(_, values):
            return any(_equal(value, element) for value in values)
        case Range(_, low, high):
            number = _as_number(element)
            return number is not None and low <= number <= high
        case Compare(_, op, value):
            return _ordered(_as_number(element), op, value.number)


def _equal(value: Value, element: str | Number) -> bool:
    if isinstance(element, str):
        return fold(element) == fold(value.text)
    if isinstance(element, bool):
        return fold(value.text) == ("true" if element else "false")
    return value.number is not None and _as_number(element) == value.number


def _ordered(left: Number | None, op: Operator, right: Number | None) -> bool:
    if left is None or right is None:
        return False
    return {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right}[op]


def _as_number(element: str | Number) -> Number | None:
    """Return a metadata value if it is a number; an integer beyond 64 bits becomes a float, as in SQLite."""
    if isinstance(element, (str, bool)):
        return None
    if isinstance(element, float) or element in INT64:
        return element
    try:
        return float(element)
    except OverflowError:
        return math.inf if element > 0 else -math.inf
