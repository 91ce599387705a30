"""A collection has further names, and two collections exchange their names at once."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Connection

from service.storage.checked_rows import is_sound, stored_rows
from tests.service.authorised import Keys, bearer
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, good, opened, problem, runtime_of

SWAP = "/v1/collections/swap"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A service with the collections `old` and `new`, each with a document that names it."""
    with opened(tmp_path / "data") as client:
        for name in ("old", "new"):
            create(client, name).add({"id": f"document-{name}", "text": f"the {name} text"})
        yield client


def point(client: TestClient, alias: str, collection: str) -> Any:
    return client.put(f"/v1/aliases/{alias}", json={"collection": collection})


def found(client: TestClient, name: str) -> list[str]:
    return CollectionClient(client, name).ids("text")


def test_an_alias_works_wherever_a_collection_does(client: TestClient) -> None:
    assert point(client, "shop", "old").status_code == 201
    shop = CollectionClient(client, "shop")
    shop.add({"id": "b", "text": "another text"})
    shop.act("b", user_query="another")
    assert sorted(shop.ids("text")) == ["b", "document-old"]
    assert shop.get()["name"] == "old"
    assert good(client.put(shop.path, json={"filterable": ["a"]}))["settings"]["filterable"] == ["a"]
    assert CollectionClient(client, "old").get()["counts"]["documents"] == 2
    assert client.get("/", params={"c": "shop"}).status_code == 200


def test_an_alias_is_pointed_at_another_collection_at_once(client: TestClient) -> None:
    point(client, "shop", "old")
    assert point(client, "shop", "new").status_code == 200
    assert found(client, "shop") == ["document-new"]
    assert good(client.get("/v1/aliases/shop"))["collection"] == "new"


def test_aliases_are_listed_and_deleted_and_the_collection_stays(client: TestClient) -> None:
    point(client, "z", "old")
    point(client, "a", "z")
    listed = good(client.get("/v1/aliases"))["aliases"]
    assert [(one["alias"], one["collection"]) for one in listed] == [("a", "old"), ("z", "old")]
    assert client.delete("/v1/aliases/z").status_code == 204
    problem(client.delete("/v1/aliases/z"), 404, "alias_not_found")
    problem(client.get("/v1/aliases/z"), 404, "alias_not_found")
    problem(client.get("/v1/collections/z"), 404, "collection_not_found")
    assert found(client, "a") == found(client, "old") == ["document-old"]


def test_an_alias_of_a_deleted_collection_answers_404_until_it_is_pointed_elsewhere(client: TestClient) -> None:
    point(client, "shop", "old")
    body = problem(client.delete("/v1/collections/shop"), 409, "name_is_alias")
    assert "old" in body["detail"]
    assert found(client, "shop"), "nothing is deleted"
    assert client.delete("/v1/collections/old").status_code == 202
    problem(client.get("/v1/collections/shop"), 404, "collection_not_found")
    problem(client.put("/v1/collections/shop", json={}), 409, "name_is_taken")
    point(client, "shop", "new")
    assert found(client, "shop") == ["document-new"]


def test_an_alias_needs_a_collection_and_a_free_name(client: TestClient) -> None:
    problem(point(client, "shop", "nowhere"), 404, "collection_not_found")
    problem(point(client, "new", "old"), 409, "name_is_taken")
    problem(point(client, "a%20b", "old"), 422, "invalid_request")
    problem(client.put("/v1/aliases/shop", json={}), 422, "invalid_request")
    assert good(client.get("/v1/aliases"))["aliases"] == []


def test_the_default_collection_is_not_deleted_by_an_alias(client: TestClient) -> None:
    point(client, "shop", "default")
    problem(client.delete("/v1/collections/shop"), 409, "name_is_alias")
    problem(client.delete("/v1/collections/default"), 409, "collection_is_default")


def test_two_collections_exchange_their_names(client: TestClient) -> None:
    CollectionClient(client, "old").judge("text", "document-old", 4)
    both = good(client.post(SWAP, json={"a": "old", "b": "new"}))["collections"]
    assert [(one["name"], one["counts"]["judgments"]) for one in both] == [("new", 1), ("old", 0)]
    assert (found(client, "old"), found(client, "new")) == (["document-new"], ["document-old"])
    task = client.post("/v1/collections/old/documents", json={"documents": [{"id": "x", "text": "x"}]}).json()
    assert task["collection"] == "old"


def test_a_task_goes_with_its_collection_so_that_the_key_of_its_new_name_shows_it(client: TestClient) -> None:
    old, new = (
        client.post(f"/v1/collections/{name}/documents", json={"documents": [{"id": "x", "text": "x"}]}).json()["id"]
        for name in ("old", "new")
    )
    keys = Keys.first(client)
    of_old, of_new = (keys.headers("write", collections=[name]) for name in ("old", "new"))

    def statuses() -> list[list[int]]:
        return [
            [client.get(f"/v1/tasks/{task}", headers=key).status_code for task in (old, new)]
            for key in (of_old, of_new)
        ]

    assert statuses() == [[200, 404], [404, 200]]
    good(client.post(SWAP, json={"a": "old", "b": "new"}, headers=bearer(keys.admin)))
    assert statuses() == [[404, 200], [200, 404]]
    problem(client.post(f"/v1/tasks/{old}/cancel", headers=of_old), 404, "task_not_found")
    assert good(client.get(f"/v1/tasks/{old}", headers=of_new))["collection"] == "new"
    with runtime_of(client).database.read() as connection:
        assert all(is_sound("tasks", row) for row in stored_rows(connection, "tasks"))


def test_a_task_of_a_deleted_collection_keeps_the_name_that_another_has_now(client: TestClient) -> None:
    deletion = CollectionClient(client, "old").ended_task(client.delete("/v1/collections/old").json())
    time.sleep(0.002)  # times have milliseconds
    create(client, "old")
    good(client.post(SWAP, json={"a": "old", "b": "new"}))
    assert good(client.get(f"/v1/tasks/{deletion['id']}"))["collection"] == "old"


def test_names_of_collections_and_tasks_stay_if_a_swap_cannot_be_stored(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = runtime_of(client).database
    write = database.write

    @contextmanager
    def failing() -> Iterator[Connection]:
        with write() as connection:
            yield connection
            raise RuntimeError("before the commit")

    with monkeypatch.context() as patch:
        patch.setattr(database, "write", failing)
        assert client.post(SWAP, json={"a": "old", "b": "new"}).status_code == 500
    assert (found(client, "old"), found(client, "new")) == (["document-old"], ["document-new"])
    assert CollectionClient(client, "old").get()["name"] == "old"


def test_an_alias_follows_the_name_and_not_the_documents_of_a_swap(client: TestClient) -> None:
    point(client, "shop", "old")
    good(client.post(SWAP, json={"a": "old", "b": "new"}))
    assert found(client, "shop") == ["document-new"]


def test_the_default_collection_can_be_swapped(client: TestClient) -> None:
    good(client.post(SWAP, json={"a": "default", "b": "new"}))
    assert found(client, "default") == ["document-new"]
    problem(client.delete("/v1/collections/default"), 409, "collection_is_default")


def test_aliases_and_swaps_are_there_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        create(client, "new").add({"id": "a", "text": "text"})
        point(client, "shop", "default")
        good(client.post(SWAP, json={"a": "default", "b": "new"}))
    with opened(tmp_path / "data") as client:
        assert found(client, "shop") == found(client, "default") == ["a"]
        assert found(client, "new") == []


def test_no_request_finds_a_collection_missing_or_twice_during_swaps(client: TestClient) -> None:
    runtime = runtime_of(client)
    seen: set[tuple[int, int]] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            collections = runtime.collections
            seen.add((collections["old"].id, collections["new"].id))

    thread = threading.Thread(target=look)
    thread.start()
    deadline = time.monotonic() + DEADLINE_SECONDS
    for number in range(20):
        while len(seen) < min(number + 1, 2):  # the thread sees both orders, however seldom it runs
            assert time.monotonic() < deadline, seen
        good(client.post(SWAP, json={"a": "old", "b": "new"}))
    ended.set()
    thread.join()
    assert len(seen) == 2
    assert all(first != second for first, second in seen)


def test_a_swap_that_is_not_as_documented_is_refused(client: TestClient) -> None:
    assert problem(client.post(SWAP, json={"a": "old", "b": "old"}), 422, "invalid_request")["errors"]
    problem(client.post(SWAP, json={"a": "old"}), 422, "invalid_request")
    problem(client.post(SWAP, json={"a": "old", "b": "nowhere"}), 404, "collection_not_found")
    assert found(client, "old") == ["document-old"]
