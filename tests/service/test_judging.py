"""The judging list has the queries and documents whose judgment decides most."""

import re
from collections.abc import Iterator
from math import log2
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from index.ranking.attention import AttentionHead
from index.ranking.checkpoint import head_files
from service.judging import actions
from service.judging.actions import discount
from service.runtime.model_registry import register
from service.storage.tables import EVENTS
from tests.service.client import CollectionClient, create, event, opened, problem, runtime_of

TREES = ("oak", "pine", "birch", "willow", "maple")
OLD = "2020-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("judging") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection of five trees."""
    wood = create(client, re.sub(r"[^a-z0-9]+", "-", request.node.name)[:100])
    texts = {tree: f"the {tree} is a tree" + " with leaves" * number for number, tree in enumerate(TREES)}
    wood.add(*({"id": tree, "title": tree.title(), "text": text} for tree, text in texts.items()))
    return wood


def listed(wood: CollectionClient, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = wood.get("judging", **more)["queries"]
    return found


def challenge(wood: CollectionClient, scale: float = -1.0) -> None:
    """Register a challenger: the untrained model with its evidence weights times `scale`."""
    runtime = runtime_of(wood.client)
    state = runtime.collection(wood.name)
    initial = AttentionHead(state.initial)
    files = head_files(initial.changed(beta=scale * initial.beta), {"kind": "by hand"})
    with state.lock, runtime.database.write() as connection:
        facts: dict[str, dict[str, Any]] = {"lineage": {}, "report": {}, "decision": {}}
        register(state, connection, files, 1, facts)


def search_by(wood: CollectionClient, query: str, *clients: str | None) -> None:
    for client_id in clients:
        wood.search(query, client_id=client_id)


def test_feedback_on_a_logged_search_is_by_its_client(wood: CollectionClient) -> None:
    for n, (of_search, of_event) in enumerate((("ada", None), ("bob", "bob"), (None, "cyd"))):
        found = wood.search("tree", client_id=of_search, session_id=f"s{n}" if of_search else None)
        wood.act("oak", query_id=found["query_id"], client_id=of_event)
    (one,) = listed(wood)
    assert (one["searches"], one["clients"]) == (3, 3)


def test_queries_come_by_clients_times_entropy(wood: CollectionClient) -> None:
    search_by(wood, "tree", "ada", "bob", "cyd")
    search_by(wood, "leaves", *["ada"] * 9)
    first, second = listed(wood)
    assert (first["q"], first["clients"], first["searches"]) == ("tree", 3, 3)
    assert (second["q"], second["clients"], second["searches"]) == ("leaves", 1, 9)
    assert first["measure"] == "entropy"
    assert first["uncertainty"] == pytest.approx(wood.search("tree", log=False)["attention"]["entropy"])
    assert first["score"] == 3 * first["uncertainty"]
    assert first["reason"].startswith("3 clients in 90 days; the attention weights have an entropy of ")
    assert [one["q"] for one in listed(wood, limit=1)] == ["tree"]


def test_documents_come_in_the_order_of_the_champion_with_title_and_snippet(wood: CollectionClient) -> None:
    search_by(wood, "leaves", "ada")
    (query,) = listed(wood)
    hits = wood.search("leaves", log=False, snippet=True)["hits"]
    assert [(one["id"], one["rank"]) for one in query["documents"]] == [(hit["id"], hit["position"]) for hit in hits]
    assert [one["title"] for one in query["documents"]] == [hit["title"] for hit in hits]
    assert query["documents"][0]["snippet"] == hits[0]["snippet"]
    assert query["documents"][0]["disagreement"] is query["documents"][0]["challenger_rank"] is None


def test_judged_documents_and_complete_queries_leave_the_list(wood: CollectionClient) -> None:
    search_by(wood, "tree", "ada")
    wood.judge("TREE", "oak", 0)
    wood.judge("tree", "pine", 4, rater="bob")
    (query,) = listed(wood)
    assert {one["id"] for one in query["documents"]} == {"birch", "willow", "maple"}
    for tree in TREES:
        wood.judge("tree", tree, 1)
    assert listed(wood) == []


def test_all_spellings_of_some_words_are_one_query_with_the_judgments_of_each(wood: CollectionClient) -> None:
    search_by(wood, "tree?", "ada", "bob")
    search_by(wood, "tree", "cyd")
    search_by(wood, "trees", "cyd")
    wood.judge('"tree"', "oak", 1)
    wood.judge("tree", "pine", 1)
    first, second = listed(wood)
    assert (first["q"], second["q"]) == ("tree?", "trees")
    assert {one["id"] for one in first["documents"]} == {"birch", "willow", "maple"}
    assert len(second["documents"]) == len(TREES)


def test_where_champion_and_challenger_differ_the_disagreement_of_their_ranks_decides(wood: CollectionClient) -> None:
    search_by(wood, "leaves", "ada", "bob")
    challenge(wood)
    answer = wood.get("judging")
    assert (answer["champion"], answer["challenger"]) == (0, 1)
    (query,) = answer["queries"]
    ours, theirs = ({id: at for at, id in enumerate(wood.ids("leaves", model=one), 1)} for one in ("champion", 1))
    expected = {id: abs(1 / log2(1 + ours[id]) - 1 / log2(1 + theirs[id])) for id in ours}
    assert {one["id"]: one["disagreement"] for one in query["documents"]} == pytest.approx(expected)
    assert all(
        (one["rank"], one["challenger_rank"]) == (ours[one["id"]], theirs[one["id"]]) for one in query["documents"]
    )
    shown = [one["disagreement"] for one in query["documents"]]
    assert shown == sorted(shown, reverse=True)
    assert query["measure"] == "disagreement"
    assert query["score"] == pytest.approx(2 * sum(expected.values()))
    assert "rank these documents differently" in query["reason"]


def test_a_challenger_that_ranks_alike_leaves_the_entropy(wood: CollectionClient) -> None:
    search_by(wood, "leaves", "ada")
    challenge(wood, scale=1.0)
    (query,) = listed(wood)
    assert (query["measure"], query["documents"][0]["disagreement"]) == ("entropy", 0.0)


def test_a_document_of_one_list_alone_has_no_rank_in_the_other(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_by(wood, "leaves", "ada")
    challenge(wood)
    monkeypatch.setattr(actions, "FIRST", 1)
    (query,) = listed(wood)
    mine, theirs = query["documents"]
    assert {(one["rank"], one["challenger_rank"]) for one in (mine, theirs)} == {(1, None), (None, 1)}
    assert mine["disagreement"] == theirs["disagreement"] == discount(1) == 1.0


def test_queries_with_feedback_are_listed_without_a_search(wood: CollectionClient) -> None:
    wood.act("oak", user_query="Old leaves", timestamp=OLD, client_id="ada")
    wood.act("oak", user_query="new leaves", client_id="ada")
    wood.act("oak", user_query="new leaves", client_id="bob")
    wood.act("oak", "impression", user_query="seen only")
    wood.judge("judged leaves", "oak", 3)
    clients = {one["q"]: (one["clients"], one["searches"]) for one in listed(wood)}
    assert clients == {"Old leaves": (0, 0), "new leaves": (2, 0), "judged leaves": (0, 0)}
    assert all(one["score"] > 0 for one in listed(wood)), "a query without clients counts as one of a client"


def test_an_old_event_of_a_client_whose_clock_is_ahead_is_old(wood: CollectionClient) -> None:
    wood.act("oak", user_query="new leaves", timestamp="2999-01-01T00:00:00Z", client_id="ada")
    assert [one["clients"] for one in listed(wood)] == [1]
    with runtime_of(wood.client).database.write() as connection:
        connection.execute(update(EVENTS).values(created_at=OLD))
    assert [one["clients"] for one in listed(wood)] == [0]


def test_a_search_without_a_client_counts_as_a_client_together_with_its_click(wood: CollectionClient) -> None:
    query_id = wood.search("leaves")["query_id"]
    wood.act("oak", query_id=query_id)
    wood.search("leaves")
    wood.search("leaves", session_id="s")
    wood.search("leaves", session_id="s")
    (query,) = listed(wood)
    assert (query["clients"], query["searches"]) == (3, 4)


def test_searches_of_more_than_90_days_ago_do_not_count(wood: CollectionClient) -> None:
    wood.search("leaves")
    runtime = runtime_of(wood.client)
    runtime.impressions.flush()
    with runtime.database.write() as connection:
        connection.exec_driver_sql("UPDATE queries SET created_at = ? WHERE collection_id = ?", (OLD, wood.id))
    assert listed(wood) == []


def test_texts_that_cannot_be_searched_are_left_out(wood: CollectionClient) -> None:
    wood.act("oak", user_query=" ")
    wood.act("oak", user_query="*")
    wood.post("events", event(None, "thumbs_up", session_id="s"))
    assert listed(wood) == []


def test_pinned_documents_are_left_out(wood: CollectionClient) -> None:
    search_by(wood, "leaves", "ada")
    rule = {"query": {"exact": "leaves"}, "pin": [{"id": "oak", "position": 1}]}
    assert wood.client.put(f"{wood.path}/rules/r", json=rule).is_success
    (query,) = listed(wood)
    assert "oak" not in {one["id"] for one in query["documents"]}


def test_the_number_of_searches_is_bounded_and_they_are_not_logged(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tree in TREES:
        search_by(wood, tree, "ada")
    search_by(wood, "tree", "ada", "bob")
    for tree in TREES:
        wood.judge("tree", tree, 2)
    monkeypatch.setattr(actions, "MAX_SEARCHES", 4)
    assert len(listed(wood)) == 4, "the query with all its documents judged is searched last"
    challenge(wood)
    assert len(listed(wood)) == 2, "two lists for each query"
    runtime = runtime_of(wood.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        count = "SELECT count(*) FROM queries WHERE collection_id = ?"
        assert connection.exec_driver_sql(count, (wood.id,)).scalar() == len(TREES) + 2


def test_an_empty_collection_has_nothing_to_judge(client: TestClient) -> None:
    assert create(client, "empty").get("judging") == {"champion": 0, "challenger": None, "queries": []}


@pytest.mark.parametrize("limit", [0, 51, "all"])
def test_a_limit_out_of_range_is_refused(wood: CollectionClient, limit: Any) -> None:
    problem(wood.client.get(f"{wood.path}/judging", params={"limit": limit}), 422, "invalid_request")
