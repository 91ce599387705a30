"""An import whose task has ended has no later effect; an import that a stop of the service interrupts is resumed."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.documents import imports, indexing, spooling
from service.runtime.jobs import Jobs, Progress
from service.runtime.task_repository import find_task, task_statuses
from tests.service.client import (
    DEADLINE_SECONDS,
    DEFAULT,
    CollectionClient,
    ended,
    good,
    ndjson,
    opened,
    problem,
    runtime_of,
)

ROWS = [{"id": "a", "text": "copper wire"}, {"id": "b", "text": "iron pot"}]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The disk has no place for the index, until the patch is undone."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(imports, "make_searchable", refuse)
        yield patched


def started(client: TestClient) -> Any:
    """Import the rows; return the task."""
    return good(client.post(f"{DEFAULT}/documents/import", content=ndjson(ROWS)))


def failed(client: TestClient) -> Any:
    """Import the rows on a full disk, and delete those that are stored; return the task when its thread has ended."""
    task = CollectionClient(client).ended_task(started(client))
    assert (task["status"], task["error"]["code"]) == ("failed", "insufficient_storage")
    assert runtime_of(client).jobs.wait(task["id"], DEADLINE_SECONDS)
    CollectionClient(client).ended_task(CollectionClient(client).post("documents/delete", {"ids": ["a", "b"]}))
    return task


def files(data: Path) -> list[str]:
    return sorted(path.suffix for path in (data / "imports").iterdir())


def statuses(client: TestClient) -> dict[str, str]:
    with runtime_of(client).database.read() as connection:
        return task_statuses(connection)


def count(client: TestClient) -> tuple[int, int]:
    """Return the numbers of searchable and of pending documents when the newest task has ended."""
    collection = CollectionClient(client)
    collection.ended_task({"id": list(statuses(client))[-1]})
    counts = collection.get()["counts"]
    return counts["documents"], counts["pending"]


def assert_not_resumed(data: Path, before: dict[str, str]) -> None:
    with opened(data) as client:
        assert statuses(client) == before
        assert count(client) == (0, 0)
        assert files(data) == []


def test_a_failed_import_does_not_run_again(data: Path, full: pytest.MonkeyPatch) -> None:
    with opened(data) as client:
        failed(client)
        assert files(data) == []
        full.undo()
        before = statuses(client)
    assert_not_resumed(data, before)


@pytest.mark.parametrize("names_its_task", [True, False], ids=["this version", "an earlier version"])
def test_a_body_that_a_kill_left_after_the_recorded_end_is_deleted_at_the_start(
    data: Path, full: pytest.MonkeyPatch, names_its_task: bool
) -> None:
    full.setattr(spooling.Spooled, "remove", lambda _: None)
    with opened(data) as client:
        failed(client)
        before = statuses(client)
    assert files(data) == [".ndjson", ".parameters", ".taken", ".tasks"]
    if not names_its_task:
        for path in (data / "imports").glob("*.tasks"):
            path.unlink()
    full.undo()
    assert_not_resumed(data, before)


def test_an_end_that_cannot_be_recorded_deletes_the_body_and_is_recorded_then(
    data: Path, full: pytest.MonkeyPatch
) -> None:
    original = Jobs._set

    def refuse_the_end(jobs: Jobs, task_id: str, **values: Any) -> None:
        if values["status"] == "failed":
            raise OSError(errno.ENOSPC, "No space left on device")
        original(jobs, task_id, **values)

    full.setattr(Jobs, "_set", refuse_the_end)
    with opened(data) as client:
        task = failed(client)
        assert files(data) == []
        with runtime_of(client).database.read() as connection:
            assert find_task(connection, task["id"]).status == "failed"  # type: ignore[union-attr]


@pytest.mark.parametrize("lost_note", [False, True], ids=["", "and a task was noted and not committed"])
def test_an_interrupted_import_is_resumed_until_it_ends(
    data: Path, monkeypatch: pytest.MonkeyPatch, lost_note: bool
) -> None:
    def until_the_stop(_runtime: Any, _state: Any, _spooled: Any, progress: Progress, _sequences: Any) -> Any:
        progress._canceled.wait(DEADLINE_SECONDS)
        progress.check()

    with monkeypatch.context() as patched:
        patched.setattr(imports, "_import", until_the_stop)
        with opened(data) as client:
            started(client)
        with opened(data) as client:
            assert next(iter(statuses(client).values())) == "failed"
        (noted,) = (data / "imports").glob("*.tasks")
        assert len(noted.read_text().split()) == 2
    if lost_note:
        noted.write_text(f"{noted.read_text()}\nunknown")
    with opened(data) as client:
        assert count(client) == (2, 0)
        assert runtime_of(client).jobs.wait(list(statuses(client))[-1], DEADLINE_SECONDS)
        assert list(statuses(client).values()) == ["failed", "failed", "succeeded"]
        assert files(data) == []


def until_the_stop(_runtime: Any, _state: Any, _sequences: Any, progress: Progress) -> None:
    """Stand for the work on a batch that lasts until the service stops."""
    progress._canceled.wait(DEADLINE_SECONDS)
    progress.check()


def test_an_interrupted_import_is_resumed_where_its_task_is_the_next_to_be_deleted(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": "a", "text": "iron"}, {"id": "b", "text": "oak"}]
    monkeypatch.setattr(imports, "MAX_BATCH", 1)
    with monkeypatch.context() as patched:
        patched.setattr(imports, "publish_words", until_the_stop)
        with opened(data, max_tasks=10) as client:
            good(client.post(f"{DEFAULT}/documents/import", content=ndjson(rows)))
            ended(lambda: {"status": "succeeded" if ".taken" in files(data) else "processing"})
            for _ in range(9):
                good(client.post(f"{DEFAULT}/documents/import", content=ndjson([{"id": "c", "text": "tin"}])))
    held = threading.Event()
    monkeypatch.setattr(imports, "publish_words", lambda *_: held.wait(DEADLINE_SECONDS))
    monkeypatch.setattr(indexing, "make_searchable", lambda *_: held.wait(DEADLINE_SECONDS))
    with opened(data, max_tasks=10) as client:
        unfinished = [task for task, status in statuses(client).items() if status in ("enqueued", "processing")]
        problem(client.post(f"{DEFAULT}/documents/import", content=ndjson(rows)), 503, "too_many_tasks")
        held.set()
        for task in unfinished:
            runtime_of(client).jobs.wait(task, DEADLINE_SECONDS)
        assert len(unfinished) == 11, "one task for the document that waits, and one for each import"
        assert client.get(f"{DEFAULT}/documents/b").status_code == 200


@pytest.mark.parametrize("keeps_result", [True, False], ids=["this version", "an earlier version"])
def test_a_resumed_import_reports_the_records_of_before_and_is_named_by_the_interrupted_task(
    data: Path, monkeypatch: pytest.MonkeyPatch, keeps_result: bool
) -> None:
    monkeypatch.setattr(imports, "MAX_BATCH", 2)
    rows = [{"id": "a"}, {"id": "b", "text": "iron"}, {"id": "c", "text": "oak"}, {"id": "d", "text": 5}]
    with monkeypatch.context() as patched:
        patched.setattr(imports, "publish_words", until_the_stop)
        with opened(data) as client:
            task = good(client.post(f"{DEFAULT}/documents/import", content=ndjson(rows)))
            ended(lambda: {"status": "succeeded" if ".taken" in files(data) else "processing"})
    if not keeps_result:
        (taken,) = (data / "imports").glob("*.taken")
        taken.write_text("2")
    with opened(data) as client:
        error = good(client.get(f"/v1/tasks/{task['id']}"))["error"]
        successor = list(statuses(client))[-1]
        assert error["code"] == "interrupted"
        assert error["detail"].endswith(f"; the task {successor} goes on with its work")
        result = CollectionClient(client).ended_task({"id": successor})["result"]
        expected = [(1, "a"), (4, "d")] if keeps_result else [(4, "d")]
        assert [(one["line"], one["id"]) for one in result["errors"]] == expected
        counts = (result["items_total"], result["succeeded"], result["failed"])
        assert counts == ((4, 2, 2) if keeps_result else (2, 1, 1))
        for other in statuses(client):  # documents that were pending are indexed by a task of their own
            CollectionClient(client).ended_task({"id": other})
        assert count(client) == (2, 0)
