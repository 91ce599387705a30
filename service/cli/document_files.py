"""Reads documents from NDJSON, CSV and BEIR files."""

import csv
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from service.cli.failures import USAGE, Failure
from service.cli.records import Fault, Found, Record, read_lines

DOCUMENT_COLUMNS = ("id", "title", "text", "url")


class DocumentFormat(StrEnum):
    """Formats of documents."""

    NDJSON = "ndjson"
    CSV = "csv"
    BEIR = "beir"


def guess_document_format(path: Path) -> DocumentFormat:
    """Return the format by the file name; a folder is BEIR. Raises Failure USAGE for an unknown suffix."""
    if path.is_dir():
        return DocumentFormat.BEIR
    known = {".ndjson": DocumentFormat.NDJSON, ".jsonl": DocumentFormat.NDJSON, ".csv": DocumentFormat.CSV}
    if path.suffix.lower() not in known:
        raise Failure(USAGE, f"{path.name}: unknown format; set --format to ndjson, csv or beir")
    return known[path.suffix.lower()]


def read_documents(path: Path, kind: DocumentFormat) -> Found:
    """Yield the documents of a file in the form of the API. BEIR: a corpus file, or a folder with corpus.jsonl."""
    if kind is DocumentFormat.CSV:
        return read_csv(path)
    if kind is DocumentFormat.NDJSON:
        return read_lines(path)
    corpus = path / "corpus.jsonl" if path.is_dir() else path
    if not corpus.is_file():
        raise Failure(USAGE, f"{path}: no corpus.jsonl in this folder")
    return (beir_document(found) if isinstance(found, Record) else found for found in read_lines(corpus))


def beir_document(record: Record) -> Record | Fault:
    """Return the document of a line of BEIR's corpus.jsonl. `_id` is the id; an empty title is left out."""
    line = record.value
    if "_id" not in line:
        return Fault(record.number, "invalid_document", "no _id")
    title, metadata = line.get("title") or None, line.get("metadata") or {}
    return Record(
        record.number, {"id": str(line["_id"]), "title": title, "text": line.get("text", ""), "metadata": metadata}
    )


def read_csv(path: Path) -> Found:
    """Yield the documents of a CSV file with a header: id, title, text, url; all other columns are metadata.

    As in Meilisearch, a metadata column is text unless its name has a type: `price:number`, `sold:boolean`.
    An empty cell is left out of the document. Raises Failure USAGE for an invalid header.
    """
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        columns = parse_header(path, header) if header else []
        number = rows.line_num + 1
        for row in rows:
            if row:
                yield csv_document(number, columns, row)
            number = rows.line_num + 1


def parse_header(path: Path, header: list[str]) -> list[tuple[str, str]]:
    """Return the name and type of each column."""
    found = (re.fullmatch(r"(.*?)(?::(string|number|boolean))?", cell.strip(), re.DOTALL) for cell in header)
    columns = [(match[1], match[2] or "string") for match in found if match]
    names = [name for name, _ in columns]
    if len(set(names)) < len(names) or not all(names):
        raise Failure(USAGE, f"{path.name}: the header has a duplicate or an empty column name")
    if missing := [name for name in ("id", "text") if name not in names]:
        raise Failure(USAGE, f"{path.name}: the header has no column {' and no column '.join(missing)}")
    return columns


def csv_document(number: int, columns: list[tuple[str, str]], row: list[str]) -> Record | Fault:
    """Return the document of a row."""
    if len(row) != len(columns):
        return Fault(number, "invalid_csv", f"{len(row)} cells; the header has {len(columns)}")
    if re.search("[\ud800-\udfff]", "".join(row)):
        return Fault(number, "invalid_csv", "not UTF-8")
    document: dict[str, Any] = {"text": "", "metadata": {}}
    for (name, kind), cell in zip(columns, row, strict=True):
        if cell == "":
            continue
        try:
            value = typed(cell, kind)
        except ValueError:
            return Fault(number, "invalid_csv", f"column {name}: not a {kind}")
        fields = document if name in DOCUMENT_COLUMNS else document["metadata"]
        fields[name] = value
    return Record(number, document)


def typed(cell: str, kind: str) -> str | int | float | bool:
    """Return a cell in the type of its column. Raises ValueError."""
    if kind == "string":
        return cell
    value = orjson.loads(cell.strip().lower())
    if isinstance(value, bool) != (kind == "boolean") or not isinstance(value, bool | int | float):
        raise ValueError(kind)
    return value
