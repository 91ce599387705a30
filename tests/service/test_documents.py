"""Documents and collections are stored, listed, replaced, imported and deleted; tasks are awaited and canceled."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy
from fastapi.testclient import TestClient

from service.collections import actions as collections
from service.collections.schemas import CollectionIn
from service.documents import indexing, repository
from service.http.requests import MAX_BODY_BYTES
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, good, ndjson, opened, problem, runtime_of
from tests.service.held_encoding import HeldEncoding

TASK = {"id", "type", "collection", "status", "progress", "result", "error", "created_at", "finished_at"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("documents") / "data") as client:
        yield client


@pytest.fixture
def shelf(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new empty collection."""
    return create(client, request.node.name.replace("_", "-")[:100], filterable=["year"])


def book(n: int) -> dict[str, Any]:
    return {"id": f"book-{n}", "text": f"volume {n} of the annals", "metadata": {"year": 2000 + n}}


def test_a_document_is_returned_as_it_was_posted(shelf: CollectionClient) -> None:
    whole = {
        "id": "a",
        "title": "Titel",
        "text": "Größe 😀\n\ttabs",
        "url": "https://example.org/?a=b",
        "metadata": {"year": 2020, "ratio": 0.1, "new": True, "tags": ["x", ""], "größe": "é"},
    }
    shelf.add(whole)
    assert shelf.get("documents/a") == whole
    (hit,) = shelf.search("tabs")["hits"]
    assert {name: hit[name] for name in whole} == whole


def test_posting_an_existing_id_replaces_the_whole_document(shelf: CollectionClient) -> None:
    shelf.add(book(1) | {"title": "Annals"})
    again = shelf.add({"id": "book-1", "text": "a pamphlet"})
    assert again["items"] == [{"index": 0, "id": "book-1", "status": 200, "code": None}]
    assert shelf.get("documents/book-1") == {
        "id": "book-1",
        "title": None,
        "text": "a pamphlet",
        "url": None,
        "metadata": {},
    }
    assert shelf.get()["counts"]["documents"] == 1
    assert shelf.ids("annals", mode="words") == []


def test_of_duplicate_ids_in_a_batch_the_last_is_stored(shelf: CollectionClient) -> None:
    added = shelf.add(book(1), book(2), book(1) | {"text": "the last version"})
    assert [item["status"] for item in added["items"]] == [201, 201, 200]
    assert shelf.get("documents/book-1")["text"] == "the last version"
    assert shelf.get()["counts"]["documents"] == 2


def test_the_status_of_a_put_distinguishes_creation_and_replacement(shelf: CollectionClient) -> None:
    address = f"{shelf.path}/documents/a"
    assert [shelf.client.put(address, json={"text": text}).status_code for text in ("one", "two")] == [201, 200]
    assert shelf.ids("two", mode="words") == ["a"]
    assert shelf.ids("one", mode="words") == []


def test_documents_are_listed_by_page_in_the_order_of_arrival(shelf: CollectionClient) -> None:
    shelf.add(*map(book, range(7)))
    shelf.add(book(3) | {"title": "the third"})
    assert list(listed(shelf, limit=3)) == [f"book-{n}" for n in range(7)]


def listed(shelf: CollectionClient, limit: int) -> Iterator[str]:
    """Yield the ids of all documents, page by page."""
    cursor = ""
    while cursor is not None:
        page = shelf.get("documents", limit=limit, cursor=cursor)
        assert len(page["documents"]) <= limit
        yield from (document["id"] for document in page["documents"])
        cursor = page["cursor"]


def test_a_page_of_long_texts_ends_early(shelf: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.documents.actions.PART", 3)
    monkeypatch.setattr("service.documents.actions.MAX_CHARACTERS", 50)
    shelf.add(*({"id": f"long-{n}", "text": "x" * 30} for n in range(7)))
    page = shelf.get("documents", limit=100)
    assert [document["id"] for document in page["documents"]] == ["long-0", "long-1"]
    assert list(listed(shelf, limit=100)) == list(listed(shelf, limit=1)) == [f"long-{n}" for n in range(7)]


def test_hits_with_too_much_text_are_refused(shelf: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.search.hits.PART", 3)
    monkeypatch.setattr("service.search.hits.MAX_CHARACTERS", 100)
    shelf.add(*({"id": f"long-{n}", "text": "tree " * 6} for n in range(7)))
    asked = {"q": "tree", "limit": 7}
    answer = problem(shelf.client.post(f"{shelf.path}/search", json=asked), 422, "answer_too_large")
    assert "the texts of 4 hits have more than 100 characters" in answer["detail"]
    problem(
        shelf.client.post(f"{shelf.path}/recommend", json={"like": ["long-0"], "limit": 7}), 422, "answer_too_large"
    )
    assert len(shelf.search("tree", limit=7, fields=["title"])["hits"]) == 7
    assert len(shelf.search("tree", limit=3)["hits"]) == 3


def test_documents_that_change_while_they_are_listed_are_listed_once(shelf: CollectionClient) -> None:
    shelf.add(*map(book, range(5)))
    shelf.add({"id": "\N{GREEK SMALL LETTER ALPHA}/\x00%", "text": "last"})
    seen = []
    for id in listed(shelf, limit=2):
        seen.append(id)
        assert len(seen) <= 6
        shelf.add({"id": id, "text": f"changed {id}"})
        shelf.add(book(4) | {"title": f"after {id}"})  # a document that is not listed yet
    assert seen == [f"book-{n}" for n in range(5)] + ["\N{GREEK SMALL LETTER ALPHA}/\x00%"]


@pytest.mark.sqlite
def test_a_page_is_read_from_the_index_without_sorting(shelf: CollectionClient) -> None:
    statements: list[tuple[str, Any]] = []
    database = runtime_of(shelf.client).database
    with database.read() as connection:
        sqlalchemy.event.listen(connection, "before_cursor_execute", lambda *call: statements.append(call[2:4]))
        repository.documents_arrived_after(connection, 1, "2026-09-20T10:00:00.000Z", "a", 20)
        statement, parameters = statements[-1]
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    (step,) = [row[-1] for row in plan]
    assert "ix_documents_collection_id_created_at_id (collection_id=? AND (created_at,id)>" in step


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_a_blank_filter_selects_everything_in_a_search_and_is_refused_in_a_deletion(
    client: TestClient, blank: str
) -> None:
    shelf = CollectionClient(client)
    shelf.add(book(1), book(2))
    assert shelf.ids("annals", filter=blank) == shelf.ids("annals")
    answer = client.post(f"{shelf.path}/documents/delete", json={"filter": blank})
    found = problem(answer, 422, "invalid_filter")
    assert found["errors"][0]["pointer"] == "/filter"
    assert len(shelf.ids("annals")) == 2
    shelf.post("documents/delete", {"ids": ["book-1", "book-2"]})


def test_documents_are_deleted_by_id(shelf: CollectionClient) -> None:
    shelf.add(*map(book, range(4)))
    answer = shelf.client.post(f"{shelf.path}/documents/delete", json={"ids": ["book-1", "book-2", "unknown"]})
    assert answer.status_code == 202
    assert shelf.ended_task(answer.json())["result"] == {"deleted": 2}
    assert sorted(shelf.ids("annals")) == ["book-0", "book-3"]
    assert shelf.client.delete(f"{shelf.path}/documents/book-0").status_code == 204
    assert shelf.client.delete(f"{shelf.path}/documents/book-0").status_code == 404
    assert shelf.ids("annals") == ["book-3"]


def test_documents_are_deleted_by_filter(shelf: CollectionClient) -> None:
    shelf.add(*map(book, range(6)))
    task = shelf.post("documents/delete", {"filter": "year >= 2002 AND NOT year = 2004"})
    assert shelf.ended_task(task)["result"] == {"deleted": 3}
    assert sorted(shelf.ids("annals")) == ["book-0", "book-1", "book-4"]


def import_lines(shelf: CollectionClient, content: Any) -> Any:
    answer = shelf.client.post(f"{shelf.path}/documents/import", content=content)
    assert answer.status_code == 202, answer.text
    return shelf.ended_task(answer.json())


def test_an_import_counts_lines_and_names_invalid_lines(shelf: CollectionClient) -> None:
    lines = [book(0), "{not json", book(1), {"id": "no text"}, "", "  ", book(2), '{"id": "x", "text": NaN}']
    task = import_lines(shelf, ndjson(lines))
    assert (task["status"], task["type"]) == ("succeeded", "documents_import")
    result = task["result"]
    assert (result["items_total"], result["succeeded"], result["failed"]) == (6, 3, 3)
    assert [(one["index"], one["code"]) for one in result["errors"]] == [
        (1, "invalid_json"),
        (3, "invalid_document"),
        (5, "invalid_json"),
    ]
    assert task["progress"] == {"done": 6, "total": 6, "passages_done": 3, "passages_total": 3}
    assert [(one["line"], one["field"]) for one in result["errors"] if "field" in one] == [(4, "text")]
    assert sorted(shelf.ids("annals")) == ["book-0", "book-1", "book-2"]


def test_an_import_may_exceed_the_limits_of_batches_and_bodies(shelf: CollectionClient) -> None:
    padding = "x" * 9000
    lines = ndjson([book(n) | {"url": None, "metadata": {"padding": padding}} for n in range(1100)])
    assert len(lines) > MAX_BODY_BYTES
    parts = (lines[start : start + 500_000] for start in range(0, len(lines), 500_000))
    assert import_lines(shelf, parts)["result"]["succeeded"] == 1100
    assert shelf.get()["counts"]["documents"] == 1100
    assert shelf.ids("1099", mode="words") == ["book-1099"]


def test_an_import_skips_a_line_over_the_size_limit(shelf: CollectionClient) -> None:
    lines = ndjson([book(0), book(1) | {"url": "x" * (2 * MAX_BODY_BYTES)}, book(2)])
    result = import_lines(shelf, lines)["result"]
    assert [(one["index"], one["code"]) for one in result["errors"]] == [(1, "document_too_large")]
    assert result["succeeded"] == 2


def test_an_empty_import_succeeds(shelf: CollectionClient) -> None:
    names = ("items_total", "succeeded", "failed", "unchanged", "passages", "passages_kept")
    assert import_lines(shelf, b"\n\n")["result"] == dict.fromkeys(names, 0) | {"errors": [], "notes": {}}


def test_without_wait_the_response_is_a_task_with_its_path(shelf: CollectionClient) -> None:
    answer = shelf.client.post(f"{shelf.path}/documents", json={"documents": [book(1), {}]})
    task = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (202, f"/v1/tasks/{task['id']}")
    assert task.keys() == TASK
    assert (task["type"], task["collection"]) == ("documents", shelf.name)
    ended = shelf.ended_task(task)
    assert (ended["status"], ended["error"]) == ("succeeded", None)
    assert ended["progress"] == {"done": 1, "total": 1, "passages_done": 1, "passages_total": 1}
    assert [item["status"] for item in ended["result"]["items"]] == [201, 422]
    assert ended["created_at"] <= ended["finished_at"]
    assert shelf.ids("annals") == ["book-1"]


def test_after_the_wait_the_response_is_the_task(shelf: CollectionClient, encoding: HeldEncoding) -> None:
    answer = shelf.client.post(f"{shelf.path}/documents?wait=0", json={"documents": [book(1)]})
    assert answer.status_code == 202
    assert answer.json()["status"] in ("enqueued", "processing")
    assert shelf.get("documents/book-1")["text"] == book(1)["text"]
    assert shelf.get()["counts"]["pending"] == 1
    encoding.open()
    assert shelf.ended_task(answer.json())["status"] == "succeeded"
    assert shelf.get()["counts"]["pending"] == 0


def test_a_canceled_task_stops_and_keeps_completed_chunks(shelf: CollectionClient, encoding: HeldEncoding) -> None:
    task = shelf.post("documents", {"documents": [book(n) for n in range(3 * indexing.CHUNK)]})
    encoding.wait()
    encoding.wait_for_words()
    canceled = shelf.client.post(f"/v1/tasks/{task['id']}/cancel")
    assert (canceled.status_code, canceled.headers["location"]) == (202, f"/v1/tasks/{task['id']}")
    encoding.open()
    ended = shelf.ended_task(task)
    assert (ended["status"], ended["progress"]["done"]) == ("canceled", indexing.FIRST)
    assert shelf.get()["counts"]["documents"] == indexing.FIRST
    again = good(shelf.client.post(f"/v1/tasks/{task['id']}/cancel"))
    assert again["status"] == "canceled"


def test_a_wait_ends_with_the_cancellation_of_its_task(shelf: CollectionClient, encoding: HeldEncoding) -> None:
    jobs = runtime_of(shelf.client).jobs
    with ThreadPoolExecutor() as pool:
        address = f"{shelf.path}/documents?wait={DEADLINE_SECONDS}"
        answer = pool.submit(shelf.client.post, address, json={"documents": [book(1)]})
        encoding.wait()
        (task_id,) = jobs._running
        good(shelf.client.post(f"/v1/tasks/{task_id}/cancel"))
        encoding.open()
    problem(answer.result(), 409, "task_canceled")


def test_a_document_deleted_during_encoding_stays_deleted(shelf: CollectionClient, encoding: HeldEncoding) -> None:
    task = shelf.post("documents", {"documents": [book(1), book(2)]})
    encoding.wait()
    assert shelf.client.delete(f"{shelf.path}/documents/book-1").status_code == 204
    encoding.open()
    shelf.ended_task(task)
    assert shelf.ids("annals") == ["book-2"]


def test_of_two_posts_of_an_id_the_later_is_stored_in_any_order_of_encoding(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    first = shelf.post("documents", {"documents": [book(1)]})
    encoding.wait()
    second = shelf.post("documents", {"documents": [book(1) | {"text": "the second version"}]})
    encoding.open()
    shelf.ended_task(first)
    shelf.ended_task(second)
    assert shelf.get("documents/book-1")["text"] == "the second version"
    assert shelf.ids("second version", mode="words") == ["book-1"]
    assert shelf.get()["counts"]["documents"] == 1


def test_a_deleted_collection_is_empty_when_it_is_created_again(shelf: CollectionClient) -> None:
    shelf.add(book(1))
    shelf.act("book-1", user_query="annals")
    answer = shelf.client.delete(shelf.path)
    assert answer.status_code == 202
    assert shelf.client.get(shelf.path).status_code == 404
    again = create(shelf.client, shelf.name)
    assert shelf.ended_task(answer.json())["status"] == "succeeded"
    counts = again.get()["counts"]
    assert (counts["documents"], counts["events"], counts["keys"]["query"]) == (0, 0, 0)
    again.add(book(2))
    assert again.ids("annals") == ["book-2"]


def test_omitted_settings_keep_their_values(shelf: CollectionClient) -> None:
    shelf.client.put(shelf.path, json={"retention_days": 5})
    kept = good(shelf.client.put(shelf.path, json={"filterable": ["lang"]}))["settings"]
    assert (kept["retention_days"], kept["filterable"]) == (5, ["lang"])
    assert good(shelf.client.put(shelf.path, json={"retention_days": None}))["settings"]["retention_days"] is None
    assert good(shelf.client.put(shelf.path))["settings"]["filterable"] == ["lang"]


def test_concurrent_requests_create_a_collection_once(client: TestClient) -> None:
    runtime = runtime_of(client)
    together = threading.Barrier(4)
    outcomes: list[Any] = []

    def make() -> None:
        together.wait()
        try:
            outcomes.append(collections.put(runtime, "contested", CollectionIn())[1])
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert sorted(map(str, outcomes)) == ["False", "False", "False", "True"]


def test_the_number_of_a_deleted_collection_is_not_reused(client: TestClient) -> None:
    """Folders are named by the number: a folder that still exists must not become the index of another collection."""
    first = create(client, "numbered")
    number = first.id
    first.ended_task(client.delete(first.path).json())
    assert create(client, "numbered").id > number
