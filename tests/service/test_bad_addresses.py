"""Missing resources and invalid names get problems with specific codes; unusual but valid names work."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.http.instances import instance_of
from tests.service.client import DEFAULT, SECRET, CollectionClient, create, opened, problem


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bad") / "data") as client:
        CollectionClient(client).add({"id": "known", "text": "a known document"})
        yield client


def search(client: TestClient, **body: Any) -> Any:
    return client.post(f"{DEFAULT}/search", json=body)


def test_a_path_that_is_not_utf8_is_refused_and_stores_nothing(client: TestClient) -> None:
    wrong = f"{DEFAULT}/documents/caf%E9"
    for answer in (client.put(wrong, json={"text": "coffee"}), client.get(wrong), client.delete(wrong)):
        assert problem(answer, 422, "invalid_request")["errors"] == [
            {"pointer": "/document_id", "detail": "the parameter is not valid UTF-8"}
        ]
    replaced = f"{DEFAULT}/documents/caf%EF%BF%BD"
    problem(client.get(replaced), 404, "document_not_found")
    assert client.put(replaced, json={"text": "coffee"}).status_code == 201, "the character itself is one like others"
    assert client.delete(replaced).status_code == 204


@pytest.mark.parametrize(
    "name",
    [
        "nDCG@0",
        "nDCG(rel=2)",
        "P",
        "P@0",
        "P@99999",
        "AP(rel=0)",
        "R@5\n",
        "hunter2",
        "nDCG(",
        " AP",
        "",
        "ERR@5",
        "NumQ",
    ],
)
def test_an_unknown_measure_is_refused_before_a_task_starts(client: TestClient, name: str) -> None:
    """With a cut-off of 0 the library for measures ends the process."""
    problem(evaluate(client, name), 422, "unknown_measure")


@pytest.mark.parametrize(
    "name",
    ["nDCG", "nDCG@10", "AP", "AP(rel=2)@5", "RR", "RR@10", "P@5", "P(rel=2)@5", "R@9999", "Success@1", "Judged@5"],
)
def test_an_accepted_measure_is_computed(client: TestClient, name: str) -> None:
    task = CollectionClient(client).ended_task(evaluate(client, name).json())
    assert (task["status"], task["error"]) == ("succeeded", None)
    assert task["result"]["models"][0]["measures"].keys() == {name}


def test_two_spellings_of_a_measure_give_the_same_figure(client: TestClient) -> None:
    body = {"measures": ["AP", "AP(rel=1)"], "qrels": {"a known document": {"known": 1}}}
    task = CollectionClient(client).ended_task(client.post(f"{DEFAULT}/evaluations", json=body).json())
    measured = task["result"]["models"][0]["measures"]
    assert measured["AP"] == measured["AP(rel=1)"] == {"mean": 1.0, "low": 1.0, "high": 1.0}


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
    ],
)
def test_a_missing_resource_is_404_with_a_specific_code(client: TestClient, method: str, path: str, code: str) -> None:
    body = b'{"q": "x"}' if path.endswith("/search") else b""
    answer = client.request(method, path, content=body)
    assert (answer.status_code, answer.json()["code"]) == (404, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_search_with_an_unknown_model_is_404(client: TestClient) -> None:
    problem(search(client, q="x", model=7), 404, "model_not_found")
    problem(search(client, q="x", model="challenger"), 404, "model_not_found")
    champion = f"{DEFAULT}/models/aliases/champion"
    for force in (True, False):
        problem(client.put(champion, json={"version": 7, "force": force}), 404, "model_not_found")
    problem(client.post(f"{DEFAULT}/evaluations", json={"models": [7]}), 404, "model_not_found")
    problem(client.post(f"{champion}/rollback"), 409, "nothing_to_roll_back")


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", f"{DEFAULT}/search"), ("PATCH", DEFAULT), ("DELETE", f"{DEFAULT}/models/0"), ("POST", "/livez")],
)
def test_a_wrong_method_is_405_with_the_allowed_methods(client: TestClient, method: str, path: str) -> None:
    assert problem(client.request(method, path), 405, "method_not_allowed")
    assert client.request(method, path).headers["allow"]


@pytest.mark.parametrize(
    ("sent", "instance"),
    [
        (b"/v1/a%20b%C3%BC%2f%FF", "/v1/a%20b%C3%BC%2f%FF"),
        (b"/v1/a:b@c!$&'()*+,;=-._~", "/v1/a:b@c!$&'()*+,;=-._~"),
        (b'/v1/a"b<c>^`{|}', "/v1/a%22b%3Cc%3E%5E%60%7B%7C%7D"),
        ("/v1/grüß e".encode(), "/v1/gr%C3%BC%C3%9F%20e"),
        (b"/v1/100%/%zz", "/v1/100%25/%25zz"),
        (b"//another.example/x", "/.//another.example/x"),
    ],
)
def test_the_instance_is_a_uri_reference_of_the_path(sent: bytes, instance: str) -> None:
    assert instance_of({"raw_path": sent, "path": "/decoded"}) == instance


def test_without_the_sent_path_the_instance_is_the_encoded_path() -> None:
    assert instance_of({"path": "/v1/a b%20/ü"}) == "/v1/a%20b%2520/%C3%BC"


@pytest.mark.parametrize("path", ["/v1/a%20b%3F%22/%C3%BC", f"{DEFAULT}/documents/a%20%23b", "/v1/collections/%C3%A9"])
def test_a_problem_has_the_path_as_it_was_sent(client: TestClient, path: str) -> None:
    assert client.get(f"{path}?q=1").json()["instance"] == path


def test_a_search_of_several_that_fails_has_the_address_of_its_collection(client: TestClient) -> None:
    body = {"searches": [{"collection": 'a b/"ü', "q": "x"}]}
    failed = client.post("/v1/multi-search", json=body).json()["results"][0]
    assert failed["instance"] == "/v1/collections/a%20b%2F%22%C3%BC/search"


@pytest.mark.parametrize("name", ["a%2Fb", "x" * 200, "%20", "-a", "a.b", "%C3%A9", "%00", "."])
def test_a_collection_with_an_invalid_name_is_not_created(client: TestClient, name: str) -> None:
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


def test_the_default_collection_cannot_be_deleted(client: TestClient) -> None:
    problem(client.delete(DEFAULT), 409, "collection_is_default")
    assert client.get(DEFAULT).status_code == 200


def test_settings_that_determine_indexing_cannot_change(client: TestClient) -> None:
    words = create(client, "words", language="french", keys=["passage"])
    words.add({"id": "a", "text": "un document"})
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
def test_any_text_can_be_the_id_of_a_document(client: TestClient, address: str, document_id: str) -> None:
    path = f"{DEFAULT}/documents/{address}"
    made = client.put(path, json={"text": "an odd id"})
    assert (made.status_code, made.json()["id"]) == (201, document_id)
    assert client.get(path).json()["id"] == document_id
    assert client.put(path, json={"id": document_id, "text": "an odd id"}).status_code == 200
    assert document_id in CollectionClient(client).ids("an odd id", limit=50)
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_limit_and_cursor_of_a_list_are_checked(client: TestClient) -> None:
    for query in ("limit=0", "limit=1001", f"limit={SECRET}", f"cursor={SECRET}", "cursor=-1", "cursor=%2B"):
        problem(client.get(f"{DEFAULT}/documents?{query}"), 422, "invalid_request")
    for cursor in ("20", "9" * 18, "WzFd", "WzEsMl0", "WyJhIl0", "e30", "A" * 5001):  # [1], [1,2], ["a"], {}
        errors = problem(client.get(f"{DEFAULT}/documents?cursor={cursor}"), 422, "invalid_request")["errors"]
        assert [error["pointer"] for error in errors] == ["/cursor"]
