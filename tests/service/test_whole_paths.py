"""A path is matched as a whole: a line break in it belongs to the id of a document, and to nothing else."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.service.client import DEFAULT, CollectionClient, good, opened, problem

DOCUMENTS = f"{DEFAULT}/documents"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("paths") / "data") as client:
        CollectionClient(client).add({"id": "known", "text": "a known document"})
        yield client


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_a_line_break_at_the_end_is_part_of_an_id(client: TestClient, method: str) -> None:
    body = {"title": "another"} if method == "PATCH" else None
    problem(client.request(method, f"{DOCUMENTS}/known%0A", json=body), 404, "document_not_found")
    assert good(client.get(f"{DOCUMENTS}/known"))["title"] is None


@pytest.mark.parametrize("name", ["known%0A", "%0A", "a%0Ab", "a%0A%0Ab/c%0A", "%0D%0A"])
def test_a_document_is_reached_by_an_id_with_line_breaks(client: TestClient, name: str) -> None:
    path = f"{DOCUMENTS}/{name}"
    assert client.put(path, json={"text": "between lines"}).status_code == 201
    assert good(client.patch(path, json={"title": name}))["title"] == name
    assert good(client.get(path))["id"] == name.replace("%0A", "\n").replace("%0D", "\r")
    assert client.delete(path).status_code == 204
    problem(client.get(path), 404, "document_not_found")
    assert good(client.get(f"{DOCUMENTS}/known"))["text"] == "a known document"


def test_every_method_of_an_id_with_line_breaks_is_allowed(client: TestClient) -> None:
    refused = client.post(f"{DOCUMENTS}/a%0Ab")
    problem(refused, 405, "method_not_allowed")
    assert refused.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{DEFAULT}/search"),
        ("GET", f"{DEFAULT}/search?q=x"),
        ("POST", f"{DEFAULT}/events"),
        ("POST", f"{DEFAULT}/documents/delete"),
        ("POST", f"{DEFAULT}/documents/import"),
        ("GET", f"{DEFAULT}/rules"),
        ("POST", "/v1/multi-search"),
        ("GET", "/v1/collections"),
        ("GET", "/livez"),
        ("GET", "/openapi.json"),
        ("GET", "/learning"),
    ],
)
def test_an_address_with_a_line_break_at_its_end_does_not_exist(client: TestClient, method: str, path: str) -> None:
    path, _, query = path.partition("?")
    answer = client.request(method, f"{path}%0A?{query}", json={"q": "x"} if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) in ((404, "not_found"), (405, "method_not_allowed"))
    assert method not in answer.headers.get("allow", "")
