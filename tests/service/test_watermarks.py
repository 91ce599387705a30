"""Answers about a collection have its watermark, for callers that may use it and for web pages that may read it."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anyio import to_thread
from fastapi.testclient import TestClient

from service.http import watermarks
from tests.service.authorised import Keys
from tests.service.client import DEADLINE_SECONDS, create, good, opened, problem, runtime_of

HEADER = "x-softseek-watermark"
PAGE = "https://shop.example"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("watermarks") / "data") as client:
        create(client, "mine").add({"id": "a", "text": "a document"})
        create(client, "other").add({"id": "b", "text": "another document"})
        good(client.put("/v1/aliases/public", json={"collection": "other"}))
        yield client


def epoch_of(client: TestClient) -> int:
    """Return the epoch of the watermarks: 0 with SQLite."""
    return runtime_of(client).epoch


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
    assert (answer.status_code, answer.headers[HEADER]) == (404, f"mine:{epoch_of(client)}:1")


def test_a_page_of_a_key_may_send_and_read_a_watermark(client: TestClient, keys: Keys) -> None:
    key = keys.headers("search", collections=["mine"], origins=[PAGE])
    path, mine = "/v1/collections/mine/search", f"mine:{epoch_of(client)}:1"
    preflight = client.options(path, headers={"Origin": PAGE, "Access-Control-Request-Method": "POST"})
    assert HEADER in preflight.headers["access-control-allow-headers"].lower().split(", ")
    answer = client.post(path, json={"q": "document"}, headers={**key, "Origin": PAGE, HEADER: mine})
    assert (answer.status_code, answer.headers[HEADER]) == (200, mine)
    assert HEADER in answer.headers["access-control-expose-headers"].lower().split(", ")


def test_writes_whose_address_names_no_collection_have_a_watermark(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        for name, count in (("green", 1), ("blue", 2)):
            made = create(client, name)
            for number in range(count):
                made.add({"id": str(number), "text": "a document"})
        pointed = client.put("/v1/aliases/live", json={"collection": "green"})
        again = client.put("/v1/aliases/other", json={"collection": "live"})
        epoch = epoch_of(client)
        assert pointed.headers[HEADER] == again.headers[HEADER] == f"green:{epoch}:1"
        assert client.delete("/v1/aliases/live").headers[HEADER] == f"green:{epoch}:1"
        assert HEADER not in client.delete("/v1/aliases/live").headers
        swap = client.post("/v1/collections/swap", json={"a": "green", "b": "blue"})
        assert swap.headers[HEADER] == f"green:{epoch}:2, blue:{epoch}:1"
        erasure = client.post("/v1/erasures", json={"client": "ada", "collection": "blue"})
        assert erasure.headers[HEADER] == f"blue:{epoch}:1"
        assert HEADER not in client.post("/v1/erasures", json={"client": "ada"}).headers
        assert HEADER not in client.delete("/v1/collections/blue").headers


def test_a_client_may_send_what_the_last_answer_had(tmp_path: Path) -> None:
    """After a multi-search, a swap, and a change of an alias, the watermarks of other collections are ignored."""
    with opened(tmp_path / "data") as client:
        for name in ("green", "blue"):
            create(client, name).add({"id": name, "text": "a document"})
        searches = [{"collection": name, "q": "document"} for name in ("green", "blue")]
        both = client.post("/v1/multi-search", json={"searches": searches}).headers[HEADER]
        epoch = epoch_of(client)
        assert both == f"green:{epoch}:1, blue:{epoch}:1"
        good(client.put("/v1/aliases/live", json={"collection": "blue"}))
        for wanted in (both, f"green:{epoch}:1", f"green:{epoch}:999", f"green:7:1, blue:{epoch}:1"):
            for method, end, body in (("POST", "search", {"q": "a"}), ("PUT", "documents/x", {"text": "a document"})):
                answer = client.request(method, f"/v1/collections/live/{end}", json=body, headers={HEADER: wanted})
                assert answer.is_success, answer.text
        beyond = client.post(
            "/v1/collections/live/search", json={"q": "a"}, headers={HEADER: f"green:{epoch}:1, blue:{epoch}:999"}
        )
        problem(beyond, 503, "watermark_not_reached")
        for wrong in ("green", "green:0:1;blue:0:1", "green:0:1,", "\u00fc:0:1"):
            answer = client.post(
                "/v1/collections/live/search", json={"q": "a"}, headers={HEADER: wrong.encode("latin-1")}
            )
            problem(answer, 422, "invalid_request")


class Following:
    """The states of a process that follows another. They never reach a state that it does not have."""

    follows = True

    def state_of(self, name: str) -> tuple[str, int, int] | None:
        return name, 1, 7


def refused(count: int) -> list[Any]:
    """Return the problems of so many requests at the same time, in a process in which all threads are occupied."""

    async def ask() -> list[Any]:
        release = threading.Event()
        limiter = to_thread.current_default_thread_limiter()
        limiter.total_tokens = 1
        occupying = asyncio.create_task(to_thread.run_sync(release.wait))
        await asyncio.sleep(0)
        try:
            asked = (watermarks.unreached_state(Following(), ["mine"], "mine:1:8") for _ in range(count))
            return await asyncio.wait_for(asyncio.gather(*asked), 60)
        finally:
            release.set()
            await occupying

    return asyncio.run(ask())


def test_waiting_for_a_state_occupies_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermarks, "WAIT_SECONDS", 0.05)
    assert [(one.status, one.code) for one in refused(50)] == [(503, "watermark_not_reached")] * 50


def test_a_limited_number_of_requests_wait_for_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, waited = watermarks.Waits(2), []

    async def sleep(_: float) -> None:
        waited.append(waits._count)
        await asyncio.tasks.sleep(0)

    monkeypatch.setattr(watermarks, "WAITS", waits)
    monkeypatch.setattr(watermarks, "WAIT_SECONDS", 5)
    with monkeypatch.context() as patched:
        patched.setattr(watermarks, "asyncio", SimpleNamespace(sleep=sleep))
        patched.setattr(watermarks, "time", SimpleNamespace(monotonic=lambda: len(waited)))  # only sleeps take time
        assert [one.code for one in refused(5)] == ["watermark_not_reached"] * 5
    assert (max(waited), waits._count) == (2, 0)


def test_a_request_waits_until_the_state_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermarks, "WAIT_SECONDS", DEADLINE_SECONDS)
    asked: list[int] = []

    class Advancing(Following):
        def state_of(self, name: str) -> tuple[str, int, int] | None:
            asked.append(1)
            return name, 1, 7 + len(asked) // 5

    assert asyncio.run(watermarks.unreached_state(Advancing(), ["mine"], "mine:1:8")) is None
    assert len(asked) >= 5
