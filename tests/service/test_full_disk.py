"""A full disk: requests say so, nothing is half done, and the service starts, searches and reads."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tantivy
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

import service.documents.routes
from index.generation.store import GenerationStore
from index.storage.full_disk import is_full
from service.documents.indexing import resume_interrupted
from service.operations.housekeeping import heal_indexes
from service.runtime.jobs import NO_SPACE
from service.snapshots.stored import stored_snapshots
from service.storage.database import Database, DatabaseUnreachable
from service.storage.sqlite_database import SqliteDatabase
from service.training.child import error_of
from tests.service.client import DEFAULT, CollectionClient, ended, opened, problem, runtime_of

LONG = "copper " * 20_000
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"}, {"id": "b", "text": "iron pot"})
        yield client


def limit(database: Database, pages: int) -> None:
    """Let the database grow to this many pages at most. Fewer than it has: it does not grow."""
    with database.write() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")


@contextmanager
def full(client: TestClient) -> Iterator[None]:
    """Let no page be added to the database."""
    database = runtime_of(client).database
    limit(database, 1)
    try:
        yield
    finally:
        limit(database, 1_000_000)


def refuse(*_args: Any, **_more: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.sqlite
def test_a_write_to_a_full_database_is_a_507_and_changes_nothing(client: TestClient) -> None:
    with full(client):
        problem(client.put(f"{DEFAULT}/documents/c", json={"text": LONG}), 507, "insufficient_storage")
        problem(
            client.post(f"{DEFAULT}/documents", json={"documents": [{"id": "c", "text": LONG}]}),
            507,
            "insufficient_storage",
        )
        assert CollectionClient(client).ids("copper") == ["a", "b"]
    assert client.get(f"{DEFAULT}/documents/c").status_code == 404
    assert client.put(f"{DEFAULT}/documents/c", json={"text": LONG}).status_code == 201


@pytest.mark.sqlite
def test_a_refused_act_that_cannot_be_recorded_keeps_its_answer(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without_space:
        without_space.setattr(SqliteDatabase, "write", refuse)
        problem(client.put("/v1/aliases/a", json={"collection": "missing"}), 404, "collection_not_found")
        problem(client.put("/v1/aliases/a", json={"collection": "default"}), 507, "insufficient_storage")
    assert client.get("/v1/audit").json()["acts"] == []


def test_a_collection_whose_word_index_finds_no_space_is_a_507(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_index(*_: Any, **__: Any) -> Any:
        raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")

    with monkeypatch.context() as without_space:
        without_space.setattr(tantivy, "Index", refuse_index)
        problem(client.put("/v1/collections/fresh", json={}), 507, "insufficient_storage")
    acts = [(one["act"], one["status"]) for one in client.get("/v1/audit").json()["acts"]]
    assert acts == [("set_collection", 507)]
    problem(client.get("/v1/collections/fresh"), 404, "collection_not_found")
    assert client.put("/v1/collections/fresh", json={}).status_code == 201


@pytest.mark.parametrize("place", ["encode_documents", "write_documents"])
def test_stored_documents_that_a_full_disk_keeps_from_the_index_are_a_507(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    tin, batch = {"text": "tin"}, {"documents": [{"id": "d", "text": "tin"}]}
    with monkeypatch.context() as without_space:
        without_space.setattr(service.documents.routes.indexing, place, refuse)
        answers = [
            client.put(f"{DEFAULT}/documents/c", json=tin),
            client.post(f"{DEFAULT}/documents?wait=60", json=batch),
            client.patch(f"{DEFAULT}/documents/a", json=tin),
        ]
        for answer in answers:
            assert "are stored" in problem(answer, 507, "insufficient_storage")["detail"]
        started = [
            client.post(f"{DEFAULT}/documents", json={"documents": [{"id": "e", "text": "tin"}]}),
            client.post(f"{DEFAULT}/documents/import", content=b'{"id": "f", "text": "tin"}'),
        ]
        for answer in started:
            task = CollectionClient(client).ended_task(answer.json())
            assert (task["status"], task["error"]["code"]) == ("failed", "insufficient_storage")
            assert "are stored" in task["error"]["detail"]
    assert client.get(f"{DEFAULT}/documents/d").json()["text"] == "tin"
    assert client.put(f"{DEFAULT}/documents/c", json=tin).status_code == 200  # the document is stored


@pytest.mark.parametrize("error", [FULL, DatabaseUnreachable("the database does not answer")])
def test_accepted_documents_are_made_searchable_once_the_service_can(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse_documents(*_: Any) -> None:
        raise error

    shop, resumed = CollectionClient(client), resumptions(monkeypatch)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(service.documents.routes.indexing, "write_documents", refuse_documents)
        assert client.put(f"{DEFAULT}/documents/c", json={"text": "a tin box"}).status_code in (503, 507)
        batch = client.post(f"{DEFAULT}/documents", json={"documents": [{"id": "d", "text": "a tin can"}]})
        assert shop.ended_task(batch.json())["status"] == "failed"
        resume_interrupted(runtime_of(client))
        assert shop.ended_task({"id": resumed[0]})["status"] == "failed"
    assert shop.get()["counts"]["pending"] == 2
    with monkeypatch.context() as interrupted:
        interrupted.setattr(service.documents.routes.indexing, "resume_collection", refuse)
        with pytest.raises(OSError, match="No space"):
            resume_interrupted(runtime_of(client))
    resume_interrupted(runtime_of(client))
    shop.until_indexed()
    assert sorted(shop.ids("tin")[:2]) == ["c", "d"]
    assert shop.ended_task({"id": resumed[1]})["status"] == "succeeded"
    resume_interrupted(runtime_of(client))
    assert len(resumed) == 2, "nothing is left to resume"


def test_documents_with_a_defect_are_not_tried_again_and_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("a defect")

    resumed = resumptions(monkeypatch)
    monkeypatch.setattr(service.documents.routes.indexing, "write_documents", fail)
    assert client.put(f"{DEFAULT}/documents/c", json={"text": "a tin box"}).status_code == 500
    resume_interrupted(runtime_of(client))
    assert resumed == []


def resumptions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that gets the ids of the tasks of resumed documents."""
    found: list[str] = []
    start = service.documents.routes.indexing.start_indexing

    def started(*arguments: Any) -> None:
        found.append(start(*arguments))

    monkeypatch.setattr(service.documents.routes.indexing, "start_indexing", started)
    return found


def test_a_task_that_a_full_disk_ends_says_so(client: TestClient) -> None:
    jobs = runtime_of(client).jobs
    with capture_logs() as log:
        task_id = jobs.start("evaluation", None, refuse)
        error = ended(lambda: jobs.show(task_id))["error"]
    assert error == {"code": "insufficient_storage", "detail": NO_SPACE}
    assert [(line["log_level"], "exc_info" in line) for line in log if line["event"] == "task_failed"] == [
        ("warning", False)
    ]


@pytest.mark.parametrize("full", ["service.snapshots.actions.make_snapshot", "service.runtime.jobs.Progress.expect"])
def test_a_snapshot_that_a_full_disk_ends_says_that_none_was_made(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    monkeypatch.setattr(full, refuse)
    error = CollectionClient(client).ended_task(client.post("/v1/snapshots").json())["error"]
    assert error == {"code": "insufficient_storage", "detail": "the disk is full: no snapshot was made"}


def test_a_training_run_that_a_full_disk_ends_says_so(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = CollectionClient(client)
    monkeypatch.setattr("service.training.follow.write_atomically", refuse)
    run = collection.post("training-runs", {"learn_from": "documents"})
    assert collection.ended_run(run["id"])["error"]["code"] == "insufficient_storage"
    events = client.get(f"{DEFAULT}/training-runs/{run['id']}/stream").text
    assert events.startswith("event: end")
    assert '"code":"insufficient_storage"' in events


def test_the_training_process_tells_a_full_disk_from_a_defect() -> None:
    assert (error_of(FULL) or {})["code"] == "insufficient_storage"
    assert error_of(ValueError("a defect")) is None


def test_an_upload_without_space_is_a_507(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.documents.routes.spooling.tempfile, "mkstemp", refuse)
    answer = client.post(f"{DEFAULT}/documents/import", content=b'{"id": "c", "text": "x"}')
    problem(answer, 507, "insufficient_storage")


def test_a_snapshot_is_deleted_on_a_full_disk(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    CollectionClient(client).ended_task(client.post("/v1/snapshots").json())
    data = runtime_of(client).settings.data
    (stored,) = stored_snapshots(data)
    write = SqliteDatabase.write

    def refuse_while_it_exists(database: Database) -> Any:
        return refuse() if stored.path.exists() else write(database)

    with monkeypatch.context() as without_space:
        without_space.setattr(SqliteDatabase, "write", refuse_while_it_exists)
        assert client.delete(f"/v1/snapshots/{stored.id}").status_code == 204
    assert stored_snapshots(data) == []
    (act,) = client.get("/v1/audit", params={"limit": 1}).json()["acts"]
    assert (act["act"], act["status"]) == ("delete_snapshot", 204)


def test_a_collection_is_created_whole_or_not_at_all(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = set((runtime_of(client).settings.data / "indexes").iterdir())
    with monkeypatch.context() as without_space:
        without_space.setattr(GenerationStore, "__init__", refuse)
        problem(client.put("/v1/collections/new", json={}), 507, "insufficient_storage")
    assert client.get("/v1/collections/new").status_code == 404
    with monkeypatch.context() as without_space:
        without_space.setattr(GenerationStore, "apply", refuse)
        problem(client.put("/v1/collections/new", json={}), 507, "insufficient_storage")
    assert set((runtime_of(client).settings.data / "indexes").iterdir()) == folders
    assert client.put("/v1/collections/new", json={}).status_code == 201
    CollectionClient(client, "new").add({"id": "a", "text": "copper wire"})


@pytest.mark.parametrize(
    "failure", [FULL, ValueError("An index writer was killed")], ids=["named", "by the word index"]
)
@pytest.mark.sqlite
def test_a_service_on_a_full_disk_starts_searches_and_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"}, {"id": "b", "text": "iron pot"})
    for manifest in data.glob("indexes/*/manifest.json"):
        manifest.unlink()  # as after a kill: the index must be rebuilt
    original_apply, original_write = GenerationStore.apply, SqliteDatabase.write

    def apply(store: GenerationStore, *args: Any, **more: Any) -> Any:
        if store._directory.is_relative_to(data):
            raise failure
        return original_apply(store, *args, **more)

    with monkeypatch.context() as without_space:
        without_space.setattr(GenerationStore, "apply", apply)
        without_space.setattr(SqliteDatabase, "write", refuse)
        with opened(data) as client:
            found = CollectionClient(client).search("copper", log=False)
            assert [hit["id"] for hit in found["hits"]] == ["a", "b"]
            assert found["degraded"] == ["index_behind"]
            assert client.get(f"{DEFAULT}/documents/a").status_code == 200
            problem(client.put(f"{DEFAULT}/documents/c", json={"text": "tin"}), 507, "insufficient_storage")
            without_space.setattr(GenerationStore, "apply", original_apply)
            without_space.setattr(SqliteDatabase, "write", original_write)
            assert client.put(f"{DEFAULT}/documents/c", json={"text": "tin"}).status_code == 201
            heal_indexes(runtime_of(client))
            found = CollectionClient(client).search("tin", log=False)
            assert (found["hits"][0]["id"], found["degraded"]) == ("c", [])


def test_errors_of_a_full_disk_are_told_from_others() -> None:
    caused = RuntimeError("the index failed")
    caused.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert is_full(caused)
    assert is_full(ValueError("An IO error occurred: 'No space left on device (os error 28)'"))
    assert not is_full(OSError(errno.EIO, "Input/output error"))
    assert not is_full(ValueError("no documents"))


def test_a_put_that_a_deletion_overtakes_is_still_created(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    make_searchable = service.documents.routes.indexing.make_searchable

    def overtaken(runtime: Any, state: Any, sequences: Any) -> None:
        assert client.delete(f"{DEFAULT}/documents/c").status_code == 204
        make_searchable(runtime, state, sequences)

    monkeypatch.setattr(service.documents.routes.indexing, "make_searchable", overtaken)
    answer = client.put(f"{DEFAULT}/documents/c", json={"text": "tin", "metadata": {"year": 2020}})
    assert answer.status_code == 201
    assert answer.json() == {"id": "c", "title": None, "text": "tin", "url": None, "metadata": {"year": 2020}}
    assert client.get(f"{DEFAULT}/documents/c").status_code == 404
