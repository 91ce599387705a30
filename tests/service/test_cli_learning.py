"""The commands that show and feed learning: `training-runs` against a fake server, `judge` on a data directory."""

import io
import json
import shutil
from pathlib import Path

import pytest

from tests.service.client import CollectionClient, opened
from tests.service.test_cli import Fake, Run, fake, run

pytestmark = pytest.mark.usefixtures("forked_training")

__all__ = ["fake", "run"]


def test_training_runs_are_listed_with_who_started_them_and_what_is_missing(fake: Fake, run: Run) -> None:
    trigger = {"new_queries": 63, "hours_since_last_run": 24.1}
    scheduled = {"id": "r2", "created_at": "t2", "started_by": "schedule", "trigger": trigger, "status": "succeeded"}
    asked = {"id": "r1", "created_at": "t1", "started_by": "request", "trigger": None, "status": "failed"}
    asked["error"] = {"code": "not_enough_feedback", "detail": "0 queries with a confirmed document"}
    more = {"model_version": 7, "decision": {"promoted": True}}, {"model_version": None, "decision": {}}
    schedule = {"every_hours": 24.0, "min_new_queries": 50, "new_queries": 37, "next_at": None, "missing": "Too few."}
    listed = {"training_runs": [scheduled | more[0], asked | more[1]], "schedule": schedule}
    fake.on("GET", "/v1/collections/default/training-runs", listed)
    lines = run("training-runs", "--url", fake.url).out.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["r2", "t2", "schedule,", "63", "new", "queries", "succeeded", "7", "yes"],
        ["r1", "t1", "request", "failed,", "not_enough_feedback", "-", "no"],
    ]
    assert lines[3] == "every 24 hours from 50 new queries on: 37 new queries. Too few."


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two trees and two logged queries."""
    data = tmp_path_factory.mktemp("searched") / "data"
    with opened(data) as client:
        trees = CollectionClient(client)
        trees.add(*({"id": tree, "title": tree.title(), "text": f"the {tree} is a tree"} for tree in ("oak", "pine")))
        for query in ("tall tree", "tall tree", "old tree"):
            trees.search(query)
    return data


@pytest.fixture
def data(run: Run, searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """The option of a copy of the directory `searched`."""
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    shutil.copytree(searched, tmp_path / "data")
    return ("--data", tmp_path / "data")


def test_a_model_is_made_from_the_documents_alone(run: Run, data: tuple[object, ...]) -> None:
    ended = run("train", "--from-documents", *data)
    assert ended.code == 0, ended.err
    assert "own document" in ended.out
    (record,) = json.loads(run("training-runs", "--json", *data).out)["training_runs"]
    assert (record["learn_from"], record["model_version"]) == ("documents", 1)
    shown = run("models", "show", "1", *data).out
    assert "documents" in shown
    by_itself = run("collections", "set", "default", "--train-from-documents", "--json", *data)
    assert json.loads(by_itself.out)["settings"]["train_from_documents"] is True


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def left(run: Run, data: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return what is left to judge: skip everything."""
    type_lines(monkeypatch, *["s"] * 20)
    counts: dict[str, int] = json.loads(run("judge", "--json", *data).out)
    return counts


def test_judge_shows_documents_one_by_one_and_stores_the_grades(
    run: Run, data: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    type_lines(monkeypatch, "4", "S", "five", "0")
    ended = run("judge", "default", *data)
    assert ended.code == 0
    shown = [line for line in ended.out.splitlines() if line.startswith("query ")]
    assert shown == ["query 1 of 2: tall tree", "query 2 of 2: old tree"]
    assert "  2 clients in 90 days; " in ended.out
    assert "(oak)" in ended.out
    assert "the oak is a tree" in ended.out
    assert ended.out.endswith("2 judged, 1 skipped\n")
    assert "expected 0, 1, 2, 3, 4, s or q" in ended.err
    assert left(run, data, monkeypatch) == {"judged": 0, "skipped": 2, "refused": 0}


def test_judge_ends_at_q_and_keeps_the_grades_before(
    run: Run, data: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    type_lines(monkeypatch, "3", "q", "2")
    assert run("judge", "--limit", 1, "--rater", "ada", *data).out.endswith("1 judged, 0 skipped\n")
    assert left(run, data, monkeypatch)["skipped"] == 3
    type_lines(monkeypatch, "3", "3", "3")
    assert json.loads(run("judge", "--json", *data).out)["judged"] == 3
    assert run("judge", *data).out == "there is nothing to judge\n"


def test_a_refused_grade_is_reported_and_the_others_are_stored(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [{"id": id, "title": None, "snippet": {"text": "a\x1btree", "highlights": []}} for id in ("a", "b")]
    queries = [{"q": "tree", "reason": "1 client", "documents": documents}]
    fake.on("GET", "/v1/collections/wood/judging", {"queries": queries})
    refusal = {"index": 0, "code": "unknown_document", "detail": "no such document"}
    accepted = {"accepted": 1, "rejected": []}
    fake.on("POST", "/v1/collections/wood/judgments", {"accepted": 0, "rejected": [refusal]}, accepted)
    type_lines(monkeypatch, "1", "2")
    ended = run("judge", "wood", "--url", fake.url)
    assert ended.code == 3
    assert "a: unknown_document: no such document" in ended.err
    assert ended.out.endswith("1 judged, 0 skipped\n")
    assert "\x1b" not in ended.out
    sent = [body["judgments"][0] for body in fake.sent("/v1/collections/wood/judgments")]
    assert [(one["query"], one["document_id"], one["rating"], one["rater"]) for one in sent] == [
        ("tree", "a", 1, "terminal"),
        ("tree", "b", 2, "terminal"),
    ]
