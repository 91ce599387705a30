"""Flattens objects to metadata fields: strings, numbers, booleans and lists of these. Pure functions.

A field of an inner object is named with dots. A list of objects becomes a list for each of their fields.
"""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from service.http.wording import named

MAX_DEPTH = 32
"""Levels of objects and lists in a record."""
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1
"""Whole numbers of JSON from the one to the other are read as integers, others as floats."""
Scalar = str | int | float | bool
EPOCH = "_epoch"
"""Ending of the numeric field that is added for a date: seconds since 1970-01-01T00:00:00Z."""
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?")
RENAMED = "the name of a field has a quotation mark or is empty: it is stored under another name"


class Unmappable(ValueError):
    """A record that is no document: the field, and what was wanted in words."""

    def __init__(self, field: str, wanted: str) -> None:
        self.field, text = named(field.split("."), wanted)
        super().__init__(f"{self.field}: {text}")


def value_at(record: Mapping[str, Any], path: str) -> Any:
    """Return the value at `a.b`: of the field with this name, of the field b in a, or the same in `metadata`."""
    for start in (record, record.get("metadata")):
        value: Any = start
        if isinstance(value, Mapping) and path in value:
            return value[path]
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def as_text(value: Scalar) -> str:
    """Return a scalar as text: true and false in lower case, 12.0 as 12."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def flattened(
    record: Mapping[str, Any], prefix: str, skipped: frozenset[str], notes: list[str], depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield name and value of every field of an object; null is left out. skipped: names that are left out."""
    if depth > MAX_DEPTH:
        raise Unmappable(prefix.rstrip(".")[:128], f"must have at most {MAX_DEPTH} levels")
    for key, value in record.items():
        name = prefix + _name(str(key), notes)
        if f"{prefix}{key}" in skipped:
            continue
        if isinstance(value, Mapping):
            yield from flattened(value, f"{name}.", skipped, notes, depth + 1)
        elif isinstance(value, list | tuple):
            yield from _list(name, list(value), skipped, notes, depth + 1)
        elif (stored := _scalar(value)) is not None:
            yield name, stored


def with_epochs(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata with a number `<field>_epoch` beside each ISO 8601 date; a date without an offset is UTC."""
    added = {}
    for name, value in metadata.items():
        seconds = epoch_seconds(value) if isinstance(value, str) else None
        if seconds is not None and name + EPOCH not in metadata:
            added[name + EPOCH] = seconds
    return metadata | added


def with_changes(metadata: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with changes; null removes a field. The number `<field>_epoch` of a date follows its change."""
    merged = {**metadata, **changes}
    for name, value in changes.items():
        if name + EPOCH in metadata and name + EPOCH not in changes and _is_epoch_of(metadata, name):
            merged[name + EPOCH] = epoch_seconds(value) if isinstance(value, str) else None
    return {name: value for name, value in merged.items() if value is not None}


def _is_epoch_of(metadata: Mapping[str, Any], name: str) -> bool:
    """Return whether the number beside a date is its time."""
    before = metadata.get(name)
    return isinstance(before, str) and epoch_seconds(before) == metadata[name + EPOCH]


def epoch_seconds(text: str) -> int | None:
    """Return the seconds since 1970 of an ISO 8601 date or date and time, rounded down; None for other text."""
    if not DATE.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return math.floor((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None


def _list(
    name: str, items: list[Any], skipped: frozenset[str], notes: list[str], depth: int
) -> Iterator[tuple[str, Any]]:
    """Yield a list of scalars, and a list of objects as a list for each of their fields."""
    if depth > MAX_DEPTH:
        raise Unmappable(name[:128], f"must have at most {MAX_DEPTH} levels")
    plain: list[Scalar] = []
    by_field: dict[str, list[Scalar]] = {}
    for item in items:
        if isinstance(item, Mapping):
            inner = flattened(item, f"{name}.", skipped, notes, depth + 1)
        elif isinstance(item, list | tuple):
            inner = _list(name, list(item), skipped, notes, depth + 1)
        else:
            scalar = _scalar(item)
            plain += [] if scalar is None else [scalar]
            continue
        for field, value in inner:
            target = plain if field == name else by_field.setdefault(field, [])
            target += value if isinstance(value, list) else [value]
    if plain or not by_field:
        yield name, plain
    yield from by_field.items()


def _scalar(value: Any) -> Scalar | None:
    """Return a value that metadata can hold; None for null and for a number that is not finite."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, int) and not LEAST_INTEGER <= value <= MOST_INTEGER:
        return float(value)
    if isinstance(value, str | int | float):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def _name(key: str, notes: list[str]) -> str:
    """Return the name of a field without characters that a filter cannot hold."""
    name = key.replace('"', "'").replace("\0", "") or "unnamed"
    if name != key:
        notes.append(RENAMED)
    return name
