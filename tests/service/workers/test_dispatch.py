"""Which requests a worker answers, and which it passes on."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.http.request_counter import NOT_MIRRORED
from service.workers.cells import NO_POSITION
from service.workers.dispatch import Dispatch
from tests.service.workers.pairs import Pair, paired

SEARCH = "/v1/collections/default/search"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with paired(tmp_path / "data") as one:
        yield one


class Answering:
    """An application that answers with a status, and keeps the requests that it got."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def asked(
    pair: Pair, path: str = SEARCH, method: str = "POST", status: int = 200, key: str = ""
) -> tuple[list[bytes], list[bytes], list[int]]:
    """Return the bodies that the worker's application and the other process got, and the statuses that were sent."""
    ours, theirs, statuses = Answering(status), Answering(), []
    parts = iter([b'{"q": ', b'"a"}'])

    async def receive() -> Message:
        body = next(parts)
        return {"type": "http.request", "body": body, "more_body": body.endswith(b" ")}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
    scope = {"type": "http", "path": path, "method": method, "headers": headers}
    application: Any = Dispatch(ours, theirs, lambda: pair.follower)  # type: ignore[arg-type]
    asyncio.run(application(scope, receive, send))
    return ours.bodies, theirs.bodies, statuses


WHOLE = [b'{"q": "a"}']


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (SEARCH, "POST"),
        (SEARCH, "GET"),
        (SEARCH, "HEAD"),
        ("/v1/multi-search", "POST"),
        ("/v1/collections/default/recommend", "POST"),
        ("/v1/collections/default/suggestions", "GET"),
        ("/v1/collections/default/suggestions", "HEAD"),
        ("/livez", "GET"),
        ("/livez", "HEAD"),
    ],
)
def test_reading_requests_and_liveness_are_answered_here(pair: Pair, path: str, method: str) -> None:
    pair.publish()
    assert asked(pair, path, method)[:2] == (WHOLE, [])


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (SEARCH, "PUT"),
        (SEARCH, "OPTIONS"),
        ("/v1/collections/default/documents/search", "PUT"),
        ("/v1/multi-search", "GET"),
        ("/v1/multi-search", "HEAD"),
        ("/v1/collections/default/recommend", "GET"),
        ("/v1/collections/default/suggestions", "POST"),
        ("/v1/collections/missing/search", "POST"),
        ("/v1/collections/missing/recommend", "POST"),
        ("/readyz", "GET"),
        ("/readyz", "HEAD"),
        ("/metrics", "GET"),
    ],
)
def test_everything_else_is_passed_on(pair: Pair, path: str, method: str) -> None:
    pair.publish()
    assert asked(pair, path, method)[:2] == ([], WHOLE)


def test_a_change_that_was_published_is_applied_before_the_search(pair: Pair) -> None:
    pair.client.put("/v1/collections/default/documents/a", json={"text": "walnut"})
    pair.publisher.publish()
    assert not pair.follower.has_reached(pair.follower.published)
    assert asked(pair)[:2] == (WHOLE, [])
    assert pair.follower.has_reached(pair.follower.published)


def test_a_search_is_passed_on_while_nothing_is_published(pair: Pair) -> None:
    pair.publisher._cells.position = NO_POSITION
    assert asked(pair)[:2] == ([], WHOLE)


def test_a_search_that_cannot_be_answered_is_passed_on_with_its_body(pair: Pair) -> None:
    pair.publish()
    assert asked(pair, status=NOT_MIRRORED) == (WHOLE, WHOLE, [200])


def test_keys_with_a_rate_are_counted_by_one_process(pair: Pair) -> None:
    admin = pair.client.post("/v1/keys", json={"name": "admin", "scopes": ["admin"]}).json()["key"]
    headers = {"Authorization": f"Bearer {admin}"}
    body = {"name": "page", "scopes": ["search"], "rate_per_minute": 5}
    limited = pair.client.post("/v1/keys", json=body, headers=headers)
    assert limited.status_code == 201, limited.text
    pair.publish()
    assert asked(pair, key=admin)[:2] == (WHOLE, [])
    assert asked(pair, key=limited.json()["key"])[:2] == ([], WHOLE)
    assert asked(pair, key="wrong")[:2] == (WHOLE, [])
