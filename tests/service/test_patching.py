"""A document is changed in part: fields are replaced, metadata is merged, memory and vectors stay."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.documents import indexing
from tests.service.client import CollectionClient, create, good, opened, problem

WHOLE = {
    "id": "a/1",
    "title": "Copying",
    "text": "cp -r duplicates a folder",
    "url": "https://example.org/1",
    "metadata": {"lang": "en", "year": 2020, "tags": ["shell"]},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("patching") / "data") as client:
        yield client


@pytest.fixture
def shelf(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A collection with a document."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    shelf = create(client, name, filterable=["lang", "year"])
    shelf.add(WHOLE, {"id": "b", "text": "rm removes a file"})
    return shelf


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The documents that are encoded from now on."""
    seen: list[Any] = []
    encode = indexing.encode_documents

    def seeing(encoder: Any, documents: Any, *more: Any) -> Any:
        seen.extend(documents)
        return encode(encoder, documents, *more)

    monkeypatch.setattr(indexing, "encode_documents", seeing)
    return seen


def patch(shelf: CollectionClient, body: Any, document_id: str = "a/1") -> Any:
    return shelf.client.patch(f"{shelf.path}/documents/{document_id}", json=body)


def test_metadata_is_merged_by_key_and_null_removes_a_key(shelf: CollectionClient, encoded: list[Any]) -> None:
    changed = good(patch(shelf, {"metadata": {"year": 2021, "tags": None, "new": True}}))
    assert changed == WHOLE | {"metadata": {"lang": "en", "year": 2021, "new": True}}
    assert shelf.get("documents/a/1") == changed
    assert encoded == []


@pytest.mark.parametrize(("stored", "given"), [(1, True), (True, 1), (False, 0), (1, 1.0), (0.0, -0.0)])
def test_a_value_that_is_only_equal_in_python_replaces_the_stored_value(
    shelf: CollectionClient, stored: Any, given: Any
) -> None:
    good(patch(shelf, {"metadata": {"year": stored}}))
    changed = good(patch(shelf, {"metadata": {"year": given}}))
    assert repr(changed["metadata"]["year"]) == repr(given)
    assert repr(shelf.get("documents/a/1")["metadata"]["year"]) == repr(given)


def test_a_change_of_metadata_is_searchable_on_return_with_the_same_ranking(shelf: CollectionClient) -> None:
    before = shelf.ranking("folder")
    good(patch(shelf, {"metadata": {"lang": "de"}}))
    assert shelf.ids("folder", filter='lang = "de"') == ["a/1"]
    assert shelf.ids("folder", filter='lang = "en"') == []
    assert shelf.ranking("folder") == before
    counts = shelf.get()["counts"]
    assert (counts["documents"], counts["pending"], counts["keys"]["passage"]) == (2, 0, 2)


def test_null_removes_title_url_and_all_metadata(shelf: CollectionClient) -> None:
    changed = good(patch(shelf, {"title": None, "url": None, "metadata": None}))
    assert changed == WHOLE | {"title": None, "url": None, "metadata": {}}


def test_a_change_of_text_is_encoded_and_searchable_on_return(shelf: CollectionClient, encoded: list[Any]) -> None:
    good(patch(shelf, {"text": "mv moves a folder", "id": "a/1"}))
    assert [document.id for document in encoded] == ["a/1"]
    assert shelf.ids("moves", mode="words") == ["a/1"]
    assert shelf.ids("duplicates", mode="words") == []
    assert shelf.get("documents/a/1") == WHOLE | {"text": "mv moves a folder"}


@pytest.mark.parametrize("body", [{"metadata": {"year": 1999}}, {"title": "Another"}])
def test_memory_of_the_document_stays(shelf: CollectionClient, body: dict[str, Any]) -> None:
    shelf.act("a/1", user_query="how do I duplicate a directory", client_id="x")
    good(patch(shelf, body))
    (hit,) = [hit for hit in shelf.search("how do I duplicate a directory", explain=True)["hits"] if hit["id"] == "a/1"]
    assert hit["explain"]["parts"]["memory"] > 0
    assert shelf.get()["counts"]["keys"]["query"] == 1


def test_a_change_without_difference_writes_nothing(shelf: CollectionClient) -> None:
    before = shelf.get()["generation"]
    assert good(patch(shelf, {})) == WHOLE
    assert good(patch(shelf, {"metadata": {"lang": "en", "unknown": None}})) == WHOLE
    assert shelf.get()["generation"] == before


def test_a_changed_document_is_there_after_a_restart(tmp_path: Any) -> None:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add(WHOLE)
        good(patch(CollectionClient(client), {"metadata": {"year": 1}}))
        ranking = CollectionClient(client).ranking("folder")
    with opened(tmp_path / "data") as client:
        assert CollectionClient(client).get("documents/a/1")["metadata"]["year"] == 1
        assert CollectionClient(client).ranking("folder") == ranking


def test_simultaneous_changes_of_different_keys_are_all_kept(shelf: CollectionClient) -> None:
    threads = [threading.Thread(target=lambda n=n: good(patch(shelf, {"metadata": {f"key{n}": n}}))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name for name in shelf.get("documents/a/1")["metadata"] if name.startswith("key")} == {
        f"key{n}" for n in range(8)
    }


def test_a_document_that_does_not_exist_is_not_created(shelf: CollectionClient) -> None:
    problem(patch(shelf, {"title": "x"}, "unknown"), 404, "document_not_found")
    problem(shelf.client.patch("/v1/collections/nowhere/documents/a", json={}), 404, "collection_not_found")


@pytest.mark.parametrize(
    "body",
    [{"text": None}, {"unknown": 1}, {"title": 3}, {"metadata": {"a": {"b": 1}}}, {"id": "other"}, [], {"metadata": 1}],
)
def test_a_change_that_is_not_as_documented_is_refused(shelf: CollectionClient, body: Any) -> None:
    problem(patch(shelf, body), 422, "invalid_request")
    assert shelf.get("documents/a/1") == WHOLE


def test_too_much_metadata_after_the_merge_is_refused(shelf: CollectionClient) -> None:
    found = problem(patch(shelf, {"metadata": {f"f{n}": n for n in range(254)}}), 422, "invalid_document")
    assert found["errors"][0]["pointer"] == "/metadata"
    assert shelf.get("documents/a/1") == WHOLE
