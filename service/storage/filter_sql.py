"""Converts a filter to a SQL condition for SQLite, on metadata that is stored as a JSON object in a text column.

The condition means the same as `filters.evaluation.matches`, its reference. Names and values are bound parameters.

Fields are found by comparing keys (`json_each(...).key = :name`), not by a path made from the name: SQLite 3.40
compares a path with the spelling of the key in the JSON text, so `$."é"` does not find a key stored as `"\\u00e9"`.
The path of the value is the path that SQLite returns for the row (`fullkey`). A second `json_each` on that path returns
the elements of a list, or a single value like a list of one element, with their JSON types, so that `true` never equals
1.
"""

import json
import operator
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, TableValuedAlias, and_, case, exists, false, func, not_, or_, true

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

_ORDERINGS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def to_sql(node: FilterNode, metadata_column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return a condition that is true for the rows whose metadata passes the filter. It is never NULL.

    metadata_column: a JSON object as text, without lone surrogates. NULL counts as an object without fields.
    """
    match node:
        case And(nodes):
            return and_(true(), *(to_sql(each, metadata_column) for each in nodes))
        case Or(nodes):
            return or_(false(), *(to_sql(each, metadata_column) for each in nodes))
        case Not(inner):
            return not_(to_sql(inner, metadata_column))
        case Compare(field, "=", value):
            return to_sql(In(field, (value,)), metadata_column)
        case Compare(field, "!=", value):
            return not_(to_sql(In(field, (value,)), metadata_column))
        case Exists() | IsNull() | IsEmpty():
            row = _rows(_readable(metadata_column))
            return exists().where(row.c.key == node.field, _field_test(node, row))
        case _:
            metadata = _readable(metadata_column)
            row = _rows(metadata)
            element = _rows(metadata, row.c.fullkey)
            return exists().where(row.c.key == node.field, _element_test(node, element))


def _readable(metadata: ColumnElement[Any]) -> ColumnElement[str]:
    r"""Return the JSON text with each NUL character replaced by half of a surrogate pair.

    SQLite 3.40 ends a JSON string at \u0000, so that "a\u0000b" would equal "a". A filter cannot contain either
    character, so the replacement changes no result. Double backslashes are replaced temporarily by a control character
    that JSON text cannot contain, because the second backslash of "\\u0000" does not begin an escape.
    """
    aside = func.replace(metadata, "\\\\", "\x01")
    without_nul = func.replace(func.replace(aside, "\\u0000", "\\udfff"), "\x01", "\\\\")
    return case((func.instr(metadata, "\\u0000") > 0, without_nul), else_=metadata)


def _rows(*arguments: ColumnElement[Any]) -> TableValuedAlias:
    """Return the members of a JSON object, the elements of a list, or a single value, as rows."""
    return func.json_each(*arguments).table_valued("key", "value", "type", "fullkey", joins_implicitly=True)


def _field_test(node: Exists | IsNull | IsEmpty, row: TableValuedAlias) -> ColumnElement[bool]:
    match node:
        case Exists():
            return true()
        case IsNull():
            return row.c.type == "null"
        case IsEmpty():
            return or_(
                and_(row.c.type == "text", row.c.value == ""),
                and_(row.c.type == "array", func.json_array_length(row.c.value) == 0),
            )


def _element_test(node: ElementTest, element: TableValuedAlias) -> ColumnElement[bool]:
    match node:
        case Contains(_, text):
            return and_(element.c.type == "text", func.instr(func.lower(element.c.value), fold(text)) > 0)
        case In(_, values):
            return _equal_to_any(values, element)
        case Range(_, low, high):
            return and_(_is_number(element), element.c.value >= _number(low), element.c.value <= _number(high))
        case Compare(_, op, value):
            return and_(_is_number(element), _ORDERINGS[op](element.c.value, _number(value.number)))


def _equal_to_any(values: Iterable[Value], element: TableValuedAlias) -> ColumnElement[bool]:
    texts = sorted({fold(value.text) for value in values})
    numbers = [value.number for value in values if value.number is not None]
    tests: list[ColumnElement[bool]] = [
        and_(element.c.type == "text", func.lower(element.c.value).in_(texts)),
        element.c.type.in_([text for text in texts if text in ("true", "false")]),
    ]
    if numbers:
        tests.append(and_(_is_number(element), element.c.value.in_([_number(number) for number in numbers])))
    return or_(*tests)


def _is_number(element: TableValuedAlias) -> ColumnElement[bool]:
    return element.c.type.in_(["integer", "real"])


def _number(number: Number | None) -> ColumnElement[Any]:
    """Return the number as SQLite parses it from JSON text: documents are parsed alike, so equal digits are equal."""
    return func.json_extract(json.dumps(number), "$")
