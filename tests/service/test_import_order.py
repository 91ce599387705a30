"""The imports of a collection run one at a time, in the order in which they were posted, also after a restart."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.documents import imports
from service.runtime.jobs import Progress
from tests.service.client import (
    DEADLINE_SECONDS,
    DEFAULT,
    CollectionClient,
    create,
    good,
    ndjson,
    opened,
)

HELD = "held"
"""An import whose first document has this text waits until it is let go."""
REFUSED = "refused"


@pytest.fixture
def let_go(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold some imports before they store a document, and fail others."""
    event, accept = threading.Event(), imports.accept

    def accept_later(runtime: Any, state: Any, documents: list[dict[str, Any]]) -> Any:
        if documents[0]["text"].startswith(HELD):
            assert event.wait(DEADLINE_SECONDS)
        if documents[0]["text"].endswith(REFUSED):
            raise ValueError("a fault")
        return accept(runtime, state, documents)

    monkeypatch.setattr(imports, "accept", accept_later)
    yield event
    event.set()


@pytest.fixture
def client(tmp_path: Path, let_go: threading.Event) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client
        let_go.set()


def posted(client: TestClient, text: str, path: str = DEFAULT) -> Any:
    """Import the document `a` with a text; return the task."""
    return good(client.post(f"{path}/documents/import", content=ndjson([{"id": "a", "text": text}])))


def status(client: TestClient, task: Any) -> str:
    return str(good(client.get(f"/v1/tasks/{task['id']}"))["status"])


def end(client: TestClient, task: Any) -> str:
    return str(CollectionClient(client).ended_task(task)["status"])


def text(client: TestClient, path: str = DEFAULT) -> str:
    return str(good(client.get(f"{path}/documents/a"))["text"])


def test_a_later_import_waits_for_the_earlier_one_and_other_collections_do_not(
    client: TestClient, let_go: threading.Event
) -> None:
    wood = create(client, "wood")
    first, second = posted(client, f"{HELD} first"), posted(client, "second")
    assert end(client, posted(client, "oak", wood.path)) == "succeeded"
    assert status(client, second) == "enqueued"
    let_go.set()
    assert (end(client, first), end(client, second), text(client)) == ("succeeded", "succeeded", "second")


def test_an_import_after_one_that_is_canceled_runs(client: TestClient, let_go: threading.Event) -> None:
    first, second = posted(client, f"{HELD} first"), posted(client, "second")
    client.post(f"/v1/tasks/{first['id']}/cancel")
    let_go.set()
    assert (end(client, first), end(client, second), text(client)) == ("canceled", "succeeded", "second")


def test_an_import_after_one_that_fails_runs(client: TestClient, let_go: threading.Event) -> None:
    first, second = posted(client, f"{HELD} and {REFUSED}"), posted(client, "second")
    let_go.set()
    assert (end(client, first), end(client, second), text(client)) == ("failed", "succeeded", "second")


def test_an_import_that_is_canceled_while_it_waits_ends_without_its_turn(
    client: TestClient, let_go: threading.Event
) -> None:
    tasks = [posted(client, words) for words in (f"{HELD} first", "second", "third")]
    client.post(f"/v1/tasks/{tasks[1]['id']}/cancel")
    assert end(client, tasks[1]) == "canceled"
    assert [status(client, task) for task in tasks] == ["processing", "canceled", "enqueued"]
    let_go.set()
    assert (end(client, tasks[0]), end(client, tasks[2]), text(client)) == ("succeeded", "succeeded", "third")


def test_the_imports_of_a_deleted_collection_fail_and_do_not_hold_a_new_one(
    client: TestClient, let_go: threading.Event
) -> None:
    wood = create(client, "wood")
    lost = [posted(client, words, wood.path) for words in (f"{HELD} first", "second")]
    assert end(client, good(client.delete(wood.path))) == "succeeded"
    create(client, "wood")
    assert end(client, posted(client, "new", wood.path)) == "succeeded"
    let_go.set()
    assert [end(client, task) for task in lost] == ["failed", "failed"]
    assert text(client, wood.path) == "new"


def test_interrupted_imports_run_in_the_order_of_posting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def until_the_stop(_runtime: Any, _state: Any, _spooled: Any, progress: Progress, _sequences: Any) -> Any:
        progress._canceled.wait(DEADLINE_SECONDS)
        progress.check()

    data, words = tmp_path / "data", [f"version {number}" for number in range(5)]
    with monkeypatch.context() as patched:
        patched.setattr(imports, "_import", until_the_stop)
        with opened(data) as client:
            tasks = [posted(client, version) for version in words]
    for path in (data / "imports").glob("*.ndjson"):
        os.utime(path, (0, 5 - words.index(version_of(path))))
    seen: list[str] = []
    accept = imports.accept

    def noting(runtime: Any, state: Any, documents: list[dict[str, Any]]) -> Any:
        seen.append(documents[0]["text"])
        return accept(runtime, state, documents)

    monkeypatch.setattr(imports, "accept", noting)
    with opened(data) as client:
        ended_of = [good(client.get(f"/v1/tasks/{task['id']}"))["error"]["detail"].split()[-6] for task in tasks]
        assert [end(client, {"id": id}) for id in ended_of] == ["succeeded"] * 5
        assert (seen, text(client)) == (words, words[-1])


def version_of(path: Path) -> str:
    return f"version {path.read_text().partition('version ')[2][0]}"
