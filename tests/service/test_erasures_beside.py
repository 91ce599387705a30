"""Erasures beside other work: snapshots, and collections whose deletion goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

from service.erasures import actions, receipts
from service.operations.housekeeping import Housekeeping
from service.runtime.collection_repository import mark_deleted
from service.runtime.first_start import start_anew
from service.runtime.runtime import Runtime
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


def swap_while_it_waits(client: TestClient, monkeypatch: pytest.MonkeyPatch, **wanted: str) -> dict[str, Any]:
    """Ask for an erasure, swap `shop` with a new collection before it begins, and return its receipt."""
    monkeypatch.setattr(actions, "SNAPSHOT_SECONDS", 0.01)
    create(client, "shop").search("iron pot", client_id=BOB)
    runtime = runtime_of(client)
    with runtime.snapshot_lock:
        CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB, **wanted})))
        create(client, "shop-new").search("iron pan", client_id=BOB)
        good(client.post("/v1/collections/swap", json={"a": "shop", "b": "shop-new"}))
    (waiting,) = good(client.get("/v1/erasures"))["erasures"]
    actions.retry_erasures(runtime)
    (receipt,) = good(client.get("/v1/erasures"))["erasures"]
    assert (waiting["status"], receipt["status"]) == ("deleting", "done")
    assert waiting.keys() == receipt.keys() - {"sha256"}
    assert receipt["sha256"] == receipts.checksum(receipt)
    return cast(dict[str, Any], receipt)


def texts(runtime: Runtime) -> set[str]:
    with runtime.database.read() as connection:
        return set(connection.exec_driver_sql("SELECT text FROM queries").scalars())


def test_an_erasure_that_waits_finishes_on_the_collection_that_it_found(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = swap_while_it_waits(client, monkeypatch, collection="shop")
    assert (receipt["collections"], receipt["erased"]["impressions"]) == (["shop"], 1)
    assert texts(runtime_of(client)) == {"copper wire", "iron pan"}


def test_an_erasure_of_all_collections_that_waits_reaches_a_collection_that_was_swapped_in(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = swap_while_it_waits(client, monkeypatch)
    assert (receipt["collections"], receipt["erased"]["impressions"]) == (["default", "shop", "shop-new"], 3)
    assert texts(runtime_of(client)) == set()


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
