"""Requests that write have threads of their own: while they wait for the database, other requests are answered.

Where they wait too long, further ones are refused.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from fastapi.testclient import TestClient

from service.http import writing_threads
from tests.service.client import DEADLINE_SECONDS, DEFAULT, CollectionClient, event, opened, problem, runtime_of, until

CLICK = event("a", user_query="copper")
DOCUMENT = {"id": "b", "text": "iron pot"}
WRITES = {
    "events": ("POST", "events", CLICK),
    "long events": ("POST", "events", [CLICK | {"note": "x" * 5_000}] * 20),
    "judgments": ("POST", "judgments", {"judgments": [{"query": "copper", "document_id": "a", "rating": 3}]}),
    "events/delete": ("POST", "events/delete", {"client_id": "x"}),
    "document": ("PUT", "documents/b", DOCUMENT),
    "documents": ("POST", "documents", {"documents": [DOCUMENT]}),
    "import": ("POST", "documents/import", DOCUMENT),
    "rule": ("PUT", "rules/r", {"query": {"exact": "copper"}, "hide": ["a"]}),
    "settings": ("PUT", "", {"retention_days": 9}),
}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A service with a single thread for writes and a single thread for all else."""
    monkeypatch.setattr(writing_threads, "MOST_WRITING", 1)
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"})
        assert client.portal is not None
        client.portal.call(limit_threads)
        yield client


async def limit_threads() -> None:
    to_thread.current_default_thread_limiter().total_tokens = 1


@contextmanager
def held_database(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold the right to write; yield an event that is set when another writer waits for it."""
    database, waiting = runtime_of(client).database, threading.Event()
    with database.write(), monkeypatch.context() as patched:
        write = type(database).write

        def noted(one: Any) -> Any:
            waiting.set()
            return write(one)

        patched.setattr(type(database), "write", noted)
        yield waiting


@pytest.mark.parametrize("kind", WRITES)
def test_reads_are_answered_while_writes_wait(client: TestClient, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    method, path, body = WRITES[kind]
    task = client.post(f"{DEFAULT}/documents", json={"documents": [{"id": "c", "text": "tin cup"}]}).json()
    CollectionClient(client).ended_task(task)
    with ThreadPoolExecutor(4) as pool:
        with held_database(client, monkeypatch) as waiting:
            writes = [pool.submit(client.request, method, f"{DEFAULT}/{path}".rstrip("/"), json=body) for _ in range(3)]
            assert waiting.wait(DEADLINE_SECONDS)
            read = pool.submit(client.get, DEFAULT)
            assert read.result(DEADLINE_SECONDS).status_code == 200
            canceled = pool.submit(client.post, f"/v1/tasks/{task['id']}/cancel")
            assert canceled.result(DEADLINE_SECONDS).status_code == 202
            assert not any(one.done() for one in writes)
        assert all(one.result(DEADLINE_SECONDS).is_success for one in writes)


@pytest.mark.parametrize("kind", ["events", "long events", "judgments", "document", "documents", "import"])
def test_a_write_is_refused_while_another_has_waited_too_long(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(writing_threads, "LONGEST_WAIT_SECONDS", 0.05)
    method, path, body = WRITES[kind]
    with ThreadPoolExecutor(2) as pool:
        with held_database(client, monkeypatch) as waiting:
            writes = [pool.submit(client.put, f"{DEFAULT}/documents/{id}", json={"text": id}) for id in "xy"]
            assert waiting.wait(DEADLINE_SECONDS)
            until(lambda: longest_wait(client) > 0.05)
            refused = client.request(method, f"{DEFAULT}/{path}".rstrip("/"), json=body)
            problem(refused, 503, "overloaded")
            assert int(refused.headers["retry-after"]) >= 1
        assert all(one.result(DEADLINE_SECONDS).is_success for one in writes)
    assert longest_wait(client) == 0
    assert client.request(method, f"{DEFAULT}/{path}".rstrip("/"), json=body).is_success


def longest_wait(client: TestClient) -> float:
    async def read() -> float:
        return writing_threads._threads().longest_wait

    assert client.portal is not None
    return client.portal.call(read)
