"""The limit on the bytes of memory over HTTP and on the command line: what is dropped, said and brought back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.memory.rank import bytes_of
from service.runtime import collection_settings
from service.runtime.collection_repository import collection_row
from service.runtime.loader import memory_keys
from tests.service.client import CollectionClient, create, event, opened, runtime_of
from tests.service.test_memory import days_ago

TREES = ("oak", "pine", "birch", "willow", "maple")


@pytest.fixture(autouse=True)
def kibibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the setting in KiB, so that a limit holds few past queries."""
    monkeypatch.setattr(collection_settings, "MIB", 1024)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limit") / "data"


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with opened(folder) as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A collection in which each of five documents has one past query; the first are the latest."""
    wood = create(client, request.node.name.replace("_", "-")[:100])
    wood.add(*({"id": tree, "text": f"the {tree} is a tree"} for tree in TREES))
    for age, tree in enumerate(TREES):
        wood.act(tree, user_query=f"tall {tree}", timestamp=days_ago(age), client_id=tree)
    return wood


def kibibytes_of(wood: CollectionClient, queries: int) -> int:
    """Return the least setting that holds so many past queries with one click."""
    return -(-queries * bytes_of(wood.get()["encoder"]["dim"], 1) // 1024)


def limit(wood: CollectionClient, queries: int | None) -> dict[str, Any]:
    """Set the limit; return the size of the memory."""
    value = None if queries is None else kibibytes_of(wood, queries)
    answer = wood.client.put(wood.path, json={"memory_max_mb": value})
    assert answer.status_code == 200, answer.text
    size: dict[str, Any] = answer.json()["memory"]
    return size


def remembered(wood: CollectionClient) -> set[str]:
    return {key.query_key for key in runtime_of(wood.client).collection(wood.name).generation.memory.keys}


def queries_of(*trees: str) -> set[str]:
    return {f"tall {tree}" for tree in trees}


def test_a_lower_limit_takes_effect_at_once_and_a_higher_limit_restores_the_ranking_bit_for_bit(
    wood: CollectionClient,
) -> None:
    before = [wood.ranking(f"tall {tree}") for tree in TREES]
    size = limit(wood, 2)
    assert (size["queries"], size["dropped"]) == (2, 3)
    assert size["bytes"] <= size["max_bytes"] == 1024 * kibibytes_of(wood, 2)
    assert remembered(wood) == queries_of("oak", "pine")
    assert wood.ranking("tall maple") != before[-1]
    assert wood.ranking("tall oak")[0] == before[0][0]
    assert wood.get()["counts"]["keys"]["query"] == 5, "the log keeps all"
    assert limit(wood, None) == {"queries": 5, "bytes": 5 * size["bytes"] // 2, "max_bytes": None, "dropped": 0}
    assert [wood.ranking(f"tall {tree}") for tree in TREES] == before


def test_a_new_click_takes_the_place_of_the_stalest_and_gives_it_back_when_it_is_deleted(
    wood: CollectionClient,
) -> None:
    limit(wood, 2)
    before = wood.ranking("tall pine")
    wood.act("maple", user_query="red leaves", client_id="ada")
    assert remembered(wood) == {"tall oak", "red leaves"}
    wood.post("events/delete", {"client_id": "ada"})
    assert remembered(wood) == queries_of("oak", "pine")
    assert wood.ranking("tall pine") == before


def test_a_rating_of_four_brings_a_dropped_past_query_back_and_keeps_it(wood: CollectionClient) -> None:
    limit(wood, 2)
    wood.judge("tall maple", "willow", 4)
    assert "tall maple" in remembered(wood)
    assert wood.ids("tall maple")[0] == "willow"
    for number in range(4):
        wood.act("birch", user_query=f"new query {number}")
    assert "tall maple" in remembered(wood)
    wood.judge("tall maple", "willow", None)
    assert "tall maple" not in remembered(wood)


def test_replaced_and_deleted_documents_keep_and_lose_dropped_past_queries(wood: CollectionClient) -> None:
    limit(wood, 2)
    wood.add({"id": "maple", "text": "the maple is another tree"})
    wood.client.delete(f"{wood.path}/documents/willow")
    assert wood.get()["memory"]["dropped"] == 2
    limit(wood, None)
    assert remembered(wood) == queries_of("oak", "pine", "birch", "maple")
    rows = {key.row for key in runtime_of(wood.client).collection(wood.name).generation.memory.keys}
    assert rows <= set(runtime_of(wood.client).collection(wood.name).generation.rows.tolist())


def test_a_training_run_reads_the_memory_that_serves(wood: CollectionClient) -> None:
    limit(wood, 3)
    runtime = runtime_of(wood.client)
    with runtime.database.read() as connection:
        read = memory_keys(connection, collection_row(connection, wood.id))
    assert {key.query_key for key in read} == remembered(wood) == queries_of("oak", "pine", "birch")


def test_a_restart_keeps_the_same_past_queries(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = CollectionClient(client)
        wood.add(*({"id": tree, "text": f"the {tree} is a tree"} for tree in TREES))
        wood.post("events", [event(tree, user_query=f"tall {tree}", timestamp=days_ago(1)) for tree in TREES])
        wood.act("oak", user_query="tall oak", client_id="ada")
        limit(wood, 3)
        before, size = remembered(wood), wood.get()["memory"]
        assert (len(before), size["dropped"]) == (2, 3), "two clicks take more room than one"
    with opened(tmp_path / "data") as client:
        wood = CollectionClient(client)
        assert (remembered(wood), wood.get()["memory"]) == (before, size)
        limit(wood, None)
        assert len(remembered(wood)) == 5


def test_another_half_life_changes_which_past_queries_stay(wood: CollectionClient) -> None:
    wood.act("maple", user_query="tall maple", client_id="ada", timestamp=days_ago(5))
    limit(wood, 2)
    assert "tall maple" in remembered(wood)
    wood.client.put(wood.path, json={"memory_half_life_days": 1})
    assert remembered(wood) == queries_of("oak", "pine")


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", 1_048_577])
def test_an_invalid_limit_is_refused(client: TestClient, value: Any) -> None:
    answer = client.put("/v1/collections/default", json={"memory_max_mb": value})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/memory_max_mb")


def test_the_default_limit_holds_four_hundred_thousand_past_queries_with_five_clicks() -> None:
    settings = collection_settings.CollectionSettings()
    assert settings.memory_max_mb is not None
    assert settings.memory_max_mb * 2**20 >= 400_000 * bytes_of(384, 5)
