"""A POST that is repeated with the same Idempotency-Key is executed once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from service.http.problems import Problem
from service.operations import idempotency
from service.operations.repository import find_answer, replace_answer
from service.storage.checked_rows import is_sound, stored_rows
from service.storage.database import Database
from service.storage.opening import open_database
from tests.service.client import DEFAULT, SECRET, CollectionClient, create, event, good, opened, problem, runtime_of
from tests.service.earlier_schema import return_to


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bad") / "data") as client:
        CollectionClient(client).add({"id": "known", "text": "a known document"})
        yield client


def test_a_repeated_post_with_the_same_key_gets_the_first_answer(client: TestClient) -> None:
    spoken = CollectionClient(client)
    before = spoken.get()["counts"]["events"]
    key = {"Idempotency-Key": "once"}
    one = event("known", user_query="only once")
    first = client.post(f"{DEFAULT}/events", json=one, headers=key)
    again = client.post(f"{DEFAULT}/events", json=one, headers=key)
    assert (again.status_code, again.content) == (first.status_code, first.content) == (202, first.content)
    assert again.headers["content-type"] == first.headers["content-type"]
    assert spoken.get()["counts"]["events"] == before + 1
    problem(
        client.post(f"{DEFAULT}/events", json=one | {"user_query": SECRET}, headers=key), 422, "idempotency_key_reused"
    )
    problem(client.post(f"{DEFAULT}/judgments", json=one, headers=key), 422, "idempotency_key_reused")


def test_a_refusal_is_repeated_for_the_same_key(client: TestClient) -> None:
    key = {"Idempotency-Key": "refused"}
    first, again = (client.post(f"{DEFAULT}/documents/delete", json={"q": ""}, headers=key) for _ in range(2))
    assert problem(first, 422, "invalid_request") == problem(again, 422, "invalid_request")


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_an_idempotency_key_of_invalid_length_is_refused(client: TestClient, key: str) -> None:
    problem(search_with(client, key), 422, "invalid_request")


def search_with(client: TestClient, key: str) -> Any:
    return client.post(f"{DEFAULT}/search", json={"q": "x"}, headers={"Idempotency-Key": key})


def test_a_request_with_two_keys_is_refused(client: TestClient) -> None:
    keys = [("Idempotency-Key", "one"), ("Idempotency-Key", "two")]
    answer = client.post("/v1/collections/default/events", json={"events": []}, headers=keys)
    assert "has several" in problem(answer, 422, "invalid_request")["detail"]
    answer = client.post("/v1/collections/default/events", json=event("a", user_query="b"), headers=keys[:1] * 2)
    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{DEFAULT}/search", {"q": "x"}),
        ("/v1/multi-search", {"searches": [{"collection": "default", "q": "x"}]}),
        (f"{DEFAULT}/recommend", {"like": ["known"]}),
    ],
)
def test_the_answer_to_a_search_is_not_stored(client: TestClient, path: str, body: Any) -> None:
    key = {"Idempotency-Key": f"searched {path}"}
    first, again = (client.post(path, json=body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.content != again.content  # query_id
    assert not is_stored(client, key["Idempotency-Key"])


@pytest.mark.parametrize("path", [f"{DEFAULT}/search%0A", f"{DEFAULT}/nothing"])
def test_the_answer_of_no_operation_is_not_stored(client: TestClient, path: str) -> None:
    key = {"Idempotency-Key": f"sent to {path}"}
    problem(client.post(path, json={"q": "x"}, headers=key), 404, "not_found")
    assert not is_stored(client, key["Idempotency-Key"])


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (408, "request_timeout"),
        (429, "rate_limited"),
        (409, "snapshot_in_progress"),
        (409, "training_already_running"),
    ],
)
def test_the_refusal_of_a_request_that_the_client_repeats_is_not_stored(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    key, one = {"Idempotency-Key": f"refused {code}"}, event("known", user_query=f"after {code}")

    def refuse(*_: Any) -> None:
        raise Problem(status, code, "try again")

    with monkeypatch.context() as refusing:
        refusing.setattr("service.feedback.routes.actions.take_body", refuse)
        assert client.post(f"{DEFAULT}/events", json=one, headers=key).status_code == status
    assert not is_stored(client, key["Idempotency-Key"])
    assert client.post(f"{DEFAULT}/events", json=one, headers=key).status_code == 202
    assert is_stored(client, key["Idempotency-Key"])


@pytest.mark.parametrize("headers", [[], [(b"idempotency-key", b"broken off")]], ids=["without key", "with key"])
def test_a_body_that_its_client_breaks_off_is_no_defect(client: TestClient, headers: list[tuple[bytes, bytes]]) -> None:
    messages: Iterator[Any] = iter(
        [{"type": "http.request", "body": b'{"a":', "more_body": True}, *[{"type": "http.disconnect"}] * 9]
    )
    path = "/v1/collections/swap"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers]

    async def receive() -> Any:
        return next(messages)

    async def send(_message: Any) -> None:
        """Nobody reads it."""

    asyncio.run(client.app(scope | {"headers": headers, "client": ("127.0.0.1", 1)}, receive, send))  # type: ignore[arg-type]
    act = good(client.get("/v1/audit?limit=1"))["acts"][0]
    assert (act["act"], act["status"]) == ("swap_collections", 400)
    assert not is_stored(client, "broken off")


def is_stored(client: TestClient, key: str) -> bool:
    with runtime_of(client).database.read() as connection:
        return find_answer(connection, idempotency.digest_of(key), "") is not None


def lose_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store no answer after a request: the state that a process leaves that is killed after the commit."""
    monkeypatch.setattr(idempotency, "_keep", lambda *_: None)


def test_feedback_is_counted_once_though_its_answer_was_lost_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"Idempotency-Key": "once"}
    sent = [event("known", user_query="only once"), event("unknown", user_query="only once")]
    with opened(tmp_path / "data") as client, monkeypatch.context() as killed:
        CollectionClient(client).add({"id": "known", "text": "a known document"})
        lose_answers(killed)
        first = client.post(f"{DEFAULT}/events", json=sent, headers=key)
    with opened(tmp_path / "data") as client:
        again = client.post(f"{DEFAULT}/events", json=sent, headers=key)
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.json()["accepted"] == 1
        assert CollectionClient(client).get()["counts"]["events"] == 1
        problem(client.post(f"{DEFAULT}/events", json=sent[:1], headers=key), 422, "idempotency_key_reused")


def test_documents_and_their_task_are_stored_with_the_key(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_answers(monkeypatch)
    key, batch = {"Idempotency-Key": "batch"}, {"documents": [{"id": "new", "text": "a new document"}]}
    first = client.post(f"{DEFAULT}/documents", json=batch, headers=key)
    CollectionClient(client).ended_task(first.json())
    assert client.put(f"{DEFAULT}/documents/new", json={"text": "a newer document"}).status_code == 200
    again = client.post(f"{DEFAULT}/documents", json=batch, headers=key)
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert again.headers["location"] == first.headers["location"]
    assert CollectionClient(client).get("documents/new")["text"] == "a newer document"


def test_a_deletion_is_carried_out_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    CollectionClient(client).add({"id": "gone", "text": "a document"})
    lose_answers(monkeypatch)
    key = {"Idempotency-Key": "deletion"}
    first = client.post(f"{DEFAULT}/documents/delete", json={"ids": ["gone"]}, headers=key)
    CollectionClient(client).add({"id": "gone", "text": "a document that came back"})
    again = client.post(f"{DEFAULT}/documents/delete", json={"ids": ["gone"]}, headers=key)
    assert again.json() == first.json()
    assert again.json()["result"] == {"deleted": 1}
    assert client.get(f"{DEFAULT}/documents/gone").status_code == 200


def batch_sent(client: TestClient, name: str, key: str) -> int:
    """Post a document with this Idempotency-Key; return the status."""
    one, headers = {"documents": [{"id": "one", "text": "a document"}]}, {"Idempotency-Key": key}
    answer = client.post(f"/v1/collections/{name}/documents?wait=30", json=one, headers=headers)
    return answer.status_code


def documents_in(client: TestClient, name: str) -> int:
    return int(CollectionClient(client, name).get()["counts"]["documents"])


def test_a_repeated_post_reaches_a_collection_that_was_made_anew(client: TestClient) -> None:
    assert batch_sent(client, "anew", "anew") == 404
    for _ in range(2):
        create(client, "anew")
        for _ in range(2):
            assert batch_sent(client, "anew", "anew") == 200
            assert documents_in(client, "anew") == 1
        CollectionClient(client).ended_task(client.delete("/v1/collections/anew").json())


def test_a_repeated_erasure_reaches_the_collection_that_its_body_names_now(client: TestClient) -> None:
    headers, body = {"Idempotency-Key": "erasure"}, {"client": "ada", "collection": "erased"}
    for _ in range(2):
        erased = create(client, "erased")
        erased.add({"id": "known", "text": "a known document"})
        erased.act("known", user_query="known", client_id="ada")
        assert erased.get()["counts"]["events"] == 1
        for _ in range(2):
            asked = client.post("/v1/erasures", json=body, headers=headers)
            assert erased.ended_task(asked.json())["status"] == "succeeded"
            assert erased.get()["counts"]["events"] == 0
        erased.ended_task(client.delete("/v1/collections/erased").json())
    assert client.post("/v1/erasures", json=body, headers=headers).status_code == 404


@pytest.mark.parametrize("body", ["", "[]", "not JSON", '{"collection": 7}'])
def test_an_erasure_with_a_key_and_a_wrong_body_is_refused(client: TestClient, body: str) -> None:
    answer = client.post("/v1/erasures", content=body, headers={"Idempotency-Key": f"wrong {body}"})
    assert answer.status_code in (400, 422)


def test_a_repeated_post_reaches_the_collection_that_its_alias_names_now(client: TestClient) -> None:
    for name in ("first", "second"):
        create(client, name)
        client.put("/v1/aliases/live", json={"collection": name})
        assert batch_sent(client, "live", "through an alias") == 200
        assert documents_in(client, name) == 1
    other = {"documents": [{"id": "two", "text": "another body"}]}
    headers = {"Idempotency-Key": "through an alias"}
    client.put("/v1/aliases/live", json={"collection": "first"})
    problem(
        client.post("/v1/collections/live/documents?wait=30", json=other, headers=headers),
        422,
        "idempotency_key_reused",
    )


def test_an_answer_is_of_the_collection_that_its_operation_found(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are swapped after the request began, and before its operation finds the collection."""
    for name in ("green", "blue"):
        create(client, name)
    find = idempotency._find

    def find_and_swap(*given: Any) -> Any:
        found = find(*given)
        good(client.post("/v1/collections/swap", json={"a": "green", "b": "blue"}))
        return found

    with monkeypatch.context() as swapping:
        swapping.setattr(idempotency, "_find", find_and_swap)
        assert batch_sent(client, "green", "swapped meanwhile") == 200
    assert client.delete("/v1/collections/green/documents/one").status_code == 204
    assert batch_sent(client, "green", "swapped meanwhile") == 200
    assert (documents_in(client, "green"), documents_in(client, "blue")) == (0, 0)
    good(client.post("/v1/collections/swap", json={"a": "green", "b": "blue"}))
    assert batch_sent(client, "green", "swapped meanwhile") == 200
    assert documents_in(client, "green") == 1


def test_an_answer_of_an_earlier_release_is_given_again(client: TestClient) -> None:
    create(client, "earlier")
    assert batch_sent(client, "earlier", "earlier") == 200
    with runtime_of(client).database.write() as connection:  # without the collection, as earlier releases stored it
        row = find_answer(connection, idempotency.digest_of("earlier"), "")
        assert row is not None
        digest = row.request_sha256.partition(":")[0]
        values = {"request_sha256": digest, "status": 299, "headers": {}, "body": b"{}"}
        replace_answer(connection, idempotency.digest_of("earlier"), values)
    assert batch_sent(client, "earlier", "earlier") == 299


def test_names_are_swapped_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client, "one")
    create(client, "other")
    number = runtime_of(client).collection("one").id
    lose_answers(monkeypatch)
    for wanted in ({"collections"}, {"status"}):
        answer = client.post(
            "/v1/collections/swap", json={"a": "one", "b": "other"}, headers={"Idempotency-Key": "swap"}
        )
        assert (answer.status_code, set(answer.json())) == (200, wanted)
    assert runtime_of(client).collection("other").id == number


def test_a_write_that_failed_leaves_its_key_free(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    key, one = {"Idempotency-Key": "failed"}, event("known", user_query="after a failure")
    before = CollectionClient(client).get()["counts"]["events"]
    with monkeypatch.context() as failing:
        failing.setattr("service.feedback.actions.bump_watermark", lambda *_args, **_more: 1 / 0)
        assert client.post(f"{DEFAULT}/events", json=one, headers=key).status_code == 500
    assert client.post(f"{DEFAULT}/events", json=one, headers=key).status_code == 202
    assert CollectionClient(client).get()["counts"]["events"] == before + 1


def test_a_write_whose_request_fails_later_is_not_carried_out_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, one = {"Idempotency-Key": "late"}, event("known", user_query="a late failure")
    before = CollectionClient(client).get()["counts"]["events"]
    with monkeypatch.context() as failing:
        failing.setattr("service.feedback.actions._remember", lambda *_args: 1 / 0)
        assert client.post(f"{DEFAULT}/events", json=one, headers=key).status_code == 500
    again = client.post(f"{DEFAULT}/events", json=one, headers=key)
    assert (again.status_code, again.json()) == (202, {"accepted": 1, "rejected": []})
    assert CollectionClient(client).get()["counts"]["events"] == before + 1


def test_keys_are_stored_as_hashes_and_deleted_after_a_day(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        runtime = runtime_of(client)
        sent = {"json": event("known", user_query="once"), "headers": {"Idempotency-Key": "client-77-1"}}
        good(client.post(f"{DEFAULT}/events", **sent))
        stored = "SELECT key FROM idempotent_answers"
        with runtime.database.write() as connection:
            assert connection.exec_driver_sql(stored).scalars().all() == [idempotency.digest_of("client-77-1")]
        idempotency.forget_old_answers(runtime)
        assert is_stored(client, "client-77-1")
        with runtime.database.write() as connection:
            connection.exec_driver_sql("UPDATE idempotent_answers SET created_at = '2026-01-01T00:00:00.000Z'")
        idempotency.forget_old_answers(runtime)
        assert not is_stored(client, "client-77-1")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    address = None
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_server").database(f"answers_{uuid4().hex}")
    database = open_database(tmp_path, address)
    database.migrate()
    yield database
    database.close()


def test_an_upgrade_hashes_the_keys_of_stored_answers(database: Database) -> None:
    answer = {"request_sha256": "00", "status": 200, "headers": {"\u00e9": "\ufdd0"}, "body": b"{}"}
    keys = ["once", "key-1:na\u00efve", "damaged"]
    with database.write() as connection:
        for key in keys:
            replace_answer(connection, key, answer)
        connection.execute(text("UPDATE idempotent_answers SET status = 201 WHERE key = 'damaged'"))
        return_to(connection, "0015")
    database.migrate()
    with database.read() as connection:
        rows = {row["key"]: row for row in stored_rows(connection, "idempotent_answers")}
        assert [is_sound("idempotent_answers", rows.pop(idempotency.digest_of(key))) for key in keys] == [
            True,
            True,
            False,
        ]
        assert rows == {}
        found = find_answer(connection, idempotency.digest_of(keys[1]), "")
        assert found is not None
        assert (found.headers, found.body) == (answer["headers"], answer["body"])


def test_an_upgrade_hashes_a_key_that_another_key_is_the_hash_of(database: Database) -> None:
    first = ["!", "?"]
    second = [idempotency.digest_of(key) for key in first]
    keys = [first[0], *second, first[1]]
    with database.write() as connection:
        for number, key in enumerate(keys):
            answer = {"request_sha256": "00", "status": 200 + number, "headers": {}, "body": b"{}"}
            replace_answer(connection, key, answer)
        return_to(connection, "0015")
    database.migrate()
    with database.read() as connection:
        rows = [find_answer(connection, idempotency.digest_of(key), "") for key in keys]
    assert [row and row.status for row in rows] == [200, 201, 202, 203]


def test_an_upgrade_leaves_a_key_that_is_no_text(tmp_path: Path) -> None:
    database = open_database(tmp_path, None)
    database.migrate()
    with database.write() as connection:
        for key in ("sound", "damaged"):
            answer = {"request_sha256": "00", "status": 200, "headers": {}, "body": b"{}"}
            replace_answer(connection, key, answer)
        connection.execute(text("UPDATE idempotent_answers SET key = CAST(key AS BLOB) WHERE key = 'damaged'"))
        return_to(connection, "0015")
    database.migrate()
    with database.read() as connection:
        keys = set(connection.execute(text("SELECT key FROM idempotent_answers")).scalars())
    assert keys == {idempotency.digest_of("sound"), b"damaged"}
    database.close()
