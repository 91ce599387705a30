"""Snapshots: made while the service runs, listed, deleted, made by schedule."""

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from index.ranking.checkpoint import head_files
from index.storage.files import sha256_file
from service.app import create_app
from service.runtime.model_registry import promote, register
from service.settings import Settings
from service.snapshots.actions import make_due_snapshot
from service.snapshots.creating import Maker, make_snapshot
from service.snapshots.restoring import restore, verify
from service.snapshots.state import state_hash
from service.snapshots.stored import snapshots_directory
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, ended, good, opened, problem, runtime_of

NIGHT = "which tree is number 7"


def tree(n: int) -> dict[str, Any]:
    return {"id": f"tree-{n}", "title": f"Tree {n}", "text": f"tree number {n}", "metadata": {"n": n}}


def filled(data: Path) -> None:
    """Make a data directory with documents, feedback, a rule, an alias and a trained champion."""
    with opened(data) as client:
        wood = create(client, "wood", filterable=["n"])
        wood.add(*map(tree, range(30)))
        for n in range(30):
            wood.judge(f"which tree has number {n}", f"tree-{n}", 3)
        wood.act("tree-7", user_query="The Lucky Tree", client_id="c")
        wood.search("tree")
        rule = {"query": {"near": "oak"}, "pin": [{"id": "tree-1", "position": 1}]}
        good(client.put(f"{wood.path}/rules/first", json=rule))
        good(client.put("/v1/aliases/forest", json={"collection": "wood"}))
        add_champion(client, "wood")


def add_champion(client: TestClient, name: str) -> None:
    """Register a model with other weights than the untrained head, and promote it."""
    runtime = runtime_of(client)
    state = runtime.collection(name)
    head = state.serving.head.changed(beta=state.serving.head.beta * np.float32(1.25))
    files = head_files(head, {"kind": "trained"})
    with runtime.database.write() as connection:
        register(state, connection, files, 1, {"lineage": {"kind": "trained"}, "report": {}, "decision": {}})
    promote(runtime, state, 1, "by hand")


@contextmanager
def unscheduled(data: Path, **settings: Any) -> Iterator[TestClient]:
    """Yield a client of a service whose schedule runs only when the test says so."""
    app = create_app(Settings(encoder="hashing", data=data, log_level="error", **settings), trains=False)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service with content and a trained model, shared by the tests that do not change it."""
    data = tmp_path_factory.mktemp("snapshots") / "data"
    filled(data)
    with opened(data) as client:
        yield client


def make(client: TestClient) -> dict[str, Any]:
    """Make a snapshot; return the result of its task."""
    task = good(client.post("/v1/snapshots"))
    done = ended(lambda: good(client.get(f"/v1/tasks/{task['id']}")))
    assert done["status"] == "succeeded", done
    return done["result"]  # type: ignore[no-any-return]


def test_a_restored_directory_answers_as_before(client: TestClient, tmp_path: Path) -> None:
    made = make(client)
    data = runtime_of(client).settings.data
    file = data / made["file"]
    assert made == {
        "file": f"snapshots/{file.name}",
        "bytes": file.stat().st_size,
        "sha256": sha256_file(file),
        "documents": 30,
        "damaged_models": [],
    }
    with runtime_of(client).database.read() as connection:
        state = state_hash(connection)
    found = verify(file)
    assert (found["state"], found["documents"], found["sha256"]) == (state.sha256, 30, made["sha256"])
    assert restore(file, tmp_path / "copy")["state"] == state.sha256
    before = CollectionClient(client, "wood").ranking(NIGHT)
    with opened(tmp_path / "copy") as restored:
        assert CollectionClient(restored, "wood").ranking(NIGHT) == before
        assert good(restored.get("/v1/collections/forest"))["champion"] == 1
        with runtime_of(restored).database.read() as connection:
            assert state_hash(connection) == state


@pytest.mark.sqlite
def test_writes_during_the_copy_are_not_in_it_and_do_not_fail(client: TestClient, monkeypatch: Any) -> None:
    """The copy has the state of its start. A write between two steps neither waits for it nor starts it again."""
    notes = create(client, "notes")
    steps: list[int] = []

    def write() -> None:
        steps.append(len(steps))
        if len(steps) <= 3:
            notes.add({"id": f"note-{len(steps)}", "text": "a note"})

    monkeypatch.setattr("service.storage.copying.PAGES_PER_STEP", 10)
    monkeypatch.setattr("service.storage.copying.pause", write)
    made = make(client)
    data = runtime_of(client).settings.data
    ((pages,),) = runtime_of(client).database.fetch("PRAGMA page_count", [])
    assert len(steps) <= pages // 10 + 2
    assert notes.get()["counts"]["documents"] == 3
    assert verify(data / made["file"])["documents"] == 30


def test_snapshots_are_listed_and_deleted(client: TestClient) -> None:
    data = runtime_of(client).settings.data
    made = make(client)
    listed = good(client.get("/v1/snapshots"))
    assert (listed["schedule"], listed["last_failure"]) == ({"every_hours": None, "keep": 7}, None)
    (newest,) = [one for one in listed["snapshots"] if one["file"] == made["file"]]
    assert {name: newest[name] for name in ("bytes", "sha256", "documents")} == {
        name: made[name] for name in ("bytes", "sha256", "documents")
    }
    assert "softseek_newest_snapshot_timestamp_seconds 1" in client.get("/metrics").text
    assert stat.S_IMODE((data / made["file"]).stat().st_mode) == 0o600
    assert client.delete(f"/v1/snapshots/{newest['id']}").status_code == 204
    assert not list(data.glob(f"{made['file']}*"))
    problem(client.delete(f"/v1/snapshots/{newest['id']}"), 404, "snapshot_not_found")


@pytest.mark.parametrize("name", ["..%2F..%2Fsoftseek.db", "softseek", "20260920T100000Z-0123456789aB"])
def test_a_snapshot_has_no_other_name_than_an_id(client: TestClient, name: str) -> None:
    assert client.delete(f"/v1/snapshots/{name}").status_code in (404, 422)


def test_one_snapshot_is_made_at_a_time(client: TestClient) -> None:
    with runtime_of(client).snapshot_lock:
        problem(client.post("/v1/snapshots"), 409, "snapshot_in_progress")
    make(client)


def test_a_snapshot_needs_space(client: TestClient, monkeypatch: Any) -> None:
    monkeypatch.setattr("service.snapshots.creating.SPARE_BYTES", 2**60)
    problem(client.post("/v1/snapshots"), 507, "insufficient_storage")


def test_the_number_of_snapshots_is_bounded(client: TestClient, monkeypatch: Any) -> None:
    make(client)
    monkeypatch.setattr("service.snapshots.actions.MAX_SNAPSHOTS", 1)
    problem(client.post("/v1/snapshots"), 409, "too_many_snapshots")


def test_a_damaged_model_does_not_prevent_a_snapshot(tmp_path: Path, client: TestClient) -> None:
    source = runtime_of(client).settings.data
    copy = tmp_path / "copy"
    restore(source / make(client)["file"], copy)
    with closing(sqlite3.connect(copy / "softseek.db")) as connection, connection:
        connection.execute("UPDATE model_files SET body = x'00' WHERE name = 'head.safetensors'")
    with opened(copy) as other:
        made = make(other)
    (model,) = made["damaged_models"]
    assert model.endswith("/1")
    assert verify(copy / made["file"])["damaged_models"] == [model]


def test_a_collection_that_is_deleted_meanwhile_is_whole_in_the_copy(tmp_path: Path, client: TestClient) -> None:
    whole = make(client)
    restore(runtime_of(client).settings.data / whole["file"], tmp_path / "copy")
    with opened(tmp_path / "copy") as other:
        wood = CollectionClient(other, "wood")

        def reached(step: str) -> None:
            if step == "copied":
                wood.ended_task(good(other.delete(wood.path)))

        made = make_snapshot(Maker(runtime_of(other), False, lambda _count: None, reached))
        assert other.get(wood.path).status_code == 404
        assert (made["documents"], made["damaged_models"]) == (whole["documents"], [])
        restore(runtime_of(other).settings.data / made["file"], tmp_path / "again")
    with opened(tmp_path / "again") as restored:
        assert CollectionClient(restored, "wood").get()["champion"] == 1
        assert CollectionClient(restored, "wood").search(NIGHT)["degraded"] == []


def test_the_folder_of_the_first_snapshot_is_synced(tmp_path: Path, monkeypatch: Any) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("service.snapshots.stored.sync_directory", synced.append)
    folder = snapshots_directory(tmp_path)
    assert (synced, folder.stat().st_mode & 0o777) == ([tmp_path], 0o700)


def test_scheduled_snapshots_are_made_when_due_and_the_oldest_deleted(tmp_path: Path) -> None:
    with unscheduled(tmp_path / "data", snapshot_every_hours=2, snapshot_keep=2) as client:
        runtime = runtime_of(client)

        def due(hours: float) -> bool:
            task_id = make_due_snapshot(runtime, datetime.now(UTC) + timedelta(hours=hours))
            if task_id is not None:
                assert ended(lambda: runtime.jobs.show(task_id))["status"] == "succeeded"
            return task_id is not None

        own = make(client)
        assert [due(1.5), due(0.5), due(3), due(5), due(1), due(9)] == [True, False, True, True, False, True]
        listed = good(client.get("/v1/snapshots"))
        assert listed["schedule"] == {"every_hours": 2.0, "keep": 2}
        assert [one["scheduled"] for one in listed["snapshots"]].count(True) == 2
        assert own["file"] in [one["file"] for one in listed["snapshots"]]


def test_a_snapshot_of_a_clock_that_was_ahead_puts_off_no_other_and_hides_no_lack(tmp_path: Path) -> None:
    with unscheduled(tmp_path / "data", snapshot_every_hours=2, snapshot_keep=1) as client:
        runtime = runtime_of(client)
        task_id = make_due_snapshot(runtime)
        result = ended(lambda: runtime.jobs.show(task_id))["result"]
        made = tmp_path / "data" / result["file"]
        year = made.name.removeprefix("softseek-")[:4]
        made.rename(made.with_name(made.name.replace(year, str(int(year) + 9), 1)))
        gauge = "softseek_newest_snapshot_timestamp_seconds"
        assert f"{gauge} 0" in client.get("/metrics").text
        assert make_due_snapshot(runtime, datetime.now(UTC) + timedelta(minutes=30)) is None  # the attempt was just now
        task_id = make_due_snapshot(runtime, datetime.now(UTC) + timedelta(hours=1.5))
        again = ended(lambda: runtime.jobs.show(task_id))["result"]
        listed = good(client.get("/v1/snapshots"))["snapshots"]
        assert [one["file"] for one in listed] == [again["file"]], "the snapshot of the wrong time is the oldest"
        assert f"{gauge} 1" in client.get("/metrics").text


def test_snapshots_that_were_asked_for_do_not_put_off_a_scheduled_one(tmp_path: Path, monkeypatch: Any) -> None:
    with unscheduled(tmp_path / "data", snapshot_every_hours=2) as client:
        runtime = runtime_of(client)
        with monkeypatch.context() as full:
            full.setattr("service.snapshots.creating.SPARE_BYTES", 2**60)
            task_id = make_due_snapshot(runtime)
            assert ended(lambda: runtime.jobs.show(task_id))["status"] == "failed"
        make(client)
        assert make_due_snapshot(runtime, datetime.now(UTC) + timedelta(minutes=30)) is None
        task_id = make_due_snapshot(runtime, datetime.now(UTC) + timedelta(minutes=61))
        assert ended(lambda: runtime.jobs.show(task_id))["status"] == "succeeded"
    with unscheduled(tmp_path / "other", snapshot_every_hours=2) as client:
        make(client)
        task_id = make_due_snapshot(runtime_of(client))
        assert ended(lambda: runtime_of(client).jobs.show(task_id))["status"] == "succeeded"


def test_a_failed_snapshot_that_was_asked_for_puts_off_a_scheduled_one_by_an_hour(
    tmp_path: Path, monkeypatch: Any
) -> None:
    with unscheduled(tmp_path / "data", snapshot_every_hours=2) as client:
        with monkeypatch.context() as failing:
            failing.setattr("service.snapshots.actions.make_snapshot", lambda _maker: 1 // 0)
            task = good(client.post("/v1/snapshots"))
            assert ended(lambda: good(client.get(f"/v1/tasks/{task['id']}")))["status"] == "failed"
        assert make_due_snapshot(runtime_of(client), datetime.now(UTC) + timedelta(minutes=59)) is None
        assert make_due_snapshot(runtime_of(client), datetime.now(UTC) + timedelta(minutes=61)) is not None


def test_the_list_says_why_the_last_snapshot_failed(tmp_path: Path, monkeypatch: Any) -> None:
    with unscheduled(tmp_path / "data", snapshot_every_hours=2) as client:
        runtime = runtime_of(client)
        monkeypatch.setattr("service.snapshots.creating.SPARE_BYTES", 2**60)
        later = datetime.now(UTC) + timedelta(hours=3)
        task_id = make_due_snapshot(runtime, later)
        assert ended(lambda: runtime.jobs.show(task_id))["status"] == "failed"
        failure = good(client.get("/v1/snapshots"))["last_failure"]
        assert (failure["code"], "MiB" in failure["detail"]) == ("insufficient_storage", True)
        assert make_due_snapshot(runtime, datetime.now(UTC) + timedelta(minutes=30)) is None
        monkeypatch.undo()
        make(client)
        assert good(client.get("/v1/snapshots"))["last_failure"] is None


@pytest.mark.sqlite
def test_a_canceled_snapshot_leaves_nothing(client: TestClient, monkeypatch: Any) -> None:
    runtime = runtime_of(client)
    before = sorted(os.listdir(runtime.settings.data / "snapshots"))
    begun, canceled = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        canceled.wait(DEADLINE_SECONDS)

    monkeypatch.setattr("service.storage.copying.pause", wait)
    task = good(client.post("/v1/snapshots"))
    assert begun.wait(DEADLINE_SECONDS)
    client.post(f"/v1/tasks/{task['id']}/cancel")
    canceled.set()
    assert ended(lambda: good(client.get(f"/v1/tasks/{task['id']}")))["status"] == "canceled"
    assert sorted(os.listdir(runtime.settings.data / "snapshots")) == before
    monkeypatch.undo()
    make(client)
