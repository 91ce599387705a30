"""The report of queries counts what people search and click, from the log."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from service.queries import repository
from service.runtime.explored_slates import is_repeatable
from service.storage.database import first_id, new_id, rfc3339
from service.storage.tables import QUERIES
from tests.service.client import CollectionClient, create, opened, problem, runtime_of

TREES = ("oak", "pine", "birch")
OLD = "2020-01-01T00:00:00.000Z"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("queries") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection of three trees."""
    wood = create(client, re.sub(r"[^a-z0-9]+", "-", request.node.name)[:100])
    wood.add(*({"id": tree, "text": f"the {tree} is a tree"} for tree in TREES))
    return wood


def searched(wood: CollectionClient, q: str, *clicked: int, client_id: str | None = None, **more: Any) -> str:
    """Search, click on the hits at these positions, and return the id of the search."""
    found = wood.search(q, client_id=client_id, **more)
    for position in clicked:
        wood.act(found["hits"][position - 1]["id"], query_id=found["query_id"], client_id=client_id)
    query_id: str = found["query_id"]
    return query_id


def change(wood: CollectionClient, query_id: str, **values: Any) -> None:
    """Change the row of a logged search."""
    runtime = runtime_of(wood.client)
    runtime.impressions.flush()
    with runtime.database.write() as connection:
        connection.execute(update(QUERIES).where(QUERIES.c.query_id == query_id).values(**values))


def searched_without_answer(wood: CollectionClient, q: str, *clicked: int, **more: Any) -> str:
    """Search as with a calibrated model that says that no document answers the query."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.search.actions.UNANSWERED", 0.0)
        patch.setattr("service.search.actions._is_null_calibrated", lambda *_: True)
        return searched(wood, q, *clicked, **more)


def texts(report: dict[str, Any]) -> list[str]:
    return [one["q"] for one in report["queries"]]


def test_searches_clients_and_clicks_are_counted_for_each_query(wood: CollectionClient) -> None:
    searched(wood, "tree", 3, 2, client_id="ada")
    searched(wood, "Tree ", 1, client_id="bob")
    searched(wood, "tree", client_id="bob")
    searched(wood, "oak", client_id="cyd")
    report = wood.get("queries")
    tree, oak = report["queries"]
    assert tree["q"] in ("tree", "Tree ")
    assert (tree["searches"], tree["clients"], tree["clicked"]) == (3, 2, 2)
    assert tree["reciprocal_rank"] == pytest.approx((1 / 2 + 1 / 1 + 0) / 3)
    assert (oak["q"], oak["searches"], oak["clicked"], oak["reciprocal_rank"]) == ("oak", 1, 0, 0)
    total = report["total"]
    assert (total["searches"], total["clients"], total["clicked"], report["distinct"]) == (4, 3, 2, 2)
    assert total["reciprocal_rank"] == pytest.approx(1.5 / 4)
    assert total["first"] <= tree["last"] <= total["last"] == oak["last"]


def test_a_click_on_a_document_beyond_the_list_counts_at_its_own_position(wood: CollectionClient) -> None:
    found = wood.search("tree", limit=1)
    (other, further) = [tree for tree in TREES if tree != found["hits"][0]["id"]]
    wood.act(other, query_id=found["query_id"])
    total = wood.get("queries")["total"]
    assert (total["clicked"], total["reciprocal_rank"]) == (1, 0)
    wood.act(further, query_id=found["query_id"], position=2)
    assert wood.get("queries")["total"]["reciprocal_rank"] == 0.5


def test_sessions_stand_for_clients_and_a_search_without_both_is_one(wood: CollectionClient) -> None:
    for names in ({"client_id": "ada"}, {"session_id": "s"}, {"session_id": "s"}, {}, {}):
        wood.search("tree", **names)
    assert wood.get("queries")["total"]["clients"] == 4


def test_a_dislike_and_an_event_without_a_grade_are_no_clicks(wood: CollectionClient) -> None:
    found = wood.search("tree")
    for action in ("thumbs_down", "hovered"):
        wood.act(found["hits"][0]["id"], action, query_id=found["query_id"])
    assert wood.get("queries")["total"]["clicked"] == 0


def test_the_order_is_by_searches_by_those_without_a_click_or_by_those_without_an_answer(
    wood: CollectionClient,
) -> None:
    for _ in range(3):
        searched(wood, "tree", 1)
    for _ in range(2):
        searched(wood, "leaves")
    searched_without_answer(wood, "quantum", 1)
    assert texts(wood.get("queries")) == ["tree", "leaves", "quantum"]
    assert texts(wood.get("queries", order="without_click")) == ["leaves", "tree", "quantum"]
    report = wood.get("queries", order="unanswered", limit=1)
    assert (texts(report), report["queries"][0]["unanswered"]) == (["quantum"], 1)
    assert report["distinct"] == 3


def test_a_logged_search_says_that_it_had_no_answer(wood: CollectionClient) -> None:
    shown = wood.get(f"queries/{searched_without_answer(wood, 'quantum')}")
    assert shown["answered"] is False
    assert "answered" not in shown["request"]
    assert wood.get(f"queries/{searched(wood, 'oak')}")["answered"] is None


def test_an_explored_search_without_an_answer_can_be_repeated(wood: CollectionClient) -> None:
    query_id = searched_without_answer(wood, "quantum tree", explore=1.0)
    runtime = runtime_of(wood.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        logged = select(QUERIES.c.request).where(QUERIES.c.query_id == query_id)
        request = connection.execute(logged).scalar_one()
    assert request["answered"] is False
    assert is_repeatable(request)


def test_days_and_models_have_counts_of_their_own(wood: CollectionClient) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    old = searched(wood, "tree", 2, client_id="ada")
    change(wood, old, created_at=rfc3339(yesterday), model_version=7)
    searched(wood, "oak", 1, client_id="ada")
    report = wood.get("queries", days=2)
    assert [(one["date"], one["searches"], one["reciprocal_rank"]) for one in report["days"]] == [
        (yesterday.date().isoformat(), 1, 0.5),
        (report["days"][1]["last"][:10], 1, 1),
    ]
    assert [(one["version"], one["searches"], one["clicked"]) for one in report["models"]] == [(0, 1, 1), (7, 1, 1)]
    assert report["total"]["clients"] == 1


def test_searches_before_the_days_do_not_count(wood: CollectionClient) -> None:
    change(wood, searched(wood, "tree"), created_at=OLD)
    searched(wood, "oak")
    assert texts(wood.get("queries", days=30)) == ["oak"]
    assert texts(wood.get("queries", days=3650)) == ["oak", "tree"]


def test_without_a_search_there_is_no_total(wood: CollectionClient) -> None:
    wood.search("oak", log=False)
    wood.search("*")
    report = wood.get("queries")
    assert report.pop("since") < rfc3339(datetime.now(UTC) - timedelta(days=29))
    assert report == {"total": None, "distinct": 0, "queries": [], "days": [], "models": []}


def test_other_collections_do_not_count(wood: CollectionClient, client: TestClient) -> None:
    create(client, "field").search("tree")
    searched(wood, "oak")
    assert texts(wood.get("queries")) == ["oak"]


def test_the_newest_searches_count_where_there_are_many(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "MAX_SEARCHES", 2)
    monkeypatch.setattr("service.queries.actions.MAX_SEARCHES", 2)
    for q in ("tree", "oak", "pine"):
        searched(wood, q)
    report = wood.get("queries")
    assert (sorted(texts(report)), report["total"]["searches"]) == (["oak", "pine"], 2)
    assert report["since"] == report["total"]["first"]


@pytest.mark.parametrize("wrong", [{"days": 0}, {"days": 3651}, {"order": "clicks"}, {"limit": 0}, {"limit": 1001}])
def test_wrong_parameters_are_refused(wood: CollectionClient, wrong: dict[str, Any]) -> None:
    problem(wood.client.get(f"{wood.path}/queries", params=wrong), 422, "invalid_request")


def test_the_first_id_of_a_moment_is_below_the_ids_made_from_then_on() -> None:
    moment = datetime.now(UTC)
    assert first_id(moment) <= new_id()
    assert first_id(moment + timedelta(seconds=5)) > new_id()
