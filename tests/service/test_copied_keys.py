"""What a copied key of a web page can do: its events, what its requests count as, and the keys that must remain."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.http import rate_limits
from service.storage.checked_rows import is_sound, stored_rows
from tests.service.authorised import Keys
from tests.service.client import DEFAULT, CollectionClient, event, good, opened, problem, runtime_of
from tests.service.test_exports import imported, records_of

PAGE = "https://shop.example"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("copied") / "data") as client:
        CollectionClient(client).add({"id": "a", "text": "a known document"})
        yield client


@pytest.fixture(scope="module")
def keys(client: TestClient) -> Keys:
    return Keys.first(client)


def test_events_count_for_documents_that_a_search_showed(client: TestClient, keys: Keys) -> None:
    key = keys.headers("search", "events", origins=[PAGE]) | {"Origin": PAGE}
    shown = good(client.post(f"{DEFAULT}/search", json={"q": "a first visit"}, headers=key))["query_id"]
    sent = [
        event("a", user_query="a second visit"),
        event("a", query_id=shown),
        event("a", "own_action", user_query="a third visit"),
    ]
    assert good(client.post(f"{DEFAULT}/events", json=sent, headers=key))["accepted"] == 3
    with runtime_of(client).database.read() as connection:
        stored = connection.exec_driver_sql(
            "SELECT query_text, grade IS NULL FROM events WHERE query_text LIKE 'a %% visit' ORDER BY id"
        ).all()
    assert [(text, bool(without)) for text, without in stored] == [
        ("a second visit", True),
        ("a first visit", False),
        ("a third visit", True),
    ]
    assert runtime_of(client).collection("default").generation.memory.count == 1
    other = keys.headers("events")
    assert good(client.post(f"{DEFAULT}/events", json=event("a", user_query="by a server"), headers=other))
    assert runtime_of(client).collection("default").generation.memory.count == 2


def test_events_of_the_page_alone_bring_no_document_first_and_undo_no_judgment(client: TestClient, keys: Keys) -> None:
    query, path = "a long text", f"{DEFAULT}/search"
    page = keys.headers("search", "events", origins=[PAGE]) | {"Origin": PAGE}
    server = keys.headers("search", "events", "write")
    texts = [{"id": f"long{n}", "text": "a long text " + f"word{n} " * n} for n in range(1, 6)]
    assert good(client.post(f"{DEFAULT}/documents?wait=60", json={"documents": texts}, headers=server))

    def ids() -> list[str]:
        body = {"q": query, "log": False, "limit": 10}
        return [hit["id"] for hit in good(client.post(path, json=body, headers=server))["hits"]]

    def act(key: dict[str, str], client_id: str, document: str, action: str = "click") -> None:
        body = {"q": query, "limit": 10, "client_id": client_id}
        shown = good(client.post(path, json=body, headers=key))["query_id"]
        sent = event(document, action, query_id=shown, client_id=client_id)
        assert good(client.post(f"{DEFAULT}/events", json=sent, headers=key))["accepted"] == 1

    *_, judged, last = ids()
    for made_up in ("ada", "bob", "carl", "dora"):
        act(page, made_up, last)
    assert ids()[0] != last
    act(server, "a buyer", last, "purchase")
    assert ids()[0] == last
    sent = {"judgments": [{"query": query, "document_id": judged, "rating": 4}]}
    assert good(keys.act("POST", f"{DEFAULT}/judgments", sent))
    assert ids()[:2] == [judged, last]
    act(page, "eve", judged, "thumbs_down")
    assert ids()[:2] == [judged, last]
    act(server, "fred", judged, "thumbs_down")
    assert ids()[0] == last


def test_an_export_and_doctor_know_who_sent_an_event(client: TestClient, keys: Keys, tmp_path: Path) -> None:
    page = keys.headers("search", "events", origins=[PAGE]) | {"Origin": PAGE}
    for key, client_id in ((page, "by the page"), (keys.headers("events"), "by a server")):
        sent = event("a", user_query="a known document", client_id=client_id)
        assert good(client.post(f"{DEFAULT}/events", json=sent, headers=key))["accepted"] == 1
    exported = keys.act("GET", "/v1/export").content
    flags = {one["client_id"]: one["from_browser"] for one in records_of(exported) if one["type"] == "event"}
    assert (flags["by the page"], flags["by a server"]) == (True, False)
    with opened(tmp_path / "copy") as other:
        assert imported(other, exported)["status"] == "succeeded"
        with runtime_of(other).database.read() as connection:
            rows = {row["client_id"]: row for row in stored_rows(connection, "events")}
        assert {name: bool(row["from_browser"]) for name, row in rows.items()} == flags
    for name, row in rows.items():
        assert is_sound("events", row)
        for flipped in (not flags[name], "t", b"x", 0.5):
            assert not is_sound("events", row | {"from_browser": flipped})


@pytest.mark.parametrize(
    ("searches", "further"),
    [([{"q": "a"}] * 4, 6), ([{"q": "a", "explain": "matrix"}], 0), ([{"q": "a", "explain": "matrix"}] * 9, 0)],
)
def test_searches_of_a_multi_search_and_matrices_count_in_the_rate(
    client: TestClient, keys: Keys, monkeypatch: pytest.MonkeyPatch, searches: list[dict[str, str]], further: int
) -> None:
    monkeypatch.setattr(rate_limits.time, "time", lambda: 1_800_000_000.0)
    key = keys.headers("search", rate_per_minute=10)
    body = {"searches": [{"collection": "default", **one} for one in searches]}
    first = client.post("/v1/multi-search", json=body, headers=key)
    assert first.is_success
    left = [client.post(f"{DEFAULT}/search", json={"q": "a", "log": False}, headers=key) for _ in range(further + 1)]
    assert [one.is_success for one in left] == [True] * further + [False]


def test_the_last_admin_key_without_an_expiry_stays(client: TestClient, keys: Keys) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    short = keys.make("admin", expires_at=soon)
    lasting = next(key for key in good(keys.act("GET", "/v1/keys"))["keys"] if "admin" in key["scopes"])
    problem(keys.act("DELETE", f"/v1/keys/{lasting['id']}"), 409, "last_admin_key")
    assert keys.act("DELETE", f"/v1/keys/{short['id']}").is_success
