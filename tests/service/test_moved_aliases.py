"""An alias is moved while a request that names it waits for its body: the key covers what the alias names then."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest

from tests.service.authorised import bearer
from tests.service.client import DEADLINE_SECONDS, event, good
from tests.service.server import served

TEXTS = {"shop-1": "an iron pot", "shop-2": "an iron pan"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(tmp_path_factory.mktemp("moved") / "data") as port:
        yield port


@pytest.fixture(scope="module")
def admin(port: int) -> Iterator[httpx.Client]:
    """A client with a key that may do everything, of a service with two shops."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=DEADLINE_SECONDS) as client:
        for name, text in TEXTS.items():
            good(client.put(f"/collections/{name}", json={}))
            good(client.put(f"/collections/{name}/documents/d", json={"text": text}))
        first = good(client.post("/keys", json={"name": "first", "scopes": ["admin"]}))["key"]
        client.headers.update(bearer(first))
        yield client


@pytest.fixture(scope="module")
def key(admin: httpx.Client) -> str:
    wanted = {"name": "of shop-1", "scopes": ["search", "events", "write", "train"], "collections": ["shop-1"]}
    made: str = good(admin.post("/keys", json=wanted))["key"]
    return made


@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/search", b'{"q": "iron"}'),
        ("PUT", "/documents/other", b'{"text": "a copper kettle"}'),
        ("PUT", "", b'{"retention_days": 30}'),
        ("POST", "/recommend", b'{"like": ["d"]}'),
        ("POST", "/events", orjson.dumps(event("d", user_query="iron"))),
        ("POST", "/events", orjson.dumps([event("d", user_query="iron")] * 500)),
        ("POST", "/judgments", b'{"judgments": [{"query": "iron", "document_id": "d", "rating": 4}]}'),
    ],
    ids=["search", "document", "settings", "recommend", "event", "events", "judgments"],
)
def test_a_request_reaches_no_collection_that_its_key_does_not_cover(
    port: int, admin: httpx.Client, key: str, method: str, path: str, body: bytes, is_moved: bool
) -> None:
    def state() -> tuple[Any, Any]:
        documents = good(admin.get("/collections/shop-2/documents"))["documents"]
        return documents, good(admin.get("/collections/shop-2"))["settings"]

    before = state()
    good(admin.put("/aliases/shop", json={"collection": "shop-1"}))
    head = f"{method} /v1/collections/shop{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    head += f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as held:
        held.sendall(head.encode() + b"Expect: 100-continue\r\n\r\n")
        assert held.recv(100).startswith(b"HTTP/1.1 100")  # it waits for the body
        if is_moved:
            good(admin.put("/aliases/shop", json={"collection": "shop-2"}))
        held.sendall(body)
        answer = b"".join(iter(lambda: held.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404" if is_moved else b"HTTP/1.1 20")
    assert (b"collection_not_found" in answer) == is_moved
    assert b"shop-2" not in answer
    assert state() == before
