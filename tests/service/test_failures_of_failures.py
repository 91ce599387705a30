"""The log, or the record of an outcome, cannot be written: nothing hangs, and no lock stays taken."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from fastapi.testclient import TestClient

import service.runtime.impressions
import service.runtime.jobs
import service.runtime.repeated_failures
import service.training.follow
from service.app import create_app
from service.http.problems import Problem
from service.operations.housekeeping import Housekeeping
from service.runtime.impressions import ImpressionLog
from service.runtime.jobs import Progress
from service.runtime.log_lines import configure_logging
from service.settings import Settings
from service.training import repository
from service.training.actions import cancel, resume_training
from tests.service.client import DEADLINE_SECONDS, DEFAULT, CollectionClient, ended, good, runtime_of

FULL = OSError(28, "No space left on device")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    # without housekeeping that resumes runs: its first round may come at any moment of a test
    app = create_app(Settings(encoder="hashing", data=tmp_path / "data", log_level="warning"), trains=False)
    with TestClient(app, raise_server_exceptions=False) as client:
        CollectionClient(client).add({"id": "a", "text": "an oak"})
        yield client


class Unwritable:
    """A file of which the other end is closed."""

    def write(self, _: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    def flush(self) -> None:
        raise ValueError("I/O operation on closed file")


class FailingLog:
    """A log that raises at every line."""

    def __getattr__(self, _: str) -> Callable[..., None]:
        def fail(*_: Any, **__: Any) -> None:
            raise BrokenPipeError(32, "Broken pipe")

        return fail


@contextmanager
def unrecorded(monkeypatch: pytest.MonkeyPatch, refuses: Callable[[dict[str, Any]], bool]) -> Iterator[None]:
    """Refuse the changes of tasks for which `refuses` returns true."""
    update = service.runtime.jobs.update_task

    def update_task(connection: Any, task_id: str, **values: Any) -> None:
        if refuses(values):
            raise FULL
        update(connection, task_id, **values)

    with monkeypatch.context() as patched:
        patched.setattr(service.runtime.jobs, "update_task", update_task)
        yield


def test_a_log_that_cannot_be_written_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = structlog.get_config()
    monkeypatch.setattr(sys, "stderr", Unwritable())
    try:
        configure_logging("info")
        structlog.get_logger().error("lost")
    finally:
        structlog.configure(**before)


def test_impressions_that_cannot_even_be_reported_as_lost_hold_up_no_flush(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.runtime.repeated_failures, "log", FailingLog())
    with closing(ImpressionLog(runtime_of(client).database)) as log:
        log.add({"query_id": "of no collection"})
        log.flush()
        log.add({"query_id": "of no collection"})
        log.flush()


def test_a_flush_of_a_log_that_has_ended_raises(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.runtime.impressions, "LOOK_SECONDS", 0.01)
    log = ImpressionLog(runtime_of(client).database)
    log.close()
    with pytest.raises(RuntimeError, match="has ended"):
        log.flush()


def test_a_task_ends_though_neither_its_outcome_nor_its_failure_can_be_written(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = runtime_of(client).jobs

    def fail(_: Progress) -> dict[str, Any]:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(service.runtime.jobs, "log", FailingLog())
    failed = jobs.start("evaluation", None, fail)
    assert ended(lambda: jobs.show(failed))["status"] == "failed"
    with unrecorded(monkeypatch, lambda values: "finished_at" in values):
        task = jobs.start("evaluation", None, fail)
        assert jobs.wait(task, DEADLINE_SECONDS)
        assert jobs.show(task)["error"]["code"] == "internal_error"


def test_a_refused_task_is_logged_without_a_traceback_and_a_fault_with_it(client: TestClient) -> None:
    jobs = runtime_of(client).jobs

    def log_of(error: Exception) -> Any:
        def fail(_: Progress) -> dict[str, Any]:
            raise error

        with structlog.testing.capture_logs() as lines:
            task = jobs.start("evaluation", None, fail)
            assert jobs.wait(task, DEADLINE_SECONDS)
        return [line for line in lines if line["event"] == "task_failed"]

    (refusal,) = log_of(Problem(409, "collection_in_use", "there are contents"))
    assert (refusal["log_level"], refusal["code"], "exc_info" in refusal) == ("warning", "collection_in_use", False)
    (fault,) = log_of(RuntimeError("no such thing"))
    assert (fault["log_level"], fault["exc_info"]) == ("error", True)


def test_a_snapshot_that_cannot_be_shown_as_processing_frees_the_lock_of_snapshots(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = runtime_of(client)
    with unrecorded(monkeypatch, lambda values: values.get("status") == "processing"):
        task = good(client.post("/v1/snapshots"))
        assert CollectionClient(client).ended_task(task)["status"] == "succeeded"
    assert not runtime.snapshot_lock.locked()


def test_an_import_that_cannot_be_shown_as_processing_leaves_no_file(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unrecorded(monkeypatch, lambda values: values.get("status") == "processing"):
        task = good(client.post("/v1/import", content=b"no export\n"))
        assert CollectionClient(client).ended_task(task)["error"]["code"] == "invalid_export"
    assert list(runtime_of(client).imports.iterdir()) == []


@pytest.fixture
def unended(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> str:
    """A training run whose outcome a full disk refuses: it stays `processing`, and no thread follows it."""
    monkeypatch.setattr(service.training.follow, "run_child", lambda *_: (1, None))
    runtime = runtime_of(client)
    with monkeypatch.context() as full:

        def refuse(*_: Any) -> None:
            raise FULL

        full.setattr(repository, "end_run", refuse)
        run_id: str = CollectionClient(client).post("training-runs", {"learn_from": "documents"})["id"]
        for thread in runtime.training.threads:
            thread.join(DEADLINE_SECONDS)
    assert good(client.get(f"{DEFAULT}/training-runs/{run_id}"))["status"] == "processing"
    return run_id


def test_a_run_that_no_thread_follows_can_be_canceled(client: TestClient, unended: str) -> None:
    assert client.post(f"{DEFAULT}/training-runs/{unended}/cancel").status_code == 202
    assert good(client.get(f"{DEFAULT}/training-runs/{unended}"))["status"] == "canceled"
    assert not runtime_of(client).collection("default").training_lock.locked()


def test_housekeeping_resumes_a_run_that_no_thread_follows(client: TestClient, unended: str) -> None:
    Housekeeping(runtime_of(client)).stop()  # after its first round
    run = CollectionClient(client).ended_run(unended)
    assert (run["status"], run["error"]["code"], run["resumptions"]) == ("failed", "training_failed", 1)


def test_a_run_that_is_followed_is_neither_resumed_nor_ended_by_housekeeping(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, going = runtime_of(client), threading.Event()

    def run_until_canceled(*_: Any) -> tuple[int, None]:
        going.wait(DEADLINE_SECONDS)
        return -15, None

    monkeypatch.setattr(service.training.follow, "run_child", run_until_canceled)
    run_id = CollectionClient(client).post("training-runs", {"learn_from": "documents"})["id"]
    resume_training(runtime)
    run = good(client.get(f"{DEFAULT}/training-runs/{run_id}"))
    assert (run["status"], run["resumptions"]) == ("processing", 0)
    cancel(runtime, runtime.collection("default"), run_id)
    going.set()
    assert CollectionClient(client).ended_run(run_id)["status"] == "canceled"
