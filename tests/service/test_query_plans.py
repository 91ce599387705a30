"""Requests read rows by their keys: no statement reads all rows of a collection where only some are asked for.

SQLite has no statistics here. For a list of keys it may choose an index that begins with the collection, and read all
of its rows, so that each request would cost more the longer the log is.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event as events_of
from sqlalchemy.engine import Engine

from service.runtime.collection_repository import indexed_documents
from tests.service.client import CollectionClient, create, event, good, opened, runtime_of

pytestmark = pytest.mark.sqlite

COUNT = 40
GROWING = "(queries|events|documents|keys|judgments|idempotent_answers)"
WHOLE = re.compile(rf"SEARCH {GROWING} USING .*\(collection_id=\?\)|SCAN {GROWING}\b.*")
"""A step of a plan that reads all rows of a collection, or of a table that grows."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectionClient]:
    with opened(tmp_path_factory.mktemp("plans") / "data") as client:
        shop = create(client, "shop", filterable=["price"])
        shop.add(*documents("tree"))
        yield shop


def documents(word: str) -> list[dict[str, Any]]:
    return [{"id": f"d{n}", "text": f"{word} number{n}", "metadata": {"price": n}} for n in range(COUNT)]


@contextmanager
def reading_by_keys(client: TestClient) -> Iterator[None]:
    """Fail if a statement of the block reads all rows of a collection, or of a table that grows."""
    seen: dict[str, Any] = {}

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if not many and statement.startswith(("SELECT", "UPDATE", "DELETE")):
            seen.setdefault(statement, parameters)

    events_of.listen(Engine, "before_cursor_execute", note)
    try:
        yield
    finally:
        events_of.remove(Engine, "before_cursor_execute", note)
    with runtime_of(client).database.read() as connection:
        for statement, parameters in seen.items():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            steps = [step for *_, step in plan]
            assert not list(filter(WHOLE.fullmatch, steps)), statement
    assert seen


def searches(shop: CollectionClient) -> list[str]:
    """Return the ids of logged searches."""
    found = [shop.search("tree", client_id=f"client {n}")["query_id"] for n in range(COUNT)]
    runtime_of(shop.client).impressions.flush()
    return found


def test_events_read_the_searches_that_they_name(shop: CollectionClient) -> None:
    clicks = [event("d1", query_id=query_id, client_id="ada") for query_id in searches(shop)]
    shown = [one | {"action_name": "impression"} for one in clicks]
    named = [event("d1", user_query=f"tree {n}", client_id="ada") for n in range(COUNT)]
    key = {"Idempotency-Key": "plans"}
    with reading_by_keys(shop.client):
        for body in (clicks, shown, named, clicks[:1]):
            assert good(shop.client.post(f"{shop.path}/events", json=body))["accepted"] == len(body)
        good(shop.client.post(f"{shop.path}/events", json=clicks[:1], headers=key))


def test_documents_are_read_by_their_ids(shop: CollectionClient) -> None:
    changes = {"documents": [{"id": f"d{n}", "metadata": {"price": 2 * n}} for n in range(COUNT)]}
    with reading_by_keys(shop.client):
        shop.add(*documents("bush"))
        good(shop.client.patch(f"{shop.path}/documents", json=changes))
        for n in range(12):
            shop.judge(f"tree {n}", "d3", 3)
        assert shop.ids("bush", limit=COUNT, explain=True)
        good(shop.client.post(f"{shop.path}/recommend", json={"like": [f"d{n}" for n in range(12)]}))
        good(shop.client.post(f"{shop.path}/documents/delete", json={"ids": [f"d{n}" for n in range(20, COUNT)]}))


def test_documents_with_their_keys_are_read_by_their_rows(shop: CollectionClient) -> None:
    runtime = runtime_of(shop.client)
    state = runtime.collection("shop")
    with reading_by_keys(shop.client), runtime.database.read() as connection:
        rows = state.generation.rows[state.generation.alive][:12].tolist()
        assert len(indexed_documents(connection, state.id, rows)) == 12


def test_rows_of_other_collections_are_not_read(shop: CollectionClient) -> None:
    other = create(shop.client, "other")
    runtime = runtime_of(shop.client)
    rows = runtime.collection("shop").generation.rows.tolist()
    with runtime.database.read() as connection:
        assert indexed_documents(connection, runtime.collection("other").id, rows) == []
    (query_id, *_) = searches(shop)
    answer = good(other.client.post(f"{other.path}/events", json=[event("d1", query_id=query_id)]))
    assert answer["accepted"] == 0


def test_a_change_reads_the_fields_of_changed_documents(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop", filterable=["price"])
        shop.add(*documents("tree"))
        assert shop.search("tree", facets=["price"])["facets"]["price"]["max"] == COUNT - 1
        with reading_by_keys(client):
            shop.add({"id": "new", "text": "tree", "metadata": {"price": 99}})
            assert shop.search("tree", facets=["price"])["facets"]["price"]["max"] == 99
