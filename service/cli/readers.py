"""Reads files of documents, events and judgments, one record at a time, and says where a record is no good.

A reader yields Records and Faults in the order of the file; it sees bytes and objects, never the service. A place is
the 1-based line of the file, or the 1-based item of a JSON array. A fault stops nothing but its own record.
"""

import csv
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from service.cli.failures import ERROR, USAGE, Failure

BOM = b"\xef\xbb\xbf"
DOCUMENT_COLUMNS = ("id", "title", "text", "url")


class DocumentFormat(StrEnum):
    """How documents are written down."""

    NDJSON = "ndjson"
    CSV = "csv"
    BEIR = "beir"


class JudgmentFormat(StrEnum):
    """How judgments are written down."""

    QRELS = "qrels"
    BEIR = "beir"
    JSON = "json"
    JSONL = "jsonl"

    @property
    def names_queries_by_id(self) -> bool:
        """Whether the texts of the queries are in a file of their own."""
        return self in (JudgmentFormat.QRELS, JudgmentFormat.BEIR)


@dataclass(frozen=True)
class Record:
    """One object of a file."""

    place: int
    value: dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """A place in a file that holds no usable record, and why."""

    place: int
    code: str
    detail: str


Found = Iterator[Record | Fault]


def guess_document_format(path: Path) -> DocumentFormat:
    """Return the format that a name stands for; raises Failure USAGE where it tells nothing."""
    if path.is_dir():
        return DocumentFormat.BEIR
    known = {".ndjson": DocumentFormat.NDJSON, ".jsonl": DocumentFormat.NDJSON, ".csv": DocumentFormat.CSV}
    if path.suffix.lower() not in known:
        raise Failure(USAGE, f"{path.name}: unknown format; --format ndjson, csv or beir says which it is")
    return known[path.suffix.lower()]


def read_documents(path: Path, kind: DocumentFormat) -> Found:
    """Yield the documents of a file as the API takes them; of a folder with corpus.jsonl for BEIR."""
    if kind is DocumentFormat.CSV:
        return read_csv(path)
    if kind is DocumentFormat.NDJSON:
        return read_lines(path)
    corpus = path / "corpus.jsonl" if path.is_dir() else path
    if not corpus.is_file():
        raise Failure(USAGE, f"{path}: no corpus.jsonl in this folder")
    return (beir_document(one) if isinstance(one, Record) else one for one in read_lines(corpus))


def read_objects(path: Path) -> Found:
    """Yield the objects of a JSON array or of lines of JSON, whichever the file holds."""
    with path.open("rb") as file:
        first = file.read(4096).removeprefix(BOM).lstrip()[:1]
    return read_array(path) if first == b"[" else read_lines(path)


def unit_of(path: Path) -> str:
    """Return what `read_objects` counts in this file: "item" of an array, or "line"."""
    with path.open("rb") as file:
        return "item" if file.read(4096).removeprefix(BOM).lstrip()[:1] == b"[" else "line"


def read_lines(path: Path) -> Found:
    """Yield the objects of NDJSON; blank lines are passed over."""
    with path.open("rb") as file:
        for place, line in enumerate(file, 1):
            text = line.removeprefix(BOM) if place == 1 else line
            if text.strip():
                yield parse_object(place, text)


def parse_object(place: int, text: bytes) -> Record | Fault:
    """Return the JSON object that a line holds."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return Fault(place, "invalid_json", "not UTF-8" if not is_utf8(text) else f"not valid JSON: {error.msg}")
    return checked(place, value)


def checked(place: int, value: Any) -> Record | Fault:
    """Return a value as a Record where it is an object."""
    return Record(place, value) if isinstance(value, dict) else Fault(place, "invalid_json", "not a JSON object")


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_array(path: Path) -> Found:
    """Yield the objects of a JSON array; the file has to fit into memory. Raises Failure for what is not JSON."""
    try:
        values = orjson.loads(path.read_bytes().removeprefix(BOM))
    except orjson.JSONDecodeError as error:
        raise Failure(ERROR, f"{path.name}: not valid JSON at line {error.lineno}: {error.msg}") from error
    yield from (checked(place, value) for place, value in enumerate(values, 1))


def beir_document(record: Record) -> Record | Fault:
    """Return the document of a line of BEIR's corpus.jsonl: `_id` is its id, an empty title is none."""
    line = record.value
    if "_id" not in line:
        return Fault(record.place, "invalid_document", "no _id")
    title, metadata = line.get("title") or None, line.get("metadata") or {}
    return Record(
        record.place, {"id": str(line["_id"]), "title": title, "text": line.get("text", ""), "metadata": metadata}
    )


def read_csv(path: Path) -> Found:
    """Yield the documents of a CSV file with a header: id, title, text, url; every other column is metadata.

    As with Meilisearch, a metadata column is text unless its name says otherwise: `price:number`, `sold:boolean`.
    An empty cell is a field that the document does not have. Raises Failure USAGE for a header that will not do.
    """
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        columns = parse_header(path, header) if header else []
        place = rows.line_num + 1
        for row in rows:
            if row:
                yield csv_document(place, columns, row)
            place = rows.line_num + 1


def parse_header(path: Path, header: list[str]) -> list[tuple[str, str]]:
    """Return name and type of each column."""
    found = (re.fullmatch(r"(.*?)(?::(string|number|boolean))?", cell.strip(), re.DOTALL) for cell in header)
    columns = [(match[1], match[2] or "string") for match in found if match]
    names = [name for name, _ in columns]
    if len(set(names)) < len(names) or not all(names):
        raise Failure(USAGE, f"{path.name}: the header names a column twice, or not at all")
    if missing := [name for name in ("id", "text") if name not in names]:
        raise Failure(USAGE, f"{path.name}: the header has no column {' and no column '.join(missing)}")
    return columns


def csv_document(place: int, columns: list[tuple[str, str]], row: list[str]) -> Record | Fault:
    """Return the document of a row."""
    if len(row) != len(columns):
        return Fault(place, "invalid_csv", f"{len(row)} cells under a header of {len(columns)}")
    if re.search("[\ud800-\udfff]", "".join(row)):
        return Fault(place, "invalid_csv", "not UTF-8")
    document: dict[str, Any] = {"text": "", "metadata": {}}
    for (name, kind), cell in zip(columns, row, strict=True):
        if cell == "":
            continue
        try:
            value = typed(cell, kind)
        except ValueError:
            return Fault(place, "invalid_csv", f"column {name}: not a {kind}")
        (document if name in DOCUMENT_COLUMNS else document["metadata"])[name] = value
    return Record(place, document)


def typed(cell: str, kind: str) -> str | int | float | bool:
    """Return a cell as its column's type; raises ValueError."""
    if kind == "string":
        return cell
    value = orjson.loads(cell.strip().lower())
    if isinstance(value, bool) != (kind == "boolean") or not isinstance(value, bool | int | float):
        raise ValueError(kind)
    return value


def guess_judgment_format(path: Path) -> JudgmentFormat:
    """Return the format that a file's first line shows; raises Failure USAGE where it tells nothing."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"").removeprefix(BOM)
    if first.lstrip()[:1] in (b"{", b"["):
        return JudgmentFormat.JSON
    if first.split()[:2] == [b"query-id", b"corpus-id"]:
        return JudgmentFormat.BEIR
    if len(first.split()) == 4 or not first:
        return JudgmentFormat.QRELS
    raise Failure(USAGE, f"{path.name}: unknown format; --format qrels, beir, json or jsonl says which it is")


def find_queries(judgments: Path, queries: Path | None) -> Path:
    """Return the file of the queries' texts: the given one, or queries.jsonl beside the folder of the judgments."""
    beside = judgments.absolute().parent.parent / "queries.jsonl"
    if queries is None and not beside.is_file():
        raise Failure(USAGE, "these judgments name queries by id: --queries FILE says where their texts are")
    return queries or beside


def read_queries(path: Path) -> tuple[dict[str, str], list[Fault]]:
    """Return id -> text, from lines of JSON with _id and text or of id TAB text, and the lines that are neither."""
    texts: dict[str, str] = {}
    faults = []
    for place, line in enumerate(path.read_bytes().removeprefix(BOM).splitlines(), 1):
        if not line.strip():
            continue
        try:
            if line.lstrip().startswith(b"{"):
                value = orjson.loads(line)
                name, text = str(value["_id"]), str(value["text"])
            else:
                name, text = line.decode().split("\t", 1)
        except (ValueError, KeyError):
            faults.append(Fault(place, "invalid_query", "neither JSON with _id and text nor id TAB text"))
        else:
            texts[name] = text.strip()
    return texts, faults


def read_graded(path: Path, kind: JudgmentFormat, queries: dict[str, str]) -> Found:
    """Yield judgments {"query", "document_id", "rating"} of TREC qrels (query 0 document grade) or BEIR's tsv."""
    for place, line in enumerate(open_lines(path), 1):
        cells = line.split() if kind is JudgmentFormat.QRELS else line.rstrip("\r\n").split("\t")
        if not line.strip() or (kind is JudgmentFormat.BEIR and cells[0] == "query-id"):
            continue
        yield graded(place, cells[:1] + cells[2:] if kind is JudgmentFormat.QRELS else cells, queries)


def open_lines(path: Path) -> Iterable[str]:
    """Yield lines; bytes that are not UTF-8 become lone surrogates."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        yield from file


def graded(place: int, cells: list[str], queries: dict[str, str]) -> Record | Fault:
    """Return the judgment of query id, document id and grade."""
    if len(cells) != 3:
        return Fault(place, "invalid_judgment", "a query, a document and a grade are wanted")
    query, document, grade = cells
    if re.search("[\ud800-\udfff]", "".join(cells)):
        return Fault(place, "invalid_judgment", "not UTF-8")
    if query not in queries:
        return Fault(place, "unknown_query", "this query's text is not in the file of queries")
    if not re.fullmatch(r"[+-]?\d{1,9}(\.0*)?", grade.strip()):
        return Fault(place, "invalid_judgment", "the grade is not a whole number")
    return Record(place, {"query": queries[query], "document_id": document, "rating": int(float(grade))})


def read_judgments(path: Path, kind: JudgmentFormat, queries: dict[str, str]) -> Found:
    """Yield the judgments of a file as the API takes them; `queries` has the texts of queries that it names by id."""
    return read_graded(path, kind, queries) if kind.names_queries_by_id else read_objects(path)
