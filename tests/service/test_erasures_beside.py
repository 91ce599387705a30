"""Erasures beside other work: snapshots, and collections whose deletion goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.erasures import actions, receipts
from service.operations.housekeeping import Housekeeping
from service.runtime.collection_repository import mark_deleted
from service.runtime.first_start import start_anew
from service.snapshots import moving
from service.storage.database import Database
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of

BOB = "canary-bob"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).search("copper wire", client_id=BOB)
        yield client


def test_no_snapshot_is_made_from_the_deletion_to_the_end_of_the_scrub(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    scrub = type(runtime_of(client).database).scrub

    def while_scrubbed(database: Database) -> None:
        problem(client.post("/v1/snapshots"), 409, "snapshot_in_progress")
        scrub(database)

    monkeypatch.setattr(type(runtime_of(client).database), "scrub", while_scrubbed)
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    assert task["status"] == "succeeded", task
    assert not runtime_of(client).snapshot_lock.locked()


def test_an_erasure_during_a_snapshot_deletes_nothing_and_is_finished_later(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "SNAPSHOT_SECONDS", 0.01)
    runtime = runtime_of(client)
    with runtime.snapshot_lock:
        task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
        assert (task["status"], task["error"]["code"]) == ("failed", "snapshot_in_progress")
        actions.retry_erasures(runtime)  # waits for no lock
    assert good(client.get("/v1/erasures"))["erasures"][0]["status"] == "deleting"
    Housekeeping(runtime, hourly={"erasures": actions.retry_erasures}).stop()
    (receipt,) = good(client.get("/v1/erasures"))["erasures"]
    assert (receipt["status"], receipt["erased"]["impressions"]) == ("done", 1)


def test_a_collection_whose_deletion_goes_on_is_erased_too(client: TestClient) -> None:
    other = create(client, "other")
    other.search("iron pot", client_id=BOB)
    runtime = runtime_of(client)
    runtime.impressions.flush()
    with runtime.database.write() as connection:  # as the deletion does before its task
        mark_deleted(connection, other.id)
    runtime.collections.pop("other")
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    assert (task["result"]["erased"]["impressions"], task["result"]["collections"]) == (2, ["default"])
    with runtime.database.read() as connection:
        assert not connection.exec_driver_sql("SELECT * FROM queries").fetchall()


def test_an_erasure_is_refused_while_another_process_keeps_copies_of_the_log(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = runtime_of(client)
    changed = runtime.settings.model_copy(update={"external_checkpoints": True})
    monkeypatch.setattr(runtime, "settings", changed)
    problem(client.post("/v1/erasures", json={"client": BOB}), 409, "external_checkpoints")
    assert good(client.get("/v1/erasures")) == {"erasures": []}


def test_a_receipt_names_what_was_set_aside(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "indexes").mkdir(parents=True)
    (data / "indexes" / "words").write_bytes(b"earlier")
    folder = start_anew(data)
    (data / moving.DATABASE_FILE).write_bytes(b"another database")
    moved = moving._set_aside(data)
    assert folder is not None
    with opened(data) as client:
        task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
        receipt = good(client.get("/v1/erasures"))["erasures"][0]
    assert [(one["file"], one["bytes"]) for one in receipt["set_aside"]] == [(moved.name, 16), (folder.name, 7)]
    assert task["result"] == receipt
    assert receipt["sha256"] == receipts.checksum(receipt)
    assert moved.read_bytes() == b"another database"
