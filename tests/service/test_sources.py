"""Folders, files and stdin become records with the names of their files; a bad file stops no other."""

import gzip
import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.cli.failures import USAGE, Failure
from service.cli.sources import reader
from service.cli.sources.formats import SourceFormat
from service.cli.sources.reader import Item, Source
from service.documents.mapping import FieldMapping, map_record
from service.documents.reading import Fault, Record
from tests.service.files import encrypted_pdf, written


def documents(source: Source) -> list[dict[str, Any]]:
    """Return the documents of a source without faults."""
    found = []
    for item in source.items():
        assert isinstance(item.found, Record), item
        found.append(map_record(item.found.value, item.fields, item.fallback_id, item.columns).document)
    return found


def faults(source: Source) -> list[tuple[str, int, str]]:
    return [(item.file, item.found.number, item.found.detail) for item in source.items() if _is_fault(item)]


def _is_fault(item: Item) -> bool:
    return isinstance(item.found, Fault)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path / "docs" / "guide" / "copy file.md", "# Copy\n\nUse cp.")
    written(tmp_path / "docs" / "notes.txt", "plain words")
    written(tmp_path / "docs" / "products.json", '[{"sku": 1, "name": "Shoe"}]')
    written(tmp_path / "docs" / ".hidden" / "secret.md", "hidden")
    written(tmp_path / "docs" / "logo.png", b"\x89PNG\0")
    return tmp_path / "docs"


def test_a_folder_is_read_recursively_in_the_order_of_its_paths(folder: Path) -> None:
    source = Source(folder, base_url="https://example.org/docs/")
    found = {one["id"]: (one["title"], one["text"], one["url"]) for one in documents(source)}
    assert found == {
        "notes.txt": ("notes", "plain words", "https://example.org/docs/notes.txt"),
        "1": ("Shoe", "", None),
        "guide/copy file.md": ("Copy", "Use cp.", "https://example.org/docs/guide/copy%20file.md"),
    }
    assert list(found) == ["notes.txt", "1", "guide/copy file.md"]
    assert source.skipped == {".png": 1}


def test_patterns_and_a_format_choose_the_files_of_a_folder(folder: Path) -> None:
    def files(**more: Any) -> list[str]:
        return [item.file for item in Source(folder, **more).items()]

    assert files(globs=["**/*.md", "*.txt"]) == ["notes.txt", "guide/copy file.md"]
    assert files(globs=["guide/*"]) == ["guide/copy file.md"]
    assert files(kind=SourceFormat.TXT) == ["notes.txt"]
    assert files(kind=SourceFormat.TXT, globs=["*.json"]) == ["products.json"]
    assert files(excluded=[folder / "guide", folder / "notes.txt"]) == ["products.json"]


def test_records_in_utf_16_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    for name, text in (
        ("a.json", '[{"id": "a", "text": "x"}]'),
        ("b.json", '{"id":\n"b", "text": "x"}'),
        ("c.ndjson", '{"id": "c", "text": "x"}'),
    ):
        written(tmp_path / name, text.encode("utf-16"))
    assert [one["id"] for one in documents(Source(tmp_path))] == ["a", "b", "c"]


def test_a_bad_file_stops_no_other(tmp_path: Path) -> None:
    written(tmp_path / "a.md", b"caf\xe9")
    written(tmp_path / "b.pdf", encrypted_pdf("x", "word"))
    written(tmp_path / "c.txt", "")
    written(tmp_path / "d.ndjson.gz", gzip.compress(b'{"id":"a","text":"x"}\n')[:-9])
    written(tmp_path / "e.json", '{"id": "single", "text": "y"}')
    (tmp_path / "f.md").symlink_to(tmp_path / "e.json")
    assert faults(Source(tmp_path)) == [
        ("a.md", 0, "not UTF-8 at byte 3"),
        ("b.pdf", 0, "the PDF is encrypted"),
        ("c.txt", 0, "the file is empty"),
        ("d.ndjson.gz", 0, "the gzip content is cut or damaged"),
    ]
    assert [item.file for item in Source(tmp_path).items()][-2:] == ["e.json", "f.md"]


def test_what_cannot_be_read_in_a_folder_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "a.md", "words")
    written(tmp_path / "closed" / "b.md", "words")
    (tmp_path / "c.md").symlink_to(tmp_path / "nowhere.md")
    written(tmp_path / "d.bin", b"\0\1")
    written(tmp_path / "e", "\n")
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = faults(Source(tmp_path, globs=["*"]))
    assert [(file, detail.partition(";")[0]) for file, _, detail in found] == [
        ("c.md", "No such file or directory"),
        ("d.bin", "unknown format"),
        ("e", "the file is empty"),
        ("closed", "Permission denied"),
    ]
    with pytest.raises(Failure, match="unknown format") as raised:
        documents(Source(tmp_path / "d.bin"))
    assert raised.value.exit_code == USAGE


def test_a_name_that_is_not_utf8_is_shown_with_a_substitute(tmp_path: Path) -> None:
    written(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")), "words")
    (item,) = Source(tmp_path).items()
    assert (item.file, item.fallback_id) == ("caf\ufffd.md", "caf\ufffd.md")


def test_a_file_over_the_limit_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FILE_BYTES", 10)
    assert faults(Source(written(tmp_path / "a.md", "x" * 11))) == [("a.md", 0, "the file has more than 10 bytes")]


ROWS = [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]
FORMATS = {
    "rows.ndjson": "\n".join(map(json.dumps, ROWS)),
    "rows.jsonl": "\n".join(map(json.dumps, ROWS)),
    "rows.json": json.dumps(ROWS, indent=2),
    "lines.json": "\n".join(map(json.dumps, ROWS)),
    "object.json": json.dumps({"rows": ROWS}),
    "rows.csv": "id,text\na,x\nb,y\n",
    "rows.tsv": "id\ttext\na\tx\nb\ty\n",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("from_stdin", [False, True])
def test_every_format_of_records_is_read_from_files_and_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, compressed: bool, from_stdin: bool
) -> None:
    content = gzip.compress(FORMATS[name].encode()) if compressed else FORMATS[name].encode()
    path = written(tmp_path / (f"{name}.gz" if compressed else name), content)
    if from_stdin:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        path = Path("-")
    found = documents(Source(path))
    assert [(one["id"], one["text"]) for one in found] == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{\n "id": "a",\n "text": \n}', "not valid JSON at line 4"),
        ("7", "not a JSON object or array"),
    ],
)
def test_a_json_file_that_is_no_record_is_one_fault(tmp_path: Path, content: str, said: str) -> None:
    assert faults(Source(written(tmp_path / "a.json", content))) == [("a.json", 0, said)]


@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "lines"])
def test_a_broken_first_line_stops_no_other_line(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, '{"id": "a", "te\n{"id": "b", "text": "y"}\n{"id": "c", "text": "z"}\n')
    first, *others = Source(path).items()
    assert (first.found.number, _is_fault(first)) == (1, True)
    assert [one.found.number for one in others if not _is_fault(one)] == [2, 3]


def test_a_first_line_longer_than_the_start_of_a_file_is_read(tmp_path: Path) -> None:
    rows = [{"id": "a", "text": "x" * 100_000}, {"id": "b", "text": "y"}]
    for content in ("\n".join(map(json.dumps, rows)), json.dumps(rows), json.dumps({"rows": rows})):
        found = documents(Source(written(tmp_path / "a.json", content)))
        assert [one["id"] for one in found] == ["a", "b"]


def test_text_from_stdin_has_a_hash_as_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"some words")))
    (found,) = documents(Source(Path("-")))
    assert (found["text"], found["title"], len(found["id"])) == ("some words", None, 32)


def test_parquet_is_read_where_pyarrow_is_installed(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"sku": [1, 2], "name": ["Shoe", "Hat"], "price": [2.5, None], "tags": [["a"], []]})
    parquet.write_table(table, tmp_path / "a.parquet")
    (shoe, hat) = documents(Source(tmp_path / "a.parquet"))
    assert (shoe["id"], shoe["title"], shoe["metadata"]) == ("1", "Shoe", {"price": 2.5, "tags": ["a"]})
    assert hat["metadata"] == {"tags": []}
    assert faults(Source(written(tmp_path / "b.parquet", b"PAR1 cut")))[0][2] == "not a readable Parquet file"


def test_parquet_without_pyarrow_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    ((_, _, detail),) = faults(Source(written(tmp_path / "a.parquet", b"PAR1")))
    assert "pip install 'softseek[parquet]'" in detail


def test_a_beir_folder_gives_the_documents_of_its_corpus(tmp_path: Path) -> None:
    lines = [{"_id": 7, "title": "", "text": "x", "metadata": {}}, {"text": "y"}]
    written(tmp_path / "corpus.jsonl", "\n".join(map(json.dumps, lines)))
    written(tmp_path / "queries.jsonl", '{"_id": "q", "text": "not a document"}')
    (first, second) = Source(tmp_path).items()
    assert isinstance(first.found, Record)
    assert map_record(first.found.value, first.fields).document["id"] == "7"
    assert second.fields == FieldMapping("lenient", id_field="_id")


def test_front_matter_may_name_the_fields_of_a_document(tmp_path: Path) -> None:
    written(tmp_path / "a.md", "---\nslug: copy\nsummary: How to copy\ndate: 2024-01-02\nurl: /copy\n---\ntext")
    written(tmp_path / "b.md", "text")
    fields = FieldMapping("lenient", id_field="slug", title_field="summary")
    first, second = documents(Source(tmp_path, fields=fields))
    assert (first["id"], first["title"], first["url"]) == ("copy", "How to copy", "/copy")
    assert first["metadata"]["date_epoch"] == 1704153600
    assert (second["id"], second["title"]) == ("b.md", "b")
