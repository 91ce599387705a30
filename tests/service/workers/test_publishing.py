"""What a worker knows after each kind of change: the same as the process of the data directory."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import service.workers.publisher
from service.workers.cells import NO_POSITION
from tests.service.client import DEADLINE_SECONDS, CollectionClient
from tests.service.workers.pairs import Pair, paired

TEXTS = {
    "copy": "Use cp -r to copy a folder with all its files.",
    "move": "The command mv moves a folder or a file.",
    "list": "The command ls lists the files of a folder.",
    "sort": "The command sort puts lines in order.",
}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with paired(tmp_path / "data") as one:
        for id, text in TEXTS.items():
            put(one, id, text)
        yield one


@pytest.fixture(scope="module")
def searched_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A pair with a collection of two languages, for tests that only search."""
    with paired(tmp_path_factory.mktemp("searched") / "data") as one:
        created = one.client.put("/v1/collections/docs", json={"filterable": ["lang"]})
        assert created.status_code == 201, created.text
        for id, text in TEXTS.items():
            document = {"text": text, "metadata": {"lang": "en" if id < "m" else "de"}}
            assert one.client.put(f"/v1/collections/docs/documents/{id}", json=document).status_code == 201
        yield one


def put(pair: Pair, id: str, text: str, **more: Any) -> None:
    answer = pair.client.put(f"/v1/collections/default/documents/{id}", json={"text": text, **more})
    assert answer.status_code in (200, 201), answer.text


def judge(pair: Pair, query: str, document: str) -> None:
    CollectionClient(pair.client).judge(query, document, 4)


def ids(answer: Any) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def test_documents_are_found_replaced_and_gone(pair: Pair) -> None:
    assert set(ids(pair.assert_same())) == set(TEXTS)
    put(pair, "zip", "Copy a folder into an archive with zip.", title="Archives")
    assert "zip" in ids(pair.assert_same(explain=True))
    put(pair, "copy", "Nothing of the kind.")
    pair.assert_same()
    assert pair.client.delete("/v1/collections/default/documents/zip").status_code == 204
    assert "zip" not in ids(pair.assert_same())


@pytest.mark.parametrize(
    "search",
    [
        {"mode": "words"},
        {"mode": "dense"},
        {"explain": "matrix"},
        {"answer": True},
        {"prefix": "last", "q": "cop"},
        {"q": "coppy a foldr"},
        {"filter": 'lang = "en"'},
        {"facets": ["lang"]},
        {"sort": ["lang"]},
        {"pooled": True},
        {"q": "*"},
        {"q": "", "expect": 422},
        {"filter": "no such", "expect": 422},
    ],
    ids=str,
)
def test_every_kind_of_search_gets_the_same_answer(searched_pair: Pair, search: dict[str, Any]) -> None:
    search.pop("expect", None)
    searched_pair.assert_same("docs", **search)


def test_feedback_works_at_once_and_is_forgotten_at_once(pair: Pair) -> None:
    before = ids(pair.assert_same())
    judge(pair, "copy a folder", "sort")
    assert ids(pair.assert_same())[0] == "sort"
    assert before[0] != "sort"


def test_impressions_of_the_worker_are_in_the_log_when_events_refer_to_them(pair: Pair) -> None:
    answer = pair.worker.post("/v1/collections/default/search", json={"q": "copy a folder", "client_id": "anna"}).json()
    logged = pair.client.get(f"/v1/collections/default/queries/{answer['query_id']}")
    assert logged.status_code == 200, logged.text
    assert logged.json()["client_id"] == "anna"
    assert [hit["id"] for hit in logged.json()["shown"]] == ids(answer)


def test_settings_rules_and_aliases_are_followed(pair: Pair) -> None:
    assert pair.client.put("/v1/collections/default", json={"stop_words": ["copy"]}).status_code == 200
    pair.assert_same(mode="words")
    rule = {"query": {"exact": "copy a folder"}, "pin": [{"id": "sort", "position": 1}]}
    answer = pair.client.put("/v1/collections/default/rules/first", json=rule)
    assert answer.status_code in (200, 201), answer.text
    assert ids(pair.assert_same())[0] == "sort"
    assert pair.client.delete("/v1/collections/default/rules/first").status_code == 204
    assert ids(pair.assert_same())[0] != "sort"
    assert pair.client.put("/v1/aliases/help", json={"collection": "default"}).status_code in (200, 201)
    pair.assert_same("help")
    pair.client.put("/v1/collections/other", json={})
    pair.assert_same("other")
    assert pair.client.delete("/v1/collections/other").status_code in (200, 202, 204)
    assert pair.searches("other")[0]["status"] == 404


def test_another_champion_serves_at_once(pair: Pair) -> None:
    state = pair.runtime.collection("default")
    pair.publish()
    mirrored = pair.follower.collection("default")
    assert mirrored.serving.version == state.serving.version
    from dataclasses import replace

    state.serve(replace(state.serving, version=0))
    pair.publish()
    assert pair.follower.collection("default").serving.version == 0
    pair.assert_same()


def test_a_rebuilt_index_is_mirrored_anew(pair: Pair) -> None:
    state = pair.runtime.collection("default")
    state.behind = True
    assert state.heal(rebuild=True)
    put(pair, "after", "Copy a folder after the rebuild.")
    assert "after" in ids(pair.assert_same())


def test_a_large_collection_is_passed_on_until_it_is_copied(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.workers.publisher, "INLINE_KEYS", 2)
    state = pair.runtime.collection("default")
    state.heal(rebuild=True)
    state.behind = True
    assert state.heal(rebuild=True)
    pair.publish()
    assert not pair.follower.can_read("default")
    made = pair.publisher._new_feed

    def with_a_late_write(*arguments: Any) -> Any:
        feed = made(*arguments)
        put(pair, "late", "Copy a folder while the collection is being copied.")
        pair.publisher.publish()
        return feed

    monkeypatch.setattr(pair.publisher, "_new_feed", with_a_late_write)
    pair.publisher._publish_large()
    pair.follower.follow()
    assert pair.follower.can_read("default")
    assert "late" in ids(pair.assert_same())


def test_a_full_disk_makes_the_worker_pass_requests_on(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.publish()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("service.workers.journal.Journal.append", full)
        put(pair, "late", "Copy a folder later.")
        pair.publish()
        assert pair.follower.published == NO_POSITION
        assert not pair.follower.has_reached(pair.follower.published)
    monkeypatch.setattr(service.workers.publisher, "PAUSE_SECONDS", 0.0)
    assert "late" in ids(pair.assert_same())


def test_an_erasure_leaves_nothing_in_the_files_of_the_workers(pair: Pair) -> None:
    collection, texts = CollectionClient(pair.client), ("secretalpha", "SecretBeta")
    for text in texts:
        query_id = collection.search(f"my {text}", client_id="anna")["query_id"]
        collection.act("sort", query_id=query_id, client_id="anna")
    judge(pair, "another query", "copy")
    pair.publish()
    assert holding(pair, *texts)
    task = collection.ended_task(pair.client.post("/v1/erasures", json={"client": "anna"}).json())
    assert task["result"]["status"] == "done"
    pair.publish()
    assert holding(pair, *texts, "anna") == []
    pair.assert_same(q="another query")


def holding(pair: Pair, *texts: str) -> list[str]:
    """Return the files of the data directory that hold one of the texts, in upper or lower case."""
    data = pair.runtime.settings.data
    files = [path for path in data.rglob("*") if path.is_file()]
    found = [path for path in files if any(text.lower().encode() in path.read_bytes().lower() for text in texts)]
    return [str(path.relative_to(data)) for path in found]


def test_what_was_forgotten_leaves_the_files_of_the_feed(pair: Pair) -> None:
    judge(pair, "a very private query", "sort")
    pair.publish()
    feed = pair.runtime.settings.data / "workers" / "feed"
    assert any(b"very private" in path.read_bytes() for path in feed.rglob("*") if path.is_file())
    pair.runtime.forget_queries()
    state = pair.runtime.collection("default")
    with state.lock:
        state.store.remember(state.generation.watermark, [])
    pair.publish()
    assert not any(b"very private" in path.read_bytes() for path in feed.rglob("*") if path.is_file())
    pair.searches()


def test_an_error_while_following_is_followed_by_a_new_beginning(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.workers.worker_runtime.RETRY_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr("service.workers.mirrored_collection.GenerationMirror.apply", lambda *_: 1 / 0)
        put(pair, "late", "Copy a folder later.")
        pair.publish()
        assert not pair.follower.has_reached(pair.follower.published)
    pair.follower.follow()
    assert "late" in ids(pair.assert_same())


def test_keys_are_followed(pair: Pair) -> None:
    created = pair.client.post("/v1/keys", json={"name": "admin", "scopes": ["admin"]})
    assert created.status_code == 201, created.text
    key = created.json()["key"]
    pair.publish()
    search = {"q": "copy a folder"}
    assert pair.worker.post("/v1/collections/default/search", json=search).status_code == 401
    headers = {"Authorization": f"Bearer {key}"}
    assert pair.worker.post("/v1/collections/default/search", json=search, headers=headers).status_code == 200


@pytest.mark.sqlite
def test_a_worker_cannot_write_to_the_database(pair: Pair) -> None:
    pair.follower.database.fetch("PRAGMA query_only=0", [])
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        pair.follower.database.fetch("DELETE FROM documents", [])


def test_a_change_after_the_end_is_not_published(pair: Pair) -> None:
    pair.publish()  # the feed of the collection has files, which the end deletes
    pair.publisher.close()
    with capture_logs() as logged:
        put(pair, "zip", "Copy a folder into an archive with zip.")
        pair.publisher.publish()
    assert [entry for entry in logged if entry["event"] == "workers_not_informed"] == []
    assert pair.publisher._cells.position == NO_POSITION
    assert not pair.publisher._folder.exists()


def test_a_hit_that_was_deleted_meanwhile_waits_for_the_generation_without_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.workers.mirrored_collection.WAIT_SECONDS", DEADLINE_SECONDS)
    pair.publish()
    state = pair.follower.collection("default")
    before = state.generation
    assert pair.client.delete("/v1/collections/default/documents/copy").status_code == 204
    publishing = threading.Timer(0.2, pair.publisher.publish)
    publishing.start()
    answer = pair.worker.post("/v1/collections/default/search", json={"q": "copy a folder"}).json()
    publishing.join()
    assert len(answer["hits"]) == len(TEXTS) - 1
    with state.changes_after(before):  # returns at once: the change is applied
        assert state.generation is not before


@pytest.mark.parametrize("is_dropped", [True, False], ids=["dropped", "kept"])
def test_an_index_that_cannot_be_written_fails_only_if_its_feed_is_in_use(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    pair.publish()
    publisher = pair.publisher
    (published,) = publisher._collections.values()
    assert published.feed is not None

    def fail(_: object) -> None:
        if is_dropped:  # as another thread does while the index is written
            publisher._drop(published)
        raise RuntimeError("the file cannot be opened")

    monkeypatch.setattr(published.feed, "has_sealed", lambda _: False)
    monkeypatch.setattr(published.feed, "write_sealed", fail)
    if is_dropped:
        publisher._publish_large()
    else:
        with pytest.raises(RuntimeError):
            publisher._publish_large()


def test_a_worker_names_a_swapped_collection_by_its_new_name(pair: Pair) -> None:
    assert pair.client.put("/v1/collections/other", json={}).status_code == 201
    pair.publish()
    assert pair.client.post("/v1/collections/swap", json={"a": "default", "b": "other"}).status_code == 200
    pair.publish()
    for name in ("default", "other"):
        ours, theirs = (
            one.post(f"/v1/collections/{name}/search", json={"q": "folder"}).headers["X-Softseek-Watermark"]
            for one in (pair.client, pair.worker)
        )
        assert theirs == ours
        assert ours.startswith(f"{name}:")
