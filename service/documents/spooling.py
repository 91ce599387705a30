"""Streams the body of an import to a file, with its parameters beside it, so that a restart resumes the import."""

import io
import os
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import orjson
from starlette.concurrency import run_in_threadpool

from index.storage.files import sync_directory, write_atomically
from service.documents.compression import (
    MAGIC,
    BadCompression,
    CompressionBomb,
    GzipCheck,
    open_plain,
)
from service.documents.mapping import FieldMapping
from service.documents.reading import Found, RecordFormat, Watched, as_utf8, json_format
from service.documents.schemas import ImportParameters
from service.documents.tables import UnusableTable, read_records
from service.http.problems import Problem

COMPLETE = ".ndjson"
"""Suffix of a complete body, in any format."""
TAKEN = ".taken"
"""Suffix of the file that holds the number of records that are stored or refused, and their result."""
PARAMETERS = ".parameters"
TASKS = ".tasks"
"""Suffix of the file with the ids of the tasks of the import, a line each: the first, then those that resume it."""
BESIDE = (TAKEN, PARAMETERS, TASKS)
"""Suffixes of the files beside a complete body."""
SNIFFED_BYTES = 4096
TABLES = {"text/csv": RecordFormat.CSV, "text/tab-separated-values": RecordFormat.TSV}
"""Media type -> format. The content of every other type is JSON: its first character tells an array from lines."""


@dataclass(frozen=True)
class Spooled:
    """A complete body and how to read it."""

    path: Path
    format: RecordFormat
    fields: FieldMapping

    def open(self, check: Callable[[], None] | None = None) -> BinaryIO:
        """Open the content, decompressed. check: is called before each block that is read."""
        stream = open_plain(self.path)
        return stream if check is None else io.BufferedReader(Watched(stream, check))

    def records(self, stream: BinaryIO) -> Found:
        """Yield the records. Raises UnusableTable."""
        named = self.fields.id_field or self.fields.text_fields
        is_strict = self.fields.mode == "strict"
        return read_records(stream, self.format, strict_header=is_strict and not named, has_actions=not is_strict)

    @property
    def tasks(self) -> list[str]:
        """The ids of the tasks of the import, oldest first. The last may be of a transaction that was not committed."""
        noted = self.path.with_suffix(TASKS)
        return noted.read_text().split() if noted.is_file() else []

    def note_task(self, task_id: str) -> None:
        """Note a further task of the import, durably."""
        write_atomically(self.path.with_suffix(TASKS), "\n".join([*self.tasks, task_id]).encode())

    def remove(self) -> None:
        """Delete the files of the import, the body first."""
        for suffix in (COMPLETE, *BESIDE):
            self.path.with_suffix(suffix).unlink(missing_ok=True)


def mapping_of(given: ImportParameters, filterable: Sequence[str]) -> FieldMapping:
    """Return the mapping of the parameters of a request. filterable: the fields that filters of the collection name."""
    texts, numbers = _listed(given.text_field), _listed(given.number_field)
    return FieldMapping(
        given.mapping, given.id_field, given.title_field, texts, given.url_field, numbers, tuple(filterable)
    )


def _listed(fields: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (fields or "").split(",") if part.strip())


async def spool(
    folder: Path, prefix: str, body: AsyncIterator[bytes], fields: FieldMapping, media_type: str, encoding: str
) -> Spooled:
    """Stream a request body to a file in the folder; return it when the file and its parameters are durable.

    Raises Problem 415 for an unknown Content-Encoding, 413 for a body that decompresses to too much, 400 for a body
    that is not gzip, and 422 for a table without a usable header. Nothing is kept then.
    """
    if encoding.lower() not in ("", "identity", "gzip", "x-gzip"):
        raise Problem(415, "unsupported_encoding", "Content-Encoding must be gzip, or be left out")
    descriptor, name = tempfile.mkstemp(prefix=f"{prefix}-", suffix=".part", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            await _receive(file, body, must_be_gzip=encoding.lower() in ("gzip", "x-gzip"))
            file.flush()
            await run_in_threadpool(os.fsync, file.fileno())
        return await run_in_threadpool(_complete, path, fields, media_type)
    except (BadCompression, OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno:
            raise  # the disk, not the content
        raise Problem(400, "invalid_compression", str(error)) from error
    except CompressionBomb as error:
        raise Problem(413, "payload_too_large", str(error)) from error
    except UnusableTable as error:
        raise Problem(422, "invalid_csv", str(error)) from error
    finally:
        path.unlink(missing_ok=True)


async def _receive(file: BinaryIO, body: AsyncIterator[bytes], must_be_gzip: bool) -> None:
    """Write the body to a file as it was sent, and check the compression of a body that begins like gzip."""
    head = b""
    check: GzipCheck | None = None
    async for part in body:
        await run_in_threadpool(file.write, part)
        if len(head) < len(MAGIC):
            head += part
            if len(head) < len(MAGIC):
                continue
            part = head
            check = GzipCheck() if head.startswith(MAGIC) else None
        if check:
            await run_in_threadpool(check.feed, part)
    if check:
        check.end()
    elif must_be_gzip and head:
        raise BadCompression("Content-Encoding is gzip, and the content is not gzip")


def _complete(path: Path, fields: FieldMapping, media_type: str) -> Spooled:
    """Store the parameters beside the body, then name the body complete. Raises UnusableTable."""
    kind = TABLES.get(media_type.partition(";")[0].strip().lower())
    with open_plain(path) as stream:
        kind = kind or json_format(as_utf8(stream).read(SNIFFED_BYTES))
    found = Spooled(path, kind, fields)
    with found.open() as stream:
        found.records(stream)  # reads the header of a table
    write_atomically(path.with_suffix(PARAMETERS), orjson.dumps({"format": kind, "fields": asdict(fields)}))
    complete = path.with_suffix(COMPLETE)
    path.rename(complete)
    sync_directory(path.parent)
    return Spooled(complete, kind, fields)


def reopened(path: Path) -> Spooled:
    """Return the body that an earlier process stored. Without parameters it has strict lines of JSON."""
    parameters = path.with_suffix(PARAMETERS)
    if not parameters.is_file():
        return Spooled(path, RecordFormat.NDJSON, FieldMapping())
    stored = orjson.loads(parameters.read_bytes())
    lists = {name: tuple(value) for name, value in stored["fields"].items() if isinstance(value, list)}
    fields = stored["fields"] | lists
    return Spooled(path, RecordFormat(stored["format"]), FieldMapping(**fields))
