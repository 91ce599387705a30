"""Says in words what was wanted of a value that a schema refused. Names neither a library nor the value."""

from collections.abc import Mapping, Sequence
from typing import Any

WANTED = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must not be empty or contain quotation marks or NUL",
    "string_unicode": "must be valid Unicode",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "timezone_aware": "must have an offset from UTC, such as Z",
    "datetime_type": "must be a time such as 2026-09-20T10:00:00Z",
    "datetime_parsing": "must be a time such as 2026-09-20T10:00:00Z",
    "datetime_from_date_parsing": "must be a time such as 2026-09-20T10:00:00Z",
}
"""Type of an error of pydantic -> what was wanted. Tests post documents and events with each of these errors."""


def in_words(error: Mapping[str, Any]) -> str:
    """Return what was wanted, for an error of pydantic that has its context."""
    context = error.get("ctx") or {}
    wanted = WANTED.get(error["type"])
    if wanted is None:
        return str(context.get("error") or "is not as documented")
    return wanted.format(**context)


def field_name(location: Sequence[str | int]) -> str:
    """Return the name of a place in a record: `metadata.price`; for the record itself `record`."""
    return ".".join(map(str, location)) or "record"
