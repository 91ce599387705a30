"""Raw queries and events expire; the memory of clicks stays without a person, and has a retention of its own."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.operations.reencoding_repository import delete_anonymous_memory, memory_texts
from service.operations.retention import forget_old_feedback
from service.runtime.collection_repository import collection_row
from service.runtime.feedback_log import gather_feedback
from service.runtime.feedback_repository import confirmed_count
from service.runtime.loader import load_collection, memory_keys
from service.storage.database import rfc3339
from tests.service.client import CollectionClient, create, event, good, opened, problem, runtime_of
from tests.service.test_cli import Run, run

__all__ = ["run"]

NOW = datetime.now(UTC)
QUERY = "which tree is zqxcanary"
TREES = ("oak", "pine", "birch", "willow", "maple")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("retention") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with five documents."""
    wood = create(client, request.node.name.replace("_", "-")[:100], memory_half_life_days=None)
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    return wood


def click(wood: CollectionClient, days: float, tree: str = "oak", **more: Any) -> None:
    """Post a click of so many days ago."""
    wood.post("events", event(tree, user_query=QUERY, **more) | {"timestamp": rfc3339(NOW - timedelta(days=days))})


def expire(wood: CollectionClient, at: datetime = NOW, **settings: Any) -> None:
    """Change the settings and apply the retention."""
    good(wood.client.put(wood.path, json=settings))
    forget_old_feedback(runtime_of(wood.client), at)


def stored(wood: CollectionClient, statement: str) -> list[Any]:
    with runtime_of(wood.client).database.read() as connection:
        return list(connection.exec_driver_sql(statement, (wood.id,)).all())


def test_an_expired_click_stays_in_memory_without_its_event_and_its_text(wood: CollectionClient) -> None:
    before = wood.ranking(QUERY)
    click(wood, 40, client_id="ada", session_id="s-1")
    remembered = wood.ranking(QUERY)
    expire(wood, retention_days=30)
    assert wood.get()["counts"]["events"] == 0
    assert wood.ranking(QUERY) == remembered != before
    day = (NOW - timedelta(days=40)).date().isoformat()
    ((source, event_id, confirmed_on),) = stored(
        wood, "SELECT source, event_id, confirmed_on FROM keys WHERE kind = 3 AND collection_id = ?"
    )
    assert (event_id, confirmed_on) == (None, day)
    assert "zqxcanary" not in source


def test_a_click_of_a_client_whose_clock_is_ahead_expires_by_the_time_when_it_was_stored(
    wood: CollectionClient,
) -> None:
    click(wood, -900_000, client_id="ada")
    remembered = wood.ranking(QUERY)
    expire(wood, NOW + timedelta(days=29), retention_days=30)
    assert wood.get()["counts"]["events"] == 1
    expire(wood, NOW + timedelta(days=31), retention_days=30)
    assert wood.get()["counts"]["events"] == 0
    assert wood.ranking(QUERY) == remembered
    assert wood.get()["counts"]["keys"]["query"] == 1
    click(wood, -900_000, "pine", client_id="ada")
    later = NOW + timedelta(days=32)  # anonymous memory knows days, and midnight may have passed since NOW
    expire(wood, later, retention_days=None, memory_retention_days=30)
    counts = wood.get()["counts"]
    assert (counts["events"], counts["keys"]["query"]) == (1, 0)


def test_the_same_memory_is_there_after_a_start(wood: CollectionClient) -> None:
    for client_id, tree in (("ada", "oak"), ("bob", "oak"), ("cid", "elm"), (None, "pine")):
        if tree != "elm":
            click(wood, 40, tree, **({"client_id": client_id} if client_id else {}))
    expire(wood, retention_days=30)
    runtime = runtime_of(wood.client)
    with runtime.database.read() as connection:
        row = collection_row(connection, wood.id)
    again = load_collection(runtime.database, row, runtime.settings.data)
    present = [(key.query_key, key.row, key.weight) for key in runtime.collection(wood.name).generation.memory.keys]
    assert [(key.query_key, key.row, key.weight) for key in again.generation.memory.keys] == present
    assert len(present) == 2
    again.store.close()


def test_a_client_counts_once_before_and_after_its_events_expire(wood: CollectionClient) -> None:
    click(wood, 40, client_id="ada")
    once = wood.ranking(QUERY)
    click(wood, 39, client_id="ada")
    click(wood, 2, client_id="ada")
    assert wood.ranking(QUERY) == once
    expire(wood, retention_days=30)
    assert wood.ranking(QUERY) == once
    expire(wood, NOW + timedelta(days=40), retention_days=30)
    assert wood.get()["counts"]["events"] == 0
    assert wood.ranking(QUERY) == once
    assert wood.get()["counts"]["keys"]["query"] == 1


def test_memory_has_a_retention_of_its_own(wood: CollectionClient) -> None:
    before = wood.ranking(QUERY)
    click(wood, 40, client_id="ada")
    expire(wood, retention_days=30, memory_retention_days=60)
    assert wood.ranking(QUERY) != before
    expire(wood, NOW + timedelta(days=22), retention_days=30)
    assert wood.ranking(QUERY) == before
    assert wood.get()["counts"]["keys"]["query"] == 0


def test_the_retention_of_memory_holds_for_events_that_are_kept(wood: CollectionClient) -> None:
    before = wood.ranking(QUERY)
    click(wood, 40, client_id="ada")
    wood.judge(QUERY, "birch", 4)
    judged = wood.get()["counts"]["keys"]["query"]
    expire(wood, memory_retention_days=30)
    counts = wood.get()["counts"]
    assert (counts["events"], counts["keys"]["query"], judged) == (1, 1, 2)
    wood.judge(QUERY, "birch", None)
    assert wood.ranking(QUERY) == before


def test_anonymous_memory_is_removed_by_query_and_by_document(wood: CollectionClient) -> None:
    for tree in ("oak", "pine"):
        click(wood, 40, tree, client_id="ada")
    expire(wood, retention_days=30)
    wood.client.delete(f"{wood.path}/documents/pine")
    assert wood.get()["counts"]["keys"]["query"] == 1
    click(wood, 1, "birch", client_id="bob")
    assert wood.post("events/delete", {"query": QUERY.upper()}) == {"deleted": 2}
    counts = wood.get()["counts"]
    assert (counts["events"], counts["keys"]["query"]) == (0, 0)


def test_a_deletion_names_one_thing(wood: CollectionClient) -> None:
    for body in ({}, {"query": "a", "client_id": "b"}, {"query": ""}):
        problem(wood.client.post(f"{wood.path}/events/delete", json=body), 422, "invalid_request")


def test_an_explanation_shows_anonymous_memory_without_a_text(wood: CollectionClient) -> None:
    click(wood, 40, client_id="ada")
    expire(wood, retention_days=30)
    keys = [key for hit in wood.search(QUERY, explain=True)["hits"] for key in hit["explain"]["keys"]]
    (past,) = [key for key in keys if key["kind"] == "query"]
    assert (past["query"], past["from"], past["query_id"], past["feedback"]) == (None, "anonymous", None, [])


def test_training_reads_anonymous_memory_as_memory_and_not_as_examples(wood: CollectionClient) -> None:
    click(wood, 40, client_id="ada")
    expire(wood, retention_days=30)
    with runtime_of(wood.client).database.read() as connection:
        assert gather_feedback(connection, wood.id) == []
        assert confirmed_count(connection, wood.id) == 0
        assert len(memory_keys(connection, collection_row(connection, wood.id))) == 1


def test_another_encoder_drops_anonymous_memory(wood: CollectionClient) -> None:
    click(wood, 40, client_id="ada")
    click(wood, 1, "pine", client_id="ada")
    expire(wood, retention_days=30)
    with runtime_of(wood.client).database.write() as connection:
        assert list(memory_texts(connection, wood.id).values()) == [QUERY]
        delete_anonymous_memory(connection, wood.id)
    assert wood.get()["counts"]["keys"]["query"] == 1


def test_expired_impressions_no_longer_bring_a_document_to_the_top(wood: CollectionClient) -> None:
    """Three clients clicked; then the impressions expire, and with them what brought the document to the top."""
    for client_id in ("ada", "bob", "cid"):
        found = wood.search(QUERY, client_id=client_id)
        wood.act("willow", query_id=found["query_id"], client_id=client_id)
    assert wood.ids(QUERY)[0] == "willow"
    state = runtime_of(wood.client).collection(wood.name)
    assert [key.exact for key in state.generation.memory.keys] == [3.0]
    with runtime_of(wood.client).database.write() as connection:
        past = rfc3339(NOW - timedelta(days=31))
        connection.exec_driver_sql("UPDATE queries SET created_at = ? WHERE collection_id = ?", (past, wood.id))
    expire(wood, retention_days=30)
    assert [key.exact for key in state.generation.memory.keys] == [0.0]


def test_the_answer_and_the_command_say_how_long_raw_queries_are_kept(
    client: TestClient, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = good(client.put("/v1/collections/new", json={}))["settings"]
    assert (made["retention_days"], made["memory_retention_days"]) == (None, None)
    problem(client.put("/v1/collections/new", json={"memory_retention_days": 0}), 422, "invalid_request")
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    data = ("--data", tmp_path / "data")
    told = run("collections", "set", "shop", *data).out
    assert "Raw queries and events are kept until they are erased" in told
    assert "memory of clicks is kept without a limit" in told
    options = ("--retention-days", 30, "--memory-retention-days", 365)
    told = run("collections", "set", "shop", *options, *data).out
    assert "Raw queries and events are kept 30 days; memory of clicks is kept 365 days." in told
    settings = json.loads(run("collections", "show", "shop", "--json", *data).out)["settings"]
    assert (settings["retention_days"], settings["memory_retention_days"]) == (30, 365)
