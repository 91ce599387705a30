"""Converts a filter to a SQL condition for SQLite, on metadata that is stored as a JSON object in a text column.

The condition means the same as `filters.evaluation.matches`, its reference. Names and values are bound parameters.

Fields are found by comparing keys (`json_each(...).key = :name`), not by a path made from the name: SQLite 3.40
compares a path with the spelling of the key in the JSON text, so `$."é"` does not find a key stored as `"\\u00e9"`.
The path of the value is the path that SQLite returns for the row (`fullkey`). A second `json_each` on that path returns
the elements of a list, or a single value like a list of one element, with their JSON types, so that `true` never equals
1.

The condition is text, not a tree of expressions: SQLAlchemy takes about ten times as long to build and to compile the
tree, 0.1 s for a filter of 64 conditions (`python -m benchmarks.filter_strings`).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, String, TextClause, bindparam, text

from index.filters.conditions import (
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
    Or,
    Range,
    Value,
)
from index.filters.evaluation import fold
from service.storage.dialects import is_sqlite
from service.storage.postgres_filter_sql import PostgresWriter, readable
from service.storage.postgres_text import PostgresText


def to_sql(connection: Connection, node: FilterNode, metadata_column: ColumnElement[Any]) -> TextClause:
    """Return a condition that is true for the rows whose metadata passes the filter. It is never NULL.

    connection: of the statement. metadata_column: a JSON object, without lone surrogates. NULL counts as an object
    without fields. The statement selects from its table.
    """
    sqlite = is_sqlite(connection)
    writer = _Writer(_readable(str(metadata_column))) if sqlite else PostgresWriter(readable(str(metadata_column)))
    kind: Any = String() if sqlite else PostgresText()
    condition = writer.condition(node)
    parameters = (bindparam(name, value, kind, unique=True) for name, value in writer.bound.items())
    return text(f"({condition})").bindparams(*parameters)


def _readable(metadata: str) -> str:
    r"""Return the JSON text with each NUL character replaced by half of a surrogate pair.

    SQLite 3.40 ends a JSON string at \u0000, so that "a\u0000b" would equal "a". A filter cannot contain either
    character, so the replacement changes no result. Double backslashes are replaced temporarily by a control character
    that JSON text cannot contain, because the second backslash of "\\u0000" does not begin an escape.
    """
    aside = rf"replace({metadata}, '\\', char(1))"
    without_nul = rf"replace(replace({aside}, '\u0000', '\udfff'), char(1), '\\')"
    return rf"CASE WHEN instr({metadata}, '\u0000') > 0 THEN {without_nul} ELSE {metadata} END"


_IS_NUMBER = "element.type IN ('integer', 'real')"


@dataclass
class _Writer:
    """Writes conditions on one metadata column, and collects the values of their parameters.

    `json_each` returns the members of a JSON object, the elements of a list, or a single value, as rows.
    """

    metadata: str
    """The JSON text, as an expression of SQL."""
    bound: dict[str, str] = field(default_factory=dict)
    """The name of each parameter and its value."""

    def condition(self, node: FilterNode) -> str:
        match node:
            case And(nodes):
                return f"({' AND '.join(map(self.condition, nodes)) or 'TRUE'})"
            case Or(nodes):
                return f"({' OR '.join(map(self.condition, nodes)) or 'FALSE'})"
            case Not(inner):
                return f"NOT {self.condition(inner)}"
            case Compare(name, "=", value):
                return self.condition(In(name, (value,)))
            case Compare(name, "!=", value):
                return f"NOT {self.condition(In(name, (value,)))}"
            case Exists() | IsNull() | IsEmpty():
                test = f"member.key = {self._parameter(node.field)} AND {_field_test(node)}"
                return f"EXISTS (SELECT 1 FROM json_each({self.metadata}) AS member WHERE {test})"
            case _:
                rows = f"json_each({self.metadata}) AS member, json_each({self.metadata}, member.fullkey) AS element"
                test = f"member.key = {self._parameter(node.field)} AND ({self._element_test(node)})"
                return f"EXISTS (SELECT 1 FROM {rows} WHERE {test})"

    def _element_test(self, node: ElementTest) -> str:
        match node:
            case Contains(_, part):
                return f"element.type = 'text' AND instr(lower(element.value), {self._parameter(fold(part))}) > 0"
            case In(_, values):
                return self._equal_to_any(values)
            case Range(_, low, high):
                return f"{_IS_NUMBER} AND element.value BETWEEN {self._number(low)} AND {self._number(high)}"
            case Compare(_, op, value):
                return f"{_IS_NUMBER} AND element.value {op} {self._number(value.number)}"

    def _equal_to_any(self, values: Iterable[Value]) -> str:
        texts = sorted({fold(value.text) for value in values})
        numbers = [value.number for value in values if value.number is not None]
        tests = [f"element.type = 'text' AND lower(element.value) IN ({self._texts(texts)})"]
        if booleans := [repr(text) for text in texts if text in ("true", "false")]:
            tests.append(f"element.type IN ({', '.join(booleans)})")
        if numbers:
            tests.append(f"{_IS_NUMBER} AND element.value IN ({self._numbers(numbers)})")
        return " OR ".join(tests)

    def _texts(self, texts: Sequence[str]) -> str:
        return self._parameter(texts[0]) if len(texts) == 1 else self._elements(texts)

    def _numbers(self, numbers: Sequence[Number]) -> str:
        return self._number(numbers[0]) if len(numbers) == 1 else self._elements(numbers)

    def _number(self, number: Number | None) -> str:
        """Return the number as SQLite parses it from JSON text, as it parses documents: equal digits are equal."""
        return f"json_extract({self._parameter(json.dumps(number))}, '$')"

    def _elements(self, values: Sequence[str] | Sequence[Number]) -> str:
        """Return a list of values as one parameter: a list has up to 1,000."""
        return f"SELECT value FROM json_each({self._parameter(json.dumps(values, ensure_ascii=False))})"

    def _parameter(self, value: str) -> str:
        name = f"filter_{len(self.bound)}"
        self.bound[name] = value
        return f":{name}"


def _field_test(node: Exists | IsNull | IsEmpty) -> str:
    match node:
        case Exists():
            return "TRUE"
        case IsNull():
            return "member.type = 'null'"
        case IsEmpty():
            empty_text = "member.type = 'text' AND member.value = ''"
            return f"({empty_text} OR member.type = 'array' AND json_array_length(member.value) = 0)"
