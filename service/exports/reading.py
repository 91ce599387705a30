"""Reads an export and checks it: every line, their number, and their sha256 in the last line.

Accepted schemas: those of `OLDEST_REVISION` to `NEWEST_REVISION`.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from index.storage.files import MANIFEST
from service.exports.record_repository import END, FILES, FORMAT, HEADER, OLDEST_REVISION, TYPES, RecordType, as_bytes
from service.http.problems import Problem
from service.storage.database import NEWEST_REVISION

MAX_LINE_BYTES = 256 * 1024 * 1024
"""Bytes of a line, at most."""
SCHEMA = re.compile("[0-9]{4}")
MODEL_FILES = {"head.safetensors", MANIFEST}
OF_NEW = {"model_alias", "model_alias_change"}
"""Types of records that a new collection has already, besides the model of version 0."""
Record = dict[str, Any]


def invalid(number: int, detail: str) -> Problem:
    """Return the problem of a line that is not part of an export."""
    return Problem(422, "invalid_export", f"line {number}: {detail}")


@dataclass(frozen=True)
class Names:
    """The schema of an export, the names of its collections, and its aliases with their collections.

    filled: the collections with content.
    """

    schema: str
    collections: set[str] = field(default_factory=set)
    aliases: dict[str, str | None] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)

    def add(self, kind: RecordType, values: Record, collection: str | None) -> None:
        """Note a record of this collection: a collection or an alias with its name, content for its collection."""
        if kind.name == "collection":
            self.collections.add(values["name"])
        elif kind.name == "alias":
            self.aliases[values["name"]] = collection
        elif collection is not None and kind.name not in OF_NEW and values.get("version") != 0:
            self.filled.add(collection)


def check_export(path: Path, advance: Callable[[int], None]) -> tuple[int, Names]:
    """Check every line of an export; return the number of records, its schema and its names.

    advance: called with the number of further lines. Raises Problem 422 `invalid_export`.
    """
    digest, count, names, ended = hashlib.sha256(), 0, Names(""), False
    with path.open("rb") as file:
        for number, line in _lines(file):
            record = _parsed(number, line)
            if ended:
                raise invalid(number, "nothing may follow the last line")
            if number == 1:
                names = Names(_schema(record))
            elif record["type"] == END:
                ended = True
                if (record.get("lines"), record.get("sha256")) != (count, digest.hexdigest()):
                    raise invalid(number, "the lines differ from the number and the sha256 in the last line")
                continue
            else:
                names.add(*decoded(number, record, names.schema), record.get("collection"))
            digest.update(line)
            count += 1
            if count % 1000 == 0:
                advance(1000)
    if not ended:
        raise invalid(count + 1, "the last line is missing: the export is not whole")
    advance(count % 1000)
    return count - 1, names


def records(path: Path) -> Iterator[tuple[int, RecordType, Record, dict[str, bytes]]]:
    """Yield line number, type, values and model files of each record of an export that was checked."""
    schema = ""
    with path.open("rb") as file:
        for number, line in _lines(file):
            record = _parsed(number, line)
            if number == 1:
                schema = _schema(record)
            elif record["type"] != END:
                kind, values = decoded(number, record, schema)
                files = {name: as_bytes(body) for name, body in record.get(FILES, {}).items()}
                yield number, kind, values | {"of_collection": record.get("collection")}, files


def decoded(number: int, record: Record, schema: str) -> tuple[RecordType, Record]:
    """Return the type and the values of a record of an export with this schema. Raises Problem 422."""
    kind = TYPES.get(record["type"])
    if kind is None:
        raise invalid(number, "the type of the record is unknown")
    try:
        values = kind.decoded(record, schema)
        if FILES in kind.members:
            _check_files(record[FILES])
    except ValueError as error:
        raise invalid(number, str(error)) from error
    return kind, values


def _check_files(files: Any) -> None:
    """Raise ValueError unless these are the files of a model, or none."""
    if not isinstance(files, dict) or (files and set(files) != MODEL_FILES):
        raise ValueError("files must be the files of a model")
    for body in files.values():
        as_bytes(body)


def _schema(record: Record) -> str:
    """Return the schema in the header of an export. Raises Problem 422 if this version does not read the export."""
    if record["type"] != HEADER:
        raise invalid(1, f"the first line must have the type {HEADER}")
    number, schema = record.get("format"), record.get("schema")
    if not isinstance(number, int) or not isinstance(schema, str) or not SCHEMA.fullmatch(schema):
        raise invalid(1, "the header must have a format and a schema")
    if number > FORMAT or schema > NEWEST_REVISION:
        reads = f"this version reads exports of format {FORMAT} with schemas up to {NEWEST_REVISION}"
        raise invalid(1, f"a newer version of Softseek made the export: {reads}; import with the newer version")
    if number != FORMAT or schema < OLDEST_REVISION:
        raise invalid(1, f"no version of Softseek made such an export: the first had the schema {OLDEST_REVISION}")
    return schema


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise invalid(number, f"a line has at most {MAX_LINE_BYTES} bytes")
        yield number, line


def _parsed(number: int, line: bytes) -> Record:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise invalid(number, "this is not JSON") from error
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        raise invalid(number, "a record must be an object with a type")
    return record
