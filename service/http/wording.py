"""Says in words what was wanted of a value that a schema refused. Names neither a library nor the value."""

from collections.abc import Mapping, Sequence
from typing import Any

MOST_REPEATED = 64
"""Characters of a name that a client made up and that an error repeats: a longer one is no typing mistake."""
NOT_REPEATED = "a name in it that is not repeated here"
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


def repeatable(location: Sequence[str | int], wanted: str) -> tuple[Sequence[str | int], str]:
    """Return a place in the input and what was wanted there, as an error may repeat them.

    A name with more than MOST_REPEATED characters, or with characters that cannot be printed, may be a value in the
    wrong place. The returned place ends before it, and the text says so.
    """
    for length, part in enumerate(location):
        if isinstance(part, str) and (len(part) > MOST_REPEATED or not part.isprintable()):
            return location[:length], f"{NOT_REPEATED}: {wanted}"
    return location, wanted


def named(location: Sequence[str | int], wanted: str) -> tuple[str, str]:
    """Return the name of a place in a record, and what was wanted of it.

    The name is such as `metadata.price`, or `record` for the record itself.
    """
    place, text = repeatable(location, wanted)
    return ".".join(map(str, place)) or "record", text
