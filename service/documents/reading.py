"""Reads records from a stream of JSON: objects line by line, or an array. `service.documents.tables` reads tables.

A reader yields Records and Faults in the order of the stream, and keeps one record in memory. A fault affects only its
own record. A record of more than MAX_RECORD_BYTES is a fault.
"""

import codecs
import dataclasses
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Literal

import orjson

MAX_RECORD_BYTES = 8 * 1024 * 1024
READ_CHARACTERS = 65_536
BLANK_LINES = re.compile(rb"\s*\n")
BOM = codecs.BOM_UTF8
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The byte order marks of UTF-16."""
NOT_TEXT = "neither UTF-8 nor UTF-16 with a byte order mark"
NO_BYTE = "softseek-no-byte"
"""Decodes what is not UTF-16 to a lone surrogate, which stands for a byte that no UTF-8 has."""
codecs.register_error(NO_BYTE, lambda error: ("\udcff", getattr(error, "end", 0)))
TOO_LARGE = f"has more than {MAX_RECORD_BYTES} bytes"
Unit = Literal["line", "item"]


class RecordFormat(StrEnum):
    """Formats of records."""

    NDJSON = "ndjson"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"

    @property
    def unit(self) -> Unit:
        """What `number` counts."""
        return "item" if self is RecordFormat.JSON else "line"

    @property
    def is_table(self) -> bool:
        """Whether records are rows of columns."""
        return self in (RecordFormat.CSV, RecordFormat.TSV)


@dataclass(frozen=True)
class Record:
    """An object of a stream. `number` is its 1-based line, or its 1-based position in an array."""

    number: int
    value: dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """A line or item that is not a usable record: the reason, the field that is wrong, and its content where kept."""

    number: int
    code: str
    detail: str
    field: str | None = None
    content: Any = dataclasses.field(default=None, compare=False, repr=False)


Found = Iterator[Record | Fault]


def json_format(head: bytes) -> RecordFormat:
    """Return the format of JSON by the first bytes of a stream: an array, or lines."""
    return RecordFormat.JSON if head.removeprefix(BOM).lstrip()[:1] == b"[" else RecordFormat.NDJSON


def read_lines(stream: BinaryIO) -> Found:
    """Yield the objects of NDJSON; blank lines are skipped."""
    text_stream = as_utf8(stream)
    number = 0
    for line in bounded_lines(text_stream):
        number += 1
        text = line.removeprefix(BOM) if number == 1 else line
        if len(line) >= MAX_RECORD_BYTES:
            yield Fault(number, "document_too_large", TOO_LARGE)
        elif text.strip():
            yield parse_object(number, text)
        else:
            number += _skip_blank_lines(text_stream)


def _skip_blank_lines(stream: io.BufferedReader) -> int:
    """Read the blank lines that are next, and return their number. A small gzip may have very many of them.

    Blank lines that are read one by one take half a second a million.
    """
    count = 0
    while run := BLANK_LINES.match(stream.peek()):
        count += stream.read(run.end()).count(b"\n")
    return count


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines, cut at MAX_RECORD_BYTES. The rest of a longer line is skipped without being kept in memory."""
    while line := stream.readline(MAX_RECORD_BYTES):
        yield line
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_RECORD_BYTES)


def parse_object(number: int, text: bytes) -> Record | Fault:
    """Return the JSON object of a line or item."""
    try:
        value = orjson.loads(text.rstrip())
    except orjson.JSONDecodeError as error:
        try:
            content = text.decode().strip()
        except UnicodeDecodeError:
            return Fault(number, "invalid_json", NOT_TEXT, content=text.decode(errors="replace").strip())
        return Fault(number, "invalid_json", f"not valid JSON at character {error.pos + 1}", content=content)
    if isinstance(value, dict):
        return Record(number, value)
    return Fault(number, "invalid_json", "not a JSON object", content=value)


def read_array(stream: BinaryIO) -> Found:
    """Yield the objects of a JSON array. Where it is not valid JSON, the rest of the array is one fault."""
    for number, item in enumerate(_items(as_utf8(stream)), 1):
        yield parse_object(number, item) if isinstance(item, bytes) else Fault(number, item.code, str(item))


class _Broken(ValueError):
    """The place in an array from which on nothing can be read."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{detail}; the rest of the array is not read")
        self.code = code


TOKEN = re.compile(r'[^"\[\]{},]+|"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
"""A whole string, a bracket, a comma, or all between them."""


def _items(stream: BinaryIO) -> Iterator[bytes | _Broken]:
    """Yield the text of each item of an array, and at the end an error if the array is cut or broken."""
    depth = 0
    item: list[str] = []
    size = 0
    after_comma = False
    for token in _tokens(stream):
        if isinstance(token, _Broken):
            yield token
            return
        if depth == 1 and token in ",]":
            if text := "".join(item).strip():
                yield text.encode(errors="surrogateescape")
            elif token == "," or after_comma:
                yield _Broken("invalid_json", "not valid JSON")
                return
            item, size, after_comma = [], 0, token == ","
        elif depth == 1 and token.isspace():
            continue  # a small gzip may have very much of it
        elif depth:
            item.append(token)
            size += len(token)
        elif token.strip() not in ("", "["):
            yield _Broken("invalid_json", "not valid JSON after the end of the array")
            return
        depth += (token in "[{") - (token in "]}")
        if size > MAX_RECORD_BYTES:
            yield _Broken("document_too_large", TOO_LARGE)
            return
    if depth:
        yield _Broken("invalid_json", "the array has no end")


def _tokens(stream: BinaryIO) -> Iterator[str | _Broken]:
    """Yield the tokens of JSON text. Bytes that are not UTF-8 become lone surrogates."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
    rest = ""
    ended = False
    while not ended:
        block = stream.read(READ_CHARACTERS)
        ended = not block
        text = rest + decoder.decode(block, final=ended)
        at = 0
        while match := TOKEN.match(text, at):
            yield match[0]  # all but strings may be cut, where a block ends
            at = match.end()
        rest = text[at:]
        if len(rest) > MAX_RECORD_BYTES:
            yield _Broken("document_too_large", TOO_LARGE)
            return
    if rest:
        yield _Broken("invalid_json", "a string has no end")


def read_start(stream: BinaryIO, size: int) -> bytes:
    """Return the first `size` bytes, less only at the end of the stream. A pipe gives them in parts."""
    found = b""
    while len(found) < size and (block := stream.read(size - len(found))):
        found += block
    return found


def as_utf8(stream: BinaryIO) -> io.BufferedReader:
    """Return a stream of text in UTF-8. A stream in UTF-16 with a byte order mark is converted; others are as they are.

    A part that is not UTF-16 becomes a byte that is not UTF-8, so that the record with it is refused.
    """
    head = read_start(stream, 2)
    whole = Joined(head, stream).buffered()
    return io.BufferedReader(_Converted(whole)) if head in UTF_16 else whole


class _Converted(io.RawIOBase):
    """The text of a stream in UTF-16, in UTF-8."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-16")(errors=NO_BYTE)
        self._text = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            block = self._stream.read(READ_CHARACTERS)
            self._text = self._decoder.decode(block, final=not block).encode(errors="surrogateescape")
            if not block:
                break
        part = self._text[: len(buffer)]
        self._text = self._text[len(part) :]
        buffer[: len(part)] = part
        return len(part)


class Joined(io.RawIOBase):
    """The bytes that were read ahead, then the rest of the stream."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def buffered(self) -> io.BufferedReader:
        """Return the joined stream with a buffer."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._head[: len(buffer)] if self._head else self._stream.read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(block)] = block
        return len(block)


class Watched(io.RawIOBase):
    """A stream that calls `check` before each block that is read, so that an error of `check` ends the reading."""

    def __init__(self, stream: BinaryIO, check: Callable[[], None]) -> None:
        self._stream = stream
        self._check = check

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._check()
        block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()
