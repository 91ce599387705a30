"""A query that is being typed is completed with logged queries that led to clicks and that several clients sent."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.suggestions import repository
from service.suggestions.actions import prefix_of
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of

MIN_CLIENTS = 3
"""The default."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("suggestions") / "data") as client:
        yield client


@pytest.fixture
def shop(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    shop = create(client, name[:100])
    shop.add({"id": "a", "text": "a shoe"})
    return shop


def click(shop: CollectionClient, query: str, clients: int = MIN_CLIENTS, action: str = "click") -> None:
    for number in range(clients):
        assert shop.act("a", action, user_query=query, client_id=f"client-{number}")["accepted"] == 1


def suggested(shop: CollectionClient, q: str, **more: Any) -> list[str]:
    return [one["q"] for one in shop.get("suggestions", q=q, **more)["suggestions"]]


def test_completions_come_by_the_number_of_clicks(shop: CollectionClient) -> None:
    click(shop, "red shoe", 4)
    click(shop, "red hat", 5)
    click(shop, "blue hat", 6)
    click(shop, "red boot", 4)
    assert suggested(shop, "red") == ["red hat", "red boot", "red shoe"]
    assert suggested(shop, "red", limit=1) == ["red hat"]
    assert shop.get("suggestions", q="b")["suggestions"] == [{"q": "blue hat", "clicks": 6}]


def test_a_query_of_fewer_than_three_clients_is_not_suggested(shop: CollectionClient) -> None:
    click(shop, "my own name", MIN_CLIENTS - 1)
    for _ in range(5):
        shop.act("a", user_query="my own name", client_id="client-0")
        shop.act("a", user_query="my own name")
    assert suggested(shop, "my") == []
    shop.act("a", user_query="My  own name", client_id="client-9")
    assert suggested(shop, "my") == ["my own name"]


def test_clients_that_searched_count_like_clients_that_clicked(shop: CollectionClient) -> None:
    for number in range(MIN_CLIENTS - 1):
        shop.search("green sock", client_id=f"searcher-{number}")
    runtime_of(shop.client).impressions.flush()
    shop.act("a", user_query="green sock", client_id="client-0")
    assert suggested(shop, "green") == ["green sock"]


@pytest.mark.parametrize("action", ["impression", "thumbs_down", "hover"])
def test_a_query_without_a_positive_action_is_not_suggested(shop: CollectionClient, action: str) -> None:
    click(shop, "bad shoe", 4, action)
    assert suggested(shop, "bad") == []


def test_the_most_frequent_spelling_is_shown_and_case_does_not_matter(shop: CollectionClient) -> None:
    click(shop, "Größe  XL", 4)
    click(shop, "größe xl", 3)
    assert suggested(shop, "GRÖ") == ["Größe  XL"]


def test_a_blank_at_the_end_ends_the_word(shop: CollectionClient) -> None:
    click(shop, "car seat")
    click(shop, "carpet")
    assert suggested(shop, "car") == ["car seat", "carpet"]
    assert suggested(shop, "car ") == ["car seat"]
    assert suggested(shop, " \t") == []
    assert prefix_of("  A  B ") == "a b "


@pytest.mark.parametrize("q", ["%", "_", "re%", "'"], ids=["percent", "underscore", "prefix", "quote"])
def test_no_character_is_a_pattern(shop: CollectionClient, q: str) -> None:
    click(shop, "red shoe")
    assert suggested(shop, q) == []


def test_deleted_events_are_not_suggested(shop: CollectionClient) -> None:
    click(shop, "red shoe")
    shop.post("events/delete", {"client_id": "client-0"})
    assert suggested(shop, "red") == []


def test_a_request_that_is_not_as_documented_is_refused(shop: CollectionClient) -> None:
    address = f"{shop.path}/suggestions"
    problem(shop.client.get(address), 422, "invalid_request")
    problem(shop.client.get(address, params={"q": "a", "limit": 51}), 422, "invalid_request")
    problem(shop.client.get(address, params={"q": "a" * 2049}), 422, "invalid_request")
    problem(shop.client.get("/v1/collections/nowhere/suggestions?q=a"), 404, "collection_not_found")


@pytest.mark.sqlite
def test_the_query_reads_a_range_of_the_index(shop: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []
    with runtime_of(shop.client).database.read() as connection:
        execute = connection.execute

        def explained(statement: Any) -> Any:
            sql = str(statement.compile(connection, compile_kwargs={"literal_binds": True}))
            plans.extend(row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}"))
            return execute(statement)

        monkeypatch.setattr(connection, "execute", explained)
        repository.clicked_queries(connection, shop.id, "re")
        repository.client_counts(connection, shop.id, "re")
    searches = [plan for plan in plans if "events" in plan or "queries" in plan]
    assert len(searches) == 6, "each range is counted and read"
    assert all("source>? AND source<?" in plan for plan in searches)


def test_the_owner_chooses_how_many_clients_a_suggestion_needs(shop: CollectionClient) -> None:
    click(shop, "red shoe", 4)
    click(shop, "red hat", 5)
    good(shop.client.put(shop.path, json={"suggestions": {"min_clients": 5}}))
    assert suggested(shop, "red") == ["red hat"]
    settings = good(shop.client.put(shop.path, json={"suggestions": {"off_words": ["hat"]}}))["settings"]
    assert settings["suggestions"] == {"min_clients": 5, "off_words": ["hat"]}
    assert suggested(shop, "red") == []


@pytest.mark.parametrize(
    ("off", "left"),
    [
        (["CAFÉ"], ["a red shoe"]),
        (["red shoe"], ["a cafe with shoes", "a shoed café-owner"]),
        (["shoe"], ["a cafe with shoes", "a shoed café-owner"]),
        (["!"], ["a cafe with shoes", "a red shoe", "a shoed café-owner"]),
    ],
)
def test_a_query_with_an_excluded_word_or_phrase_is_not_suggested(
    shop: CollectionClient, off: list[str], left: list[str]
) -> None:
    for query in ("a red shoe", "a cafe with shoes", "a shoed café-owner"):
        click(shop, query)
    good(shop.client.put(shop.path, json={"suggestions": {"off_words": off}}))
    assert suggested(shop, "a") == left


def test_a_prefix_of_many_queries_is_completed_with_the_newest(
    shop: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "MAX_ROWS", 8)
    monkeypatch.setattr(repository, "NEWEST", 10)
    for query in ("kite", "ka first", "knife", "kettle"):
        click(shop, query, 4)
    click(shop, "other", 1)
    assert suggested(shop, "k") == ["kettle", "knife"], "one event of the first key is among the newest ten"
    assert suggested(shop, "kn") == ["knife"]
    assert suggested(shop, "ki") == ["kite"], "all events of a longer prefix are read"
