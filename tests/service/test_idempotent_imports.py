"""An import that is repeated with the same Idempotency-Key is executed once, though its body is streamed."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.operations import idempotency
from tests.service.client import DEFAULT, CollectionClient, create, good, opened, problem, runtime_of

OLD = b'{"id": "one", "text": "an old text"}\n'
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


def imported(client: TestClient, key: str, body: Any = OLD, name: str = "default", **headers: str) -> Any:
    """Return the response to an import with this Idempotency-Key."""
    address = f"/v1/collections/{name}/documents/import"
    return client.post(address, content=body, headers=LINES | {"Idempotency-Key": key} | headers)


def in_parts() -> Iterator[bytes]:
    """Yield the body in parts, so that it has no Content-Length."""
    yield OLD[:9]
    yield OLD[9:]


@pytest.mark.parametrize("loses_answers", [False, True])
def test_a_repeated_import_leaves_newer_documents(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, loses_answers: bool
) -> None:
    if loses_answers:  # as a process does that is killed after the commit
        monkeypatch.setattr(idempotency, "_keep", lambda *_: None)
    spoken = CollectionClient(client)
    first = imported(client, "once", in_parts())
    spoken.ended_task(first.json())
    good(client.put(f"{DEFAULT}/documents/one", json={"text": "a newer text"}))
    again = imported(client, "once")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["id"] == first.json()["id"]
    assert loses_answers or again.content == first.content
    assert again.headers["location"] == first.headers["location"]
    spoken.until_indexed()
    assert spoken.get("documents/one")["text"] == "a newer text"
    assert list(runtime_of(client).imports.iterdir()) == []


def test_a_repeated_import_is_answered_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        first = imported(client, "once")
        CollectionClient(client).ended_task(first.json())
    with opened(tmp_path / "data") as client:
        assert imported(client, "once").content == first.content


def test_another_import_under_the_same_key_is_refused(client: TestClient) -> None:
    first = imported(client, "once")
    other = b'{"id": "two", "text": "another text"}\n'
    problem(imported(client, "once", other), 422, "idempotency_key_reused")
    problem(
        client.post(f"{DEFAULT}/documents", json={}, headers={"Idempotency-Key": "once"}), 422, "idempotency_key_reused"
    )
    assert imported(client, "once").content == first.content
    assert client.get(f"{DEFAULT}/documents/two").status_code == 404


def test_a_repeated_import_reaches_the_collection_that_its_alias_names_now(client: TestClient) -> None:
    answers = []
    for name in ("first", "second"):
        create(client, name)
        good(client.put("/v1/aliases/live", json={"collection": name}))
        if answers:
            other = b'{"id": "two", "text": "another text"}\n'
            problem(imported(client, "alias", other, "live"), 422, "idempotency_key_reused")
            assert list(runtime_of(client).imports.iterdir()) == []
        answers.append(imported(client, "alias", name="live").json()["id"])
        CollectionClient(client, name).ended_task({"id": answers[-1]})
        assert CollectionClient(client, name).get()["counts"]["documents"] == 1
    assert answers[0] != answers[1]
    assert imported(client, "alias", name="live").json()["id"] == answers[1]


def test_a_second_import_under_a_key_waits_for_the_first(client: TestClient) -> None:
    def body() -> Iterator[bytes]:
        other = TestClient(client.app)  # of the same service
        problem(imported(other, "both"), 409, "idempotency_in_flight")
        yield OLD

    assert imported(client, "both", body()).status_code == 202


def test_an_import_that_is_refused_before_its_body_is_read_may_be_repeated(client: TestClient) -> None:
    problem(imported(client, "new", name="new"), 404, "collection_not_found")
    problem(imported(client, "encoding", **{"Content-Encoding": "br"}), 415, "unsupported_encoding")
    create(client, "new")
    assert imported(client, "new", name="new").status_code == 202
    assert imported(client, "encoding").status_code == 202


def test_an_import_with_a_broken_body_may_be_repeated(client: TestClient) -> None:
    broken = gzip.compress(OLD)[:-4]
    problem(imported(client, "gzip", broken), 400, "invalid_compression")
    problem(imported(client, "gzip", broken), 400, "invalid_compression")


def test_a_repeated_import_of_everything_has_the_first_answer(client: TestClient) -> None:
    create(client, "shop").add({"id": "one", "text": "a document"})
    exported = client.get("/v1/export").content
    with_key = LINES | {"Idempotency-Key": "everything"}
    spoken = CollectionClient(client)
    spoken.ended_task(client.delete("/v1/collections/shop").json())
    first = client.post("/v1/import", content=exported, headers=with_key)
    assert spoken.ended_task(first.json())["status"] == "succeeded"
    again = client.post("/v1/import", content=exported, headers=with_key)
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["location"] == first.headers["location"]
    problem(client.post("/v1/import", content=b"{}", headers=with_key), 422, "idempotency_key_reused")
