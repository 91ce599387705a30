"""Reads a source of documents: a file, a folder of files, or stdin. A file that cannot be read stops no other."""

import io
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import orjson

from service.cli.failures import USAGE, Failure
from service.cli.sources.formats import SUFFIXES, SourceFormat, UnknownFormat, format_of_content, format_of_name
from service.cli.sources.parquet import read_parquet
from service.cli.sources.texts import MAX_FILE_BYTES, Unreadable, extract
from service.cli.sources.walk import Walk, files_of
from service.documents.bulk_actions import hits_in
from service.documents.compression import MAGIC, CompressionBomb, open_plain, plain
from service.documents.mapping import TEXT_NAMES, TITLE_NAMES, FieldMapping, known_field
from service.documents.metadata import value_at
from service.documents.reading import BOM, Fault, Joined, Record, RecordFormat, Unit, as_utf8, json_format, read_start
from service.documents.tables import UnusableTable, read_records

STDIN = "-"
CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")
LISTS = ("documents", "hits", "items", "records", "results", "data", "products", "articles")
"""Fields in which exports and answers of other systems list their records, beside numbers and names."""
BEIR_FIELDS = FieldMapping("lenient", id_field="_id")
HEAD_BYTES = 65_536
SNIFFED_LINES = 10


@dataclass(frozen=True)
class Item:
    """A record of a source and how it becomes a document, or a fault. Number 0 is a whole file."""

    file: str
    found: Record | Fault
    fields: FieldMapping
    unit: Unit = "line"
    columns: bool = False
    """Whether the record is the row of a table."""
    fallback_id: str | None = None


@dataclass
class Source:
    """What to read. `skipped` is complete when all items are read."""

    path: Path
    kind: SourceFormat = SourceFormat.AUTO
    fields: FieldMapping = field(default_factory=lambda: FieldMapping("lenient"))
    globs: Sequence[str] = ()
    base_url: str | None = None
    excluded: Sequence[Path] = ()
    """Files and folders that are not read."""
    filterable: Callable[[], Sequence[str]] | None = None
    """Returns the fields that filters of the collection may use. It is called before the first record is read."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Suffix -> number of files of unknown types in the folder."""
    _unreadable: list[OSError] = field(default_factory=list)
    """Errors of folders that could not be listed."""

    def items(self) -> Iterator[Item]:
        """Yield the records and faults of the source. Raises Failure USAGE for a source without a readable file."""
        if str(self.path) == STDIN:
            return self._stdin()
        if not self.path.is_dir():
            return self._file(self.path, self.path.name, self.kind)
        corpus = next((self.path / name for name in CORPUS if (self.path / name).is_file()), None)
        if self.kind is SourceFormat.BEIR and corpus is None:
            raise Failure(USAGE, f"{self.path}: no corpus.jsonl in this folder")
        if corpus and not self.globs and self.kind in (SourceFormat.BEIR, SourceFormat.AUTO):
            return self._file(corpus, corpus.name, SourceFormat.BEIR)
        return self._folder()

    def _folder(self) -> Iterator[Item]:
        files = files_of(self.path, Walk(self.kind, self.globs, self.excluded), self.skipped, self._unreadable)
        first = next(files, None)
        if first is None and not self._unreadable:
            known = ", ".join(SUFFIXES)
            wanted = "that matches --glob" if self.globs else f"of a known type ({known}, each also with .gz)"
            raise Failure(USAGE, f"{self.path}: no file {wanted}")
        return self._files(first, files)

    def _files(self, first: Path | None, others: Iterator[Path]) -> Iterator[Item]:
        for path in chain(filter(None, [first]), others):
            yield from self._file(path, self._name(path), self.kind)
        for error in self._unreadable:
            yield self._fault(self._name(Path(error.filename)), "unreadable_file", error.strerror or str(error))

    def _name(self, path: Path) -> str:
        """Return a path relative to the folder. Bytes that are not UTF-8 become U+FFFD."""
        name = path.relative_to(self.path).as_posix()
        return name.encode(errors="surrogateescape").decode(errors="replace")

    def _stdin(self) -> Iterator[Item]:
        stream: BinaryIO = sys.stdin.buffer
        start = read_start(stream, len(MAGIC))
        content = plain(Joined(start, stream).buffered(), start == MAGIC)
        return self._stream(content, "stdin", self.kind, None)

    def _file(self, path: Path, name: str, kind: SourceFormat) -> Iterator[Item]:
        kind = (format_of_name(name) or kind) if kind is SourceFormat.AUTO else kind
        try:
            with open_plain(path) as content:
                yield from self._stream(content, name, kind, name)
        except OSError as error:
            yield self._fault(name, "unreadable_file", error.strerror or str(error))

    def _stream(self, content: BinaryIO, name: str, kind: SourceFormat, fallback_id: str | None) -> Iterator[Item]:
        """Yield the items of a stream. A fault ends it."""
        try:
            if kind is SourceFormat.AUTO:
                head = read_start(content, HEAD_BYTES)
                if not head.removeprefix(BOM).strip() and len(head) < HEAD_BYTES and not self.path.is_dir():
                    return  # without a format, an empty source has no document; in a folder it is a fault
                kind, content = format_of_content(head), Joined(head, content).buffered()
            if kind.is_text:
                yield self._text(read_whole(content), name, kind, fallback_id)
            else:
                yield from self._records(content, name, kind, fallback_id)
        except (Unreadable, UnusableTable, CompressionBomb) as error:
            yield self._fault(name, "unreadable_file", str(error))
        except UnknownFormat as error:
            if not self.path.is_dir():
                raise Failure(USAGE, f"{name}: {error}") from error
            yield self._fault(name, "unreadable_file", str(error))
        except (EOFError, zlib.error):
            yield self._fault(name, "unreadable_file", "the gzip content is cut or damaged")

    def _records(self, content: BinaryIO, name: str, kind: SourceFormat, fallback_id: str | None) -> Iterator[Item]:
        if kind is SourceFormat.PARQUET:
            for row in read_parquet(read_whole(content)):
                yield Item(name, row, self._mapping(kind), "item", columns=True)
            return
        record_format = kind.record_format
        assert record_format is not None
        if kind is SourceFormat.JSON:
            content = as_utf8(content)
            head = read_start(content, HEAD_BYTES)
            content, record_format = Joined(head, content).buffered(), json_format(head)
            if record_format is RecordFormat.NDJSON and head.strip() and not is_lines(head):
                whole = read_whole(content)
                if b"\n" in head or not is_lines(whole):
                    yield from self._object(whole_object(whole), name, fallback_id)
                    return
                content = io.BytesIO(whole)
        is_lenient = kind is SourceFormat.BEIR or self.fields.mode == "lenient"
        strict = not is_lenient and not (self.fields.id_field or self.fields.text_fields)
        for found in read_records(content, record_format, strict, is_lenient):
            yield Item(name, found, self._mapping(kind), record_format.unit, record_format.is_table)

    def _mapping(self, kind: SourceFormat) -> FieldMapping:
        """Return how records become documents. At the first record, the service is asked for the filterable fields."""
        if self.filterable is not None:
            self.fields, self.filterable = replace(self.fields, filterable=tuple(self.filterable())), None
        return BEIR_FIELDS if kind is SourceFormat.BEIR else self.fields

    def _object(self, value: dict[str, Any], name: str, fallback_id: str | None) -> Iterator[Item]:
        """Yield a JSON file that is an object: one record, or the records that it lists."""
        fields = self._mapping(SourceFormat.JSON)
        inner = listed_in(value, fields)
        if inner is not None:
            for number, item in enumerate(inner, 1):
                yield Item(name, Record(number, item), fields, "item")
        else:
            yield Item(name, Record(0, value), fields, fallback_id=fallback_id)

    def _text(self, content: bytes, name: str, kind: SourceFormat, fallback_id: str | None) -> Item:
        file = extract(kind, content)
        title = file.title or (Path(name).name.partition(".")[0] if fallback_id else None)
        record: dict[str, Any] = {"title": title, "text": file.text, "metadata": file.metadata}
        if self.base_url and fallback_id:
            record["url"] = f"{self.base_url.rstrip('/')}/{quote(name)}"
        elif isinstance(url := file.metadata.get("url"), str):
            record["url"] = url
        return Item(name, Record(0, record), self._fields_of(record), fallback_id=fallback_id)

    def _fields_of(self, record: dict[str, Any]) -> FieldMapping:
        """Return the mapping of a file that is one document. A named field counts where its front matter has it."""
        named = {
            option: getattr(self.fields, option)
            for option in ("id_field", "title_field", "url_field")
            if getattr(self.fields, option) and value_at(record, getattr(self.fields, option)) is not None
        }
        return FieldMapping("lenient", **named)

    def _fault(self, name: str, code: str, detail: str) -> Item:
        return Item(name, Fault(0, code, detail), self.fields)


def listed_in(value: Mapping[str, Any], fields: FieldMapping) -> list[Any] | None:
    """Return the records in an object: those of its only field, the hits of a search, or those in a field of LISTS.

    None for an object that is a record: it has a title, a text or a named field, or is a hit.
    """
    inner = next(iter(value.values())) if len(value) == 1 else None
    named = [field for field in (*fields.named.values(), *fields.text_fields) if value_at(value, field) is not None]
    if not named and "_source" not in value and known_field(value, (*TITLE_NAMES, *TEXT_NAMES)) is None:
        found = [hits_in(value), *(value.get(name) for name in LISTS)]
        inner = next((one for one in found if isinstance(one, list)), inner)
    is_list = isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner)
    return inner if is_list else None


def is_lines(content: bytes) -> bool:
    """Return whether JSON has several lines, and one of the first is an object. Inner objects are indented."""
    lines = [line for line in content.removeprefix(BOM).splitlines() if line.strip()]
    return len(lines) > 1 and any(_is_object(line) for line in lines[:SNIFFED_LINES])


def _is_object(line: bytes) -> bool:
    try:
        return line.startswith(b"{") and isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def whole_object(content: bytes) -> dict[str, Any]:
    """Return the object that a JSON file consists of. Raises Unreadable."""
    try:
        found = orjson.loads(content.removeprefix(BOM))
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"not valid JSON at line {error.lineno}") from error
    if not isinstance(found, dict):
        raise Unreadable("not a JSON object or array")
    return found


def read_whole(content: BinaryIO) -> bytes:
    """Return all bytes. Raises Unreadable beyond MAX_FILE_BYTES."""
    found = content.read(MAX_FILE_BYTES + 1)
    if len(found) > MAX_FILE_BYTES:
        raise Unreadable(f"the file has more than {MAX_FILE_BYTES} bytes")
    return found
