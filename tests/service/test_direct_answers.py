"""The most frequent requests are answered without the framework, and exactly as the framework answers them."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from service.app import DIRECT
from service.http.requests import INLINE_BYTES
from service.search import actions
from tests.service.client import DEFAULT, SECRET, CollectionClient, opened, runtime_of, today

SEARCH, EVENTS = f"{DEFAULT}/search", f"{DEFAULT}/events"
VOLATILE = ("query_id", "took_ms", "timings_ms")
EVENT = {"action_name": "click", "user_query": "acorns", "event_attributes": {"object": {"object_id": "oak"}}}
VALID = b'{"q":"acorns","limit":1}'


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("direct")) as client:
        CollectionClient(client).add({"id": "oak", "text": "a tree with acorns"}, {"id": "elm", "text": "a tree"})
        yield client


def in_parts(*parts: bytes) -> Any:
    """Return a body without a Content-Length."""
    yield from parts


def seen_by_framework(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the paths of the requests that reach the router from now on."""
    router, seen = client.app.router, []  # type: ignore[attr-defined]
    inner = router.middleware_stack

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])
        await inner(scope, receive, send)

    monkeypatch.setattr(router, "middleware_stack", noting)
    return seen


def comparable(answer: httpx.Response) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and body, without what differs between equal searches."""
    headers, body = dict(answer.headers), answer.content
    if "x-softseek-watermark" in headers:  # its number counts the events
        headers["x-softseek-watermark"] = headers["x-softseek-watermark"].rpartition(":")[0]
    if answer.status_code != 200 or b'"took_ms"' not in body:
        return answer.status_code, headers, body
    headers.pop("content-length")
    return answer.status_code, headers, {name: one for name, one in answer.json().items() if name not in VOLATILE}


def both_ways(client: TestClient, method: str, path: str, **request: Any) -> tuple[httpx.Response, httpx.Response]:
    """Return the answers of the service and of the framework alone to a request; `parts` is a body in parts."""
    given = {name: value for name, value in request.items() if name != "parts"}

    def answer() -> httpx.Response:
        parts = {"content": in_parts(*request["parts"])} if "parts" in request else {}
        return client.request(method, path, **given, **parts)

    directly = answer()
    with pytest.MonkeyPatch.context() as patch:
        for name in list(DIRECT):
            patch.delitem(DIRECT, name)
        return directly, answer()


@pytest.mark.parametrize(
    ("method", "path", "request_"),
    [
        ("POST", SEARCH, {"content": VALID}),
        ("POST", SEARCH, {"content": VALID, "headers": {"content-type": "text/plain"}}),
        ("POST", SEARCH, {"parts": (b'{"q":', b'"acorns"}')}),
        ("POST", SEARCH, {"json": {"q": "acorns", "log": False, "explain": True, "filter": None}}),
        ("POST", f"{DEFAULT.replace('default', '%64efault')}/search", {"content": VALID}),
        ("POST", EVENTS, {"json": EVENT | {"timestamp": today()}}),
        ("POST", EVENTS, {"json": [EVENT | {"timestamp": today()}, {"action_name": 7}, SECRET]}),
        ("POST", EVENTS, {"content": b'{"action_name":"click"}\n{"action_name":"click"}\n'}),
        ("POST", EVENTS, {"json": EVENT | {"timestamp": today()}, "headers": {"idempotency-key": "direct"}}),
        ("GET", "/livez", {}),
    ],
)  # fmt: skip
def test_an_answer_is_the_answer_of_the_framework(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, method: str, path: str, request_: dict[str, Any]
) -> None:
    seen = seen_by_framework(client, monkeypatch)
    directly, by_framework = both_ways(client, method, path, **request_)
    assert directly.status_code < 300
    assert comparable(directly) == comparable(by_framework)
    assert len(seen) == (0 if "idempotency-key" in request_.get("headers", {}) else 1)


@pytest.mark.parametrize(
    ("method", "path", "request_"),
    [
        *(("POST", SEARCH, {"content": body}) for body in (
            b"", b"null", b"[]", b'"q"', b"7", b"{", b'{"q":NaN}', b"{}", b'{"q":""}', b'{"q":7,"limit":"10"}',
            b'{"q":"a","limit":0,"offset":-1,"mode":"x"}', b'{"q":"a","unknown":1}', b'{"q":" "}', b'\xff{"q":"a"}',
            b'{"q":"a","filter":"price >"}', b'{"q":"a","facets":["colour"]}', b'{"q":"a","model":99}',
            b'{"q":"\\ud800"}', b'{"q":"a","client_id":"' + b"x" * 300 + b'"}', b"[" * 2000,
            b'{"q":"' + b"a" * INLINE_BYTES + b'"}', b'{"q":"a"' + b" " * INLINE_BYTES + b"}",
        )),
        *(("POST", SEARCH, {"parts": parts}) for parts in (
            (b"",), (b'{"q":', b"7}"), (b'{"q":"', b"a" * INLINE_BYTES, b'"', b"}"), (b" " * 2**20,) * 9,
        )),
        ("POST", "/v1/collections/nowhere/search", {"content": VALID}),
        ("POST", "/v1/collections/nowhere/search", {"content": b"{}"}),
        ("POST", "/v1/collections/a%2Fb/search", {"content": VALID}),
        ("POST", f"{SEARCH}/", {"content": VALID}),
        ("PUT", SEARCH, {"content": VALID}),
        ("GET", SEARCH, {"params": {"q": "acorns"}}),
        *(("POST", EVENTS, {"content": body}) for body in (b"", b"{", b"null", b"7", b'"a"', b"[" * 2000, b"a\nb")),
        ("POST", EVENTS, {"json": [EVENT] * 1001}),
        ("POST", "/v1/collections/nowhere/events", {"json": EVENT}),
        ("HEAD", "/livez", {}),
        ("POST", "/livez", {}),
    ],
)  # fmt: skip
def test_a_problem_is_the_problem_of_the_framework(
    client: TestClient, method: str, path: str, request_: dict[str, Any]
) -> None:
    directly, by_framework = both_ways(client, method, path, **request_)
    assert comparable(directly) == comparable(by_framework)


@pytest.mark.parametrize(
    ("error", "status"), [(OSError(errno.ENOSPC, "full"), 507), (OSError("broken"), 500), (ValueError(SECRET), 500)]
)
def test_a_failure_is_the_failure_of_the_framework(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_given: Any) -> None:
        raise error

    monkeypatch.setattr(actions, "answered", fail)
    runtime_of(client).forget_queries()
    directly, by_framework = both_ways(client, "POST", SEARCH, content=VALID)
    assert directly.status_code == status
    assert comparable(directly) == comparable(by_framework)
    assert SECRET not in directly.text


@pytest.mark.parametrize(("spaces", "reaches"), [(0, 0), (INLINE_BYTES - len(VALID), 0), (INLINE_BYTES, 1)])
def test_a_long_body_is_left_to_the_framework(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, spaces: int, reaches: int
) -> None:
    """It reads a long body in a thread, so that other requests do not wait."""
    seen = seen_by_framework(client, monkeypatch)
    assert client.post(SEARCH, content=VALID + b" " * spaces).status_code == 200
    assert len(seen) == reaches


def test_every_direct_operation_is_an_operation(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"].values()
    assert set(DIRECT) <= {operation["operationId"] for path in paths for operation in path.values()}


def test_a_key_without_the_scope_gets_no_direct_answer(tmp_path: Path) -> None:
    with opened(tmp_path / "keys") as client:
        made = client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]}).json()
        owner = {"Authorization": f"Bearer {made['key']}"}
        made = client.post("/v1/keys", json={"name": "events", "scopes": ["events"]}, headers=owner).json()
        sender = {"Authorization": f"Bearer {made['key']}"}
        answers = [client.post(SEARCH, content=VALID, headers=one).status_code for one in ({}, sender, owner)]
        assert answers == [401, 403, 200]
        answers = [client.post(EVENTS, json=EVENT, headers=one).status_code for one in ({}, sender, owner)]
        assert answers == [401, 202, 202]
        assert client.get("/livez").status_code == 200
