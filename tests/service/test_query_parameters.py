"""Every route of the API refuses query parameters that it does not have, and those that are given twice."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.http.query_parameters import MORE_THAN_ONCE, NOT_UTF8, UNKNOWN
from tests.service.client import DEFAULT, SECRET, CollectionClient, good, opened, problem


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("query") / "data") as client:
        CollectionClient(client).add({"id": "oak", "text": "a tree with acorns"}, {"id": "elm", "text": "a tree"})
        yield client


def refused(client: TestClient, method: str, path: str, **more: Any) -> list[dict[str, str]]:
    """Return the errors of a request that is not as documented."""
    errors: list[dict[str, str]] = problem(client.request(method, path, **more), 422, "invalid_request")["errors"]
    return errors


def test_no_operation_ignores_an_unknown_parameter(client: TestClient) -> None:
    paths = good(client.get("/openapi.json"))["paths"]
    operations = [(path, method) for path, of in paths.items() if path.startswith("/v1/") for method in of]
    assert len(operations) > 50
    for path, method in operations:
        address = path.replace("{collection}", "default").replace("{", "").replace("}", "")
        errors = refused(client, method, f"{address}?q=tree&colour={SECRET}" if "search" in path else f"{address}?x=1")
        assert [one["pointer"] for one in errors if one["pointer"] in ("/colour", "/x")], (method, path)


@pytest.mark.parametrize(
    ("method", "path", "pointers"),
    [
        ("GET", f"{DEFAULT}/documents?offset=5&limit=2", {"/offset": UNKNOWN}),
        ("GET", f"{DEFAULT}/documents?limit=5&limit=2&a/b=", {"/limit": MORE_THAN_ONCE, "/a~1b": UNKNOWN}),
        ("GET", f"{DEFAULT}/models/compare?a=1&b=2&c=3", {"/c": UNKNOWN}),
        ("POST", f"{DEFAULT}/documents/import?mapping=strict&mapping=lenient", {"/mapping": MORE_THAN_ONCE}),
    ],
)
def test_the_problem_names_the_parameter(client: TestClient, method: str, path: str, pointers: dict[str, str]) -> None:
    assert {one["pointer"]: one["detail"] for one in refused(client, method, path)} == pointers


def test_frequent_requests_are_no_exception(client: TestClient) -> None:
    assert refused(client, "POST", f"{DEFAULT}/search?limit=1", json={"q": "tree"})[0]["pointer"] == "/limit"
    assert refused(client, "POST", f"{DEFAULT}/events?a=1", json=[])[0]["pointer"] == "/a"
    assert refused(client, "GET", f"{DEFAULT}/search?q=a&q=b")[0]["detail"] == MORE_THAN_ONCE
    assert refused(client, "GET", f"{DEFAULT}/search?q=a&log=true&log=false")[0]["detail"] == MORE_THAN_ONCE
    assert refused(client, "GET", f"{DEFAULT}/search?q=a&size=3")[0]["detail"] == UNKNOWN


@pytest.mark.parametrize("query", ["q=%FF", "q=a%C3", "q=%C3&limit=3", "q=%ED%A0%80", "q=%c0%af", "q=%F8%88%80%80%80"])
def test_a_query_that_is_not_utf8_is_refused(client: TestClient, query: str) -> None:
    for operation in ("search", "suggestions"):
        errors = refused(client, "GET", f"{DEFAULT}/{operation}?{query}")
        assert errors == [{"pointer": "/q", "detail": NOT_UTF8}]


def test_no_operation_reads_a_parameter_that_is_not_utf8(client: TestClient) -> None:
    for method, path in (
        ("GET", f"{DEFAULT}/documents?cursor=%FF&limit=%FE"),
        ("POST", f"{DEFAULT}/documents/import?mapping=%FF"),
    ):
        names = [part.partition("=")[0] for part in path.partition("?")[2].split("&")]
        assert refused(client, method, path) == [{"pointer": f"/{name}", "detail": NOT_UTF8} for name in names]
    assert refused(client, "GET", f"{DEFAULT}/search?q=a&%FF=b")[0]["detail"] == NOT_UTF8


@pytest.mark.parametrize("q", ["gr%C3%BC%C3%9Fe", "%F0%9F%98%80", "100%", "%zz", "a+b%2B%26"])
def test_every_utf8_text_is_a_query(client: TestClient, q: str) -> None:
    good(client.get(f"{DEFAULT}/search?q={q}"))


def test_declared_parameters_pages_and_checks_of_health_are_answered(client: TestClient) -> None:
    page = good(client.get(f"{DEFAULT}/documents?limit=1&cursor="))
    assert len(page["documents"]) == 1
    assert client.post(f"{DEFAULT}/documents/import?id_field=a&mapping=lenient", content=b"").status_code == 202
    for path in ("/?q=tree&theme=dark", "/livez?verbose=1", "/readyz?x=1", "/static/search.js?v=2"):
        assert client.get(path).status_code == 200, path
