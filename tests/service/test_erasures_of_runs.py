"""Erasures while training runs go on, whose staging folders have texts of the log."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.erasures import actions
from service.runtime.training_supervisor import Child
from service.training import child_process
from tests.service.client import CollectionClient, create, ended, good, opened, runtime_of

BOB, RATER = "canary-bob", "canary-rater"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


@pytest.fixture
def run_id(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A training run of `shop` that does not end by itself, begun after a search of the subject."""
    begun: list[Child] = []

    def sleeping(*_: Any) -> Child:
        begun.append(Popen(["sleep", "60"], stdin=PIPE, stdout=PIPE))
        return begun[0]

    monkeypatch.setattr(child_process, "_spawn", sleeping)
    shop = create(client, "shop")
    shop.add({"id": "pot", "text": "an iron pot"})
    shop.act("pot", user_query="pot", client_id=BOB)
    shop.judge("pot", "pot", 4, RATER)
    run = shop.post("training-runs", {"learn_from": "documents"})
    ended(lambda: {"status": "succeeded" if begun else "processing"})
    yield run["id"]
    begun[0].kill()


def test_a_run_that_has_read_rows_that_were_deleted_since_is_canceled(client: TestClient, run_id: str) -> None:
    shop = CollectionClient(client, "shop")

    def erase() -> Any:
        return shop.ended_task(good(client.post("/v1/erasures", json={"client": BOB, "collection": "shop"})))["result"]

    shop.post("events/delete", {"client_id": BOB})
    assert erase()["canceled_training_runs"] == [run_id]
    assert shop.ended_run(run_id)["status"] == "canceled"
    assert list(runtime_of(client).staging.iterdir()) == []


def test_a_run_is_not_canceled_for_a_subject_without_rows(client: TestClient, run_id: str) -> None:
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": "eve"})))
    assert task["result"]["canceled_training_runs"] == []
    assert (runtime_of(client).staging / run_id).is_dir()


def test_a_run_that_has_read_a_judgment_that_was_deleted_since_is_canceled(client: TestClient, run_id: str) -> None:
    shop = CollectionClient(client, "shop")
    assert client.delete(f"{shop.path}/documents/pot").status_code == 204  # its judgment is in memory no more
    shop.judge("pot", "pot", None, RATER)
    erased = shop.ended_task(good(client.post("/v1/erasures", json={"user": RATER})))["result"]
    assert erased["canceled_training_runs"] == [run_id]


def test_an_erasure_goes_on_where_its_collection_is_deleted_before_the_run_is_canceled(
    client: TestClient, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel = actions.cancel

    def cancel_later(*arguments: Any) -> Any:
        CollectionClient(client).ended_task(good(client.delete("/v1/collections/shop")))
        return cancel(*arguments)

    monkeypatch.setattr(actions, "cancel", cancel_later)
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    assert (task["status"], task["result"]["canceled_training_runs"]) == ("succeeded", [run_id])


def test_an_erasure_ends_after_the_run_of_a_deleted_collection(client: TestClient, run_id: str) -> None:
    good(client.delete("/v1/collections/shop"))
    task = CollectionClient(client).ended_task(good(client.post("/v1/erasures", json={"client": BOB})))
    assert task["status"] == "succeeded"
    assert list(runtime_of(client).staging.iterdir()) == []
