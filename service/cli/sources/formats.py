"""Tells the format of a file by its name or its first bytes."""

import re
from enum import StrEnum
from pathlib import PurePath

from service.documents.compression import MAGIC
from service.documents.reading import BOM, UTF_16, RecordFormat
from service.documents.tables import DELIMITERS

GZIP = ".gz"


class SourceFormat(StrEnum):
    """Formats of documents. `auto`: the name of the file decides, and for other names its first bytes."""

    AUTO = "auto"
    NDJSON = "ndjson"
    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    BEIR = "beir"
    MD = "md"
    HTML = "html"
    TXT = "txt"
    PDF = "pdf"
    DOCX = "docx"

    @property
    def record_format(self) -> RecordFormat | None:
        """The format of records that are read one by one; None for others."""
        return RECORD_FORMATS.get(self)

    @property
    def is_text(self) -> bool:
        """Whether a file is one document."""
        return self in TEXTS


TEXTS = (SourceFormat.MD, SourceFormat.HTML, SourceFormat.TXT, SourceFormat.PDF, SourceFormat.DOCX)
RECORD_FORMATS = {
    SourceFormat.NDJSON: RecordFormat.NDJSON,
    SourceFormat.JSONL: RecordFormat.NDJSON,
    SourceFormat.JSON: RecordFormat.JSON,
    SourceFormat.CSV: RecordFormat.CSV,
    SourceFormat.TSV: RecordFormat.TSV,
    SourceFormat.BEIR: RecordFormat.NDJSON,
}
SUFFIXES = {
    ".ndjson": SourceFormat.NDJSON,
    ".jsonl": SourceFormat.NDJSON,
    ".json": SourceFormat.JSON,
    ".csv": SourceFormat.CSV,
    ".tsv": SourceFormat.TSV,
    ".parquet": SourceFormat.PARQUET,
    ".md": SourceFormat.MD,
    ".markdown": SourceFormat.MD,
    ".html": SourceFormat.HTML,
    ".htm": SourceFormat.HTML,
    ".txt": SourceFormat.TXT,
    ".pdf": SourceFormat.PDF,
    ".docx": SourceFormat.DOCX,
}
"""Suffix -> format. `.gz` may follow each."""
OFFICE = re.compile(rb"PK\x03\x04.{26}(word|xl|ppt)/", re.DOTALL)
"""The head of a file in the zip of an Office document, with the folder that tells the program."""
UNREAD = {
    b"xl": "an Excel workbook is not read: save each sheet as CSV",
    b"ppt": "a PowerPoint presentation is not read: save it as PDF",
}


class UnknownFormat(ValueError):
    """Content that is neither text nor of a known binary format."""


def format_of_name(name: str) -> SourceFormat | None:
    """Return the format by the name of a file, None for an unknown suffix."""
    path = PurePath(name.lower())
    return SUFFIXES.get((path.with_suffix("") if path.suffix == GZIP else path).suffix)


def format_of_content(head: bytes) -> SourceFormat:
    """Return the format by the first bytes of the decompressed content. Raises UnknownFormat for binary content."""
    if head.startswith(b"%PDF-"):
        return SourceFormat.PDF
    if head.startswith(b"PK\x03\x04"):
        folder = OFFICE.search(head)
        if folder and folder[1] in UNREAD:
            raise UnknownFormat(f"unknown format: {UNREAD[folder[1]]}")
        if folder or b"[Content_Types].xml" in head:
            return SourceFormat.DOCX
    if head.startswith(b"PAR1"):
        return SourceFormat.PARQUET
    if head[:2] in UTF_16:
        head = head.decode("utf-16", errors="ignore").encode()
    if b"\0" in head or head.startswith(MAGIC):
        raise UnknownFormat(f"unknown format; set --format to one of {', '.join(SourceFormat)}")
    text = head.removeprefix(BOM).lstrip()
    if text[:1] in (b"{", b"["):
        return SourceFormat.JSON  # the reader tells an array, lines and one object apart
    if text[:15].lower().startswith((b"<!doctype html", b"<html")):
        return SourceFormat.HTML
    if text.startswith((b"---\n", b"---\r\n", b"# ")):
        return SourceFormat.MD
    return SourceFormat.CSV if _looks_like_table(text) else SourceFormat.TXT


def _looks_like_table(text: bytes) -> bool:
    """Return whether the first lines have the same number of a delimiter that is not zero."""
    lines = [line for line in text.decode(errors="replace").splitlines()[:6] if line.strip()]
    lines = lines[:-1] if len(lines) > 2 else lines  # the last line may be cut
    return len(lines) > 1 and any(
        len({line.count(delimiter) for line in lines}) == 1 and delimiter in lines[0] for delimiter in DELIMITERS
    )
