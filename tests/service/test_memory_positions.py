"""A click counts in memory by its position, as the model that serves says: memory changes with the champion."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.memory.grades import grade_of
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import head_files
from service.operations.housekeeping import weigh_memory
from service.runtime import collection
from service.runtime.feedback_repository import document_rows
from service.runtime.model_registry import register
from tests.service.client import CollectionClient, create, good, opened, runtime_of

pytestmark = pytest.mark.usefixtures("forked_training")

QUERY = "which tree is tall"
TREES = [f"tree{n}" for n in range(10)]
STEEP = {"method": "estimated", "curve": [position**-2.0 for position in range(1, 51)]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("positions") / "data"


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[TestClient]:
    """A service whose housekeeping does not run: it would weigh the memory."""
    with opened(data) as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with ten documents."""
    return planted(client, request.node.name.replace("_", "-")[:100])


def planted(client: TestClient, name: str) -> CollectionClient:
    wood = create(client, name)
    wood.add(*({"id": tree, "text": "which tree is tall " + f"word{n} " * n} for n, tree in enumerate(TREES)))
    return wood


def clicked(wood: CollectionClient, rank: int, client_id: str = "ada", query: str = QUERY, **more: Any) -> str:
    """Search, click the document at a rank, and return its id."""
    found = wood.search(query)
    document = str(found["hits"][rank - 1]["id"])
    wood.act(document, query_id=found["query_id"], client_id=client_id, **more)
    return document


def clicks_of(wood: CollectionClient, query: str = QUERY) -> dict[str, float]:
    """Return document -> the clicks that its memory counts for a query."""
    state = runtime_of(wood.client).collection(wood.name)
    with runtime_of(wood.client).database.read() as connection:
        ids = {row: name for name, row in document_rows(connection, state.id).items()}
    return {ids[key.row]: grade_of(key.weight) for key in state.generation.memory.keys if key.query_key == query}


def put_model(wood: CollectionClient, lineage: dict[str, Any]) -> int:
    """Register an untrained head with this lineage; return its version."""
    runtime, state = runtime_of(wood.client), runtime_of(wood.client).collection(wood.name)
    files = head_files(AttentionHead(HeadConfig(state.dim)), lineage)
    version = len(wood.get("models")["models"])
    with state.lock, runtime.database.write() as connection:
        register(state, connection, files, version, {"lineage": lineage, "report": {}, "decision": {}})
    return version


def promote(wood: CollectionClient, version: int) -> None:
    good(wood.client.put(f"{wood.path}/models/aliases/champion", json={"version": version, "force": True}))


def test_a_click_far_down_weighs_more_than_a_click_at_the_top(client: TestClient) -> None:
    worth = {}
    for rank in (1, 9):
        wood = planted(client, f"rank{rank}")
        document = clicked(wood, rank)
        worth[rank] = clicks_of(wood)[document]
    assert worth[1] < 1 < worth[9] < 2


def test_the_position_is_that_of_the_logged_list(client: TestClient) -> None:
    worth = []
    for position in (None, 1, 9):
        wood = planted(client, f"logged{position}")
        document = clicked(wood, 9, position=position)
        worth.append(clicks_of(wood)[document])
    assert worth[0] == worth[1] == worth[2] > 1


def test_without_a_logged_list_the_position_of_the_client_counts(wood: CollectionClient) -> None:
    wood.act("tree1", user_query=QUERY, client_id="ada", position=9)
    wood.act("tree2", user_query="another question", client_id="ada")
    assert clicks_of(wood)["tree1"] > 1
    assert clicks_of(wood, "another question")["tree2"] == pytest.approx(1)


def test_memory_changes_only_on_promotion(wood: CollectionClient) -> None:
    document = clicked(wood, 3)
    before, first = clicks_of(wood)[document], wood.ranking(QUERY)
    clicked(wood, 5, query="something else about a tree")
    version = put_model(wood, {"click_model": STEEP})
    assert clicks_of(wood)[document] == before
    wood.post("events/delete", {"client_id": "client-without-events"})
    promote(wood, version)
    assert clicks_of(wood)[document] > before
    assert wood.ranking(QUERY) != first
    good(wood.client.post(f"{wood.path}/models/aliases/champion/rollback"))
    assert clicks_of(wood)[document] == before


def test_removing_a_click_restores_the_ranking(wood: CollectionClient) -> None:
    for rank in (1, 2, 4):
        clicked(wood, rank, client_id=f"client {rank}")
    promote(wood, put_model(wood, {"click_model": STEEP}))
    before = wood.ranking(QUERY)
    for _ in range(3):
        clicked(wood, 9, client_id="ada")
    assert wood.ranking(QUERY) != before
    wood.post("events/delete", {"client_id": "ada"})
    assert wood.ranking(QUERY) == before


def test_a_model_without_a_click_model_keeps_the_assumed_curve(wood: CollectionClient) -> None:
    document = clicked(wood, 3)
    before = clicks_of(wood)[document]
    promote(wood, put_model(wood, {"kind": "trained"}))
    assert clicks_of(wood)[document] == before


def test_a_large_memory_is_weighed_in_parts_after_a_promotion(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "WEIGHED", 2)
    queries = [f"question {n} about a tree" for n in range(5)]
    documents = {query: clicked(wood, 9, query=query) for query in queries}
    before = {query: clicks_of(wood, query)[documents[query]] for query in queries}
    promote(wood, put_model(wood, {"click_model": STEEP}))
    after = {query: clicks_of(wood, query)[documents[query]] for query in queries}
    assert sum(after[query] != before[query] for query in queries) == 2
    weigh_memory(runtime_of(wood.client))
    weighed = {query: clicks_of(wood, query)[documents[query]] for query in queries}
    assert all(weighed[query] > before[query] for query in queries)
    assert not runtime_of(wood.client).collection(wood.name).weigh_memory()


def test_a_training_run_freezes_its_click_model_in_the_lineage(client: TestClient) -> None:
    birds = create(client, "birds")
    names = [f"bird{n}" for n in range(30)]
    birds.add(*({"id": name, "text": f"the {name} is a bird"} for name in names))
    for name in names:
        birds.act(name, query_id=birds.search(name)["query_id"])
    run = birds.train(budget_seconds=1, promote="never")
    model = birds.get(f"models/{run['model_version']}")["lineage"]["click_model"]
    assert len(model["curve"]) == 50
    assert model["curve"][0] == 1
    assert set(model["attraction"]) == {"noise", "worth", "share"}


def test_a_restart_keeps_the_weights_of_the_champion(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = planted(client, "wood")
        clicked(wood, 3)
        promote(wood, put_model(wood, {"click_model": STEEP}))
        before = wood.ranking(QUERY)
    with opened(tmp_path / "data") as client:
        assert CollectionClient(client, "wood").ranking(QUERY) == before
