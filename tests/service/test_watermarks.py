"""Answers about a collection have its watermark, for callers that may use it and for web pages that may read it."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.service.authorised import Keys
from tests.service.client import create, good, opened

HEADER = "x-softseek-watermark"
PAGE = "https://shop.example"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("watermarks") / "data") as client:
        create(client, "mine").add({"id": "a", "text": "a document"})
        create(client, "other").add({"id": "b", "text": "another document"})
        good(client.put("/v1/aliases/public", json={"collection": "other"}))
        yield client


@pytest.fixture(scope="module")
def keys(client: TestClient) -> Keys:
    return Keys.first(client)


@pytest.mark.parametrize(("method", "end"), [("GET", "/zzz"), ("PATCH", ""), ("PUT", "/search"), ("GET", "/a/b/c")])
@pytest.mark.parametrize("name", ["other", "public", "nothing"])
def test_no_answer_tells_of_a_collection_that_the_key_does_not_cover(
    client: TestClient, keys: Keys, name: str, method: str, end: str
) -> None:
    key = keys.headers("search", "write", collections=["mine"])
    for headers in (key, {**key, HEADER: "other:0:1"}, {**key, HEADER: "mine:0:1"}):
        answer = client.request(method, f"/v1/collections/{name}{end}", headers=headers)
        assert answer.json()["code"] in ("not_found", "method_not_allowed")
        assert HEADER not in answer.headers
        assert "other" not in answer.text.replace(f"/v1/collections/{name}", "")


def test_an_error_of_a_collection_has_its_watermark(client: TestClient, keys: Keys) -> None:
    key = keys.headers("search", collections=["mine"])
    answer = client.get("/v1/collections/mine/documents/unknown", headers=key)
    assert (answer.status_code, answer.headers[HEADER]) == (404, "mine:0:1")


def test_a_page_of_a_key_may_send_and_read_a_watermark(client: TestClient, keys: Keys) -> None:
    key = keys.headers("search", collections=["mine"], origins=[PAGE])
    path = "/v1/collections/mine/search"
    preflight = client.options(path, headers={"Origin": PAGE, "Access-Control-Request-Method": "POST"})
    assert HEADER in preflight.headers["access-control-allow-headers"].lower().split(", ")
    answer = client.post(path, json={"q": "document"}, headers={**key, "Origin": PAGE, HEADER: "mine:0:1"})
    assert (answer.status_code, answer.headers[HEADER]) == (200, "mine:0:1")
    assert HEADER in answer.headers["access-control-expose-headers"].lower().split(", ")
