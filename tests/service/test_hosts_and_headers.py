"""The service answers for its own names only, and browsers treat its answers as data."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.service.client import DEFAULT, opened, problem


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    names = "search.example.org, *.intern.example.org"
    with opened(tmp_path_factory.mktemp("hosts") / "data", allowed_hosts=names, host="softseek.example.org") as client:
        yield client


def asked(client: TestClient, host: str, path: str = "/livez") -> Any:
    return client.get(path, headers={"host": host})


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST:8080", "app.localhost", "127.0.0.1:8080", "192.168.1.7", "[::1]:8080", "softseek",
        "softseek.example.org", "search.example.org:443", "Search.Example.org.", "a.b.intern.example.org",
    ],
)  # fmt: skip
def test_the_names_of_the_service_are_answered(client: TestClient, host: str) -> None:
    assert asked(client, host).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example.com", "localhost.evil.com", "127.0.0.1.evil.com", "intern.example.org", "xsearch.example.org"],
)
def test_another_name_is_refused_on_every_path(client: TestClient, host: str) -> None:
    for path in ("/livez", "/", "/static/search.js", DEFAULT):
        assert "SOFTSEEK_ALLOWED_HOSTS" in problem(asked(client, host, path), 421, "host_not_allowed")["detail"]


def test_a_star_allows_every_name(tmp_path: Any) -> None:
    with opened(tmp_path / "data", allowed_hosts="*") as client:
        assert asked(client, "any.example.com").status_code == 200


@pytest.mark.parametrize("path", ["/livez", DEFAULT, "/v1/nowhere", "/metrics", "/openapi.json"])
def test_data_is_neither_sniffed_nor_stored_nor_framed(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]


def test_pages_keep_their_own_headers(client: TestClient) -> None:
    headers = client.get("/").headers
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["referrer-policy"] == "same-origin"
    assert client.get("/static/search.js").headers["cache-control"] == "no-cache"
    unlogged = client.get(f"{DEFAULT}/search", params={"q": "x"})
    assert unlogged.headers["cache-control"] == "no-cache"
