"""A request that finds no place for its task is refused before anything is written."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.runtime.jobs import Progress
from tests.service.client import (
    DEADLINE_SECONDS,
    DEFAULT,
    CollectionClient,
    create,
    good,
    opened,
    problem,
    runtime_of,
)

LIMIT = 10


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data", max_tasks=LIMIT) as client:
        CollectionClient(client).add({"id": "stored", "text": "a stored document"})
        create(client, "other")
        yield client


@pytest.fixture
def full(client: TestClient) -> Iterator[TestClient]:
    """A service with as many unfinished tasks as it keeps, until the test ends."""
    gate = threading.Event()

    def work(_: Progress) -> dict[str, bool]:
        return {"ended": gate.wait(DEADLINE_SECONDS)}

    for _ in range(LIMIT):
        runtime_of(client).jobs.start("evaluation", "default", work)
    yield client
    gate.set()


def refused(answer: object) -> None:
    problem(answer, 503, "too_many_tasks")


def test_a_refused_batch_stores_no_document(full: TestClient) -> None:
    refused(full.post(f"{DEFAULT}/documents", json={"documents": [{"id": "new", "text": "new"}]}))
    assert full.get(f"{DEFAULT}/documents/new").status_code == 404
    assert CollectionClient(full).get()["counts"]["pending"] == 0


def test_a_refused_import_keeps_no_file(full: TestClient) -> None:
    refused(full.post(f"{DEFAULT}/documents/import", content=b'{"id": "new", "text": "new"}\n'))
    assert list(runtime_of(full).imports.iterdir()) == []


def test_a_refused_deletion_deletes_nothing(full: TestClient) -> None:
    refused(full.post(f"{DEFAULT}/documents/delete", json={"ids": ["stored"]}))
    refused(full.delete("/v1/collections/other"))
    assert good(full.get(f"{DEFAULT}/documents/stored"))["id"] == "stored"
    assert good(full.get("/v1/collections/other"))["name"] == "other"
