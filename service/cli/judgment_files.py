"""Reads judgments from TREC, BEIR and JSON files, and the texts of the queries that they name by id."""

import re
from collections.abc import Iterable
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path

import orjson

from service.cli.failures import USAGE, Failure
from service.cli.records import BOM, Fault, Found, Record, opened, read_objects


class JudgmentFormat(StrEnum):
    """Formats of judgments."""

    QRELS = "qrels"
    BEIR = "beir"
    JSON = "json"
    JSONL = "jsonl"
    SRW = "srw"
    """The export of the Search Relevance Workbench, in `service.cli.srw_judgments`."""

    @property
    def names_queries_by_id(self) -> bool:
        """Whether the texts of the queries are in a separate file."""
        return self in (JudgmentFormat.QRELS, JudgmentFormat.BEIR)


def guess_judgment_format(path: Path) -> JudgmentFormat:
    """Return the format by the first line of the file. Raises Failure USAGE if the line fits no format."""
    first = first_line(path)
    if first.lstrip()[:1] in (b"{", b"["):
        return JudgmentFormat.JSON
    if first.split()[:2] == [b"query-id", b"corpus-id"]:
        return JudgmentFormat.BEIR
    if len(first.split()) == 4 or not first:
        return JudgmentFormat.QRELS
    raise Failure(USAGE, f"{path.name}: unknown format; set --format to one of {', '.join(JudgmentFormat)}")


def first_line(path: Path) -> bytes:
    """Return the first line of a file that is not blank, empty for a file without one."""
    with opened(path) as file:
        return next((line for line in file if line.removeprefix(BOM).strip()), b"").removeprefix(BOM)


def read_judgments(path: Path, kind: JudgmentFormat, queries: dict[str, str]) -> Found:
    """Yield the judgments of a file in the form of the API. queries: query id -> text, for formats that use ids."""
    return read_graded(path, kind, queries) if kind.names_queries_by_id else read_objects(path)


def read_graded(path: Path, kind: JudgmentFormat, queries: dict[str, str]) -> Found:
    """Yield judgments {"query", "document_id", "rating"} of TREC qrels (query 0 document grade) or BEIR tsv."""
    for number, line in enumerate(open_lines(path), 1):
        cells = line.split() if kind is JudgmentFormat.QRELS else line.rstrip("\r\n").split("\t")
        if not line.strip() or (kind is JudgmentFormat.BEIR and cells[0] == "query-id"):
            continue
        yield graded(number, cells[:1] + cells[2:] if kind is JudgmentFormat.QRELS else cells, queries)


def open_lines(path: Path) -> Iterable[str]:
    """Yield lines. Bytes that are not UTF-8 become lone surrogates."""
    with opened(path) as stream, TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape") as file:
        yield from file


def graded(number: int, cells: list[str], queries: dict[str, str]) -> Record | Fault:
    """Return the judgment of the cells query id, document id and grade."""
    if len(cells) != 3:
        return Fault(number, "invalid_judgment", "expected a query, a document and a grade")
    query, document, grade = cells
    if re.search("[\ud800-\udfff]", "".join(cells)):
        return Fault(number, "invalid_judgment", "not UTF-8")
    if query not in queries:
        return Fault(number, "unknown_query", "the file of queries has no text for this query")
    if not re.fullmatch(r"[+-]?\d{1,9}(\.0*)?", grade.strip()):
        return Fault(number, "invalid_judgment", "the grade is not a whole number")
    return Record(number, {"query": queries[query], "document_id": document, "rating": int(float(grade))})


def find_queries(judgments: Path, queries: Path | None) -> Path:
    """Return the file of the query texts: the given file, or queries.jsonl next to the folder of the judgments."""
    beside = judgments.absolute().parent.parent / "queries.jsonl"
    if queries is None and not beside.is_file():
        raise Failure(USAGE, "these judgments name queries by id: set --queries FILE to the file with their texts")
    return queries or beside


def read_queries(path: Path) -> tuple[dict[str, str], list[Fault]]:
    """Return id -> text from lines of JSON with _id and text, or of id TAB text; and the lines in neither format."""
    texts: dict[str, str] = {}
    faults = []
    with opened(path) as stream:
        content = stream.read().removeprefix(BOM)
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            if line.lstrip().startswith(b"{"):
                value = orjson.loads(line)
                name, text = str(value["_id"]), str(value["text"])
            else:
                name, text = line.decode().split("\t", 1)
        except (ValueError, KeyError):
            faults.append(Fault(number, "invalid_query", "neither JSON with _id and text nor id TAB text"))
        else:
            texts[name] = text.strip()
    return texts, faults
