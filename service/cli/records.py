"""Reads JSON files record by record. `service.documents.reading` has the readers and says how records are numbered."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from service.cli.failures import ERROR, Failure
from service.cli.sources.formats import format_of_name
from service.documents.compression import CompressionBomb, open_plain
from service.documents.reading import (
    BOM,
    Fault,
    Found,
    Record,
    RecordFormat,
    Unit,
    as_utf8,
    json_format,
    read_array,
    read_lines,
)

__all__ = ["BOM", "Fault", "Found", "Record", "head_of", "is_table", "opened", "read_objects", "unit_of"]

HEAD_BYTES = 4096


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, also a gzipped one. Raises Failure for damaged gzip, also while it is read."""
    try:
        with open_plain(path) as stream:
            yield stream
    except (CompressionBomb, EOFError, OSError, zlib.error) as error:
        raise Failure(ERROR, f"{path.name}: {error}") from error


def read_objects(path: Path) -> Found:
    """Yield the objects of a JSON array, or of lines of JSON, also gzipped. Raises Failure for damaged gzip."""
    kind = json_format(head_of(path))
    with opened(path) as stream:
        yield from read_array(stream) if kind is RecordFormat.JSON else read_lines(stream)


def unit_of(path: Path) -> Unit:
    """Return the unit in which `read_objects` counts this file: "item" for a JSON array, else "line"."""
    return json_format(head_of(path)).unit


def is_table(path: Path) -> bool:
    """Return whether a file is a table and not JSON, by its name, else by its first character."""
    kind = format_of_name(path.name)
    if kind and kind.record_format:
        return kind.record_format.is_table
    return head_of(path).removeprefix(BOM).lstrip()[:1] not in (b"{", b"[", b"")


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed and in UTF-8. Raises Failure for damaged gzip."""
    with opened(path) as stream:
        return as_utf8(stream).read(HEAD_BYTES)
