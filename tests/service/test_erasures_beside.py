"""Erasures beside other work: snapshots, and collections whose deletion goes on."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient

from service.erasures import actions, receipts
from service.exports import importing
from service.operations.housekeeping import Housekeeping
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import delete_collection, mark_deleted
from service.runtime.first_start import start_anew
from service.runtime.jobs import Progress
from service.runtime.model_repository import insert_model
from service.runtime.runtime import Runtime
from service.snapshots import moving
from service.storage.database import Database
from tests.service.client import CollectionClient, create, ended, event, good, opened, problem, runtime_of

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


def test_a_collection_that_is_deleted_while_its_rows_are_about_to_be_erased_has_none_left(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_training = actions._without_training

    @contextmanager
    def deleted(runtime: Runtime, state: CollectionState) -> Iterator[list[str]]:
        with without_training(runtime, state) as canceled:
            with runtime.database.write() as connection:  # as an import does that replaces the collection
                delete_collection(connection, state.id)
            yield canceled

    monkeypatch.setattr(actions, "_without_training", deleted)
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    assert (task["status"], task["result"]["erased"]["impressions"]) == ("succeeded", 0)
    assert texts(runtime_of(client)) == set()


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


def erase(client: TestClient) -> None:
    CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))


def test_events_that_are_not_stored_because_a_search_was_erased_are_stored_when_they_are_repeated(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken, encoder = CollectionClient(client), runtime_of(client).encoder
    spoken.add({"id": "wire", "text": "copper wire"})
    wanted = event("wire", user_query="wire", query_id=spoken.search("wire", client_id=BOB)["query_id"])
    runtime_of(client).forget_queries()
    encode, texts_encoded = encoder.encode_query, []

    def fail_after_an_erasure(text: str) -> Any:
        texts_encoded.append(text)
        if len(texts_encoded) == 1:
            Context().run(erase, client)  # as another request
        if len(texts_encoded) == 2:
            raise OSError("a fault")
        return encode(text)

    monkeypatch.setattr(encoder, "encode_query", fail_after_an_erasure)
    address, once = f"{spoken.path}/events", {"Idempotency-Key": "one"}
    statuses = [client.post(address, json=wanted, headers=once).status_code for _ in range(2)]
    assert statuses == [500, 202]
    with runtime_of(client).database.read() as connection:
        assert connection.exec_driver_sql("SELECT query_text FROM events").scalars().all() == ["wire"]


@pytest.fixture
def held_import(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An accepted import with a search of the subject, which goes on once the event is set."""
    with opened(tmp_path / "other") as other:
        create(other, "imported").search("iron pot", client_id=BOB)
        exported = other.get("/v1/export").content
    go_on, check = threading.Event(), importing.check_export

    def check_later(*arguments: Any) -> Any:
        assert go_on.wait(60)
        return check(*arguments)

    monkeypatch.setattr(importing, "check_export", check_later)
    assert client.post("/v1/import", content=exported).status_code == 202
    yield go_on
    go_on.set()


def test_an_erasure_reaches_what_an_import_adds_that_was_accepted_before(
    client: TestClient, held_import: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = time.sleep

    def go_on(seconds: float) -> None:
        held_import.set()
        sleep(seconds)

    monkeypatch.setattr(actions, "sleep", go_on)
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    assert task["status"] == "succeeded", task
    assert "imported" in task["result"]["collections"]
    assert texts(runtime_of(client)) == set()
    assert runtime_of(client).accepted_imports == set()


def test_an_erasure_during_a_long_import_is_finished_later(
    client: TestClient, held_import: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "IMPORT_SECONDS", 0)
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    assert (task["status"], task["error"]["code"]) == ("failed", "import_in_progress")
    held_import.set()
    ended(lambda: {"status": "processing" if runtime_of(client).accepted_imports else "succeeded"})
    actions.retry_erasures(runtime_of(client))
    assert good(client.get("/v1/erasures"))["erasures"][0]["status"] == "done"
    assert texts(runtime_of(client)) == set()


def test_erasures_that_occupy_all_workers_do_not_wait_for_an_import_that_was_accepted_after_them(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "IMPORT_SECONDS", 1)
    exported = client.get("/v1/export").content
    go_on = threading.Event()

    def busy(progress: Progress) -> dict[str, Any]:
        assert go_on.wait(60)
        return {}

    for _ in range(2):
        runtime_of(client).jobs.start("snapshot", None, busy)
    erasures = [good(client.post("/v1/erasures", json={"client": name})) for name in (BOB, "eve")]
    assert client.post("/v1/import", content=exported).status_code == 202
    go_on.set()
    ended_tasks = [CollectionClient(client).ended_task(erasure) for erasure in erasures]
    assert [task["status"] for task in ended_tasks] == ["succeeded", "succeeded"]


def test_an_erasure_that_is_asked_for_while_an_import_is_accepted_does_not_wait_for_it(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "IMPORT_SECONDS", 0)
    exported, runtime = client.get("/v1/export").content, runtime_of(client)
    start, erased = runtime.jobs.start, []

    def start_later(*arguments: Any) -> str:
        erased.append(CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB}))))
        return start(*arguments)

    monkeypatch.setattr(runtime.jobs, "start", start_later)
    task = CollectionClient(client).ended_task(good(client.post("/v1/import", content=exported)))
    assert [one["status"] for one in (*erased, task)] == ["succeeded", "succeeded"]
    assert runtime.accepted_imports == set()


def test_an_event_on_a_search_that_is_erased_meanwhile_does_not_keep_its_text(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken, encoder = CollectionClient(client), runtime_of(client).encoder
    spoken.add({"id": "wire", "text": "copper wire"})
    seen = {"client_id": "eve", "query_id": spoken.search("wire of copper", client_id=BOB)["query_id"]}
    runtime_of(client).forget_queries()
    encode, erased = encoder.encode_query, []

    def erase_first(text: str) -> Any:
        if not erased:
            erased.append(spoken.ended_task(good(client.post("/v1/erasures", json={"client": BOB}))))
        return encode(text)

    monkeypatch.setattr(encoder, "encode_query", erase_first)
    answer = spoken.post("events", [event("wire", **seen), event("wire", **seen, user_query="wire")])
    assert [one["status"] for one in erased] == ["succeeded"]  # and the events were read again
    assert (answer["accepted"], [one["code"] for one in answer["rejected"]]) == (1, ["unknown_query"])
    assert texts(runtime_of(client)) == set()
    with runtime_of(client).database.read() as connection:
        assert connection.exec_driver_sql("SELECT query_text FROM events").scalars().all() == ["wire"]


def test_a_service_that_closes_does_not_wait_for_an_import(
    client: TestClient, held_import: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = runtime_of(client)
    sleeps: list[float] = []

    def close(seconds: float) -> None:
        sleeps.append(seconds)
        assert len(sleeps) == 1, "the erasure goes on waiting"
        monkeypatch.setattr(runtime, "closing", True)

    monkeypatch.setattr(actions, "sleep", close)
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    assert (task["status"], task["error"]["code"]) == ("failed", "import_in_progress")


def test_a_later_attempt_does_not_wait_for_an_import(
    client: TestClient, held_import: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(actions, "IMPORT_SECONDS", 0)
        CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    sleeps: list[float] = []

    def end_import(seconds: float) -> None:
        sleeps.append(seconds)
        held_import.set()

    monkeypatch.setattr(actions, "sleep", end_import)
    actions.retry_erasures(runtime_of(client))
    assert sleeps == []
    assert good(client.get("/v1/erasures"))["erasures"][0]["status"] == "deleting"


def test_a_receipt_names_the_snapshots_of_before_a_judgment_was_replaced(client: TestClient) -> None:
    spoken = CollectionClient(client)
    spoken.add({"id": "pot", "text": "an iron pot"})
    spoken.judge("pot", "pot", 4, BOB)
    spoken.act("pot", user_query="iron", client_id="taken back")
    file = spoken.ended_task(good(client.post("/v1/snapshots")))["result"]["file"]
    time.sleep(0.01)
    spoken.judge("pot", "pot", 3, BOB)
    spoken.post("events/delete", {"client_id": "taken back"})
    for subject in ({"user": BOB}, {"client": "taken back"}):
        task = spoken.ended_task(good(client.post("/v1/erasures", json=subject)))
        assert file.removeprefix("snapshots/") in [one["file"] for one in task["result"]["snapshots"]]


def test_a_receipt_names_the_models_that_were_trained_before_a_judgment_was_replaced(client: TestClient) -> None:
    spoken = CollectionClient(client)
    spoken.add({"id": "pot", "text": "an iron pot"})
    spoken.judge("pot", "pot", 4, BOB)
    trained = {"lineage": {"kind": "trained", "training_run": "run"}, "report": {}, "decision": {}}
    with runtime_of(client).database.write() as connection:
        insert_model(connection, spoken.id, 1, trained)
    time.sleep(0.01)
    spoken.judge("pot", "pot", 3, BOB)
    task = spoken.ended_task(good(client.post("/v1/erasures", json={"user": BOB})))
    assert [one["version"] for one in task["result"]["models"]] == [1]


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    return str(request.getfixturevalue("postgres_server").database(f"erased_{uuid4().hex}"))


def test_events_with_nul_characters_do_not_keep_erasures_from_their_rows(address: str | None, tmp_path: Path) -> None:
    with opened(tmp_path / "data", database=address) as client:
        spoken = CollectionClient(client)
        spoken.add({"id": "pot", "text": "an iron pot"})

        def erased(**subject: str) -> tuple[int, int]:
            task = spoken.ended_task(good(client.post("/v1/erasures", json=subject)))
            assert task["status"] == "succeeded", task
            return task["result"]["erased"]["impressions"], task["result"]["erased"]["events"]

        spoken.act("pot", user_query="iron", client_id="evil", comment="x\0y", nested={"user_id": "anna"})
        users = ["anna", "nul \0 \ufdd0", "\\u0000", 'q"x', "ü"]
        for user in users:
            spoken.act("pot", user_query="iron", user_id=user)
        searched = spoken.search("secret pot", client_id="bob")["query_id"]
        spoken.act("pot", query_id=searched, client_id="evil", comment="\0")  # keeps the text of the search
        spoken.act("pot", query_id=searched, client_id="evil", user_query="secret pot", comment="\0")
        by_user = spoken.search("pot of anna")["query_id"]
        spoken.act("pot", query_id=by_user, user_id="anna", comment="\0")
        spoken.act("pot", query_id=by_user)
        spoken.act("pot", user_query="iron", client_id="c\0l")
        for number in (5, 5.0, 50, True):
            spoken.act("pot", user_query="iron", user_id=number, comment="\0")
        assert [erased(user=user) for user in ("5", "5.0", "50", "true")] == [(0, 1)] * 4
        assert erased(client="bob") == (1, 1)
        assert erased(client="c\0l") == (0, 1)
        assert erased(user="anna") == (1, 3)
        assert [erased(user=user) for user in users[1:]] == [(0, 1)] * 4
        assert erased(user="anna") == (0, 0)
        assert spoken.get()["counts"]["events"] == 2
