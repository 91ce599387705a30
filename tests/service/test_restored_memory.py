"""A document that was deleted and posted again has the memory of its judgments and events again."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.memory.query_key import as_query_key
from service.operations import restored_memory
from service.operations import restored_memory_repository as repository
from service.operations.restored_memory import Look, restore_memory
from service.operations.retention import forget_old_feedback
from service.storage.database import rfc3339
from tests.service.client import CollectionClient, create, opened, runtime_of

OAK = {"id": "oak", "text": "something else that stands alone"}
OTHERS = [{"id": f"tree-{at}", "text": f"tree number {at} of the forest"} for at in range(30)]
FOREST = "a tree of the forest"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient) -> CollectionClient:
    """A collection in which the oak is confirmed by a judgment and by clicks, and another tree is disliked."""
    wood = create(client, "wood")
    wood.add(OAK, *OTHERS)
    wood.judge(FOREST, "oak", 4)
    wood.judge("trees", "oak", 0)
    query_id = wood.search("number of the forest", client_id="ada")["query_id"]
    for client_id in ("ada", "bob", "eve"):
        wood.act("oak", user_query="number of the forest", client_id=client_id)
    wood.act(wood.ids("number of the forest")[0], "thumbs_down", query_id=query_id)
    return wood


def memory_of(wood: CollectionClient) -> list[Any]:
    """Return the memory of a collection without the numbers of rows."""
    runtime = runtime_of(wood.client)
    state = runtime.collection(wood.name)
    return sorted((key.query_key, key.weight, key.count) for key in state.generation.memory.keys)


def rankings(wood: CollectionClient) -> list[dict[str, float]]:
    """Return id -> score, best first, of searches for remembered texts and for one near them."""
    texts = (FOREST, "number of the forest", "a tree of a forest")
    hits = [wood.search(text, log=False, limit=40)["hits"] for text in texts]
    return [{hit["id"]: hit["score"] for hit in of} for of in hits]


def deleted_and_posted_again(wood: CollectionClient) -> None:
    wood.client.delete(f"{wood.path}/documents/oak")
    wood.add(OAK)


def test_searches_rank_as_before_the_deletion(wood: CollectionClient) -> None:
    before, memory, looks = rankings(wood), memory_of(wood), dict[int, Look]()
    assert wood.ids(FOREST)[0] == "oak"
    deleted_and_posted_again(wood)
    assert wood.ids(FOREST)[0] != "oak"
    assert memory_of(wood) != memory
    restore_memory(runtime_of(wood.client), looks)
    assert memory_of(wood) == memory != []
    for after, earlier in zip(rankings(wood), before, strict=True):
        assert list(after) == list(earlier)
        assert after == pytest.approx(earlier, rel=1e-4)


def test_memory_is_restored_after_a_start_too(wood: CollectionClient, tmp_path: Path) -> None:
    memory = memory_of(wood)
    wood.client.delete(f"{wood.path}/documents/oak")
    runtime = runtime_of(wood.client)
    restore_memory(runtime, {})
    assert runtime.collection("wood").lacks_memory, "the document may come back"
    runtime.collection("wood").lacks_memory = True  # as after a start
    wood.add(OAK)
    restore_memory(runtime, {})
    assert memory_of(wood) == memory
    assert not runtime.collection("wood").lacks_memory


def test_a_collection_is_looked_at_after_changes_of_documents_alone(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    restored = restored_memory._restored

    def noted(runtime: Any, state: Any, since: str) -> bool | None:
        looked.append(state.name)
        return restored(runtime, state, since)

    monkeypatch.setattr(restored_memory, "_restored", noted)
    monkeypatch.setattr(restored_memory, "REST", 0.0)
    looks: dict[int, Look] = {}

    def round_of_wood() -> bool:
        before = looked.count("wood")
        restore_memory(runtime_of(wood.client), looks)
        return looked.count("wood") > before

    assert round_of_wood(), "after the start"
    wood.add({"id": "elm", "text": "an elm"})
    assert not round_of_wood(), "no memory was deleted"
    wood.client.delete(f"{wood.path}/documents/elm")
    assert not round_of_wood(), "it had no memory"
    wood.client.delete(f"{wood.path}/documents/oak")
    assert round_of_wood()
    assert not round_of_wood(), "no document has changed"
    wood.add({"id": "elm", "text": "an elm"})
    assert round_of_wood(), "the oak may come back"
    wood.add(OAK)
    assert round_of_wood()
    wood.add({"id": "ash", "text": "an ash"})
    assert not round_of_wood(), "nothing is missing any more"
    monkeypatch.setattr(restored_memory, "REST", 1e9)
    deleted_and_posted_again(wood)
    assert round_of_wood()
    deleted_and_posted_again(wood)
    assert not round_of_wood(), "the next look waits for many times as long as the last one took"


@pytest.mark.parametrize("kept_for_longer", [False, True])
def test_a_look_that_ended_early_is_repeated_without_a_change_of_documents(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch, kept_for_longer: bool
) -> None:
    wood.act("oak", user_query="an old click", timestamp=rfc3339(datetime.now(UTC) - timedelta(days=9)))
    runtime, memory, looks = runtime_of(wood.client), memory_of(wood), dict[int, Look]()
    state = runtime.collection("wood")
    if kept_for_longer:
        restore_memory(runtime, looks)
        wood.client.put(wood.path, json={"memory_retention_days": 5})
        forget_old_feedback(runtime)
        wood.client.put(wood.path, json={"memory_retention_days": None})
    else:
        deleted_and_posted_again(wood)
    monkeypatch.setattr(restored_memory, "REST", 0.0)
    early = memory_of(wood)
    with monkeypatch.context() as patched:
        patched.setattr(restored_memory, "_remember", lambda *_: False)
        restore_memory(runtime, looks)
    with monkeypatch.context() as patched:
        patched.setattr(state, "fingerprint", "another")
        restore_memory(runtime, looks)
    assert memory_of(wood) == early != memory
    restore_memory(runtime, looks)
    assert memory_of(wood) == memory


def test_memory_whose_retention_is_over_does_not_come_back(wood: CollectionClient) -> None:
    old = rfc3339(datetime.now(UTC) - timedelta(days=9))
    wood.act("oak", user_query="an old click", timestamp=old)
    wood.client.put(wood.path, json={"memory_retention_days": 5})
    forget_old_feedback(runtime_of(wood.client))
    memory = memory_of(wood)
    assert "an old click" not in {query_key for query_key, _, _ in memory}
    deleted_and_posted_again(wood)
    restore_memory(runtime_of(wood.client), {})
    assert memory_of(wood) == memory


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("days", [None, 20])
def test_memory_that_is_kept_for_longer_comes_back(wood: CollectionClient, days: int | None, started: bool) -> None:
    for text, age in (("an old click", 9), ("an older click", 30)):
        wood.act("oak", user_query=text, timestamp=rfc3339(datetime.now(UTC) - timedelta(days=age)))
    runtime, memory, looks = runtime_of(wood.client), memory_of(wood), dict[int, Look]()
    restore_memory(runtime, looks)
    wood.client.put(wood.path, json={"memory_retention_days": 5})
    forget_old_feedback(runtime)
    if started:  # nothing is left to forget
        state, looks = runtime.collection("wood"), {}
        state.lacks_memory, state.remembered_since = True, ""
        forget_old_feedback(runtime)
    restore_memory(runtime, looks)
    assert not {"an old click", "an older click"} & {query_key for query_key, _, _ in memory_of(wood)}
    wood.client.put(wood.path, json={"memory_retention_days": days})
    forget_old_feedback(runtime)
    restore_memory(runtime, looks)
    assert memory_of(wood) == [key for key in memory if days is None or key[0] != "an older click"]


def test_deleted_feedback_does_not_come_back(wood: CollectionClient) -> None:
    wood.client.delete(f"{wood.path}/documents/oak")
    wood.judge(FOREST, "oak", None)
    wood.post("events/delete", {"client_id": "ada"})
    wood.add(OAK)
    restore_memory(runtime_of(wood.client), {})
    memory = memory_of(wood)
    assert (as_query_key("number of the forest"), 2) in {(query_key, count) for query_key, _, count in memory}
    assert wood.ids(FOREST)[0] != "oak"


def test_much_feedback_is_restored_in_parts(wood: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored_memory, "BATCH", 2)
    for at in range(7):
        wood.judge(f"query {at}", "oak", 3)
    memory = memory_of(wood)
    deleted_and_posted_again(wood)
    unremembered, places = repository.unremembered, []

    def noted(*call: Any) -> Any:
        places.append(call[-1])
        return unremembered(*call)

    monkeypatch.setattr(repository, "unremembered", noted)
    restore_memory(runtime_of(wood.client), {})
    assert memory_of(wood) == memory
    assert len(set(places)) > 6, "each part begins where the one before it ended"


def test_another_encoder_restores_nothing(wood: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted_and_posted_again(wood)
    memory, runtime = memory_of(wood), runtime_of(wood.client)
    with monkeypatch.context() as patched:
        patched.setattr(runtime.collection("wood"), "fingerprint", "another")
        restore_memory(runtime, {})
    assert memory_of(wood) == memory
    restore_memory(runtime, {})
    assert memory_of(wood) != memory


def test_a_deletion_during_a_look_is_looked_at_in_the_next(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored, memory, runtime = restored_memory._restored, memory_of(wood), runtime_of(wood.client)
    looks: dict[int, Look] = {}

    def deleted_meanwhile(*arguments: Any) -> bool | None:
        more = restored(*arguments)
        deleted_and_posted_again(wood)
        return more

    with monkeypatch.context() as patched:
        patched.setattr(restored_memory, "_restored", deleted_meanwhile)
        restore_memory(runtime, looks)
    looks[runtime.collection("wood").id] = Look(-1, 0)  # the time of rest is over
    restore_memory(runtime, looks)
    assert memory_of(wood) == memory
