"""A request that meets the deletion of its collection, and a change of the language of an empty collection."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from service.aliases.repository import delete_alias
from service.http.problems import Problem
from service.runtime.collection_repository import delete_collection, mark_deleted
from service.runtime.loader import rebuild_index
from service.runtime.model_repository import insert_alias_change, point_alias
from service.runtime.runtime import Runtime
from service.runtime.search_runtime import SearchRuntime
from service.training import actions, follow
from service.training.child import error_of
from service.training.exported_state import export_state
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, event, good, opened, problem, runtime_of
from tests.service.held_encoding import HeldEncoding

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
    runtime, find = runtime_of(client), SearchRuntime._covered

    def find_and_delete(self: Any, name: str) -> Any:
        """Delete the collection between the moment in which the request finds it and its write."""
        state = find(self, name)
        if state is not None and state.name == "wood":
            with runtime.database.write() as connection:
                (delete_collection if is_whole else mark_deleted)(connection, state.id)
        return state

    with monkeypatch.context() as patched:
        patched.setattr(SearchRuntime, "_covered", find_and_delete)
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


# --- Answers that follow the write ---


def delete_rows(runtime: Runtime, name: str) -> None:
    """Delete the rows of a collection, which stays in memory."""
    with runtime.database.write() as connection:
        delete_collection(connection, runtime.collections[name].id)


def delete_unless_locked(runtime: Runtime) -> None:
    """Delete the alias `forest` and the rows of `wood`, as far as the locks of their deletion are free."""
    state = runtime.collections["wood"]
    if runtime.collections_lock.acquire(blocking=False):
        with runtime.database.write() as connection:
            delete_alias(connection, "forest")
        if state.lock.acquire(blocking=False):
            delete_rows(runtime, "wood")
            state.lock.release()
        runtime.collections_lock.release()


ANSWERED: dict[str, Callable[[TestClient, str], Any]] = {
    "a swap": lambda client, _: client.post("/v1/collections/swap", json={"a": "wood", "b": "copse"}),
    "an alias": lambda client, _: client.put("/v1/aliases/forest", json={"collection": "wood"}),
    "a rollback": lambda client, path: client.post(f"{path}/models/aliases/champion/rollback"),
    **{name: WRITES[name] for name in ("a rule", "settings", "a promotion")},
}


@pytest.mark.parametrize("name", ANSWERED)
def test_a_write_is_answered_before_the_deletion_of_what_it_has_written(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    wood, runtime = create(client, "wood"), runtime_of(client)
    create(client, "copse")
    with runtime.database.write() as connection:  # as after a promotion, so that there is something to roll back
        point_alias(connection, wood.id, "champion", 1)
        insert_alias_change(connection, wood.id, "champion", 0, 1, "", False)
    begun = threading.Event()
    read, write = runtime.database.read, runtime.database.write

    @contextmanager
    def noting() -> Iterator[Any]:
        with write() as connection:
            yield connection
        begun.set()

    @contextmanager
    def after_a_deletion() -> Iterator[Any]:
        """Read after the first write, when another thread has tried to delete."""
        if begun.is_set():
            monkeypatch.undo()
            deletion = threading.Thread(target=delete_unless_locked, args=(runtime,))
            deletion.start()
            deletion.join()
        with read() as connection:
            yield connection

    monkeypatch.setattr(runtime.database, "write", noting)
    monkeypatch.setattr(runtime.database, "read", after_a_deletion)
    answer = good(ANSWERED[name](client, wood.path))
    assert name != "a swap" or [one["name"] for one in answer["collections"]] == ["copse", "wood"]


def test_the_list_leaves_out_a_collection_that_is_deleted_meanwhile(client: TestClient) -> None:
    create(client, "wood")
    create(client, "yew")
    delete_rows(runtime_of(client), "wood")
    assert [one["name"] for one in good(client.get("/v1/collections"))["collections"]] == ["default", "yew"]


@pytest.mark.parametrize("count", [1, 200], ids=["few", "words first"])
def test_a_batch_whose_collection_is_deleted_before_it_is_searchable_gets_404(
    client: TestClient, encoding: HeldEncoding, count: int
) -> None:
    wood = create(client, "wood")
    with ThreadPoolExecutor() as pool:
        documents = [{"id": f"{n}", "text": "oak"} for n in range(count)]
        answer = pool.submit(client.post, f"{wood.path}/documents?wait=60", json={"documents": documents})
        encoding.wait()
        wood.ended_task(good(client.delete(wood.path)))
        encoding.open()
    problem(answer.result(), 404, "collection_not_found")


# --- Training runs ---


@pytest.fixture
def wood(client: TestClient) -> CollectionClient:
    """A collection from which a run can learn."""
    wood = create(client, "wood")
    wood.add({"id": "a", "text": "oak"})
    return wood


FROM_DOCUMENTS = {"learn_from": "documents"}


def join_runs(runtime: Runtime) -> None:
    """Wait for the end of the threads that follow runs."""
    for thread in runtime.training.threads:
        thread.join()


def test_a_run_that_is_recorded_before_the_deletion_is_answered(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow_run = actions._follow

    def delete_and_follow(runtime: Runtime, *arguments: Any) -> None:
        delete_rows(runtime, "wood")
        follow_run(runtime, *arguments)

    monkeypatch.setattr(actions, "_follow", delete_and_follow)
    monkeypatch.setattr(follow, "_fit", lambda *_: (0, None))
    assert wood.post("training-runs", FROM_DOCUMENTS)["status"] == "processing"
    join_runs(runtime_of(wood.client))


@pytest.mark.parametrize("delete", [delete_collection, mark_deleted])
def test_a_run_whose_collection_is_deleted_before_its_model_is_registered_is_canceled_quietly(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch, delete: Callable[..., None]
) -> None:
    runtime = runtime_of(wood.client)
    state = runtime.collection("wood")

    def fit(*_: Any) -> tuple[int, None]:
        with runtime.database.write() as connection:
            delete(connection, state.id)
        return 0, None

    monkeypatch.setattr(follow, "_fit", fit)
    with capture_logs() as logged:
        run = wood.post("training-runs", FROM_DOCUMENTS)
        join_runs(runtime)
    assert not logged
    assert not list(runtime.staging.iterdir())
    if delete is mark_deleted:
        assert actions.show(runtime, state, run["id"])["status"] == "canceled"


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_training_process_tells_that_its_collection_was_deleted(
    wood: CollectionClient, tmp_path: Path, is_resumed: bool
) -> None:
    runtime = runtime_of(wood.client)
    run = {"staging": tmp_path, "collection_id": wood.id, "data": runtime.settings.data}
    run |= {
        "database": runtime.settings.database_address,
        "encoder_precision": "auto",
        "objective": "listwise",
        "champion": 0,
        **FROM_DOCUMENTS,
    }
    (tmp_path / "known_words.txt").touch()
    if is_resumed:
        export_state(run)
    delete_rows(runtime, "wood")
    with pytest.raises(Problem) as raised:
        export_state(run)
    assert (error_of(raised.value) or {})["code"] == "collection_not_found"


def test_a_scheduled_run_of_a_deleted_collection_is_no_error(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(wood.client.put(wood.path, json={"train_from_documents": True}))
    monkeypatch.setattr(actions, "why_due", lambda *_: "it is due")
    delete_rows(runtime_of(wood.client), "wood")
    with capture_logs() as logged:
        actions.start_scheduled_runs(runtime_of(wood.client))
    assert [(line["log_level"], line["code"]) for line in logged] == [("warning", "collection_not_found")]


def test_the_stream_of_a_run_whose_collection_is_deleted_ends_with_the_run(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, show, shown = runtime_of(wood.client).collection("wood"), actions.show, threading.Event()
    monkeypatch.setattr(actions, "_follow", lambda *_: state.training_lock.release())
    run = wood.post("training-runs", FROM_DOCUMENTS)

    def noting(*arguments: Any) -> dict[str, Any]:
        found = show(*arguments)
        shown.set()
        return found

    monkeypatch.setattr(actions, "show", noting)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(wood.client.get, f"{wood.path}/training-runs/{run['id']}/stream")
        assert shown.wait(DEADLINE_SECONDS)
        good(wood.client.delete(wood.path))
    *_, event_line, data = answer.result().text.strip().splitlines()
    ended = json.loads(data.removeprefix("data: "))
    assert event_line == "event: end"
    assert (ended["id"], ended["status"], ended["error"]) == (run["id"], "canceled", None)
    assert ended["finished_at"]
