"""Snapshots: made while the service runs, listed, deleted, made by schedule."""

import os
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import service.snapshots.creating as creating
from index.storage.files import sha256_file
from service.http.problems import Problem
from service.snapshots.actions import MAX_SNAPSHOTS, make_due_snapshot
from service.snapshots.restoring import restore, verify
from service.snapshots.state import state_hash
from tests.service.client import CollectionClient, create, ended, good, opened, problem, runtime_of

NIGHT = "which tree is number 7"


def tree(n: int) -> dict[str, Any]:
    return {"id": f"tree-{n}", "title": f"Tree {n}", "text": f"tree number {n}", "metadata": {"n": n}}


def filled(data: Path) -> None:
    """Make a data directory with documents, feedback, a rule, an alias and a trained champion."""
    with opened(data) as client:
        wood = create(client, "wood", filterable=["n"])
        wood.add(*map(tree, range(30)))
        for n in range(30):
            wood.judge(f"which tree has number {n}", f"tree-{n}", 3)
        wood.act("tree-7", user_query="The Lucky Tree", client_id="c")
        wood.search("tree")
        good(client.put(f"{wood.path}/rules/first", json={"query": {"exact": "oak"}, "pin": [{"id": "tree-1", "position": 1}]}))
        good(client.put("/v1/aliases/forest", json={"collection": "wood"}))
        assert wood.train(promote="never", budget_seconds=1)["model_version"] == 1
        good(client.put(f"{wood.path}/models/aliases/champion", json={"version": 1, "force": True}))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service with content and a trained model, shared by the tests that do not change it."""
    data = tmp_path_factory.mktemp("snapshots") / "data"
    filled(data)
    with opened(data) as client:
        yield client


def make(client: TestClient) -> dict[str, Any]:
    """Make a snapshot; return the result of its task."""
    task = good(client.post("/v1/snapshots"))
    done = ended(lambda: good(client.get(f"/v1/tasks/{task['id']}")))
    assert done["status"] == "succeeded", done
    return done["result"]  # type: ignore[no-any-return]


def test_a_restored_directory_answers_as_before(client: TestClient, tmp_path: Path) -> None:
    made = make(client)
    data = runtime_of(client).settings.data
    file = data / made["file"]
    assert made == {
        "file": f"snapshots/{file.name}",
        "bytes": file.stat().st_size,
        "sha256": sha256_file(file),
        "documents": 30,
        "damaged_models": [],
    }
    with runtime_of(client).database.read() as connection:
        state = state_hash(connection)
    found = verify(file)
    assert (found["state"], found["documents"], found["sha256"]) == (state.sha256, 30, made["sha256"])
    assert restore(file, tmp_path / "copy")["state"] == state.sha256
    before = CollectionClient(client, "wood").ranking(NIGHT)
    with opened(tmp_path / "copy") as restored:
        assert CollectionClient(restored, "wood").ranking(NIGHT) == before
        assert good(restored.get("/v1/collections/forest"))["champion"] == 1
        with runtime_of(restored).database.read() as connection:
            assert state_hash(connection) == state
