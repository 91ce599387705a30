"""An index that could not be written, or lost its files, is healed without a restart, and searches say so meanwhile."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.words.bm25_index import WordIndex
from index.words.word_search import WordSearcher
from service.operations.housekeeping import heal_indexes
from service.runtime.loader import reindex
from service.storage.unreadable_rows import UnreadableRow
from tests.service.client import DEFAULT, CollectionClient, opened, runtime_of


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add(
            {"id": "a", "text": "copper wire"}, {"id": "b", "text": "iron pot"}, {"id": "c", "text": "copper pot"}
        )
        yield client


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every commit of a word index fail as on a full disk."""

    def refuse(_index: WordIndex, _mean_length: float) -> WordSearcher:
        raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")

    monkeypatch.setattr(WordIndex, "commit", refuse)


def put(client: TestClient, id: str, text: str) -> Any:
    return client.put(f"{DEFAULT}/documents/{id}", json={"text": text})


def by_words(client: TestClient, q: str) -> set[str]:
    return set(CollectionClient(client).ids(q, mode="words"))


def degraded(client: TestClient) -> tuple[list[str], dict[str, list[str]]]:
    """Return what a search and the readiness say."""
    found = CollectionClient(client).search("copper", log=False)
    return found["degraded"], client.get("/readyz").json()["degraded"]


def test_words_are_found_again_without_a_restart_after_commits_failed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        fill_disk(full)
        assert put(client, "d", "tin kettle").status_code == 201
        assert put(client, "e", "tin drum").status_code == 201
        assert degraded(client) == (["index_behind"], {"default": ["index_behind"]})
        assert by_words(client, "copper") == {"a", "c"}  # the generation of before still answers
    heal_indexes(runtime_of(client))
    assert by_words(client, "tin") == {"d", "e"}
    assert degraded(client) == ([], {})
    assert put(client, "f", "tin bucket").status_code == 201
    assert by_words(client, "tin") == {"d", "e", "f"}


def test_a_deletion_is_done_though_the_index_cannot_be_written(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        fill_disk(full)
        assert client.delete(f"{DEFAULT}/documents/a").status_code == 204
        assert by_words(client, "copper") == {"c"}
        assert put(client, "b", "zinc pot").status_code == 200
    assert runtime_of(client).collection("default").heal()
    assert by_words(client, "copper") == {"c"}
    assert (by_words(client, "zinc"), by_words(client, "iron")) == ({"b"}, set())


def test_a_change_that_fails_once_is_searchable_at_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = WordIndex.commit, []

    def fail_once(index: WordIndex, mean_length: float) -> WordSearcher:
        calls.append(index)
        if len(calls) == 1:
            raise ValueError("An error occurred in a thread: 'An index writer was killed'")
        return original(index, mean_length)

    monkeypatch.setattr(WordIndex, "commit", fail_once)
    assert put(client, "d", "tin kettle").status_code == 201
    assert by_words(client, "tin") == {"d"}
    assert degraded(client) == ([], {})


def test_indexes_removed_from_a_running_service_come_back(client: TestClient) -> None:
    state = runtime_of(client).collection("default")
    shutil.rmtree(state.directory.parent)
    assert put(client, "d", "tin kettle").status_code == 201
    assert by_words(client, "tin") == {"d"}
    assert degraded(client) == ([], {})
    shutil.rmtree(state.directory.parent)
    heal_indexes(runtime_of(client))
    state.save()
    assert (state.directory / "manifest.json").is_file()
    assert by_words(client, "copper") == {"a", "c"}


@pytest.mark.sqlite
def test_a_rebuild_that_cannot_read_a_document_leaves_the_index_as_it_is(client: TestClient) -> None:
    runtime = runtime_of(client)
    state = runtime.collection("default")
    with runtime.database.write() as connection:
        connection.exec_driver_sql("UPDATE documents SET text = CAST(x'69ff' AS TEXT) WHERE id = 'b'")
    with state.lock, pytest.raises(UnreadableRow):
        reindex(runtime.database, state, rebuild=True)
    assert by_words(client, "copper") == {"a", "c"}
    assert state.store.is_on_disk
