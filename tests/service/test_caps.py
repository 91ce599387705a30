"""Every limit of a request: the largest value is accepted, and the next one is refused with its code."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.service.client import DEFAULT, CollectionClient, event, opened

Make = Callable[[int], Any]
INVALID = "invalid_request"


def words(n: int) -> str:
    """Return a text of n characters."""
    return "a" * n


def search(field: str, make: Make, most: int, code: str = INVALID) -> Any:
    return pytest.param("POST", "search", lambda n: {"q": "owl", field: make(n)}, most, code, id=f"search {field}")


def body(method: str, path: str, name: str, make: Make, most: int, code: str = INVALID) -> Any:
    return pytest.param(method, path, make, most, code, id=f"{path} {name}")


def conditions(n: int) -> str:
    return " OR ".join(["year = 1"] * n)


def nested(n: int) -> str:
    return "(" * n + "year = 1" + ")" * n


def deep_event(n: int) -> dict[str, Any]:
    inner: Any = "bottom"
    for _ in range(n - 2):  # the event itself and the text are levels
        inner = {"in": inner}
    return event("owl", "look", more=inner)


def batch_item(field: str, make: Make) -> Make:
    return lambda n: {"id": "owl", "text": "an owl", field: make(n)}


CAPS = [
    search("q", words, 2048),
    search("limit", int, 1000),
    search("candidates", int, 2000),
    search("filter", lambda n: "year = 1".ljust(n), 4096),
    search("filter", conditions, 64, "invalid_filter"),
    search("filter", nested, 8, "invalid_filter"),
    search("filter", lambda n: f"year IN [{','.join('1' * n)}]", 1000, "invalid_filter"),
    search("facets", lambda n: [f"f{at}" for at in range(n)], 16),
    search("sort", lambda n: ["year:asc"] * n, 4),
    search("fields", lambda n: [f"f{at}" for at in range(n)], 64),
    search("snippet_length", int, 2000),
    search("context", lambda n: ["owl"] * n, 20),
    search("explore", int, 1),
    search("client_id", words, 256),
    search("session_id", words, 256),
    body("POST", "search", "window", lambda n: {"q": "owl", "limit": 10, "offset": n - 10}, 10_000),
    body("PUT", "documents/owl", "title", batch_item("title", words), 2000),
    body("PUT", "documents/owl", "url", batch_item("url", words), 4096),
    body("PUT", "documents/owl", "text", batch_item("text", words), 1_000_000),
    body("PUT", "documents/owl", "fields", batch_item("metadata", lambda n: {f"f{at}": 1 for at in range(n)}), 256),
    body("PUT", "documents/owl", "field name", batch_item("metadata", lambda n: {words(n): 1}), 128),
    body("PUT", "documents/owl", "value", batch_item("metadata", lambda n: {"f": words(n)}), 10_000),
    body("PUT", "documents/owl", "values", batch_item("metadata", lambda n: {"f": ["x"] * n}), 1000),
    body("POST", "documents?wait=9", "batch", lambda n: {"documents": [{"id": "owl", "text": "x"}] * n}, 1000,
         "too_many_documents"),
    body("PATCH", "documents", "batch", lambda n: {"documents": [{"id": "owl"}] * n}, 1000, "too_many_documents"),
    body("POST", "documents/delete", "ids", lambda n: {"ids": ["nothing"] * n}, 10_000),
    body("POST", "events", "batch", lambda n: [event("owl", "look")] * n, 1000, "too_many_events"),
    body("POST", "judgments", "batch", lambda n: {"judgments": [None] * n}, 1000, "too_many_judgments"),
    body("POST", "events/delete", "client_id", lambda n: {"client_id": words(n)}, 512),
    body("PUT", "rules/r", "pins", lambda n: {"query": {"exact": "owl"}, "pin": [
        {"id": f"d{at}", "position": at + 1} for at in range(n)]}, 50),
    body("PUT", "rules/r", "position", lambda n: {"query": {"exact": "owl"}, "pin": [{"id": "d", "position": n}]},
         1000),
    body("PUT", "rules/r", "hides", lambda n: {"query": {"exact": "owl"}, "hide": [f"d{at}" for at in range(n)]}, 200),
    body("PUT", "rules/r", "text", lambda n: {"query": {"contains": ("owl " * n)[:n]}, "hide": ["d"]}, 2048),
    body("PUT", "", "filterable", lambda n: {"filterable": ["year", *(f"f{at}" for at in range(n - 1))]}, 64),
    body("PUT", "", "retention_days", lambda n: {"retention_days": n}, 36_500),
    body("PUT", "", "memory_half_life_days", lambda n: {"memory_half_life_days": n}, 36_500),
    body("PUT", "", "stop_words", lambda n: {"stop_words": [f"w{at}" for at in range(n)]}, 1000),
    body("PUT", "", "hours", lambda n: {"train": {"every_hours": n}}, 8760),
    body("POST", "recommend", "like", lambda n: {"like": ["owl"] * n}, 100),
    body("POST", "recommend", "window", lambda n: {"like": ["owl"], "limit": 10, "offset": n - 10}, 1000),
    body("POST", "training-runs", "seconds", lambda n: {"budget_seconds": n}, 3600),
    body("PUT", "models/aliases/champion", "reason", lambda n: {"version": 0, "reason": words(n)}, 1000),
]  # fmt: skip
ITEMS = {
    "action_name": (lambda n: event("owl", words(n)), 100),
    "user_query": (lambda n: event("owl", user_query=words(n)), 2048),
    "client_id": (lambda n: event("owl", "look", client_id=words(n)), 512),
    "position": (lambda n: event("owl", "look", position=n), 1_000_000),
    "nesting": (deep_event, 32),
}
"""What one event of a batch may hold: the batch is accepted, and this event is refused."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("caps") / "data") as client:
        client.put(DEFAULT, json={"filterable": ["year"]})
        CollectionClient(client).add({"id": "owl", "text": "an owl"})
        yield client


def send(client: TestClient, method: str, path: str, value: Any) -> Any:
    return client.request(method, f"{DEFAULT}/{path}".rstrip("/"), json=value)


@pytest.mark.parametrize(("method", "path", "make", "most", "code"), CAPS)
def test_the_largest_value_is_accepted_and_the_next_refused(
    client: TestClient, method: str, path: str, make: Make, most: int, code: str
) -> None:
    accepted, refused = (send(client, method, path, make(n)) for n in (most, most + 1))
    assert (refused.status_code, refused.json()["code"]) == (422, code)
    assert accepted.status_code < 500
    assert accepted.is_success or accepted.json()["code"] not in (code, INVALID), accepted.text


@pytest.mark.parametrize("name", ITEMS)
def test_an_event_of_the_largest_size_is_accepted_and_a_larger_one_refused(client: TestClient, name: str) -> None:
    make, most = ITEMS[name]
    answer = send(client, "POST", "events", [make(most), make(most + 1)]).json()
    assert answer["accepted"] == 1, answer
    assert [one["index"] for one in answer["rejected"]] == [1]


@pytest.mark.parametrize(("name", "most"), [("document id", 512), ("key of a repeated request", 255)])
def test_names_have_a_largest_length(client: TestClient, name: str, most: int) -> None:
    for n, refused in ((most, False), (most + 1, True)):
        if name == "document id":
            answer = client.put(f"{DEFAULT}/documents/{words(n)}", json={"text": "an owl"})
        else:
            headers = {"Idempotency-Key": words(n)}
            answer = client.post(f"{DEFAULT}/search", json={"q": "owl"}, headers=headers)
        assert answer.is_success != refused
        assert not refused or answer.status_code == 422
