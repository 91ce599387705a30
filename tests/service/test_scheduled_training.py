"""Training runs start by the schedule of their collection, and say why; the schedule tells what is missing."""

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.learning.config import FitConfig
from service.runtime.feedback_repository import confirmed_count
from service.storage.checked_rows import update_row
from service.storage.database import now
from service.storage.sqlite_database import SqliteDatabase
from service.training import child_process
from service.training.actions import start_scheduled_runs
from service.training.repository import queries_with_feedback_since
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, event, opened, problem, runtime_of
from tests.service.training_processes import held_runs

pytestmark = pytest.mark.usefixtures("forked_training")

NEED = FitConfig().min_queries
SCHEDULE = {"every_hours": 24, "min_new_queries": 5}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service whose schedules start runs only when a test says so."""
    with opened(tmp_path_factory.mktemp("scheduled") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with a schedule and two trees."""
    wood = create(client, re.sub(r"[^a-z0-9]+", "-", request.node.name)[:100], train=SCHEDULE)
    wood.add({"id": "oak", "text": "the oak is a tree"}, {"id": "pine", "text": "the pine is a tree"})
    return wood


def judge_queries(wood: CollectionClient, numbers: range) -> None:
    judgments = [{"query": f"tree number {n}", "document_id": "oak", "rating": 3} for n in numbers]
    assert wood.post("judgments", {"judgments": judgments})["accepted"] == len(numbers)


def runs(wood: CollectionClient) -> list[Any]:
    found: list[Any] = wood.get("training-runs")["training_runs"]
    return found


def standing(wood: CollectionClient) -> dict[str, Any]:
    found: dict[str, Any] = wood.get("training-runs")["schedule"]
    return found


def after(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def start_due(wood: CollectionClient, hours: float = 0) -> list[Any]:
    """Let the scheduled runs start as if so many hours had passed; return the runs."""
    start_scheduled_runs(runtime_of(wood.client), after(hours))
    return runs(wood)


def cancel(wood: CollectionClient, run_id: str) -> None:
    wood.post(f"training-runs/{run_id}/cancel")
    wood.ended_run(run_id)


def end(wood: CollectionClient, run_id: str, status: str = "succeeded", code: str | None = None) -> None:
    """Let a run end with this status, and with an error with this code."""
    cancel(wood, run_id)
    error = None if code is None else json.dumps({"code": code, "detail": ""})
    with runtime_of(wood.client).database.write() as connection:
        connection.exec_driver_sql(
            "UPDATE training_runs SET status = ?, error = ? WHERE id = ?", (status, error, run_id)
        )


# --- The setting ---


def test_without_a_schedule_no_run_starts_by_itself(client: TestClient) -> None:
    wood = create(client, "unscheduled")
    wood.add({"id": "oak", "text": "the oak is a tree"})
    judge_queries(wood, range(NEED))
    assert wood.get()["settings"]["train"] is None
    assert start_due(wood, 10_000) == []
    assert wood.get("training-runs") == {"training_runs": [], "schedule": None}


def test_the_schedule_is_set_with_its_defaults_kept_and_switched_off(wood: CollectionClient) -> None:
    def put(**settings: Any) -> Any:
        return wood.client.put(wood.path, json=settings).json()["settings"]["train"]

    assert put(train={}) == SCHEDULE
    assert put(train={"every_hours": 0.5}) == {"every_hours": 0.5, "min_new_queries": 5}
    assert put(typos=False) == {"every_hours": 0.5, "min_new_queries": 5}
    assert put(train=None) is None
    assert standing(wood) is None
    assert put(train={"every_hours": 48}) == {"every_hours": 48, "min_new_queries": 50}


@pytest.mark.parametrize(
    ("train", "pointer"),
    [
        ({"every_hours": 0}, "/train/every_hours"),
        ({"every_hours": 8761}, "/train/every_hours"),
        ({"every_hours": "often"}, "/train/every_hours"),
        ({"min_new_queries": 0}, "/train/min_new_queries"),
        ({"min_new_queries": 2.5}, "/train/min_new_queries"),
        ({"daily": True}, "/train/daily"),
        (True, "/train"),
    ],
)
def test_a_schedule_out_of_its_limits_is_refused(wood: CollectionClient, train: Any, pointer: str) -> None:
    body = problem(wood.client.put(wood.path, json={"train": train}), 422, "invalid_request")
    assert body["errors"][0]["pointer"] == pointer
    assert wood.get()["settings"]["train"] == SCHEDULE


# --- The start ---


def test_a_due_run_starts_once_and_says_why(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED))
    assert standing(wood) == SCHEDULE | {"new_queries": NEED, "next_at": None, "missing": None}
    with held_runs():
        (run,) = start_due(wood)
        assert len(start_due(wood, 48)) == 1, "while a run goes on, no second run starts"
        assert (run["started_by"], run["promote"]) == ("schedule", "auto")
        assert run["trigger"] == {"new_queries": NEED, "hours_since_last_run": None}
        assert "trigger" not in run["data"]
        assert "A training run has not ended" in standing(wood)["missing"]
        refused = wood.client.post(f"{wood.path}/training-runs", json={})
        problem(refused, 409, "training_already_running")
        cancel(wood, run["id"])


def test_feedback_on_a_document_that_is_posted_again_counts_again(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED - 1))
    wood.act("oak", user_query=f"tree number {NEED}")
    wood.act("oak", user_query="tree number 3")
    wood.client.delete(f"{wood.path}/documents/oak")
    assert standing(wood)["missing"] == f"0 queries have a confirmed document, and a run needs {NEED}."
    found = problem(wood.client.post(f"{wood.path}/training-runs", json={}), 422, "not_enough_feedback")
    assert (found["have"], found["need"]) == (0, NEED)
    wood.add({"id": "oak", "text": "the oak is a tree"})
    assert standing(wood)["missing"] is None
    run = wood.post("training-runs")
    assert (run["data"]["judgments"], run["data"]["events"]) == (NEED - 1, 2)
    end(wood, run["id"])
    wood.act("oak", "thumbs_down", user_query="another tree")
    wood.judge("one more tree", "oak", 0)
    wood.client.delete(f"{wood.path}/documents/oak")
    wood.add({"id": "oak", "text": "the oak is a tree"})
    with runtime_of(wood.client).database.read() as connection:
        assert confirmed_count(connection, wood.id) == NEED


def test_the_next_run_needs_the_hours_and_the_new_feedback(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED))
    asked = wood.post("training-runs")
    end(wood, asked["id"])
    assert (asked["started_by"], asked["trigger"]) == ("request", None)
    begun = datetime.fromisoformat(asked["created_at"])
    assert [one["id"] for one in start_due(wood, 25)] == [asked["id"]], "there is no new feedback"
    assert standing(wood)["new_queries"] == 0
    judge_queries(wood, range(3, 7))
    found = standing(wood)
    assert datetime.fromisoformat(found["next_at"]) == begun + timedelta(hours=24)
    assert found["missing"] == (
        f"The next run begins at {found['next_at']} at the earliest; "
        "4 queries have new feedback, and a scheduled run needs 5."
    )
    judge_queries(wood, range(2, 3))
    assert len(start_due(wood, 23)) == 1, "a day has not passed"
    run, _ = start_due(wood, 25)
    assert run["started_by"] == "schedule"
    assert run["trigger"] == {"new_queries": 5, "hours_since_last_run": pytest.approx(25, abs=0.1)}
    cancel(wood, run["id"])


@pytest.mark.parametrize("status", ["failed", "canceled"])
def test_a_run_that_did_not_read_the_feedback_to_an_end_does_not_use_it_up(wood: CollectionClient, status: str) -> None:
    judge_queries(wood, range(NEED))
    (run,) = start_due(wood)
    end(wood, run["id"])
    assert standing(wood)["new_queries"] == 0
    end(wood, run["id"], status)
    assert standing(wood)["new_queries"] == NEED
    assert len(start_due(wood, 23)) == 1, "then too, a day passes"
    again, _ = start_due(wood, 25)
    cancel(wood, again["id"])


def test_a_run_on_explored_lists_alone_is_passed_over(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED))
    (run,) = start_due(wood)
    end(wood, run["id"])
    assert standing(wood)["new_queries"] == 0
    judge_queries(wood, range(NEED, NEED + 5))
    assert standing(wood)["new_queries"] == 5
    later = wood.post("training-runs", {"promote": "never"})
    end(wood, later["id"])
    assert standing(wood)["new_queries"] == 0
    with runtime_of(wood.client).database.write() as connection:
        update_row(connection, "training_runs", {"id": later["id"]}, {"data": {"objective": "reinforce"}})
    assert runs(wood)[0]["objective"] == "reinforce"
    assert standing(wood)["new_queries"] == 5, "it is as if the last run had not been"


def test_a_run_that_found_too_little_feedback_waits_for_more(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED))
    (run,) = start_due(wood)
    end(wood, run["id"], "failed", "not_enough_feedback")
    assert standing(wood)["new_queries"] == 0
    assert len(start_due(wood, 25)) == 1


def test_query_texts_count_once_and_only_with_feedback_that_training_learns_from(wood: CollectionClient) -> None:
    wood.act("oak", "impression", user_query="seen only")
    wood.act("oak", "stroked", user_query="of the shop's own")
    wood.search("searched only")
    wood.post("events", event(None, "thumbs_up", session_id="s"))
    assert standing(wood)["new_queries"] == 0
    for _ in range(3):
        wood.act("oak", user_query="A tree")
        wood.act("pine", user_query="a  tree")
    wood.judge("a tree", "pine", 0)
    wood.judge("a judged tree", "pine", 0)
    wood.act("oak", "thumbs_down", user_query="no tree")
    assert standing(wood)["new_queries"] == 3


def test_old_feedback_of_a_collection_that_was_imported_later_hides_no_new_feedback(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED))
    (run,) = start_due(wood)
    end(wood, run["id"])
    wood.act("oak", user_query="a clicked tree")
    wood.judge("a judged tree", "oak", 3)
    imported = create(wood.client, f"{wood.name[:90]}-imported")
    imported.add({"id": "owl", "text": "an owl"})
    imported.act("owl", user_query="owl")
    imported.judge("owl", "owl", 3)
    with runtime_of(wood.client).database.write() as connection:  # an import keeps the times of the rows
        for table in ("events", "judgments"):
            statement = f"UPDATE {table} SET created_at = ? WHERE collection_id = ?"
            connection.exec_driver_sql(statement, ("2020-01-01T10:00:00.000Z", imported.id))
    assert standing(wood)["new_queries"] == 2
    judge_queries(wood, range(NEED, NEED + 3))
    assert len(start_due(wood, 25)) == 2


def test_feedback_that_was_stored_while_the_clock_was_ahead_hides_no_later_feedback(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED))
    with runtime_of(wood.client).database.write() as connection:
        statement = "UPDATE judgments SET created_at = ? WHERE collection_id = ? AND source = ?"
        connection.exec_driver_sql(statement, ("2999-01-01T10:00:00.000Z", wood.id, "tree number 0"))
    run = wood.post("training-runs")
    assert run["data"]["stored_until"] <= now()
    end(wood, run["id"])
    assert standing(wood)["new_queries"] == 1, "the query of the future is new in each reading"
    judge_queries(wood, range(NEED, NEED + 3))
    assert standing(wood)["new_queries"] == 4


@pytest.mark.parametrize("since", [None, "2026-01-01T10:00:00.000Z"])
def test_new_queries_are_counted_by_the_times_of_the_collection_alone(tmp_path: Path, since: str | None) -> None:
    database, statements = SqliteDatabase(tmp_path / "new.db"), list[str]()
    database.migrate()
    with database.read() as connection:
        sqlite = connection.connection.driver_connection
        assert isinstance(sqlite, sqlite3.Connection)
        sqlite.set_trace_callback(statements.append)
        assert queries_with_feedback_since(connection, 7, since) == 0
        sqlite.set_trace_callback(None)
        plan = [step for *_, step in sqlite.execute(f"EXPLAIN QUERY PLAN {statements[-1]}")]
    for table in ("events", "judgments"):
        (found,) = (step for step in plan if f" {table} " in step)
        index = f"ix_{table}_collection_id_created_at"
        assert found == f"SEARCH {table} USING INDEX {index} (collection_id=? AND created_at>?)"
    database.close()


def test_feedback_that_a_run_has_read_after_its_start_is_in_its_data_and_not_new(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feedback comes between the record of the run and the start of its process."""

    def spawn_later(specification: dict[str, Any], errors: Any) -> Any:
        judge_queries(wood, range(NEED, NEED + 7))
        wood.act("pine", user_query="a clicked tree")
        return spawn(specification, errors)

    judge_queries(wood, range(NEED))
    spawn = child_process._spawn
    monkeypatch.setattr(child_process, "_spawn", spawn_later)
    run = wood.train(budget_seconds=1)
    assert run["status"] == "succeeded"
    assert (run["data"]["judgments"], run["data"]["events"]) == (NEED + 7, 1)
    window = wood.get(f"models/{run['model_version']}")["lineage"]["data"]["window"]
    assert {name: value for name, value in run["data"].items() if name != "champion"} == window
    assert run["created_at"] < window["stored_until"]
    assert standing(wood)["new_queries"] == 0
    judge_queries(wood, range(1))
    assert standing(wood)["new_queries"] == 1


def test_too_few_confirmed_queries_are_named(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED - 1))
    assert standing(wood)["missing"] == f"{NEED - 1} queries have a confirmed document, and a run needs {NEED}."
    assert start_due(wood) == []


def test_no_run_starts_while_documents_have_no_vectors(wood: CollectionClient) -> None:
    judge_queries(wood, range(NEED))
    state = runtime_of(wood.client).collection(wood.name)
    state.without_vectors.add(1)
    try:
        assert start_due(wood) == []
        assert standing(wood)["missing"] == "1 document has no vectors yet."
    finally:
        state.without_vectors.clear()


def test_no_run_starts_under_another_encoder(wood: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    judge_queries(wood, range(NEED))
    with monkeypatch.context() as patch:
        patch.setattr(runtime_of(wood.client).collection(wood.name), "fingerprint", "other")
        assert start_due(wood) == []
        assert standing(wood)["missing"] == "The collection was made with another encoder."
    assert runs(wood) == []


# --- The service ---


def test_a_start_of_the_service_starts_the_runs_that_are_due(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = create(client, "wood")
        wood.add({"id": "oak", "text": "the oak is a tree"})
        judge_queries(wood, range(NEED))
        client.put(wood.path, json={"train": SCHEDULE})
    with opened(tmp_path / "data", keeps_house=True) as client:
        wood = CollectionClient(client, "wood")
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not runs(wood):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (run,) = runs(wood)
        assert run["started_by"] == "schedule"
    with opened(tmp_path / "data") as client:
        wood = CollectionClient(client, "wood")
        assert [one["id"] for one in start_due(wood, 48)] == [run["id"]], "the resumed run goes on alone"
        cancel(wood, run["id"])
        (ended,) = runs(wood)
        assert (ended["started_by"], ended["trigger"]) == ("schedule", run["trigger"])
