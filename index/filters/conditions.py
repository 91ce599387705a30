"""The conditions of a filter: the nodes of its tree, and the values that they compare with.

`index.filters.parser` makes the tree from text, `index.filters.evaluation` applies it to the metadata of a document.
"""

from dataclasses import dataclass
from typing import Final, Literal

Number = int | float
Operator = Literal["=", "!=", ">", ">=", "<", "<="]

INT64: Final = range(-(2**63), 2**63)
"""The integers that a filter compares exactly."""


@dataclass(frozen=True)
class Value:
    """The right side of a condition: a text, and the number that it spells, if any (64-bit integer or finite float)."""

    text: str
    number: Number | None = None


@dataclass(frozen=True)
class Compare:
    """`field = value`, and the same with the other operators. The four orderings compare numbers only."""

    field: str
    op: Operator
    value: Value


@dataclass(frozen=True)
class In:
    """`field IN [a, b]`: equal to at least one of the values."""

    field: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Range:
    """`field low TO high`: a number with low <= number <= high."""

    field: str
    low: Number
    high: Number


@dataclass(frozen=True)
class Contains:
    """`field CONTAINS text`: a string that contains the text."""

    field: str
    text: str


@dataclass(frozen=True)
class Exists:
    """`field EXISTS`: the document has the field, with any value, including null."""

    field: str


@dataclass(frozen=True)
class IsNull:
    """`field IS NULL`: the document has the field and its value is null. A missing field is not null."""

    field: str


@dataclass(frozen=True)
class IsEmpty:
    """`field IS EMPTY`: the document has the field and its value is "" or []."""

    field: str


@dataclass(frozen=True)
class Not:
    """True for exactly the documents for which `node` is false."""

    node: "FilterNode"


@dataclass(frozen=True)
class And:
    """True where all of `nodes` are true."""

    nodes: tuple["FilterNode", ...]


@dataclass(frozen=True)
class Or:
    """True where at least one of `nodes` is true."""

    nodes: tuple["FilterNode", ...]


ElementTest = Compare | In | Range | Contains
"""Conditions on a single value. A list passes if any of its elements passes."""

FilterNode = ElementTest | Exists | IsNull | IsEmpty | Not | And | Or
