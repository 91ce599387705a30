"""`softseek ingest` on a real data directory: files as people have them, rejects, mirrored sources, progress."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.cli import following, main, show
from service.cli.following import pace
from tests.service.files import docx, pdf, written

Softseek = Callable[..., tuple[Any, Any, str]]


@pytest.fixture
def softseek(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Softseek]:
    """Run a command with --json in an empty folder; return its exit code, the JSON of stdout, and stderr."""
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def command(*arguments: Any) -> tuple[Any, Any, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as raised:
            main([*map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        return raised.value.code, json.loads(out) if out else None, err

    yield command
    for number, handler in before.items():
        signal.signal(number, handler)


def ids(softseek: Softseek, query: str, *more: Any) -> set[str]:
    """Return the ids that a search by words finds."""
    code, answer, _ = softseek("search", query, "--mode", "words", *more)
    assert code == 0
    return {hit["id"] for hit in answer["hits"]}


SHOP = [
    {"id": 1, "name": "Red shoe", "description": "a shoe of leather", "price": 59.5, "brand": None},
    {"sku": "A-2", "title": "Blue shoe", "text": "a shoe of canvas", "price": "12.99", "sizes": [40, 41]},
    {"_id": {"$oid": "5f"}, "headline": "Hat", "body": ["of felt", "with a band"], "stock": {"berlin": 3}},
    {"objectID": "a-4", "subject": "Scarf", "answer": "made of wool", "added": "2024-05-01T10:00:00Z"},
    {"asin": "B0", "name": "Belt", "content": "of leather", "rating": 4.5, "reviews": [{"stars": 5}, {"stars": 3}]},
    {"name": "Sock", "description": "of wool"},
    {"id": 7.0, "title": 501, "text": "jeans of denim"},
    {"id": "8", "title": "Glove", "metadata": {"colour": "black"}, "season": "winter"},
    {"id": "9", "text": "an umbrella", "url": "https://example.org/9", "waterproof": True},
]


def test_nine_ordinary_shop_records_are_taken(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "shop.json", json.dumps(SHOP))
    code, outcome, _ = softseek("ingest", path, "--filterable", "price,season,added_epoch")
    assert (code, outcome["succeeded"], outcome["failed"], outcome["errors"]) == (0, 9, 0, [])
    assert outcome["notes"].pop("without an id: the id is a hash of the content") == 1
    ((note, count),) = outcome["notes"].items()
    assert (note.partition(":")[0], count) == ("price is a text that spells a number", 1)
    assert ids(softseek, "shoe") == {"1", "A-2"}
    assert ids(softseek, "shoe", "--filter", "price > 20") == {"1"}
    assert ids(softseek, "scarf", "--filter", "added_epoch >= 1704067200") == {"a-4"}


def test_a_folder_of_files_is_taken(softseek: Softseek, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    written(docs / "intro.md", "# Introduction\n\nabout walruses")
    written(docs / "page.html", "<title>Page</title><p>about walruses</p>")
    written(docs / "deep" / "manual.pdf", pdf("about walruses"))
    written(docs / "deep" / "letter.docx", docx("Letter", "about walruses"))
    written(docs / "broken.pdf", "%PDF-1.4")
    code, outcome, err = softseek("ingest", docs, "--base-url", "https://example.org")
    assert (code, outcome["succeeded"], outcome["failed"]) == (3, 4, 1)
    assert outcome["errors"] == [
        {"file": "broken.pdf", "code": "unreadable_file", "detail": "not a readable PDF"},
    ]
    assert "broken.pdf: unreadable_file: not a readable PDF" in err
    assert ids(softseek, "walruses") == {"intro.md", "page.html", "deep/manual.pdf", "deep/letter.docx"}


def test_a_folder_may_contain_the_data_directory_and_the_rejects(softseek: Softseek, tmp_path: Path) -> None:
    written(tmp_path / "a.md", "words")
    softseek("collections", "set", "default")
    written(tmp_path / "data" / "imports" / "left.ndjson", "{")
    code, outcome, _ = softseek("ingest", ".", "--rejects", "rejects.ndjson")
    assert (code, outcome["items_total"], (tmp_path / "rejects.ndjson").read_bytes()) == (0, 1, b"")


def test_refused_records_are_named_and_written_with_their_reason(softseek: Softseek, tmp_path: Path) -> None:
    lines = ['{"id": "a", "text": "x"}', "{broken", json.dumps({"id": ["b"], "text": "x"})]
    lines += [json.dumps({"id": "c", "text": "x", "note": "n" * 10_001}), json.dumps({"id": "d", "text": "y"})]
    path = written(tmp_path / "a.ndjson", "\n".join(lines))
    code, outcome, err = softseek("ingest", path, "--rejects", tmp_path / "rejects.ndjson")
    assert (code, outcome["succeeded"], outcome["failed"]) == (3, 2, 3)
    rejects = [json.loads(line) for line in (tmp_path / "rejects.ndjson").read_text().splitlines()]
    assert [(one["line"], one.get("field"), one["detail"]) for one in rejects] == [
        (2, None, "not valid JSON at character 2"),
        (3, "id", "id: must be a string or a number"),
        (4, "metadata.note", "metadata.note: must have at most 10000 characters"),
    ]
    assert [one["record"] for one in rejects] == ["{broken", *map(json.loads, lines[2:4])]
    assert "a.ndjson line 4 (c): invalid_document: metadata.note: must have at most 10000 characters" in err


def test_strict_takes_records_in_the_form_of_the_api(softseek: Softseek, tmp_path: Path) -> None:
    rows = [{"id": "a", "text": "x"}, {"id": 1, "text": "x"}, {"id": "b", "text": "x", "colour": "red"}]
    path = written(tmp_path / "a.ndjson", "\n".join(map(json.dumps, rows)))
    code, outcome, _ = softseek("ingest", path, "--mapping", "strict")
    assert (code, outcome["succeeded"]) == (3, 1)
    assert [one["detail"] for one in outcome["errors"]] == ["id: must be a string", "colour: is not a known field"]


def test_fields_are_named_by_options(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "key;head;one;two;link\n1;T;first;second;http://x\n2;;;;\n")
    named = ("--id-field", "key", "--title-field", "head", "--text-field", "one,two", "--url-field", "link")
    code, outcome, _ = softseek("ingest", path, *named)
    assert (code, outcome["errors"][0]["detail"]) == (3, "one: is missing; it is named as the text of the documents")
    assert ids(softseek, "second") == {"1"}


def test_the_source_is_mirrored_and_unchanged_documents_are_not_encoded(softseek: Softseek, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        written(tmp_path / "docs" / f"{name}.md", f"words of {name}")
    assert softseek("ingest", tmp_path / "docs")[1]["unchanged"] == 0
    (tmp_path / "docs" / "b.md").unlink()
    written(tmp_path / "docs" / "c.md", "other words")
    _, outcome, _ = softseek("ingest", tmp_path / "docs", "--delete-missing")
    assert (outcome["succeeded"], outcome["unchanged"], outcome["deleted"]) == (2, 1, 1)
    assert ids(softseek, "words") == {"a.md", "c.md"}


def test_nothing_is_deleted_when_a_part_of_the_source_was_not_read(softseek: Softseek, tmp_path: Path) -> None:
    written(tmp_path / "docs" / "a.md", "words")
    written(tmp_path / "docs" / "b.md", "words")
    softseek("ingest", tmp_path / "docs")
    written(tmp_path / "docs" / "b.md", b"\xff")
    code, outcome, err = softseek("ingest", tmp_path / "docs", "--delete-missing")
    assert (code, outcome["deleted"]) == (3, None)
    assert "nothing is deleted" in err
    _, outcome, err = softseek("ingest", written(tmp_path / "none.ndjson", ""), "--delete-missing")
    assert outcome["deleted"] is None
    assert "the source has no document" in err
    assert ids(softseek, "words") == {"a.md", "b.md"}


def test_nothing_is_deleted_when_a_quote_of_a_table_is_not_closed(softseek: Softseek, tmp_path: Path) -> None:
    written(tmp_path / "table.csv", "id,text\nq1,words\nq2,words\nq3,words\n")
    assert softseek("ingest", tmp_path / "table.csv")[0] == 0
    written(tmp_path / "table.csv", 'id,text\nq1,words\nq2,"words\nq3,words\n')
    code, outcome, _ = softseek("ingest", tmp_path / "table.csv", "--delete-missing")
    assert (code, outcome["deleted"], outcome["failed"]) == (3, None, 1)
    assert (outcome["errors"][0]["line"], outcome["errors"][0]["code"]) == (3, "invalid_csv")
    assert ids(softseek, "words") == {"q1", "q2", "q3"}


def test_a_folder_without_the_wanted_files_is_refused(softseek: Softseek, tmp_path: Path) -> None:
    written(tmp_path / "docs" / "a.md", "words")
    for flags, said in ((["--format", "beir"], "no corpus.jsonl"), (["--glob", "*.txt"], "no file that matches")):
        code, _, err = softseek("ingest", tmp_path / "docs", *flags)
        assert (code, said in err) == (2, True)


def test_a_repeated_id_is_noted_and_the_last_document_is_kept(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,text\n1,first\n1,second\n")
    _, outcome, _ = softseek("ingest", path)
    assert list(outcome["notes"]) == ["an id that occurs before: the last document with the id is kept"]
    assert ids(softseek, "first second") == {"1"}


def test_rejects_that_cannot_be_written_are_an_error_before_work_starts(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "a.ndjson", '{"id": "a", "text": "x"}')
    code, _, err = softseek("ingest", path, "--rejects", tmp_path / "no" / "folder")
    assert (code, "--rejects" in err) == (2, True)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [(50, 150, 1.0, "50 passages/s, 0:02 left"), (10, 36_010, 10.0, "1 passages/s, 10:00:00 left")],
)
def test_the_pace_is_passages_per_second_and_the_time_left(done: int, total: int, seconds: float, text: str) -> None:
    assert pace({"passages_done": done, "passages_total": total}, seconds) == text


class Polled:
    """A service whose task has these states, one for each request."""

    local = True

    def __init__(self, *states: dict[str, int]) -> None:
        self._states = [{"status": "processing", "progress": state} for state in states]

    def call(self, *_: Any) -> dict[str, Any]:
        return self._states.pop(0) if self._states else {"status": "succeeded"}


def test_the_progress_tells_cutting_and_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, float, float | None]] = []
    monkeypatch.setattr(show.Bar, "show", lambda _, *given: shown.append(given))
    monkeypatch.setattr(following, "FIRST_WAIT_SECONDS", 0.0)
    states = [
        {"done": 0, "total": 1},
        {"done": 0, "total": 1, "passages_done": 0, "passages_total": 9},
        {"done": 0, "total": 1, "passages_done": 3, "passages_total": 9},
    ]
    following.follow(Polled(*states), "/v1/tasks/t", "indexing")  # type: ignore[arg-type]
    assert [(done, total) for _, done, total in shown] == [(0, 1), (0, 9), (3, 9)]
    assert shown[1][0] == "indexing, cutting texts into passages"
    assert shown[2][0].endswith("left")
