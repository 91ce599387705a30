"""The commands `collections` and `documents`, against the service of a directory."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from index.learning.config import FitConfig
from index.words.analyzers import LANGUAGES
from service.cli import main
from service.cli.collections import Form, Language, Normaliser
from service.collections.schemas import AttentionIn
from tests.service.client import create, opened


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without settings, with the hashing encoder."""
    for name in [name for name in os.environ if name.upper().startswith("SOFTSEEK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: Any, code: int = 0) -> str:
    """Run a command, check its exit code and return its stdout."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    out, err = capsys.readouterr()
    assert (ended.value.code or 0) == code, err
    return out


def test_a_collection_is_created_changed_listed_and_deleted(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = json.loads(run(capsys, "collections", "set", "shop", "--language", "german", "--heads", 2, "--json"))
    assert (made["settings"]["language"], made["settings"]["attention"]["heads"]) == ("german", 2)
    options = ["--filterable", "a,b", "--retention-days", 9, "--memory-half-life-days", "none", "--keys", "passage"]
    changed = json.loads(run(capsys, "collections", "set", "shop", *options, "--json"))["settings"]
    assert (changed["filterable"], changed["retention_days"]) == (["a", "b"], 9)
    assert (changed["memory_half_life_days"], changed["keys"], changed["language"]) == (None, ["passage"], "german")
    full = json.loads(run(capsys, "collections", "set", "shop", "--memory-max-mb", 512, "--json"))
    assert full["memory"] == {"queries": 0, "bytes": 0, "max_bytes": 512 * 2**20, "dropped": 0}
    run(capsys, "collections", "set", "shop", "--memory-max-mb", "much", code=2)
    changed = json.loads(run(capsys, "collections", "set", "shop", "--memory-max-mb", "none", "--json"))["settings"]
    assert changed["memory_max_mb"] is None
    kept = json.loads(run(capsys, "collections", "set", "shop", "--retention-days", "none", "--json"))["settings"]
    assert kept == changed | {"retention_days": None}
    assert "german" in run(capsys, "collections", "show", "shop")
    assert [line.split()[0] for line in run(capsys, "collections", "list").splitlines()] == ["name", "default", "shop"]
    assert run(capsys, "collections", "delete", "shop") == "deleted: shop\n"
    run(capsys, "collections", "show", "shop", code=1)
    run(capsys, "collections", "delete", "default", code=1)


def test_the_schedule_of_training_is_set_shown_and_switched_off(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def schedule(*options: Any) -> Any:
        return json.loads(run(capsys, "collections", "set", "shop", *options, "--json"))["settings"]["train"]

    run(capsys, "collections", "set", "default")
    assert "no schedule" in run(capsys, "training-runs")
    assert schedule("--train-every-hours", 12) == {"every_hours": 12, "min_new_queries": 50}
    assert schedule("--train-min-new-queries", 1) == {"every_hours": 12, "min_new_queries": 1}
    shown = run(capsys, "training-runs", "--collection", "shop")
    assert "every 12 hours from 1 new queries on: 0 new queries. 0 queries have new feedback, and" in shown
    listed = json.loads(run(capsys, "training-runs", "--collection", "shop", "--json"))
    assert listed["schedule"]["new_queries"] == 0
    assert schedule("--train-every-hours", "none") is None
    for options in (("--train-every-hours", "x"), ("--train-every-hours", "none", "--train-min-new-queries", 3)):
        run(capsys, "collections", "set", "shop", *options, code=2)
    run(capsys, "collections", "set", "shop", "--train-every-hours", 0, code=1)


def test_stop_words_are_set_and_removed(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def stop_words(*options: Any) -> Any:
        return json.loads(run(capsys, "collections", "set", "shop", *options, "--json"))["settings"]["stop_words"]

    assert stop_words("--stop-words", "the, of,") == ["the", "of"]
    assert stop_words("--heads", 2) == ["the", "of"]
    assert stop_words("--stop-words", "none") == ["none"]
    assert stop_words("--stop-words", "") == []


def test_suggestions_are_set_field_by_field(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def suggestions(*options: Any) -> Any:
        return json.loads(run(capsys, "collections", "set", "shop", *options, "--json"))["settings"]["suggestions"]

    assert suggestions("--suggestions-min-clients", 9) == {"min_clients": 9, "off_words": []}
    assert suggestions("--suggestions-off-words", "viper, red hat") == {
        "min_clients": 9,
        "off_words": ["viper", "red hat"],
    }
    assert suggestions("--suggestions-off-words", "") == {"min_clients": 9, "off_words": []}
    run(capsys, "collections", "set", "shop", "--suggestions-min-clients", 1, code=2)


def test_typos_are_set_field_by_field(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def typos(*options: Any) -> Any:
        return json.loads(run(capsys, "collections", "set", "shop", *options, "--json"))["settings"]["typos"]

    assert typos("--no-typos") == {"enabled": False}
    assert typos("--stop-words", "the") == {"enabled": False}
    assert typos("--typos") == {"enabled": True}
    assert typos("--typos-one-edit", 5) == {"enabled": True, "one_edit": 5}
    assert typos("--no-typos", "--typos-two-edits", 9) == {"enabled": False, "one_edit": 5, "two_edits": 9}
    assert typos("--typos") == {"enabled": True, "one_edit": 5, "two_edits": 9}
    for options in (("--typos-one-edit", 1), ("--typos-two-edits", 65)):
        run(capsys, "collections", "set", "shop", *options, code=2)
    assert typos() == {"enabled": True, "one_edit": 5, "two_edits": 9}


def test_words_that_are_never_corrected_survive_a_change_of_typos(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(directory / "data") as client:
        create(client, "shop", typos={"off_words": ["sku"], "one_edit": 3})
    changed = json.loads(run(capsys, "collections", "set", "shop", "--typos-one-edit", 6, "--json"))["settings"]
    assert changed["typos"] == {"enabled": True, "off_words": ["sku"], "one_edit": 6}
    changed = json.loads(run(capsys, "collections", "set", "shop", "--no-typos", "--json"))["settings"]
    assert changed["typos"] == {"enabled": False, "off_words": ["sku"], "one_edit": 6}


def test_a_command_on_a_directory_does_not_train_by_schedule(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "tree.ndjson").write_text(json.dumps({"id": "oak", "text": "the oak is a tree"}))
    judged = [{"query": f"tree {n}", "document_id": "oak", "rating": 3} for n in range(FitConfig().min_queries)]
    (directory / "judged.jsonl").write_text("".join(json.dumps(one) + "\n" for one in judged))
    run(capsys, "ingest", "tree.ndjson")
    run(capsys, "judgments", "import", "judged.jsonl")
    run(capsys, "collections", "set", "default", "--train-min-new-queries", 1)
    run(capsys, "search", "oak")
    listed = json.loads(run(capsys, "training-runs", "--json"))
    assert (listed["training_runs"], listed["schedule"]["missing"]) == ([], None)


def test_documents_are_shown_listed_and_deleted(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"id": f"a/{n}", "title": f"Title {n}", "text": f"one\ntwo {n}", "metadata": {"n": n}} for n in range(4)]
    file = directory / "documents.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    run(capsys, "ingest", file, "--filterable", "n")
    assert json.loads(run(capsys, "documents", "get", "a/1", "--json"))["metadata"] == {"n": 1}
    shown = run(capsys, "documents", "get", "a/1")
    assert "Title 1" in shown
    assert "one\ntwo 1\n" in shown
    page = json.loads(run(capsys, "documents", "list", "--limit", 3, "--json"))
    rest = run(capsys, "documents", "list", "--cursor", page["cursor"])
    assert len(page["documents"]) == 3
    assert "a/3" in rest
    patches = directory / "patches.jsonl"
    patches.write_text('{"id": "a/2", "metadata": {"m": 5}}\n\nno JSON\n{"id": "z"}\n{"id": "a/2"}\n', encoding="utf-8")
    outcome = json.loads(run(capsys, "documents", "patch", patches, "--json", code=3))
    assert (outcome["accepted"], [one["line"] for one in outcome["rejected"]]) == (2, [3, 4])
    assert json.loads(run(capsys, "documents", "get", "a/2", "--json"))["metadata"]["m"] == 5
    patches.write_text('[{"id": "a/2", "title": "Two"}]', encoding="utf-8")
    assert run(capsys, "documents", "patch", patches) == "1 of 1 changes accepted\n"
    assert run(capsys, "documents", "delete", "a/0", "unknown") == "deleted: 1 documents\n"
    assert json.loads(run(capsys, "documents", "delete", "--filter", "n > 1", "--json")) == {"deleted": 2}
    run(capsys, "documents", "delete", "--filter", " ", code=1)
    assert [one["id"] for one in json.loads(run(capsys, "documents", "list", "--json"))["documents"]] == ["a/1"]


def test_the_version_is_shown(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, version = run(capsys, "--version").split()
    assert name == "softseek"
    assert version[0].isdigit()


def test_the_choices_of_the_command_line_are_those_of_the_service() -> None:
    assert {one.value for one in Language} == {"none", *LANGUAGES}
    fields = AttentionIn.model_json_schema()["properties"]
    assert [one.value for one in Form] == fields["form"]["enum"]
    assert [one.value for one in Normaliser] == fields["normaliser"]["enum"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search", "x", "--mode", "fuzzy"], "'fuzzy' is not one of"),
        (["search", "x", "--model", "newest"], "champion, challenger or a version"),
        (["collections", "set", "shop", "--language", "klingon"], "'english'"),
        (["collections", "set", "shop", "--form", "circle"], "'bilinear'"),
        (["collections", "set", "shop", "--keys", "title,chapter"], "title,passage,sentence"),
        (["collections", "set", "shop", "--retention-days", "soon"], "a number of days or none"),
        (["documents", "delete"], "either ids or --filter"),
        (["documents", "list", "--data", ""], "must not be empty"),
        (["documents", "delete", "a", "--filter", "b = 1"], "either ids or --filter"),
    ],
)
def test_wrong_use_ends_with_2(
    directory: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert said in " ".join(err.split())
