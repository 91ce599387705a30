"""Every invalid request gets a problem with a stable code and the place of the error, without the value, and no 500."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.http.body_limit import MAX_DISCARDED_BYTES
from service.http.requests import MAX_BODY_BYTES
from tests.service.client import DEFAULT, SECRET, CollectionClient, opened, problem


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bad") / "data") as client:
        client.put(DEFAULT, json={"filterable": ["lang", "year"]})
        CollectionClient(client).add(
            {"id": "known", "text": "a known document", "metadata": {"lang": "en", "year": 2020}}
        )
        yield client


def search(client: TestClient, **body: Any) -> Any:
    return client.post(f"{DEFAULT}/search", json=body)


def raw_search(client: TestClient, body: bytes) -> Any:
    return client.post(f"{DEFAULT}/search", content=body)


@pytest.mark.parametrize("q", ["", " \n\t ", "\u2003", "hunter2 " * 375])
def test_a_query_that_is_empty_or_too_long_is_refused(client: TestClient, q: str) -> None:
    problem(search(client, q=q), 422, "invalid_request")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", '"\\ud800"', '"\\udc00x"'])
def test_values_that_are_not_json_are_refused_in_every_field(client: TestClient, value: str) -> None:
    problem(raw_search(client, f'{{"q": "x", "limit": {value}}}'.encode()), 400, "invalid_json")
    batch = f'{{"documents": [{{"id": "x", "text": "x", "metadata": {{"a": {value}}}}}]}}'.encode()
    problem(client.post(f"{DEFAULT}/documents", content=batch), 400, "invalid_json")
    problem(client.post(f"{DEFAULT}/events", content=f'{{"action_name": {value}}}'.encode()), 400, "invalid_json")


@pytest.mark.parametrize("body", [b"", b"{", b"hunter2", b"\xff\xfe", b'{"q": "x"} hunter2', b"[" * 5000])
def test_a_broken_body_is_refused(client: TestClient, body: bytes) -> None:
    answer = raw_search(client, body)
    problem(answer, *((400, "invalid_json") if body else (422, "invalid_request")))


@pytest.mark.parametrize("path", ["search", "documents", "events", "judgments"])
def test_a_compressed_body_that_is_no_import_is_refused(client: TestClient, path: str) -> None:
    for body in (b"{}", SECRET.encode() * 10_000):  # long bodies are read elsewhere
        packed = gzip.compress(body, 0)
        headers = {"Content-Encoding": "gzip"}
        problem(client.post(f"{DEFAULT}/{path}", content=packed, headers=headers), 415, "unsupported_encoding")


@pytest.mark.parametrize("body", ["[]", "null", "7", '"hunter2"', "true"])
def test_a_body_that_is_not_an_object_is_refused(client: TestClient, body: str) -> None:
    for path in ("search", "documents", "documents/delete", "judgments", "events/delete", "evaluations"):
        problem(client.post(f"{DEFAULT}/{path}", content=body.encode()), 422, "invalid_request")


@pytest.mark.parametrize("limit", [0, -1, 1001, 2**63, 2**64, 10**400, 1.5, "10", True, None])
def test_an_invalid_limit_is_refused(client: TestClient, limit: Any) -> None:
    body = problem(search(client, q="x", limit=limit), 422, "invalid_request") if limit != 10**400 else None
    if body:
        assert body["errors"][0]["pointer"] == "/limit"
    else:
        assert search(client, q="x", limit=limit).status_code in (400, 422)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", SECRET),
        ("model", SECRET),
        ("model", -1),
        ("model", True),
        ("candidates", 2001),
        ("candidates", 0),
        ("offset", -1),
        ("explain", "yes"),
        ("client_id", ""),
        ("session_id", SECRET * 100),
        ("filter", ["lang = en"]),
        ("filter", "x" * 4097),
    ],
)
def test_the_problem_names_the_invalid_field(client: TestClient, field: str, value: Any) -> None:
    body = problem(search(client, q="x", **{field: value}), 422, "invalid_request")
    assert body["errors"][0]["pointer"].split("/")[1] == field


def test_an_unknown_field_is_refused(client: TestClient) -> None:
    body = problem(search(client, q="x", colour=SECRET), 422, "invalid_request")
    assert body["errors"][0]["pointer"] == "/colour"
    answer = client.put(f"{DEFAULT}/documents/d", json={"text": "x", "colour": SECRET})
    problem(answer, 422, "invalid_request")


def test_the_window_ends_at_ten_thousand(client: TestClient) -> None:
    assert search(client, q="x", offset=9_990, limit=10).status_code == 200
    problem(search(client, q="x", offset=9_991, limit=10), 422, "invalid_request")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("lang = en fr", 10),
        ("lang =", 6),
        ("year > new", 7),
        (f"lang = en AND {SECRET} = 1", 14),
        ("(" * 9 + "lang = en" + ")" * 9, 8),
        (" AND ".join(["year = 1"] * 65), None),
        ("year = 9223372036854775808", None),
    ],
)
def test_an_invalid_filter_is_refused_with_the_position(client: TestClient, text: str, position: int | None) -> None:
    body = problem(search(client, q="x", filter=text), 422, "invalid_filter")
    assert body["errors"][0]["pointer"] == "/filter"
    assert isinstance(body["errors"][0]["position"], int)
    assert position in (None, body["errors"][0]["position"])
    problem(client.post(f"{DEFAULT}/documents/delete", json={"filter": text}), 422, "invalid_filter")


def test_a_filter_at_its_limits_is_accepted(client: TestClient) -> None:
    assert search(client, q="x", filter=" OR ".join(["year = 1"] * 64)).status_code == 200
    assert search(client, q="x", filter="(" * 8 + "lang = en" + ")" * 8).status_code == 200


@pytest.mark.parametrize(
    "document",
    [
        {"id": "x" * 600, "text": SECRET},
        {"id": "", "text": SECRET},
        {"id": 7, "text": SECRET},
        {"text": SECRET},
        {"id": "no-text"},
        {"id": "x", "text": None},
        {"id": "x", "text": "x", "colour": SECRET},
        {"id": "x", "text": "x", "metadata": {"size": None}},
        {"id": "x", "text": "x", "metadata": {"size": {"a": SECRET}}},
        {"id": "x", "text": "x", "metadata": {"": SECRET}},
        {"id": "x", "text": "x", "metadata": {"tags": ["a", None]}},
        {"id": "x", "text": "x", "title": "t" * 2001},
        [SECRET],
        SECRET,
        None,
    ],
)
def test_an_invalid_document_does_not_stop_the_nine_others(client: TestClient, document: Any) -> None:
    spoken = CollectionClient(client)
    others = [{"id": f"other-{i}", "text": f"brotherly words {i}"} for i in range(9)]
    answer = client.post(f"{DEFAULT}/documents?wait=60", json={"documents": [*others[:4], document, *others[4:]]})
    assert answer.status_code == 207, answer.text
    body = answer.json()
    assert (body["items_total"], body["succeeded"], body["failed"]) == (10, 9, 1)
    bad = body["items"][4]
    assert (bad["index"], bad["status"], bad["code"]) == (4, 422, "invalid_document")
    assert SECRET not in answer.text
    assert {f"other-{i}" for i in range(9)} <= set(spoken.ids("brotherly words", limit=20))


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_an_integer_that_would_be_rounded_is_refused_in_metadata(client: TestClient, size: int) -> None:
    document = {"id": "wide", "text": "x", "metadata": {"year": size}}
    wanted = "must be at most 9223372036854775807"
    for found in (
        client.put(f"{DEFAULT}/documents/wide", json=document),
        client.patch(f"{DEFAULT}/documents/known", json={"metadata": {"year": size}}),
    ):
        (error,) = problem(found, 422, "invalid_request")["errors"]
        assert error["pointer"] == "/metadata/year"
        assert error["detail"] == "Input should be less than or equal to 9223372036854775807"
    (item,) = client.post(f"{DEFAULT}/documents?wait=60", json={"documents": [document]}).json()["items"]
    assert (item["field"], item["detail"]) == ("metadata.year", f"metadata.year: {wanted}")
    assert client.get(f"{DEFAULT}/documents/wide").status_code == 404


@pytest.mark.parametrize("size", [2**63 - 1, -(2**63), 2.0**63, 2**64, -(2**64), 1e300])
def test_a_large_number_in_metadata_is_returned_unchanged(client: TestClient, size: float) -> None:
    answer = client.put(f"{DEFAULT}/documents/large", json={"text": "x", "metadata": {"year": size}})
    assert answer.is_success, answer.text
    assert client.get(f"{DEFAULT}/documents/large").json()["metadata"]["year"] == size
    assert search(client, q="x", filter="year > 2021").json()["hits"] or size < 0


def test_a_batch_of_invalid_documents_stores_nothing(client: TestClient) -> None:
    before = CollectionClient(client).get()["counts"]
    answer = client.post(f"{DEFAULT}/documents?wait=60", json={"documents": [{"id": SECRET, "text": 1}, {}]})
    assert (answer.status_code, answer.json()["succeeded"], answer.json()["failed"]) == (207, 0, 2)
    assert CollectionClient(client).get()["counts"] == before


def test_a_document_sent_to_its_own_path_is_checked(client: TestClient) -> None:
    found = problem(client.put(f"{DEFAULT}/documents/{'x' * 513}", json={"text": "x"}), 422, "invalid_request")
    assert found["errors"] == [{"pointer": "/document_id", "detail": "String should have at most 512 characters"}]
    problem(client.put(f"{DEFAULT}/documents/a", json={"id": "b", "text": SECRET}), 422, "invalid_request")
    problem(client.put(f"{DEFAULT}/documents/a", json={"text": "x" * 1_000_001}), 422, "invalid_request")
    problem(client.put(f"{DEFAULT}/documents/a", json={"title": SECRET}), 422, "invalid_request")


@pytest.mark.parametrize("count", [0, 1001])
def test_an_empty_batch_and_a_batch_over_the_limit_are_refused(client: TestClient, count: int) -> None:
    body = {"documents": [{"id": str(i), "text": SECRET} for i in range(count)]}
    problem(client.post(f"{DEFAULT}/documents", json=body), 422, "too_many_documents" if count else "invalid_request")


@pytest.mark.parametrize("wait", ["-1", "601", "nan", SECRET])
def test_a_wait_out_of_range_is_refused(client: TestClient, wait: str) -> None:
    body = {"documents": [{"id": "x", "text": "x"}]}
    problem(client.post(f"{DEFAULT}/documents?wait={wait}", json=body), 422, "invalid_request")


@pytest.mark.parametrize("path", ["documents", "search", "events", "judgments", "documents/delete", "evaluations"])
def test_a_body_over_the_limit_is_refused_with_and_without_content_length(client: TestClient, path: str) -> None:
    body = json.dumps({"documents": [{"id": "big", "text": "x" * 10_000_000}]}).encode()
    problem(client.post(f"{DEFAULT}/{path}", content=body), 413, "payload_too_large")
    parts = (body[start : start + 65_536] for start in range(0, len(body), 65_536))
    problem(client.post(f"{DEFAULT}/{path}", content=parts), 413, "payload_too_large")


@pytest.mark.parametrize("headers", [[], [(b"idempotency-key", b"large")]])
def test_the_rest_of_a_body_over_the_limit_is_discarded_up_to_a_bound(
    client: TestClient, headers: list[tuple[bytes, bytes]]
) -> None:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": f"{DEFAULT}/events",
        "raw_path": f"{DEFAULT}/events".encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("test", 1),
        "server": ("test", 80),
        "state": {},
    }
    read = 0
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 65_536
        return {"type": "http.request", "body": b" " * 65_536, "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    client.portal.call(client.app, scope, receive, send)
    assert sent[0]["status"] == 413
    assert (b"connection", b"close") in sent[0]["headers"]
    assert MAX_DISCARDED_BYTES <= read <= MAX_BODY_BYTES + MAX_DISCARDED_BYTES + 2 * 65_536


def test_a_put_over_the_limit_is_refused(client: TestClient) -> None:
    answer = client.put(f"{DEFAULT}/documents/big", content=b'{"text": "' + b"x" * 10_000_000 + b'"}')
    problem(answer, 413, "payload_too_large")
