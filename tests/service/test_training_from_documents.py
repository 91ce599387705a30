"""Runs that make a model from the documents of a collection alone, on request and by themselves."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.learning.config import FitConfig
from index.ranking.checkpoint import WEIGHTS, head_of_files
from service.training import actions, child_process, from_documents, inputs
from service.training.actions import start_scheduled_runs
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, good, opened, problem, runtime_of
from tests.service.stored_models import stored_model
from tests.service.training_processes import Spawn

pytestmark = pytest.mark.usefixtures("forked_training")

NEED = FitConfig().min_queries
TREES = ("oak", "pine", "ash", "elm", "yew", "fir", "beech", "birch", "larch", "maple")
PLACES = ("river", "hill", "shore", "garden", "road", "field", "valley", "lake", "moor", "fen")


MIN_DOCUMENTS = 40
"""In place of the number of a service, because a run takes longer with more documents."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service in which runs start by themselves only when a test says so."""
    assert from_documents.MIN_DOCUMENTS > MIN_DOCUMENTS
    data = tmp_path_factory.mktemp("documents") / "data"
    with pytest.MonkeyPatch.context() as patch, opened(data) as client:
        patch.setattr(from_documents, "MIN_DOCUMENTS", MIN_DOCUMENTS)
        yield client


def documents(count: int, first: int = 0) -> list[dict[str, Any]]:
    found = []
    for n in range(first, first + count):
        tree, place, other = TREES[n % 10], PLACES[n // 10 % 10], PLACES[(n // 7 + 3) % 10]
        text = f"number {n}: an old {tree} stands by the {place}, and {n % 13} young trees grow near the {other}"
        found.append({"id": f"d{n}", "title": f"{tree} by the {place}", "text": text})
    return found


def forest(client: TestClient, name: str, count: int = 30, **settings: Any) -> CollectionClient:
    """Return a new collection with documents about trees, for which models are made without a request."""
    settings = {"train_from_documents": True} | settings
    wood = create(client, re.sub(r"[^a-z0-9]+", "-", name)[:100], **settings)
    wood.add(*documents(count))
    return wood


def runs(wood: CollectionClient) -> list[Any]:
    found: list[Any] = wood.get("training-runs")["training_runs"]
    return found


def start_due(wood: CollectionClient) -> list[Any]:
    start_scheduled_runs(runtime_of(wood.client))
    return runs(wood)


def rollback(wood: CollectionClient) -> None:
    wood.post("models/aliases/champion/rollback")


def judge_queries(wood: CollectionClient) -> None:
    judgments = [{"query": f"{TREES[n % 10]} {n}", "document_id": f"d{n}", "rating": 3} for n in range(NEED)]
    wood.post("judgments", {"judgments": judgments})


# --- A run on request ---


def test_a_requested_run_makes_a_numbered_model_without_any_feedback(client: TestClient) -> None:
    wood = forest(client, "requested")
    before = wood.ranking("old oak near the river")
    run = wood.train(learn_from="documents")
    assert run["status"] == "succeeded", run["error"]
    assert (run["learn_from"], run["started_by"], run["trigger"]) == ("documents", "request", None)
    assert run["reason"] == "it was requested"
    assert run["data"] == {"documents": 30, "champion": 0}
    assert run["decision"]["promoted"], run["decision"]
    assert {check["name"] for check in run["decision"]["checks"]} == {"spread", "shared_documents", "own_documents"}
    assert wood.get()["champion"] == run["model_version"] == 1
    model = wood.get("models/1")
    assert (model["lineage"]["kind"], model["lineage"]["parent"]) == ("documents", 0)
    assert model["lineage"]["data"]["documents"] == 30
    assert wood.ranking("old oak near the river") != before
    assert wood.ranking("old oak near the river", model=0) == before, "version 0 stays as it is"


def test_its_null_weight_is_calibrated_before_any_feedback(client: TestClient) -> None:
    wood = forest(client, "calibrated")
    assert wood.search("oak leaves")["attention"]["null_calibrated"] is False
    run = wood.train(learn_from="documents")
    assert run["report"]["null_slot"]["calibrated"] is True
    assert wood.search("oak leaves")["attention"]["null_calibrated"] is True
    for mode in ("dense", "words"):
        assert wood.search("oak leaves", mode=mode)["attention"]["null_calibrated"] is False
    assert wood.search("old oak near the riv", prefix="last")["attention"]["null_calibrated"] is False, (
        "the query is not finished"
    )
    assert wood.search("goalkeeper transfer fee")["attention"]["null_weight"] >= 0.5


def test_it_can_be_rolled_back_as_any_model(client: TestClient) -> None:
    wood = forest(client, "rolled-back")
    before = wood.ranking("old oak near the river")
    wood.train(learn_from="documents")
    rollback(wood)
    assert wood.get()["champion"] == 0
    assert wood.ranking("old oak near the river") == before


def test_a_run_that_may_not_promote_leaves_the_champion(client: TestClient) -> None:
    wood = forest(client, "never")
    run = wood.train(learn_from="documents", promote="never")
    assert (run["model_version"], wood.get()["champion"]) == (1, 0)
    assert "promotion was not asked for" in run["decision"]["reasons"]


def test_a_model_trained_on_feedback_is_not_replaced(client: TestClient) -> None:
    wood = forest(client, "trained")
    judge_queries(wood)
    wood.train(promote="never")
    good(client.put(f"{wood.path}/models/aliases/champion", json={"version": 1, "force": True}))
    run = wood.train(learn_from="documents")
    assert (run["model_version"], wood.get()["champion"]) == (2, 1)
    assert "a model trained on feedback serves, and the guard does not compare with it" in run["decision"]["reasons"]


def test_the_same_documents_make_the_same_bits_in_a_forked_and_in_a_started_process(
    client: TestClient, forked_training: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    woods = [forest(client, name) for name in ("bits-one", "bits-other")]
    for wood in woods:
        wood.train(learn_from="documents")
        monkeypatch.setattr(child_process, "_spawn", forked_training)
    data = runtime_of(client).settings.data
    one, other = (stored_model(data, 1, wood.id)[WEIGHTS] for wood in woods)
    assert one == other


def test_a_collection_without_documents_is_refused(client: TestClient) -> None:
    wood = create(client, "no-documents")
    answer = client.post(f"{wood.path}/training-runs", json={"learn_from": "documents"})
    body = problem(answer, 422, "not_enough_documents")
    assert (body["have"], body["need"]) == (0, 1)
    problem(client.post(f"{wood.path}/training-runs", json={"learn_from": "stars"}), 422, "invalid_request")


def test_a_large_collection_is_read_in_part_and_in_the_order_of_rows(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wood = forest(client, "in-part")
    monkeypatch.setattr(inputs, "MAX_DOCUMENTS", 20)
    monkeypatch.setattr(inputs, "MAX_TEXTS", 7)
    database = runtime_of(client).database
    found = inputs.load_inputs(tmp_path / "inputs", database, wood.id, learn_from="documents")
    assert len(found.texts) == 7
    rows = found.generation.rows.tolist()
    assert len(rows) == 20
    assert rows == sorted(rows)
    assert {text.row for text in found.texts} <= set(rows)
    assert found.feedback == []
    assert len(found.generation.memory.rows) == 0
    again = inputs.load_inputs(tmp_path / "inputs", database, wood.id, learn_from="documents")
    assert again.texts == found.texts, "a resumed run reads what the first one read"


# --- Training from feedback ---


def test_training_from_feedback_starts_from_version_0_and_is_compared_with_the_champion(client: TestClient) -> None:
    wood = forest(client, "start")
    plain = forest(client, "plain")
    wood.train(learn_from="documents")
    for one in (wood, plain):
        judge_queries(one)
    run, other = (one.train(promote="never") for one in (wood, plain))
    assert run["status"] == other["status"] == "succeeded", run["error"]
    assert (run["learn_from"], run["data"]["champion"], other["data"]["champion"]) == ("feedback", 1, 0)
    data = runtime_of(client).settings.data
    assert head_of_files(stored_model(data, 1, wood.id)).balances
    assert not head_of_files(stored_model(data, 2, wood.id)).balances
    recipes = [one["report"]["recipe"]["validation_ndcg"] for one in (run, other)]
    assert recipes[0] == recipes[1], "the champion changes no trial"


def test_a_model_of_the_documents_uses_up_no_feedback_of_the_schedule(client: TestClient) -> None:
    wood = forest(client, "schedule", train={"every_hours": 24, "min_new_queries": 5})
    judge_queries(wood)
    wood.train(learn_from="documents")
    standing = wood.get("training-runs")["schedule"]
    assert (standing["new_queries"], standing["next_at"], standing["missing"]) == (NEED, None, None)


# --- A run that starts by itself ---


def test_a_large_enough_collection_gets_its_model_by_itself_and_says_why(client: TestClient) -> None:
    wood = forest(client, "by-itself", MIN_DOCUMENTS)
    (run,) = start_due(wood)
    assert (run["started_by"], run["learn_from"]) == ("documents", "documents")
    assert run["reason"] == f"the collection has {MIN_DOCUMENTS} documents and no model of its own"
    assert wood.ended_run(run["id"])["decision"]["promoted"]
    assert wood.get()["champion"] == 1
    assert len(start_due(wood)) == 1, "the next run waits until the collection has doubled"
    wood.add(*documents(MIN_DOCUMENTS, first=MIN_DOCUMENTS))
    run, _ = start_due(wood)
    assert (
        run["reason"] == f"the collection has {2 * MIN_DOCUMENTS} documents, and had {MIN_DOCUMENTS} at its last run"
        " on documents"
    )
    assert wood.ended_run(run["id"])["status"] == "succeeded"


def test_a_small_collection_and_one_without_the_setting_get_none(client: TestClient) -> None:
    small = forest(client, "small", MIN_DOCUMENTS - 1)
    off = create(client, "off")
    off.add(*documents(MIN_DOCUMENTS))
    assert start_due(small) == start_due(off) == []
    assert off.get()["settings"]["train_from_documents"] is False
    answer = client.put(off.path, json={"train_from_documents": True})
    assert answer.json()["settings"]["train_from_documents"] is True
    (run,) = start_due(off)
    off.ended_run(run["id"])


def test_an_owner_who_went_back_to_version_0_is_not_overruled(client: TestClient) -> None:
    wood = forest(client, "overruled", MIN_DOCUMENTS)
    wood.ended_run(start_due(wood)[0]["id"])
    rollback(wood)
    wood.add(*documents(MIN_DOCUMENTS, first=MIN_DOCUMENTS))
    assert len(start_due(wood)) == 1
    assert wood.get()["champion"] == 0


def test_no_run_starts_while_documents_are_waiting(client: TestClient) -> None:
    wood = forest(client, "waiting", MIN_DOCUMENTS)
    state = runtime_of(client).collection(wood.name)
    state.without_vectors.add(1)
    try:
        assert start_due(wood) == []
    finally:
        state.without_vectors.clear()
    wood.ended_run(start_due(wood)[0]["id"])


def test_a_run_that_started_by_itself_gives_way_to_a_requested_run(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "LOCK_WAIT_SECONDS", DEADLINE_SECONDS)
    wood = forest(client, "gives-way", MIN_DOCUMENTS)
    judge_queries(wood)
    (by_itself,) = start_due(wood)
    asked = wood.post("training-runs", {"promote": "never"})
    assert wood.ended_run(by_itself["id"])["status"] in ("canceled", "succeeded")
    assert wood.ended_run(asked["id"])["status"] == "succeeded"


def test_a_request_without_enough_feedback_leaves_it_alone(client: TestClient) -> None:
    wood = forest(client, "left-alone", MIN_DOCUMENTS)
    (by_itself,) = start_due(wood)
    answer = client.post(f"{wood.path}/training-runs", json={})
    assert answer.status_code in (409, 422)
    assert wood.ended_run(by_itself["id"])["status"] == "succeeded"


@pytest.mark.sqlite
def test_settings_stored_by_an_earlier_release_lack_it(tmp_path: Path) -> None:
    with opened(tmp_path) as client:
        wood = create(client, "earlier")
        with runtime_of(client).database.write() as connection:
            connection.exec_driver_sql(
                "UPDATE collections SET settings = json_remove(settings, '$.train_from_documents')"
            )
    with opened(tmp_path) as client:
        assert CollectionClient(client, wood.name).get()["settings"]["train_from_documents"] is False
