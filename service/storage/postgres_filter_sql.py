r"""Converts a filter to a SQL condition for PostgreSQL, on metadata that is stored as a JSON object.

It means the same as the condition for SQLite (`service.storage.filter_sql`). PostgreSQL does not read `\u0000` in JSON,
so NUL characters are escaped as in stored texts. A value is compared inside CASE, because PostgreSQL is free to
evaluate a comparison before the test of the type that protects it. Numbers are compared exactly.
"""

import json
from collections.abc import Iterable, Sequence

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
    Or,
    Range,
    Value,
)
from index.filters.evaluation import fold

TEXT = "lower((element.value #>> '{}') COLLATE \"C\")"
"""An element as text, with A to Z in lower case."""
_DIGITS = "(element.value #>> '{}')"
_EXACT, _FLOAT = f"CAST({_DIGITS} AS numeric)", f"CAST({_DIGITS} AS double precision)"
NUMBER = f"""CASE
WHEN {_EXACT} BETWEEN -9007199254740992 AND 9007199254740992 THEN {_EXACT}
WHEN {_DIGITS} ~ '^-?[0-9]+$' AND {_EXACT} BETWEEN -9223372036854775808 AND 9223372036854775807 THEN {_EXACT}
WHEN abs({_EXACT}) > 1.7976931348623157e308 THEN {_EXACT}
WHEN {_FLOAT} = trunc({_FLOAT}) AND {_FLOAT} >= -9223372036854775808 AND {_FLOAT} < 9223372036854775808
THEN CAST(CAST({_FLOAT} AS bigint) AS numeric)
ELSE CAST(CAST({_FLOAT} AS text) AS numeric) END"""
"""An element as an exact number; up to 2^53 its digits are exact. Integers beyond 64 bits are floats, as in SQLite; of
floats beyond 64 bits the shortest digits are compared, which are in the order of the floats."""


def readable(metadata: str) -> str:
    r"""Return the JSON with its NUL characters escaped as in `service.storage.postgres_text`.

    Double backslashes are replaced meanwhile by a control character that JSON text cannot contain, because the second
    backslash of "\\u0000" does not begin an escape.
    """
    plain = f"CAST({metadata} AS TEXT)"
    aside = rf"replace(replace({plain}, '\\', chr(1)), '\ufdd0', '\ufdd01')"
    escaped = rf"CAST(replace(replace({aside}, '\u0000', '\ufdd00'), chr(1), '\\') AS json)"
    needs = rf"strpos({plain}, '\u0000') > 0 OR strpos({plain}, '\ufdd0') > 0"
    return f"CASE WHEN {needs} THEN {escaped} ELSE CAST({plain} AS json) END"


class PostgresWriter:
    """Writes conditions on one metadata column, and collects the values of their parameters."""

    def __init__(self, metadata: str) -> None:
        """metadata: the JSON, as an expression of SQL."""
        self._metadata = metadata
        self.bound: dict[str, str] = {}
        """The name of each parameter and its value."""

    def condition(self, node: FilterNode) -> str:
        """Return the condition of a filter."""
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
                return f"EXISTS (SELECT 1 FROM json_each({self._metadata}) AS member WHERE {test})"
            case _:
                listed = "WHEN 'array' THEN member.value ELSE json_build_array(member.value)"
                elements = f"json_array_elements(CASE json_typeof(member.value) {listed} END)"
                rows = f"json_each({self._metadata}) AS member, LATERAL {elements} AS element(value)"
                test = f"member.key = {self._parameter(node.field)} AND ({self._element_test(node)})"
                return f"EXISTS (SELECT 1 FROM {rows} WHERE {test})"

    def _element_test(self, node: ElementTest) -> str:
        match node:
            case Contains(_, part):
                return _of_type("string", f"strpos({TEXT}, {self._parameter(fold(part))}) > 0")
            case In(_, values):
                return self._equal_to_any(values)
            case Range(_, low, high):
                return _of_type("number", f"{NUMBER} BETWEEN {self._number(low)} AND {self._number(high)}")
            case Compare(_, op, value):
                return _of_type("number", f"{NUMBER} {op} {self._number(value.number)}")

    def _equal_to_any(self, values: Iterable[Value]) -> str:
        texts = sorted({fold(value.text) for value in values})
        numbers = [value.number for value in values if value.number is not None]
        tests = [_of_type("string", f"{TEXT} IN ({self._texts(texts)})")]
        if booleans := [f"'{text}'" for text in texts if text in ("true", "false")]:
            tests.append(_of_type("boolean", f"element.value #>> '{{}}' IN ({', '.join(booleans)})"))
        if numbers:
            tests.append(_of_type("number", f"{NUMBER} IN ({self._numbers(numbers)})"))
        return " OR ".join(tests)

    def _texts(self, texts: Sequence[str]) -> str:
        if len(texts) == 1:
            return self._parameter(texts[0])
        return f"SELECT value FROM json_array_elements_text(CAST({self._parameter(json.dumps(texts))} AS json))"

    def _numbers(self, numbers: Sequence[Number]) -> str:
        if len(numbers) == 1:
            return self._number(numbers[0])
        listed = self._parameter(json.dumps([_exact(number) for number in numbers]))
        return f"SELECT CAST(value AS numeric) FROM json_array_elements_text(CAST({listed} AS json))"

    def _number(self, number: Number | None) -> str:
        return f"CAST({self._parameter(json.dumps(_exact(number)))} AS numeric)"

    def _parameter(self, value: str) -> str:
        name = f"filter_{len(self.bound)}"
        self.bound[name] = value
        return f":{name}"


def _exact(number: Number | None) -> Number | None:
    """Return a float without a fraction as an integer, if it has 64 bits: the digits of a large float are not exact."""
    if isinstance(number, float) and number.is_integer() and int(number) in INT64:
        return int(number)
    return number


def _of_type(name: str, test: str) -> str:
    return f"CASE WHEN json_typeof(element.value) = '{name}' THEN {test} ELSE FALSE END"


def _field_test(node: Exists | IsNull | IsEmpty) -> str:
    match node:
        case Exists():
            return "TRUE"
        case IsNull():
            return "json_typeof(member.value) = 'null'"
        case IsEmpty():
            empty_list = "WHEN 'array' THEN json_array_length(member.value) = 0"
            empty_text = "WHEN 'string' THEN member.value #>> '{}' = ''"
            return f"CASE json_typeof(member.value) {empty_text} {empty_list} ELSE FALSE END"
