"""Reads JSON files record by record, and reports records that cannot be used.

A reader yields Records and Faults in the order of the file. The number of a record is its 1-based line in the file, or
its 1-based position in a JSON array. A fault affects only its own record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from service.cli.failures import ERROR, Failure

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Record:
    """An object of a file."""

    number: int
    value: dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """A line or item of a file that is not a usable record, and the reason."""

    number: int
    code: str
    detail: str


Found = Iterator[Record | Fault]


def read_objects(path: Path) -> Found:
    """Yield the objects of a JSON array, or of lines of JSON; the first character of the file decides."""
    return read_array(path) if unit_of(path) == "item" else read_lines(path)


def unit_of(path: Path) -> str:
    """Return the unit in which `read_objects` counts this file: "item" for a JSON array, else "line"."""
    with path.open("rb") as file:
        return "item" if file.read(4096).removeprefix(BOM).lstrip()[:1] == b"[" else "line"


def read_lines(path: Path) -> Found:
    """Yield the objects of NDJSON; blank lines are skipped."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.removeprefix(BOM) if number == 1 else line
            if text.strip():
                yield parse_object(number, text)


def parse_object(number: int, text: bytes) -> Record | Fault:
    """Return the JSON object of a line."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return Fault(number, "invalid_json", "not UTF-8" if not is_utf8(text) else f"not valid JSON: {error.msg}")
    return checked(number, value)


def checked(number: int, value: Any) -> Record | Fault:
    """Return a Record for an object, a Fault for any other value."""
    return Record(number, value) if isinstance(value, dict) else Fault(number, "invalid_json", "not a JSON object")


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_array(path: Path) -> Found:
    """Yield the objects of a JSON array. The file must fit into memory. Raises Failure for invalid JSON."""
    try:
        values = orjson.loads(path.read_bytes().removeprefix(BOM))
    except orjson.JSONDecodeError as error:
        raise Failure(ERROR, f"{path.name}: not valid JSON at line {error.lineno}: {error.msg}") from error
    yield from (checked(number, value) for number, value in enumerate(values, 1))
