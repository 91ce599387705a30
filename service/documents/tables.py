"""Reads records from a table: CSV or TSV with a header."""

import csv
import io
import re
from collections.abc import Iterable
from typing import Any, BinaryIO

import orjson

from service.documents.bulk_actions import with_actions
from service.documents.reading import (
    MAX_RECORD_BYTES,
    NOT_TEXT,
    TOO_LARGE,
    Fault,
    Found,
    Joined,
    Record,
    RecordFormat,
    as_utf8,
    read_array,
    read_lines,
    read_start,
)
from service.http.wording import named

SNIFFED_BYTES = 65_536
DELIMITERS = ",;\t|"
UNCLOSED = "a quote is not closed"
LINE_ENDS = frozenset({"\n", "\r\n", "\r"})


class UnusableTable(ValueError):
    """A table whose header is not usable, so that no row can be read."""


class _Rows:
    """The rows of CSV, without blank lines between them.

    line: on which the last row began, 1-based. is_unclosed: whether a quote of the last row seems not to be closed. The
    cell then has the following lines, to the end of the file, or to the next quote, after which its own text follows.
    """

    def __init__(self, lines: Iterable[str], delimiter: str) -> None:
        self.line = 0
        self.is_unclosed = False
        self._lines = enumerate(lines, 1)
        self._delimiter = delimiter
        self._of_row: list[str] = []
        self._has_ended = False
        self._rows = csv.reader(self._until_end(), delimiter=delimiter)

    def next(self) -> list[str] | None:
        """Return the next row, None at the end. Raises csv.Error."""
        self._of_row = []
        row = next(self._rows, None)
        self.is_unclosed = row is not None and (self._has_ended or (len(self._of_row) > 1 and not self._is_strict()))
        return row

    def _is_strict(self) -> bool:
        """Return whether only delimiters follow closing quotes in the last row."""
        try:
            next(csv.reader(self._of_row, delimiter=self._delimiter, strict=True))
        except csv.Error:
            return False
        return True

    def _until_end(self) -> Iterable[str]:
        for number, line in self._lines:
            if not self._of_row:
                if line in LINE_ENDS:
                    continue
                self.line = number
            self._of_row.append(line)
            yield line
        self._has_ended = True


def read_records(stream: BinaryIO, kind: RecordFormat, strict_header: bool = False, has_actions: bool = False) -> Found:
    """Yield the records of a stream. strict_header: a table needs the columns id and text, each once.

    has_actions: lines of JSON may be those of a bulk request (`service.documents.bulk_actions`). Raises UnusableTable.
    """
    if kind is RecordFormat.NDJSON:
        return with_actions(read_lines(stream)) if has_actions else read_lines(stream)
    if kind is RecordFormat.JSON:
        return read_array(stream)
    return read_table(stream, strict_header)


def read_table(stream: BinaryIO, strict_header: bool = False) -> Found:
    """Yield the rows of CSV or TSV with a header: column name -> cell. The header tells the delimiter: , ; tab or |.

    As in Meilisearch, a cell is text unless the name of its column has a type: `price:number`, `sold:boolean`.
    An empty cell is left out. Raises UnusableTable.
    """
    csv.field_size_limit(MAX_RECORD_BYTES)
    content = as_utf8(stream)
    head = read_start(content, SNIFFED_BYTES)
    lines = io.TextIOWrapper(Joined(head, content).buffered(), "utf-8-sig", "surrogateescape", newline="")
    rows = _Rows(lines, delimiter_of(head.decode("utf-8-sig", errors="replace")))
    try:
        header = rows.next() or []
    except csv.Error as error:
        raise UnusableTable(f"the header is not usable: a cell {TOO_LARGE}") from error
    if rows.is_unclosed and header:
        raise UnusableTable(f"the header is not usable: {UNCLOSED}")
    columns = parse_header(header, strict_header) if header else []
    return _records(rows, columns)


def _records(rows: _Rows, columns: list[tuple[str, str]]) -> Found:
    while True:
        try:
            row = rows.next()
        except csv.Error:
            yield Fault(rows.line, "document_too_large", f"a cell {TOO_LARGE}")
            continue
        if row is None:
            return
        if rows.is_unclosed:
            yield Fault(rows.line, "invalid_csv", UNCLOSED, content=row)
        elif row:
            yield table_record(rows.line, columns, row)


def delimiter_of(head: str) -> str:
    """Return the delimiter that divides the first line into the most cells."""
    first = next((line for line in head.splitlines() if line.strip()), "")
    return max(DELIMITERS, key=lambda delimiter: len(next(csv.reader([first], delimiter=delimiter), [])))


def parse_header(header: list[str], strict: bool) -> list[tuple[str, str]]:
    """Return the name and type of each column. Raises UnusableTable."""
    found = (re.fullmatch(r"(.*?)(?::(string|number|boolean))?", cell.strip(), re.DOTALL) for cell in header)
    columns = [(match[1], match[2] or "string") for match in found if match]
    names = [name for name, _ in columns]
    if re.search("[\ud800-\udfff]", "".join(names)):
        raise UnusableTable(f"the header is {NOT_TEXT}")
    if strict and (len(set(names)) < len(names) or not all(names)):
        raise UnusableTable("the header has a duplicate or an empty column name")
    if strict and (missing := [name for name in ("id", "text") if name not in names]):
        raise UnusableTable(f"the header has no column {' and no column '.join(missing)}")
    return [(name or f"column {at}", kind) for at, (name, kind) in enumerate(columns, 1)]


def table_record(number: int, columns: list[tuple[str, str]], row: list[str]) -> Record | Fault:
    """Return the record of a row. Cells of columns with the same name are a list."""
    content = dict(zip((name for name, _ in columns), row, strict=False))
    if len(row) != len(columns):
        return Fault(number, "invalid_csv", f"{len(row)} cells; the header has {len(columns)}", content=row)
    if re.search("[\ud800-\udfff]", "".join(row)):
        return Fault(number, "invalid_csv", NOT_TEXT)
    record: dict[str, Any] = {}
    for (name, kind), cell in zip(columns, row, strict=True):
        if cell == "":
            continue
        try:
            value = typed(cell, kind)
        except ValueError:
            field, wanted = named([name], f"not a {kind}")
            detail = f"column {name}: {wanted}" if field == name else f"{field}: {wanted}"
            return Fault(number, "invalid_csv", detail, field, content)
        record[name] = [*_listed(record[name]), value] if name in record else value
    return Record(number, record)


def typed(cell: str, kind: str) -> str | int | float | bool:
    """Return a cell in the type of its column. Raises ValueError."""
    if kind == "string":
        return cell
    value = orjson.loads(cell.strip().lower())
    if isinstance(value, bool) != (kind == "boolean") or not isinstance(value, bool | int | float):
        raise ValueError(kind)
    return value


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
