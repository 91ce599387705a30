"""Retention deletes in batches. Each leaves what one transaction would leave, and other writers come between two."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, event

from service.operations import retention
from service.operations.retention import forget_old_feedback
from service.runtime.collection_repository import collection_row
from service.runtime.loader import load_collection
from service.storage.database import rfc3339
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, good, opened, runtime_of
from tests.service.test_retention import NOW, TREES, stored
from tests.service.test_retention import event as feedback

QUERIES = ("a tall tree", "the tree by the lake", "old tree")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


def wood_with_feedback(client: TestClient, name: str = "wood") -> CollectionClient:
    """Return a collection with searches, clicks and impressions, most of them 40 days old."""
    wood = create(client, name, memory_half_life_days=None)
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    searched = wood.search(QUERIES[0], client_id="ada")["query_id"]
    runtime_of(client).impressions.flush()
    old, new = (rfc3339(NOW - timedelta(days=days)) for days in (40, 1))
    with runtime_of(client).database.write() as connection:
        connection.exec_driver_sql("UPDATE queries SET created_at = ? WHERE collection_id = ?", (old, wood.id))
    clicks = [
        feedback(tree, action, user_query=query, timestamp=old, client_id=person)
        for query in QUERIES
        for tree in TREES[:3]
        for action in ("click", "impression")
        for person in ("ada", "bob", None)
    ]
    clicks += [feedback("oak", query_id=searched, timestamp=old, client_id="ada")]
    clicks += [feedback("oak", user_query=QUERIES[1], timestamp=new, client_id="bob")]
    assert wood.post("events", clicks)["rejected"] == []
    good(client.put(wood.path, json={"retention_days": 30}))
    return wood


def batches_of_one(monkeypatch: pytest.MonkeyPatch, between: Callable[[], object] = lambda: None) -> None:
    """Let a batch have one row, or the events of one query, and call `between` after each."""
    monkeypatch.setattr(retention, "MOST_READ", 1)
    monkeypatch.setattr(retention, "PART_SIZE", 1)
    monkeypatch.setattr(retention, "sleep", lambda _seconds: between())


def left(wood: CollectionClient) -> list[Any]:
    """Return what is stored of the feedback of a collection, and its rankings."""
    keys = "SELECT d.id, k.source, k.confirmed_on, k.weight, k.vector FROM keys k JOIN documents d"
    of_memory = stored(wood, f"{keys} ON d.row = k.document_row WHERE k.kind = 3 AND k.collection_id = ?")
    events = stored(wood, "SELECT source, document_id, action_name, timestamp FROM events WHERE collection_id = ?")
    searches = stored(wood, "SELECT source FROM queries WHERE collection_id = ?")
    return [sorted(map(repr, of_memory)), sorted(events), searches, [wood.ranking(query) for query in QUERIES]]


def memory_of(state: Any) -> list[Any]:
    return sorted((key.query_key, key.row, key.weight, key.exact) for key in state.generation.memory.keys)


def test_batches_leave_what_one_transaction_leaves(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, in_batches = (wood_with_feedback(client, name) for name in ("at-once", "in-batches"))
    good(client.put(in_batches.path, json={"retention_days": None}))
    forget_old_feedback(runtime_of(client), NOW)
    good(client.put(in_batches.path, json={"retention_days": 30}))
    done: list[None] = []
    batches_of_one(monkeypatch, lambda: done.append(None))
    forget_old_feedback(runtime_of(client), NOW)
    assert len(done) == 27 + len(QUERIES) + 1  # impressions as events, queries with clicks, and the logged search
    assert left(in_batches) == left(at_once)
    assert at_once.get()["counts"]["events"] == 1


def test_another_client_writes_between_two_batches(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    wood = wood_with_feedback(client)
    written: list[int] = []

    def write() -> None:
        click = feedback("oak", user_query="another query", timestamp=rfc3339(NOW))
        written.append(client.post(f"{wood.path}/events", json=click).status_code)

    def write_beside() -> None:
        before = len(written)
        writer = Thread(target=write, daemon=True)
        writer.start()
        writer.join(DEADLINE_SECONDS)  # it would wait for a lock that this thread had
        assert written[before:] == [202]

    batches_of_one(monkeypatch, write_beside)
    forget_old_feedback(runtime_of(client), NOW)
    assert len(written) > len(QUERIES)
    assert wood.get()["counts"]["events"] == 1 + len(written)


def test_a_change_of_the_setting_ends_an_expiry(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    wood = wood_with_feedback(client)
    before = wood.get()["counts"]["events"]
    batches_of_one(monkeypatch, lambda: good(client.put(wood.path, json={"retention_days": None})))
    forget_old_feedback(runtime_of(client), NOW)
    assert wood.get()["counts"]["events"] == before - 1  # the first batch


def test_memory_is_that_of_the_database_after_each_batch(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    wood = wood_with_feedback(client)
    runtime = runtime_of(client)
    seen: list[Any] = []

    def compare() -> None:
        with runtime.database.read() as connection:
            row = collection_row(connection, wood.id)
        again = load_collection(runtime.database, row, runtime.settings.data)
        seen.append(memory_of(again))
        again.store.close()
        assert memory_of(runtime.collection(wood.name)) == seen[-1]

    batches_of_one(monkeypatch, compare)
    forget_old_feedback(runtime, NOW)
    assert len(set(map(repr, seen))) > len(QUERIES)


@pytest.mark.parametrize("after", [2, 28, 30])
def test_a_service_that_ends_between_two_batches_has_lost_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    done: list[None] = []

    def end() -> None:
        done.append(None)
        if len(done) == after:
            raise KeyboardInterrupt

    with opened(tmp_path / "whole") as client:
        whole = wood_with_feedback(client)
        forget_old_feedback(runtime_of(client), NOW)
        expected = left(whole)
    with opened(tmp_path / "ended") as client:
        wood_with_feedback(client)
        with monkeypatch.context() as patch:
            batches_of_one(patch, end)
            with pytest.raises(KeyboardInterrupt):
                forget_old_feedback(runtime_of(client), NOW)
    with opened(tmp_path / "ended") as client:
        forget_old_feedback(runtime_of(client), NOW)
        assert left(CollectionClient(client, "wood")) == expected


def test_a_service_that_stops_does_no_further_batch(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    wood = wood_with_feedback(client)
    before = wood.get()["counts"]["events"]
    batches_of_one(monkeypatch, lambda: monkeypatch.setattr(runtime_of(client), "closing", True))
    forget_old_feedback(runtime_of(client), NOW)
    assert wood.get()["counts"]["events"] == before - 1


def test_memory_expires_in_batches(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    wood = wood_with_feedback(client)
    good(client.put(wood.path, json={"retention_days": None, "memory_retention_days": 30}))
    counts: list[int] = []
    batches_of_one(monkeypatch, lambda: counts.append(wood.get()["counts"]["keys"]["query"]))
    forget_old_feedback(runtime_of(client), NOW)
    assert counts == list(range(28, 0, -1))


@pytest.mark.sqlite
def test_no_statement_of_an_expiry_looks_for_each_row_again(client: TestClient) -> None:
    wood_with_feedback(client)
    statements: dict[str, Any] = {}

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements[statement] = parameters

    event.listen(Engine, "before_cursor_execute", note)
    try:
        forget_old_feedback(runtime_of(client), NOW)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    with runtime_of(client).database.read() as connection:
        plans = [
            str(row.detail)
            for statement, parameters in statements.items()
            if "FROM events" in statement or "FROM queries" in statement
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    assert any("events" in plan for plan in plans)
    assert not [plan for plan in plans if "CORRELATED" in plan]
