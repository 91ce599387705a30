"""A document is changed in part: fields are replaced, metadata is merged, memory and vectors stay."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from service.documents import indexing, patching
from service.storage.tables import DOCUMENTS, VALUES
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of

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


# --- Many documents at once ---


def patch_all(shelf: CollectionClient, *items: Any) -> Any:
    return shelf.client.patch(f"{shelf.path}/documents", json={"documents": list(items)})


def test_many_documents_are_changed_at_once_without_encoding(shelf: CollectionClient, encoded: list[Any]) -> None:
    shelf.add(*({"id": f"n{n}", "text": f"number {n}", "metadata": {"year": n}} for n in range(300)))
    encoded.clear()
    before, ranking = shelf.get()["generation"], shelf.ranking("number 7")
    answer = patch_all(shelf, *({"id": f"n{n}", "metadata": {"year": n + 1000, "lang": "en"}} for n in range(300)))
    assert answer.status_code == 200
    assert answer.json() == {"items_total": 300, "succeeded": 300, "failed": 0, "unchanged": 0, "errors": []}
    assert encoded == []
    assert shelf.ids("number", filter="year = 1007") == ["n7"]
    assert shelf.ids("number", filter="year = 7") == []
    assert shelf.ranking("number 7") == ranking
    assert shelf.get()["generation"] == before + 300 // patching.PART, "changes are published together"


def test_patches_of_one_document_follow_each_other_and_count_if_they_change_nothing(shelf: CollectionClient) -> None:
    answer = patch_all(
        shelf,
        {"id": "b", "metadata": {"year": 1}},
        {"id": "b", "title": "Removing", "metadata": {"lang": "en"}},
        {"id": "b", "metadata": {"lang": "en"}},
        {"id": "a/1"},
    )
    assert good(answer) == {"items_total": 4, "succeeded": 4, "failed": 0, "unchanged": 2, "errors": []}
    changed = shelf.get("documents/b")
    assert (changed["title"], changed["metadata"]) == ("Removing", {"year": 1, "lang": "en"})
    assert shelf.ids("removing", mode="words") == ["b"]


def test_items_that_are_refused_stop_no_others(shelf: CollectionClient, encoded: list[Any]) -> None:
    items = (
        {"id": "b", "text": "mv moves a folder"},
        {"metadata": {"year": 1}},
        {"id": "unknown", "metadata": {"year": 1}},
        {"id": "a/1", "metadata": {"year": {"inner": 1}}},
        {"id": "a/1", "colour": "red"},
        {"id": "a/1", "metadata": {f"field {n}": n for n in range(254)}},
        7,
        {"id": "a/1", "metadata": {"year": 3}},
    )
    answer = patch_all(shelf, *items)
    assert answer.status_code == 207
    body = answer.json()
    assert (body["succeeded"], body["failed"], body["unchanged"]) == (2, 6, 0)
    assert [(one["index"], one["id"], one["status"], one["code"]) for one in body["errors"]] == [
        (1, None, 422, "invalid_document"),
        (2, "unknown", 404, "document_not_found"),
        (3, "a/1", 422, "invalid_document"),
        (4, "a/1", 422, "invalid_document"),
        (5, "a/1", 422, "invalid_document"),
        (6, None, 422, "invalid_document"),
    ]
    assert body["errors"][0]["detail"] == "id: is required"
    assert all(one["detail"] for one in body["errors"])
    assert [document.id for document in encoded] == ["b"]
    assert shelf.ids("moves", mode="words") == ["b"]
    assert shelf.get("documents/a/1")["metadata"]["year"] == 3


def test_a_damaged_document_is_refused_and_one_without_sound_vectors_is_encoded_again(
    shelf: CollectionClient, encoded: list[Any]
) -> None:
    shelf.add({"id": "c", "text": "cat shows a file"}, {"id": "d", "text": "df shows the space"})
    encoded.clear()
    with runtime_of(shelf.client).database.write() as connection:
        connection.execute(update(DOCUMENTS).where(DOCUMENTS.c.id == "c").values(text="cut"))
        row = select(DOCUMENTS.c.row).where(DOCUMENTS.c.id == "d").scalar_subquery()
        connection.execute(update(VALUES).where(VALUES.c.document_row == row).values(checksum=1))
    answer = patch_all(shelf, *({"id": id, "metadata": {"year": 1}} for id in ("c", "d")))
    (error,) = answer.json()["errors"]
    assert (error["id"], error["status"], error["code"]) == ("c", 409, "document_damaged")
    assert [document.id for document in encoded] == ["d"]
    assert shelf.ids("shows", filter="year = 1") == ["d"]


def test_a_batch_of_patches_meets_its_limits(shelf: CollectionClient) -> None:
    problem(patch_all(shelf, *[{"id": "b"}] * 1001), 422, "too_many_documents")
    problem(patch_all(shelf), 422, "invalid_request")
    problem(shelf.client.patch(f"{shelf.path}/documents", json=[{"id": "b"}]), 422, "invalid_request")
    problem(
        shelf.client.patch("/v1/collections/nowhere/documents", json={"documents": [1]}), 404, "collection_not_found"
    )
