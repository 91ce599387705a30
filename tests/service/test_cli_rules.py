"""The commands of rules, on a data directory."""

import json
from pathlib import Path

import pytest

from service.cli.rules import pins
from tests.service.test_cli import Run, run

__all__ = ["run"]


@pytest.fixture(autouse=True)
def hashing(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A data directory with the encoder that needs no weights."""
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    run("collections", "set", "default", "--data", tmp_path / "data")


def test_rules_are_set_listed_and_deleted(run: Run, tmp_path: Path) -> None:
    data = ("--data", tmp_path / "data")
    near = ("--near", "opening hours", "--cosine", "0.7", "--pin", "contact", "--pin", "shop:1:3", "--hide", "old")
    stored = run("rules", "set", "hours", *near, "--until", "2027-01-01T00:00:00Z", "--json", *data)
    assert stored.code == 0
    rule = json.loads(stored.out)
    assert rule["query"] == {"near": "opening hours", "cosine": 0.7}
    assert rule["pin"] == [{"id": "contact", "position": 1}, {"id": "shop:1", "position": 3}]
    assert (rule["hide"], rule["until"]) == (["old"], "2027-01-01T00:00:00.000Z")
    listed = run("rules", "list", *data)
    assert all(word in listed.out for word in ("hours", "near opening hours", "contact:1, shop:1:3", "old", "2027"))
    assert json.loads(run("rules", "list", "--json", *data).out) == {"rules": [rule]}
    assert run("rules", "delete", "hours", *data).out == "rule hours is deleted\n"
    gone = run("rules", "delete", "hours", *data)
    assert (gone.code, gone.err) == (1, "rule_not_found: there is no such rule\n")


def test_a_rule_is_shown(run: Run, tmp_path: Path) -> None:
    data = ("--data", tmp_path / "data")
    rule = json.loads(run("rules", "set", "hours", "--contains", "open", "--pin", "shop:3", "--json", *data).out)
    run("rules", "set", "other", "--exact", "closed", "--hide", "old", *data)
    assert json.loads(run("rules", "get", "hours", "--json", *data).out) == rule
    shown = [line.split(maxsplit=1) for line in run("rules", "get", "hours", *data).out.splitlines()[1:]]
    assert [(name, *(value.strip() for value in values)) for name, *values in shown] == [
        ("rule", "hours"), ("query", "contains open"), ("pinned", "shop:3"), ("hidden",), ("from", "-"), ("until", "-"),
    ]  # fmt: skip
    missing = run("rules", "get", "none", *data)
    assert (missing.code, missing.out, missing.err) == (1, "", "rule_not_found: there is no such rule\n")


def test_a_wrong_rule_is_refused_with_its_position(run: Run, tmp_path: Path) -> None:
    ended = run("rules", "set", "r", "--exact", "a", "--from", "soon", "--hide", "x", "--data", tmp_path / "data")
    assert (ended.code, ended.out) == (1, "")
    assert "/from" in ended.err


def test_a_pin_without_a_position_follows_the_pin_before() -> None:
    assert [(one["id"], one["position"]) for one in pins(["a", "b:5", "c", ":7", "d:x"])] == [
        ("a", 1), ("b", 5), ("c", 6), (":7", 7), ("d:x", 8),
    ]  # fmt: skip


def test_a_pinned_hit_is_marked(run: Run, tmp_path: Path) -> None:
    data = ("--data", tmp_path / "data")
    lines = "".join(json.dumps({"id": id, "text": f"a {id}"}) + "\n" for id in ("cat", "dog"))
    (tmp_path / "pets.ndjson").write_text(lines)
    assert run("ingest", tmp_path / "pets.ndjson", *data).code == 0
    assert run("rules", "set", "r", "--exact", "cat", "--pin", "dog", *data).code == 0
    first, *others = [line for line in run("search", "cat", *data).out.splitlines() if "weight" in line]
    assert first.split()[1] == "dog"
    assert first.endswith("pinned")
    assert not any("pinned" in line for line in others)
