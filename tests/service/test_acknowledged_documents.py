"""A document whose storing was acknowledged stays: beside deletions by filter, cancellations and newer versions."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.documents import indexing, patching, repository, words_first
from service.documents.acceptance import Accepted, accept
from service.runtime.collection import CollectionState
from service.runtime.replacements import MOST_OLDER, Replacements
from service.runtime.runtime import Runtime
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, opened, runtime_of
from tests.service.held_encoding import HeldEncoding


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[CollectionClient]:
    with opened(tmp_path / "data") as client:
        yield create(client, "shelf", filterable=["state"])


def book(id: str, text: str, state: str = "new") -> dict[str, Any]:
    return {"id": id, "text": text, "metadata": {"state": state}}


def pending(shelf: CollectionClient, *documents: dict[str, Any]) -> Accepted:
    """Store documents that wait for their vectors, as a request does before its work goes on."""
    runtime = runtime_of(shelf.client)
    return accept(runtime, runtime.collection(shelf.name), documents)


def test_a_put_of_a_document_that_is_stored_but_not_yet_searchable_replaces_it(shelf: CollectionClient) -> None:
    pending(shelf, book("waits", "oak"))
    address = f"{shelf.path}/documents/waits"
    assert shelf.client.get(address).status_code == 200
    assert shelf.client.put(address, json={"text": "birch"}).status_code == 200
    assert shelf.client.delete(address).status_code == 204
    assert shelf.client.put(address, json={"text": "birch"}).status_code == 201


def make_searchable(shelf: CollectionClient, accepted: Accepted) -> None:
    runtime = runtime_of(shelf.client)
    indexing.make_searchable(runtime, runtime.collection(shelf.name), accepted.sequences)


def test_the_newest_version_decides_whether_a_document_matches_the_filter_of_a_deletion(
    shelf: CollectionClient,
) -> None:
    shelf.add(book("changed", "oak", "old"), book("left", "elm", "old"), book("other", "ash"))
    accepted = pending(shelf, book("changed", "oak and birch"), book("late", "fir", "old"), book("other", "ash", "old"))
    task = shelf.post("documents/delete", {"filter": 'state = "old"'})
    assert task["result"] == {"deleted": 3}
    assert shelf.get("documents/changed")["text"] == "oak and birch"
    assert shelf.ids("oak elm fir ash") == ["changed"]
    make_searchable(shelf, accepted)
    assert shelf.ids("birch elm fir ash") == ["changed"]


def test_versions_that_come_while_a_filter_is_read_decide(
    shelf: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.add(book("changed", "oak", "old"), book("waits", "elm", "old"), book("later", "ash"))
    select, calls = repository.matching_ids, []

    def select_and_write(*arguments: Any) -> list[str]:
        found = select(*arguments)
        if not calls:
            shelf.add(book("changed", "birch"), book("new", "fir", "old"))
            pending(shelf, book("waits", "elm"), book("later", "ash", "old"))
        calls.append(found)
        return found

    monkeypatch.setattr(repository, "matching_ids", select_and_write)
    task = shelf.post("documents/delete", {"filter": 'state = "old"'})
    assert task["result"] == {"deleted": 2}
    assert [set(found) for found in calls] == [{"changed", "waits"}, {"later", "new"}]
    assert shelf.get("documents/changed")["text"] == "birch"
    assert shelf.get("documents/waits")["metadata"] == {"state": "new"}


def test_a_canceled_task_makes_the_documents_searchable_that_another_request_had_stored(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    pending(shelf, book("first", "oak"))
    others = [book(f"book-{n}", "elm") for n in range(indexing.FEW)]
    task = shelf.post("documents", {"documents": [*others, book("first", "birch")]})
    encoding.wait()
    shelf.client.post(f"/v1/tasks/{task['id']}/cancel")
    encoding.open()
    assert shelf.ended_task(task)["status"] == "canceled"
    assert shelf.get("documents/first")["text"] == "birch"
    assert shelf.ids("birch")[0] == "first"
    assert shelf.client.get(f"{shelf.path}/documents/book-{indexing.FEW - 1}").status_code == 404
    assert shelf.get()["counts"]["pending"] == 0


def test_the_version_of_a_canceled_task_is_not_kept_by_what_replaced_it(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    sent = [book("ahead", "elm"), book("beside", "ash"), book("first", "oak"), book("first", "birch")]
    tasks = [shelf.client.post(f"{shelf.path}/documents", json={"documents": [one]}).json() for one in sent]
    encoding.wait()
    for task in tasks[2:]:  # they wait for the two before them
        shelf.client.post(f"/v1/tasks/{task['id']}/cancel")
    encoding.open()
    assert [shelf.ended_task(task)["status"] for task in tasks] == ["succeeded"] * 2 + ["canceled"] * 2
    assert shelf.client.get(f"{shelf.path}/documents/first").status_code == 404
    assert shelf.get()["counts"]["pending"] == 0


def test_a_version_is_withdrawn_before_the_older_one_whose_task_is_canceled_too(
    shelf: CollectionClient, encoding: HeldEncoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [book("ahead", "elm"), book("beside", "ash"), book("first", "oak"), book("first", "birch")]
    tasks = [shelf.client.post(f"{shelf.path}/documents", json={"documents": [one]}).json() for one in sent]
    encoding.wait()
    withdraw, newest_is_gone = words_first._withdraw, threading.Event()

    def newest_first(runtime: Runtime, state: CollectionState, sequences: list[int]) -> None:
        with runtime.database.read() as connection:
            is_newest = bool(repository.still_pending(connection, sequences))  # the older version has no row
        if not is_newest:
            assert newest_is_gone.wait(DEADLINE_SECONDS)
        withdraw(runtime, state, sequences)
        if is_newest:
            newest_is_gone.set()

    monkeypatch.setattr(words_first, "_withdraw", newest_first)
    for task in tasks[2:]:
        shelf.client.post(f"/v1/tasks/{task['id']}/cancel")
    encoding.open()
    assert [shelf.ended_task(task)["status"] for task in tasks] == ["succeeded"] * 2 + ["canceled"] * 2
    assert shelf.client.get(f"{shelf.path}/documents/first").status_code == 404
    assert shelf.get()["counts"]["pending"] == 0


def test_a_canceled_task_that_resumes_documents_withdraws_them_from_a_newer_one_too(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    runtime = runtime_of(shelf.client)
    state = runtime.collection(shelf.name)
    first = pending(shelf, book("a", "oak"))
    resumed = indexing.start_indexing(runtime, state, first)
    encoding.wait()
    newer = pending(shelf, book("a", "elm"))
    assert state.replacements.of_others(newer.sequences) == set(newer.sequences)
    shelf.client.post(f"/v1/tasks/{resumed}/cancel")
    assert state.replacements.of_others(newer.sequences) == set()
    encoding.open()
    assert runtime.jobs.wait(resumed, DEADLINE_SECONDS)


def test_a_request_to_stop_a_task_whose_work_has_ended_gives_nothing_up(
    shelf: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = runtime_of(shelf.client)
    noted: list[str] = []
    ends, may_end = threading.Event(), threading.Event()

    def clean() -> None:
        ends.set()
        may_end.wait(DEADLINE_SECONDS)

    with runtime.database.write() as connection:
        task = runtime.jobs.enqueued(connection, "documents", shelf.name)
    runtime.jobs.run(task, lambda _: {}, clean, lambda: noted.append(task))
    assert ends.wait(DEADLINE_SECONDS)
    runtime.jobs.cancel(task)
    may_end.set()
    assert runtime.jobs.wait(task, DEADLINE_SECONDS)
    assert (noted, runtime.jobs.show(task)["status"]) == ([], "succeeded")


def test_a_canceled_import_withdraws_what_it_stored_twice(shelf: CollectionClient) -> None:
    state = runtime_of(shelf.client).collection(shelf.name)
    first, second = pending(shelf, book("a", "oak")), pending(shelf, book("a", "elm"))
    assert state.replacements.of_others([*first.sequences, *second.sequences]) == set()
    assert state.replacements.of_others(second.sequences) == set(second.sequences)
    third = pending(shelf, book("a", "fir"))
    assert state.replacements.of_others([*first.sequences, *third.sequences]) == set(third.sequences), (
        "a version between"
    )


def test_versions_of_a_document_that_is_never_encoded_are_bounded() -> None:
    replacements = Replacements()
    for sequence in range(1000):
        replacements.note({sequence: sequence + 1})
    assert len(replacements._newest) == len(replacements._older[1000]) == MOST_OLDER
    assert replacements.newest([0, 999]) == {1000}
    replacements.undo({999: 1000})
    assert replacements.newest([0, 998]) == {999}
    replacements.forget([999])
    assert (replacements._newest, replacements._older) == ({}, {})


def test_a_put_answers_when_the_version_that_replaced_it_is_searchable(
    shelf: CollectionClient, encoding: HeldEncoding
) -> None:
    statuses: list[int] = []

    def put() -> None:
        statuses.append(shelf.client.put(f"{shelf.path}/documents/a", json={"text": "oak"}).status_code)

    putting = threading.Thread(target=put)
    putting.start()
    encoding.wait()
    pending(shelf, book("a", "birch"))
    encoding.open()
    putting.join(DEADLINE_SECONDS)
    assert statuses == [201]
    assert shelf.ids("birch") == ["a"]


def test_a_version_that_a_patch_replaces_while_it_waits_is_followed(
    shelf: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pending(shelf, book("a", "oak"))
    with monkeypatch.context() as patch:
        patch.setattr(patching, "make_searchable", lambda *_: None)  # its request has not come to it yet
        shelf.client.patch(f"{shelf.path}/documents/a", json={"text": "birch"}).raise_for_status()
    make_searchable(shelf, first)
    assert shelf.ids("birch") == ["a"]


def test_a_version_that_is_replaced_before_it_is_encoded_makes_the_newest_one_searchable(
    shelf: CollectionClient,
) -> None:
    state = runtime_of(shelf.client).collection(shelf.name)
    first = pending(shelf, book("a", "oak"))
    second, newest = pending(shelf, book("a", "elm")), pending(shelf, book("a", "birch"))
    make_searchable(shelf, first)
    assert shelf.ids("birch") == ["a"]
    make_searchable(shelf, newest)
    make_searchable(shelf, second)
    assert state.replacements.newest(first.sequences) == set(first.sequences)  # forgotten


def test_a_request_ends_though_newer_versions_keep_coming(
    shelf: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, versions = indexing.encode_documents, iter(range(1000))

    def encode_and_store_another(*arguments: Any) -> Any:
        pending(shelf, book("a", f"version {next(versions)}"))
        return encode(*arguments)

    monkeypatch.setattr(indexing, "encode_documents", encode_and_store_another)
    make_searchable(shelf, pending(shelf, book("a", "oak")))
    assert next(versions) == 1 + indexing.MOST_NEWER


def test_an_error_after_storing_leaves_no_trace_of_replacements(shelf: CollectionClient) -> None:
    runtime = runtime_of(shelf.client)
    state = runtime.collection(shelf.name)
    accepted = pending(shelf, book("a", "oak"))

    def refuse(_: Any) -> None:
        raise RuntimeError("no place for a task")

    with pytest.raises(RuntimeError):
        accept(runtime, state, [book("a", "elm")], refuse)
    assert state.replacements.newest(accepted.sequences) == set(accepted.sequences)
