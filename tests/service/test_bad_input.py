"""Whatever is sent, the answer says where the fault is, with a stable code, never with the value, and never with a 500."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.inputs import MAX_BODY_BYTES
from tests.service.client import Spoken, create, event, ndjson, opened

DEFAULT = "/v1/collections/default"
SECRET = "hunter2"
"""Stands in what is sent, and must not stand in what comes back."""
MEMBERS = {"type", "title", "status", "detail", "code", "instance", "errors"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bad") / "data") as client:
        client.put(DEFAULT, json={"filterable": ["lang", "year"]})
        Spoken(client).add({"id": "known", "text": "a known document", "metadata": {"lang": "en", "year": 2020}})
        yield client


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Return the problem of an answer, which must be whole, of this status and code, and must not repeat the input."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body.keys() >= MEMBERS
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"].endswith(code)
    assert body["title"]
    assert body["detail"]
    assert body["instance"].startswith("/")
    assert all(one.keys() >= {"pointer", "detail"} for one in body["errors"])
    assert SECRET not in answer.text
    return body


def search(client: TestClient, **body: Any) -> Any:
    return client.post(f"{DEFAULT}/search", json=body)


def raw_search(client: TestClient, body: bytes) -> Any:
    return client.post(f"{DEFAULT}/search", content=body)


@pytest.mark.parametrize("q", ["", " \n\t ", "\u2003", "hunter2 " * 375])
def test_a_query_that_is_empty_or_too_long_is_refused(client: TestClient, q: str) -> None:
    problem(search(client, q=q), 422, "invalid_request")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", '"\\ud800"', '"\\udc00x"'])
def test_what_is_no_json_is_refused_wherever_it_stands(client: TestClient, value: str) -> None:
    problem(raw_search(client, f'{{"q": "x", "limit": {value}}}'.encode()), 400, "invalid_json")
    batch = f'{{"documents": [{{"id": "x", "text": "x", "metadata": {{"a": {value}}}}}]}}'.encode()
    problem(client.post(f"{DEFAULT}/documents", content=batch), 400, "invalid_json")
    problem(client.post(f"{DEFAULT}/events", content=f'{{"action_name": {value}}}'.encode()), 400, "invalid_json")


@pytest.mark.parametrize("body", [b"", b"{", b"hunter2", b"\xff\xfe", b'{"q": "x"} hunter2', b"[" * 5000])
def test_a_broken_body_is_refused(client: TestClient, body: bytes) -> None:
    answer = raw_search(client, body)
    problem(answer, *((400, "invalid_json") if body else (422, "invalid_request")))


@pytest.mark.parametrize("body", ["[]", "null", "7", '"hunter2"', "true"])
def test_a_body_that_is_no_object_is_refused(client: TestClient, body: str) -> None:
    for path in ("search", "documents", "documents/delete", "judgments", "events/delete", "evaluations"):
        problem(client.post(f"{DEFAULT}/{path}", content=body.encode()), 422, "invalid_request")


@pytest.mark.parametrize("limit", [0, -1, 1001, 2**63, 2**64, 10**400, 1.5, "10", True, None])
def test_a_limit_that_is_no_number_in_range_is_refused(client: TestClient, limit: Any) -> None:
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
def test_a_field_that_is_not_as_documented_is_named(client: TestClient, field: str, value: Any) -> None:
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
def test_a_bad_filter_is_refused_with_its_position(client: TestClient, text: str, position: int | None) -> None:
    body = problem(search(client, q="x", filter=text), 422, "invalid_filter")
    assert body["errors"][0]["pointer"] == "/filter"
    assert isinstance(body["errors"][0]["position"], int)
    assert position in (None, body["errors"][0]["position"])
    problem(client.post(f"{DEFAULT}/documents/delete", json={"filter": text}), 422, "invalid_filter")


def test_a_filter_at_its_limits_is_answered(client: TestClient) -> None:
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
        {"id": "x", "text": "x", "metadata": {"tags": ["a", 1]}},
        {"id": "x", "text": "x", "title": "t" * 2001},
        [SECRET],
        SECRET,
        None,
    ],
)
def test_one_bad_document_of_ten_does_not_hold_up_the_others(client: TestClient, document: Any) -> None:
    spoken = Spoken(client)
    others = [{"id": f"other-{i}", "text": f"brotherly words {i}"} for i in range(9)]
    answer = client.post(f"{DEFAULT}/documents?wait=60", json={"documents": [*others[:4], document, *others[4:]]})
    assert answer.status_code == 207, answer.text
    body = answer.json()
    assert (body["items_total"], body["succeeded"], body["failed"]) == (10, 9, 1)
    bad = body["items"][4]
    assert (bad["index"], bad["status"], bad["code"]) == (4, 422, "invalid_document")
    assert SECRET not in answer.text
    assert {f"other-{i}" for i in range(9)} <= set(spoken.ids("brotherly words", limit=20))


@pytest.mark.parametrize("size", [2**63 - 1, -(2**63), 2**63, 2**64, -(2**64), 1e300])
def test_a_large_number_in_metadata_comes_back_as_that_number(client: TestClient, size: float) -> None:
    answer = client.put(f"{DEFAULT}/documents/large", json={"text": "x", "metadata": {"year": size}})
    assert answer.is_success, answer.text
    assert client.get(f"{DEFAULT}/documents/large").json()["metadata"]["year"] == size
    assert search(client, q="x", filter="year > 2021").json()["hits"] or size < 0


def test_a_batch_of_bad_documents_stores_nothing(client: TestClient) -> None:
    before = Spoken(client).get()["counts"]
    answer = client.post(f"{DEFAULT}/documents?wait=60", json={"documents": [{"id": SECRET, "text": 1}, {}]})
    assert (answer.status_code, answer.json()["succeeded"], answer.json()["failed"]) == (207, 0, 2)
    assert Spoken(client).get()["counts"] == before


def test_a_document_under_its_address_is_checked(client: TestClient) -> None:
    problem(client.put(f"{DEFAULT}/documents/{'x' * 600}", json={"text": "x"}), 422, "invalid_document")
    problem(client.put(f"{DEFAULT}/documents/a", json={"id": "b", "text": SECRET}), 422, "invalid_request")
    problem(client.put(f"{DEFAULT}/documents/a", json={"text": "x" * 1_000_001}), 422, "invalid_request")
    problem(client.put(f"{DEFAULT}/documents/a", json={"title": SECRET}), 422, "invalid_request")


@pytest.mark.parametrize("count", [0, 1001])
def test_an_empty_batch_and_one_document_too_many_are_refused(client: TestClient, count: int) -> None:
    body = {"documents": [{"id": str(i), "text": SECRET} for i in range(count)]}
    problem(client.post(f"{DEFAULT}/documents", json=body), 422, "too_many_documents" if count else "invalid_request")


@pytest.mark.parametrize("wait", ["-1", "601", "nan", SECRET])
def test_a_wait_out_of_range_is_refused(client: TestClient, wait: str) -> None:
    body = {"documents": [{"id": "x", "text": "x"}]}
    problem(client.post(f"{DEFAULT}/documents?wait={wait}", json=body), 422, "invalid_request")


@pytest.mark.parametrize("path", ["documents", "search", "events", "judgments", "documents/delete", "evaluations"])
def test_a_body_over_the_limit_is_refused_whether_announced_or_not(client: TestClient, path: str) -> None:
    body = json.dumps({"documents": [{"id": "big", "text": "x" * 10_000_000}]}).encode()
    problem(client.post(f"{DEFAULT}/{path}", content=body), 413, "payload_too_large")
    parts = (body[start : start + 65_536] for start in range(0, len(body), 65_536))
    problem(client.post(f"{DEFAULT}/{path}", content=parts), 413, "payload_too_large")


def test_a_body_over_the_limit_is_not_collected_for_an_idempotency_key(client: TestClient) -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        for _ in range(4 * MAX_BODY_BYTES // 65_536):
            read += 65_536
            yield b" " * 65_536

    answer = client.post(f"{DEFAULT}/search", content=endless(), headers={"Idempotency-Key": "large"})
    problem(answer, 413, "payload_too_large")


def test_a_put_over_the_limit_is_refused(client: TestClient) -> None:
    answer = client.put(f"{DEFAULT}/documents/big", content=b'{"text": "' + b"x" * 10_000_000 + b'"}')
    problem(answer, 413, "payload_too_large")


def post_events(client: TestClient, items: list[Any]) -> Any:
    return client.post(f"{DEFAULT}/events", json=items)


def rejected(client: TestClient, item: Any) -> str:
    """Return the code that the second of three events is rejected with; the others must be accepted."""
    fine = event("known", user_query="whatever")
    answer = post_events(client, [fine, item, fine])
    assert (answer.status_code, answer.json()["accepted"]) == (202, 2), answer.text
    (one,) = answer.json()["rejected"]
    assert one["index"] == 1
    assert one["detail"]
    assert SECRET not in answer.text
    return str(one["code"])


def test_events_are_rejected_one_by_one(client: TestClient) -> None:
    assert rejected(client, event(SECRET, user_query="x")) == "unknown_document"
    assert rejected(client, event("known", query_id=SECRET)) == "unknown_query"
    assert rejected(client, event("known")) == "query_missing"
    assert rejected(client, event(None, user_query="x")) == "document_missing"
    assert rejected(client, {"action_name": "click"}) == "invalid_event"
    assert rejected(client, SECRET) == "invalid_event"
    assert rejected(client, event("known", user_query="x") | {"timestamp": SECRET}) == "invalid_event"
    assert rejected(client, event("known", user_query="x") | {"timestamp": "2026-09-20T10:00:00"}) == "invalid_event"
    assert rejected(client, event("known", user_query=SECRET * 1000)) == "invalid_event"


@pytest.mark.parametrize("timestamp", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_utc_cannot_tell_is_rejected(client: TestClient, timestamp: str) -> None:
    assert rejected(client, event("known", user_query="x") | {"timestamp": timestamp}) == "invalid_event"


@pytest.mark.parametrize("depth", [100, 300, 900])
def test_a_deeply_nested_event_is_accepted_or_rejected(client: TestClient, depth: int) -> None:
    nested: Any = SECRET
    for _ in range(depth):
        nested = {"a": nested}
    answer = post_events(client, [event("known", user_query="x") | {"more": nested}])
    assert answer.status_code == 202, answer.text
    assert answer.json()["accepted"] + len(answer.json()["rejected"]) == 1
    assert SECRET not in answer.text


def test_a_position_of_ubi_may_be_both_or_none(client: TestClient) -> None:
    for position in ({"ordinal": 3, "xy": {"x": 1, "y": 2}}, {}, {"ordinal": 3}, {"xy": {"x": 1, "y": 2}}):
        one = event("known", user_query="x")
        one["event_attributes"]["position"] = position
        assert post_events(client, [one]).json() == {"accepted": 1, "rejected": []}
    for ordinal in (0, -1, "3", 1.5, 2**63):
        one = event("known", user_query="x")
        one["event_attributes"]["position"] = {"ordinal": ordinal}
        assert rejected(client, one) == "invalid_event"


def test_a_bad_line_of_events_is_rejected_by_its_index(client: TestClient) -> None:
    fine = event("known", user_query="x")
    answer = client.post(f"{DEFAULT}/events", content=ndjson([fine, f"{{{SECRET}", fine]))
    assert (answer.status_code, answer.json()["accepted"]) == (202, 2)
    assert [one["index"] for one in answer.json()["rejected"]] == [1]
    assert SECRET not in answer.text


def test_too_many_events_and_judgments_are_refused(client: TestClient) -> None:
    problem(post_events(client, [event("known", user_query=SECRET)] * 1001), 422, "too_many_events")
    problem(post_events(client, []), 422, "invalid_request")
    judgments = [{"query": SECRET, "document_id": "known", "rating": 1}] * 1001
    problem(client.post(f"{DEFAULT}/judgments", json={"judgments": judgments}), 422, "too_many_judgments")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"document_id": SECRET}, "unknown_document"),
        ({"rating": 5}, "invalid_judgment"),
        ({"rating": -1}, "invalid_judgment"),
        ({"rating": "4"}, "invalid_judgment"),
        ({"query": ""}, "invalid_judgment"),
        ({"colour": SECRET}, "invalid_judgment"),
    ],
)
def test_judgments_are_rejected_one_by_one(client: TestClient, change: dict[str, Any], code: str) -> None:
    fine = {"query": "x", "document_id": "known", "rating": 0}
    answer = client.post(f"{DEFAULT}/judgments", json={"judgments": [fine, fine | change]})
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
    assert [(one["index"], one["code"]) for one in answer.json()["rejected"]] == [(1, code)]
    assert SECRET not in answer.text


def test_whose_events_to_take_back_is_told_in_one_way(client: TestClient) -> None:
    for body in ({}, {"query_id": SECRET, "client_id": SECRET}):
        problem(client.post(f"{DEFAULT}/events/delete", json=body), 422, "invalid_request")
        problem(client.post(f"{DEFAULT}/documents/delete", json={}), 422, "invalid_request")


def test_training_with_three_judgments_says_what_it_has_and_what_it_needs(client: TestClient) -> None:
    few = create(client, "few")
    few.add({"id": "a", "text": "a document"})
    for n in range(3):
        few.judge(f"query number {n}", "a", 3)
    body = problem(client.post(f"{few.path}/training-runs", json={}), 422, "not_enough_feedback")
    assert (body["have"], body["need"]) == (3, 20)
    problem(client.post(f"{few.path}/training-runs", json={"seed": -1}), 422, "invalid_request")
    problem(client.post(f"{few.path}/training-runs", json={"promote": SECRET}), 422, "invalid_request")


@pytest.mark.parametrize(
    "name",
    ["nDCG@0", "nDCG(rel=2)", "P", "P@0", "P@99999", "AP(rel=0)", "R@5\n", "hunter2", "nDCG(", " AP", "", "ERR@5", "NumQ"],
)
def test_a_measure_that_cannot_be_computed_is_refused_at_once(client: TestClient, name: str) -> None:
    """At a cut-off of 0 the library that measures would end the whole process."""
    problem(evaluate(client, name), 422, "unknown_measure")


@pytest.mark.parametrize(
    "name", ["nDCG", "nDCG@10", "AP", "AP(rel=2)@5", "RR", "RR@10", "P@5", "P(rel=2)@5", "R@9999", "Success@1", "Judged@5"]
)
def test_a_measure_that_is_let_in_is_computed(client: TestClient, name: str) -> None:
    task = Spoken(client).ended_task(evaluate(client, name).json())
    assert (task["status"], task["error"]) == ("succeeded", None)
    assert task["result"]["models"][0]["measures"].keys() == {name}


def evaluate(client: TestClient, measure: str) -> Any:
    body = {"measures": [measure], "qrels": {"a known document": {"known": 2, "nothing": 1}}}
    return client.post(f"{DEFAULT}/evaluations", json=body)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/collections/hunter2x", "collection_not_found"),
        ("DELETE", "/v1/collections/hunter2x", "collection_not_found"),
        ("POST", "/v1/collections/hunter2x/search", "collection_not_found"),
        ("POST", "/v1/collections/hunter2x/events", "collection_not_found"),
        ("POST", "/v1/collections/hunter2x/documents/import", "collection_not_found"),
        ("GET", f"{DEFAULT}/documents/nothing", "document_not_found"),
        ("DELETE", f"{DEFAULT}/documents/nothing", "document_not_found"),
        ("GET", "/v1/tasks/nothing", "task_not_found"),
        ("POST", "/v1/tasks/nothing/cancel", "task_not_found"),
        ("GET", f"{DEFAULT}/models/7", "model_not_found"),
        ("GET", f"{DEFAULT}/models/compare?a=0&b=7", "model_not_found"),
        ("GET", f"{DEFAULT}/queries/nothing", "query_not_found"),
        ("GET", f"{DEFAULT}/training-runs/nothing", "training_run_not_found"),
        ("GET", f"{DEFAULT}/training-runs/nothing/stream", "training_run_not_found"),
        ("POST", f"{DEFAULT}/training-runs/nothing/cancel", "training_run_not_found"),
        ("GET", "/v1/nothing", "not_found"),
        ("GET", "/", "not_found"),
    ],
)
def test_what_is_not_there_is_404_with_its_own_code(client: TestClient, method: str, path: str, code: str) -> None:
    body = b'{"q": "x"}' if path.endswith("/search") else b""
    answer = client.request(method, path, content=body)
    assert (answer.status_code, answer.json()["code"]) == (404, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_search_by_an_unknown_model_is_404(client: TestClient) -> None:
    problem(search(client, q="x", model=7), 404, "model_not_found")
    problem(search(client, q="x", model="challenger"), 404, "model_not_found")
    champion = f"{DEFAULT}/models/aliases/champion"
    for force in (True, False):
        problem(client.put(champion, json={"version": 7, "force": force}), 404, "model_not_found")
    problem(client.post(f"{DEFAULT}/evaluations", json={"models": [7]}), 404, "model_not_found")
    problem(client.post(f"{champion}/rollback"), 409, "nothing_to_roll_back")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", f"{DEFAULT}/search"), ("PATCH", DEFAULT), ("DELETE", f"{DEFAULT}/models/0"), ("POST", "/livez")],
)
def test_a_wrong_method_is_405_and_says_what_is_allowed(client: TestClient, method: str, path: str) -> None:
    assert problem(client.request(method, path), 405, "method_not_allowed")
    assert client.request(method, path).headers["allow"]


@pytest.mark.parametrize("name", ["a%2Fb", "x" * 200, "%20", "-a", "a.b", "%C3%A9", "%00", "."])
def test_a_collection_is_not_made_under_a_bad_name(client: TestClient, name: str) -> None:
    answer = client.put(f"/v1/collections/{name}", json={})
    assert answer.status_code in (404, 405, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    listed = [one["name"] for one in client.get("/v1/collections").json()["collections"]]
    assert set(listed) <= {"default", "few", "words", "fuzz"}


@pytest.mark.parametrize(
    "body",
    [
        {"language": SECRET},
        {"keys": []},
        {"keys": ["title"]},
        {"keys": ["passage", SECRET]},
        {"retention_days": 0},
        {"retention_days": 1e9},
        {"filterable": ['a"b']},
        {"filterable": SECRET},
        {"colour": SECRET},
    ],
)
def test_settings_of_a_collection_are_checked(client: TestClient, body: dict[str, Any]) -> None:
    problem(client.put(DEFAULT, json=body), 422, "invalid_request")
    problem(client.put("/v1/collections/never", json=body), 422, "invalid_request")


def test_the_default_collection_stays(client: TestClient) -> None:
    problem(client.delete(DEFAULT), 409, "collection_is_default")
    assert client.get(DEFAULT).status_code == 200


def test_what_decides_how_things_are_indexed_cannot_change(client: TestClient) -> None:
    words = create(client, "words", language="french", keys=["passage"])
    problem(client.put(words.path, json={"language": "german"}), 409, "setting_is_fixed")
    problem(client.put(words.path, json={"keys": ["passage", "title"]}), 409, "setting_is_fixed")
    assert client.put(words.path, json={"language": "french", "retention_days": 3}).status_code == 200
    settings = words.get()["settings"]
    assert (settings["language"], settings["keys"], settings["retention_days"]) == ("french", ["passage"], 3)


@pytest.mark.parametrize(
    ("address", "document_id"),
    [
        ("a%2Fb", "a/b"),
        ("a/b/c", "a/b/c"),
        ("%2E%2E", ".."),
        ("v1.2.3", "v1.2.3"),
        ("import", "import"),
        ("delete", "delete"),
        ("gr%C3%BC%C3%9Fe%F0%9F%98%80", "grüße😀"),
        ("a%20b%3Fc%23d%25e", "a b?c#d%e"),
        ("a%00b", "a\0b"),
        ("%2F", "/"),
    ],
)
def test_any_text_is_the_id_of_a_document(client: TestClient, address: str, document_id: str) -> None:
    path = f"{DEFAULT}/documents/{address}"
    made = client.put(path, json={"text": "an odd id"})
    assert (made.status_code, made.json()["id"]) == (201, document_id)
    assert client.get(path).json()["id"] == document_id
    assert client.put(path, json={"id": document_id, "text": "an odd id"}).status_code == 200
    assert document_id in Spoken(client).ids("an odd id", limit=50)
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_a_page_of_documents_is_checked(client: TestClient) -> None:
    for query in ("limit=0", "limit=1001", f"limit={SECRET}", f"cursor={SECRET}", "cursor=-1", "cursor=" + "9" * 30):
        problem(client.get(f"{DEFAULT}/documents?{query}"), 422, "invalid_request")
    assert client.get(f"{DEFAULT}/documents?cursor={'9' * 18}").json() == {"documents": [], "cursor": None}


def test_a_repeated_post_with_its_key_is_answered_as_the_first_was(client: TestClient) -> None:
    spoken = Spoken(client)
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
    problem(client.post(f"{DEFAULT}/search", json=one, headers=key), 422, "idempotency_key_reused")


def test_a_refusal_is_repeated_with_its_key(client: TestClient) -> None:
    key = {"Idempotency-Key": "refused"}
    first = client.post(f"{DEFAULT}/search", json={"q": ""}, headers=key)
    again = client.post(f"{DEFAULT}/search", json={"q": ""}, headers=key)
    assert problem(first, 422, "invalid_request") == problem(again, 422, "invalid_request")


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_an_idempotency_key_has_a_length(client: TestClient, key: str) -> None:
    problem(search_with(client, key), 422, "invalid_request")


def search_with(client: TestClient, key: str) -> Any:
    return client.post(f"{DEFAULT}/search", json={"q": "x"}, headers={"Idempotency-Key": key})


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(["known", "champion", "click", "", "lang = en", "2026-09-20T10:00:00Z", "nDCG@10"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def like(schema: dict[str, Any], schemas: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return values that are often as a JSON schema says, and often not."""
    if "$ref" in schema:
        return like(schemas[schema["$ref"].rsplit("/", 1)[1]], schemas, depth)
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return st.one_of([like(one, schemas, depth) for one in several])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema and depth < 4:
            known = {name: like(one, schemas, depth + 1) for name, one in schema["properties"].items()}
            required = {name: one for name, one in known.items() if name in schema.get("required", ())}
            optional = {name: one for name, one in known.items() if name not in required}
            return st.fixed_dictionaries(required, optional=optional) | JUNK
        case "object":
            of = schema.get("additionalProperties")
            values = like(of, schemas, depth + 1) if isinstance(of, dict) else JUNK
            return st.dictionaries(st.text(max_size=5), values, max_size=3)
        case "array":
            return st.lists(like(schema.get("items", {}), schemas, depth + 1), max_size=3)
        case "integer":
            return st.integers(-2, 3) | st.integers()
        case "string":
            return st.text(max_size=5) | st.sampled_from(["known", "click", "x", "lang = en", "2026-09-20T10:00:00Z"])
        case "boolean":
            return st.booleans()
    return JUNK


def written_operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return method, path and body schema of every POST and PUT."""
    found = []
    for path, operations in schema["paths"].items():
        for method in ("post", "put"):
            if method in operations:
                content = operations[method].get("requestBody", {}).get("content", {})
                found.append((method, path, content.get("application/json", {}).get("schema", {})))
    return found


def test_no_json_value_makes_any_endpoint_fail(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    schemas = schema["components"]["schemas"]
    create(client, "fuzz", filterable=["lang"]).add({"id": "known", "text": "a known document"})
    given_ids = {"collection": "fuzz", "document_id": "known", "run_id": "x", "task_id": "x", "version": "0"}
    operations = written_operations(schema)
    assert len(operations) >= 15
    for method, path, body in operations:
        never_fails(client, method, path.format(**given_ids), like(body, schemas) | JUNK)


def never_fails(client: TestClient, method: str, address: str, values: st.SearchStrategy[Any]) -> None:
    """Send fifty values to one endpoint."""

    @settings(max_examples=50, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(value=values)
    def send(value: Any) -> None:
        content = json.dumps(value).encode()
        answer = client.request(method, address, content=content)
        assert answer.status_code < 500, (method, address, content, answer.text)

    send()
