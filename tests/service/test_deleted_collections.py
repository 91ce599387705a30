"""A request that meets the deletion of its collection, and a change of the language of an empty collection."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.runtime.collection_repository import delete_collection, mark_deleted
from service.runtime.loader import rebuild_index
from service.runtime.search_runtime import SearchRuntime
from tests.service.client import CollectionClient, create, event, opened, problem, runtime_of

WRITES: dict[str, Callable[[TestClient, str], Any]] = {
    "an event": lambda client, path: client.post(f"{path}/events", json=event("a", user_query="oak")),
    "a judgment": lambda client, path: client.post(
        f"{path}/judgments", json={"judgments": [{"query": "oak", "document_id": "a", "rating": 3}]}
    ),
    "a document": lambda client, path: client.put(f"{path}/documents/b", json={"text": "elm"}),
    "documents": lambda client, path: client.post(
        f"{path}/documents", json={"documents": [{"id": "b", "text": "elm"}]}
    ),
    "a deletion": lambda client, path: client.post(f"{path}/documents/delete", json={"ids": ["b"]}),
    "a rule": lambda client, path: client.put(f"{path}/rules/r", json={"query": {"exact": "oak"}, "hide": ["a"]}),
    "synonyms": lambda client, path: client.put(f"{path}/synonyms/s", json={"words": ["oak", "elm"]}),
    "settings": lambda client, path: client.put(path, json={"typos": False}),
    "a change of a document": lambda client, path: client.patch(f"{path}/documents/a", json={"text": "elm"}),
    "a deletion of events": lambda client, path: client.post(f"{path}/events/delete", json={"client_id": "ada"}),
    "a deletion of a rule": lambda client, path: client.delete(f"{path}/rules/r"),
    "a training run": lambda client, path: client.post(f"{path}/training-runs", json={"learn_from": "documents"}),
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


CASES = [(name, is_whole) for name in WRITES for is_whole in (False, True)] + [("a promotion", False)]
WRITES["a promotion"] = lambda client, path: client.put(f"{path}/models/aliases/champion", json={"version": 0})
"""After the deletion has ended, there is no such model."""


@pytest.mark.parametrize(("name", "is_whole"), CASES)
def test_a_write_that_meets_the_deletion_of_its_collection_gets_404(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, name: str, is_whole: bool
) -> None:
    wood = create(client, "wood")
    wood.add({"id": "a", "text": "oak"})
    runtime, find = runtime_of(client), SearchRuntime.find_collection

    def find_and_delete(self: Any, name: str) -> Any:
        """Delete the collection between the moment in which the request finds it and its write."""
        state = find(self, name)
        if state is not None and state.name == "wood":
            with runtime.database.write() as connection:
                (delete_collection if is_whole else mark_deleted)(connection, state.id)
        return state

    with monkeypatch.context() as patched:
        patched.setattr(SearchRuntime, "find_collection", find_and_delete)
        answer = WRITES[name](client, wood.path)
    problem(answer, 404, "collection_not_found")
    runtime.collections.pop("wood").store.close()


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "loaded anew"])
def test_work_that_waited_for_the_end_of_a_collection_makes_no_index(client: TestClient, is_deleted: bool) -> None:
    wood = create(client, "copse")
    wood.add({"id": "a", "text": "oak"})
    runtime = runtime_of(client)
    state = runtime.collection("copse")
    if is_deleted:
        wood.ended_task(wood.client.delete(wood.path).json())
    else:
        runtime.collections.pop("copse")
        state.remove_index()
    for late in (state.heal, state.save, lambda: rebuild_index(runtime.database, state, state.generation)):
        late()
        assert not state.directory.exists()


def test_a_collection_that_has_ended_leaves_its_folder_to_the_next(client: TestClient) -> None:
    wood = create(client, "grove")
    wood.add({"id": "a", "text": "oak"})
    runtime = runtime_of(client)
    state = runtime.collections.pop("grove")
    state.end()
    state.behind = True
    before = {path: path.stat().st_mtime_ns for path in state.directory.rglob("*")}
    for late in (state.heal, state.save, lambda: rebuild_index(runtime.database, state, state.generation)):
        late()
        assert {path: path.stat().st_mtime_ns for path in state.directory.rglob("*")} == before


def test_a_change_of_language_keeps_the_watermark(client: TestClient) -> None:
    empty = create(client, "empty")
    empty.add({"id": "a", "text": "oak"})
    watermark = client.delete(f"{empty.path}/documents/a").headers["X-Softseek-Watermark"]
    changed = client.put(empty.path, json={"language": "german"})
    assert changed.headers["X-Softseek-Watermark"] == watermark
    assert watermark.endswith(":2")
    answer = client.post(f"{empty.path}/search", json={"q": "oak"}, headers={"X-Softseek-Watermark": watermark})
    assert (answer.status_code, answer.json()["generation"]) == (200, 2)
    CollectionClient(client, "empty").add({"id": "b", "text": "Eichen"})
    assert empty.ids("Eiche") == ["b"]
