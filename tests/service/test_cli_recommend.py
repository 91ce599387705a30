"""The command `recommend`, on a data directory."""

import json
from pathlib import Path

import pytest

from tests.service.test_cli import Run, run

__all__ = ["run"]
PETS = {"cat-1": "a small black cat", "cat-2": "a small white cat", "dog-1": "a large old dog", "dog-2": "a large dog"}


@pytest.fixture
def data(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """The option of a directory with four pets."""
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    lines = "".join(
        json.dumps({"id": id, "text": text, "metadata": {"kind": id[:3]}}) + "\n" for id, text in PETS.items()
    )
    (tmp_path / "pets.ndjson").write_text(lines)
    option = ("--data", tmp_path / "data")
    assert run("ingest", tmp_path / "pets.ndjson", "--filterable", "kind", *option).code == 0
    return option


def test_documents_are_recommended(run: Run, data: tuple[str, Path]) -> None:
    answer = json.loads(run("recommend", "cat-1", "--dislike", "dog-1", "--limit", 1, "--json", *data).out)
    assert [hit["id"] for hit in answer["hits"]] == ["cat-2"]
    assert answer["page"]["has_more"]
    several = json.loads(run("recommend", "cat-1", "dog-1", "--filter", "kind = dog", "--json", *data).out)
    assert [hit["id"] for hit in several["hits"]] == ["dog-2"]
    shown = run("recommend", "cat-1", "--offset", 1, "--explain", *data)
    assert "cat-2" not in shown.out
    assert "like " in shown.out


def test_an_unknown_document_is_an_error_with_its_position(run: Run, data: tuple[str, Path]) -> None:
    ended = run("recommend", "cat-1", "bird", "--dislike", "fish", *data)
    assert (ended.code, ended.out) == (1, "")
    assert "document_not_found" in ended.err
    assert "/like/1" in ended.err
    assert "/dislike/0" in ended.err
