"""Documents of a large task are searchable by words while their vectors are still being made."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.documents import indexing, words_first
from service.documents.acceptance import accept
from service.documents.words_first import publish_words
from service.runtime.jobs import Progress
from tests.service.authorised import Keys, bearer
from tests.service.client import DEADLINE_SECONDS, CollectionClient, good, ndjson, opened, runtime_of
from tests.service.held_encoding import HeldEncoding

COUNT = 2 * words_first.MANY


@pytest.fixture
def shelf(tmp_path: Path, encoding: HeldEncoding) -> Iterator[CollectionClient]:
    with opened(tmp_path / "data") as client:
        yield CollectionClient(client)
        encoding.open()


def book(n: int, text: str = "of the annals") -> dict[str, Any]:
    return {"id": f"book-{n}", "text": f"volume {n} {text}"}


def books() -> list[dict[str, Any]]:
    return [book(n) for n in range(COUNT)]


def posted(shelf: CollectionClient, encoding: HeldEncoding, documents: list[dict[str, Any]]) -> Any:
    """Post documents and return the task, when their words are published and no vector is made."""
    task = shelf.post("documents", {"documents": documents})
    encoding.wait()
    encoding.wait_for_words()
    return task


def test_many_documents_are_found_by_words_before_their_vectors_are_made(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    task = posted(shelf, encoding, books())
    during = shelf.search("annals 77")
    assert during["hits"][0]["id"] == "book-77"
    assert during["degraded"] == ["vectors_pending"]
    assert shelf.search("annals 77", mode="words")["degraded"] == []
    assert shelf.get()["counts"]["pending"] == shelf.get()["counts"]["documents"] == COUNT
    assert shelf.search("annals", mode="dense")["hits"] == []
    encoding.open()
    shelf.ended_task(task)
    after = shelf.search("annals 77", explain=True)
    assert (after["hits"][0]["id"], after["degraded"]) == ("book-77", [])
    assert after["hits"][0]["explain"]["keys"][0]["kind"] == "passage"
    assert (shelf.get()["counts"]["pending"], shelf.get()["counts"]["documents"]) == (0, COUNT)


def test_a_key_with_a_filter_hears_of_the_waiting_vectors_of_its_documents_only(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    encoding.open()
    good(shelf.client.put(shelf.path, json={"filterable": ["tenant"]}))
    shelf.add(
        *({"id": tenant, "text": "of the annals", "metadata": {"tenant": tenant}} for tenant in ("mine", "yours")),
        {"id": "without text", "text": "", "metadata": {"tenant": "mine"}},
    )
    encoding.hold()
    posted(shelf, encoding, [one | {"metadata": {"tenant": "yours"}} for one in books()])
    keys = Keys.first(shelf.client)
    owner = bearer(keys.admin)

    def degraded(path: str, body: dict[str, Any], headers: dict[str, str]) -> list[str]:
        return list(good(shelf.client.post(f"{shelf.path}/{path}", json=body, headers=headers))["degraded"])

    mine, yours = (keys.headers("search", filter=f"tenant = {tenant}") for tenant in ("mine", "yours"))
    for path, body in (("search", {"q": "annals"}), ("recommend", {"like": ["mine"]})):
        assert degraded(path, body, owner) == ["vectors_pending"]
        assert degraded(path, body, mine) == []
    for path, body in (("search", {"q": "annals"}), ("recommend", {"like": ["yours"]})):
        assert degraded(path, body, yours) == ["vectors_pending"]
    assert degraded("search", {"q": "annals", "mode": "words"}, yours) == []
    liked = {"like": ["book-1"], "filter": "tenant = mine"}
    assert degraded("recommend", liked, yours) == ["vectors_pending"], "the liked document is no evidence"
    in_context = {"q": "annals", "filter": "tenant = mine", "context": ["book-1"]}
    assert degraded("search", in_context, yours) == [], "the model has no use for a context"
    state = runtime_of(shelf.client).collection(shelf.name)
    state.serving = replace(state.serving, head=state.serving.head.changed(context=0.5))
    assert degraded("search", in_context, yours) == ["vectors_pending"]
    assert degraded("search", in_context, mine) == degraded("search", in_context | {"context": []}, yours) == []


def test_chunks_are_encoded_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode, second_begins, second_ended = indexing.encode_documents, threading.Event(), threading.Event()
    ended: list[int] = []

    def first_ends_late(encoder: Any, documents: Any, kinds: Any, *more: Any) -> Any:
        first = documents[0].id == "book-0"
        if first:
            assert second_begins.wait(DEADLINE_SECONDS)
            second_ended.wait(1)  # in which the second chunk would end, if it did not wait
        elif documents[0].id == f"book-{indexing.FIRST}":
            second_begins.set()
        encoded = encode(encoder, documents, kinds, *more)
        ended.append(len(documents))
        if not first:
            second_ended.set()
        return encoded

    monkeypatch.setattr(indexing, "encode_documents", first_ends_late)
    with opened(tmp_path / "data") as client:
        shelf = CollectionClient(client)
        shelf.add(*books())
    assert ended == [indexing.FIRST, indexing.CHUNK, COUNT - indexing.FIRST - indexing.CHUNK]


def test_a_chunk_that_fails_ends_the_task_though_the_next_chunk_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = indexing.encode_documents

    def failing_first(encoder: Any, documents: Any, kinds: Any, *more: Any) -> Any:
        if documents[0].id == "book-0":
            raise ValueError("the first chunk fails")
        return encode(encoder, documents, kinds, *more)

    monkeypatch.setattr(indexing, "encode_documents", failing_first)
    with opened(tmp_path / "data") as client:
        shelf = CollectionClient(client)
        ended = shelf.ended_task(shelf.post("documents", {"documents": books()}))
    assert ended["status"] == "failed"


def test_few_documents_are_one_chunk(shelf: CollectionClient, encoding: HeldEncoding) -> None:
    encoding.open()
    state = runtime_of(shelf.client).collection("default")
    before = state.documents_watermark
    shelf.add(*books()[: indexing.FEW])
    assert state.documents_watermark == before + 1


def test_encoding_begins_while_words_are_published(
    shelf: CollectionClient, encoding: HeldEncoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = indexing.publish_words

    def publishing(*arguments: Any) -> None:
        encoding.wait()
        publish(*arguments)

    monkeypatch.setattr(indexing, "publish_words", publishing)
    task = posted(shelf, encoding, books())
    encoding.open()
    assert shelf.ended_task(task)["status"] == "succeeded"


def test_a_long_document_is_found_by_words_first(shelf: CollectionClient, encoding: HeldEncoding) -> None:
    task = posted(shelf, encoding, [book(1, "of the annals " * (words_first.LONG_CHARACTERS // 10))])
    assert shelf.ids("annals") == ["book-1"]
    encoding.open()
    shelf.ended_task(task)
    assert shelf.search("annals")["degraded"] == []


def test_few_short_documents_appear_with_their_vectors(shelf: CollectionClient, encoding: HeldEncoding) -> None:
    task = posted(shelf, encoding, [book(1)])
    assert shelf.ids("annals") == []
    encoding.open()
    shelf.ended_task(task)
    assert shelf.ids("annals") == ["book-1"]


def test_an_import_is_found_by_words_from_its_first_to_its_last_record(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    count = words_first.CHUNK + words_first.MANY + 1
    lines = ndjson([book(n) for n in range(count)])
    headers = {"content-type": "application/x-ndjson"}
    answer = shelf.client.post(f"{shelf.path}/documents/import", content=lines, headers=headers)
    encoding.wait()
    assert shelf.get()["counts"]["documents"] == count
    assert shelf.ids(f"{count - 1}", mode="words") == [f"book-{count - 1}"]
    encoding.open()
    result = shelf.ended_task(answer.json())["result"]
    assert (result["items_total"], result["succeeded"]) == (count, count)
    assert shelf.get()["counts"]["documents"] == count


def test_a_changed_document_keeps_its_vectors_until_the_new_ones_are_made(
    shelf: CollectionClient, encoding: HeldEncoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding.open()
    shelf.ended_task(posted(shelf, encoding, books()))
    again = HeldEncoding(monkeypatch)
    task = posted(shelf, again, [book(n, "of the chronicle") for n in range(COUNT)])
    during = shelf.search("annals 7")
    assert (during["hits"][0]["id"], during["degraded"]) == ("book-7", [])
    again.open()
    shelf.ended_task(task)
    assert shelf.ids("annals", mode="words") == []
    assert shelf.search("chronicle 7")["hits"][0]["id"] == "book-7"


def test_a_canceled_task_withdraws_documents_without_vectors_only(
    shelf: CollectionClient, encoding: HeldEncoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding.open()
    shelf.add(book(0, "of the register"))
    again = HeldEncoding(monkeypatch)
    task = posted(shelf, again, books())
    assert shelf.get()["counts"]["documents"] == COUNT
    shelf.client.post(f"/v1/tasks/{task['id']}/cancel")
    again.open()
    ended = shelf.ended_task(task)
    assert (ended["status"], ended["progress"]["done"]) == ("canceled", indexing.FIRST)
    assert shelf.get()["counts"] | {"documents": indexing.FIRST, "pending": 0} == shelf.get()["counts"]
    assert shelf.search("annals")["degraded"] == []


def test_a_document_without_vectors_can_be_shown_changed_and_deleted(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    task = posted(shelf, encoding, books())
    assert shelf.get("documents/book-1")["text"] == "volume 1 of the annals"
    assert shelf.client.delete(f"{shelf.path}/documents/book-1").status_code == 204
    assert "book-1" not in shelf.ids("volume 1 annals", mode="words", limit=COUNT)
    shelf.post("documents", {"documents": [book(2, "of the chronicle")]})
    encoding.open()
    shelf.ended_task(task)
    assert "book-1" not in shelf.ids("volume 1 annals", mode="words", limit=COUNT)
    assert shelf.get("documents/book-2")["text"] == "volume 2 of the chronicle"


def test_documents_without_vectors_get_them_after_a_restart(tmp_path: Path, encoding: HeldEncoding) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        runtime = runtime_of(client)
        state = runtime.collection("default")
        sequences = accept(runtime, state, books()).sequences
        publish_words(runtime, state, sequences, Progress(runtime.database, "no task"))
    with opened(data) as client:
        shelf = CollectionClient(client)
        encoding.wait()
        assert shelf.ids("annals 200", mode="words")[0] == "book-200"
        assert shelf.search("annals 200")["degraded"] == ["vectors_pending"]
        encoding.open()
        shelf.until_indexed()
        assert shelf.search("annals 200")["degraded"] == []
        assert shelf.get()["counts"]["documents"] == COUNT
