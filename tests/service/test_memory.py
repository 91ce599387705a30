"""Memory over HTTP: it is merged, bounded, aged, explained, acts near its own query, and is deleted without a trace."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from fastapi.testclient import TestClient

from index.memory.grades import Bounds
from service.documents.repository import delete_replaced, move_memory, rows_by_id
from service.operations.housekeeping import age_memory
from service.runtime.collection_settings import today
from service.storage.database import rfc3339
from tests.service.client import CollectionClient, create, event, opened, runtime_of

QUERY = "which tree is tall"
PARAPHRASE = "which tree is very tall"
ELSEWHERE = "maple syrup on pancakes"
TREES = ("oak", "pine", "birch", "willow", "maple")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service whose housekeeping does not run: these tests set the day themselves."""
    with opened(tmp_path_factory.mktemp("memory") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with five documents."""
    wood = create(client, request.node.name.replace("_", "-").replace("[", "-").rstrip("]")[:100])
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    return wood


def memory_of(wood: CollectionClient, query: str = QUERY) -> dict[str, float]:
    """Return the part of memory in the logit of each hit, without zeros."""
    hits = wood.search(query, explain=True, log=False)["hits"]
    return {hit["id"]: part for hit in hits if (part := hit["explain"]["parts"]["memory"])}


def logits(wood: CollectionClient, query: str) -> dict[str, float]:
    return {one: logit for one, logit, _ in wood.ranking(query)}


def past_queries(wood: CollectionClient, document: str, query: str = QUERY) -> list[dict[str, Any]]:
    """Return the past queries in the explanation of a hit."""
    (hit,) = [one for one in wood.search(query, explain=True, log=False)["hits"] if one["id"] == document]
    return [key for key in hit["explain"]["keys"] if key["kind"] == "query"]


def days_ago(days: int) -> str:
    return rfc3339(datetime.now(UTC) - timedelta(days=days))


# --- Near its own query ---


def test_memory_has_less_effect_on_a_paraphrase_and_none_on_another_query(wood: CollectionClient) -> None:
    before, elsewhere = wood.ranking(PARAPHRASE), wood.ranking(ELSEWHERE)
    last = before[-1][0]
    for n in range(20):
        wood.act(last, "purchase", user_query=QUERY, client_id=f"client {n}")
    assert wood.ids(PARAPHRASE)[0] == last
    assert 0 < memory_of(wood, PARAPHRASE)[last] < memory_of(wood)[last]
    assert wood.ranking(ELSEWHERE) == elsewhere
    assert memory_of(wood, ELSEWHERE) == {}


def test_a_thumb_down_lowers_its_document_only_near_its_query(wood: CollectionClient) -> None:
    first = wood.ids(QUERY)[0]
    near, elsewhere = [logits(wood, query) for query in (QUERY, PARAPHRASE)], wood.ranking(ELSEWHERE)
    wood.act(first, "thumbs_down", user_query=QUERY, client_id="ada")
    assert memory_of(wood)[first] < memory_of(wood, PARAPHRASE)[first] < 0
    for before, query in zip(near, (QUERY, PARAPHRASE), strict=True):
        after = logits(wood, query)
        assert after.pop(first) < before.pop(first)
        assert after == before
    assert wood.ids(QUERY)[0] != first
    assert wood.ranking(ELSEWHERE) == elsewhere


def test_a_thumb_down_after_a_click_replaces_the_click(wood: CollectionClient) -> None:
    moment = datetime.now(UTC)
    for seconds, action in ((60, "click"), (30, "thumbs_down")):
        one = event("oak", action, user_query=QUERY, client_id="ada")
        wood.post("events", one | {"timestamp": rfc3339(moment - timedelta(seconds=seconds))})
    assert memory_of(wood)["oak"] < 0


# --- Merged and bounded ---


def test_repeated_events_of_a_client_count_once(wood: CollectionClient) -> None:
    wood.act("oak", user_query=QUERY, client_id="ada")
    once = wood.ranking(QUERY)
    for _ in range(5):
        wood.act("oak", user_query=f" {QUERY.upper()} ", client_id="ada")
    assert wood.ranking(QUERY) == once
    assert wood.get()["counts"]["keys"]["query"] == 6
    wood.act("oak", user_query=QUERY, client_id="bob")
    assert wood.ranking(QUERY) != once


def test_a_rater_and_a_client_with_the_same_name_count_separately(wood: CollectionClient) -> None:
    wood.act("oak", user_query=QUERY, client_id="ada")
    once = memory_of(wood)["oak"]
    wood.judge(QUERY, "oak", 1, rater="ada")
    assert memory_of(wood)["oak"] > once


def test_deleting_merged_feedback_restores_the_ranking_of_the_rest(wood: CollectionClient) -> None:
    wood.act("oak", user_query=QUERY, client_id="ada")
    wood.judge(QUERY, "pine", 2, rater="ada")
    before = wood.ranking(QUERY)
    wood.act("oak", "purchase", user_query=QUERY.title(), client_id="bob")
    wood.act("oak", "thumbs_down", user_query=QUERY, client_id="bob")
    wood.act("pine", user_query=PARAPHRASE, client_id="bob")
    wood.judge(QUERY, "pine", 4, rater="bob")
    assert wood.ranking(QUERY) != before
    wood.post("events/delete", {"client_id": "bob"})
    wood.judge(QUERY, "pine", None, rater="bob")
    assert wood.ranking(QUERY) == before


def test_only_documents_with_memory_have_it_moved_when_they_are_replaced(wood: CollectionClient) -> None:
    wood.judge(QUERY, "oak", 4)
    statements: list[str] = []
    with runtime_of(wood.client).database.write() as connection:
        rows = rows_by_id(connection, wood.id, TREES)
        sqlalchemy.event.listen(connection, "before_cursor_execute", lambda *call: statements.append(call[2]))
        delete_replaced(connection, list(rows.values()))
        move_memory(connection, {row: row + 100 for row in rows.values()})
        connection.rollback()
    assert [one.split()[0] for one in statements] == ["DELETE", "DELETE", "SELECT", "UPDATE"]


def test_the_order_of_feedback_does_not_change_the_ranking(client: TestClient) -> None:
    events = [
        event(tree, action, user_query=query, client_id=client_id) | {"timestamp": days_ago(age)}
        for age, (tree, action, query, client_id) in enumerate(
            [
                ("oak", "click", QUERY, "ada"),
                ("oak", "purchase", PARAPHRASE, "ada"),
                ("pine", "thumbs_down", QUERY, None),
                ("oak", "thumbs_down", QUERY, "ada"),
                ("pine", "click", QUERY, "bob"),
            ]
        )
    ]
    rankings = []
    for name, order in (("forwards", events), ("backwards", events[::-1])):
        wood = create(client, name)
        wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
        without = wood.ranking(QUERY)
        for one in order:
            wood.post("events", one)
        rankings.append(wood.ranking(QUERY))
        assert rankings[-1] != without
    assert rankings[0] == rankings[1]


def test_the_memory_of_a_client_is_bounded_and_deletions_free_it(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.collection.BOUNDS", Bounds(pairs_per_client=2))
    wood = create(client, "a-busy-client")
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    for age, tree in ((3, "oak"), (2, "pine"), (1, "birch")):
        one = event(tree, user_query=QUERY, client_id="bot", query_id=f"of {tree}") | {"timestamp": days_ago(age)}
        wood.post("events", one)
    assert memory_of(wood).keys() == {"pine", "birch"}
    wood.act("oak", user_query=QUERY, client_id="ada")
    assert memory_of(wood).keys() == {"pine", "birch", "oak"}
    wood.post("events/delete", {"client_id": "ada"})
    wood.post("events/delete", {"query_id": "of birch"})
    assert memory_of(wood).keys() == {"oak", "pine"}


def test_a_document_keeps_its_strongest_queries_and_deletions_restore_the_others(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.collection.BOUNDS", Bounds(keys_per_document=1))
    wood = create(client, "a-popular-document")
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    wood.act("oak", "click", user_query=QUERY, client_id="ada")
    before = wood.ranking(QUERY)
    wood.act("oak", "purchase", user_query=PARAPHRASE, client_id="bob")
    assert [key["query"] for key in past_queries(wood, "oak")] == [PARAPHRASE]
    wood.post("events/delete", {"client_id": "bob"})
    assert wood.ranking(QUERY) == before


# --- Ageing ---


def test_memory_ages_by_the_half_life_of_its_collection(wood: CollectionClient) -> None:
    wood.client.put(wood.path, json={"memory_half_life_days": 30})
    parts = []
    for age in (0, 30, 60):
        wood.post("events", event("oak", user_query=QUERY, client_id="ada") | {"timestamp": days_ago(age)})
        parts.append(memory_of(wood)["oak"])
        wood.post("events/delete", {"client_id": "ada"})
    assert parts[0] > parts[1] > parts[2] > 0


def test_a_new_half_life_takes_effect_at_once_and_null_disables_ageing(wood: CollectionClient) -> None:
    assert wood.get()["settings"]["memory_half_life_days"] == 365
    wood.post("events", event("oak", user_query=QUERY) | {"timestamp": days_ago(10)})
    wood.act("pine", user_query=QUERY)
    parts = []
    for days in (None, 365, 5):
        wood.client.put(wood.path, json={"memory_half_life_days": days})
        assert wood.get()["settings"]["memory_half_life_days"] == days
        parts.append(memory_of(wood))
    assert parts[0]["oak"] == parts[0]["pine"]
    assert parts[0]["oak"] > parts[1]["oak"] > parts[2]["oak"]
    assert [one["pine"] for one in parts] == [parts[0]["pine"]] * 3


def test_a_new_day_ages_memory_and_publishes_a_generation(wood: CollectionClient) -> None:
    wood.client.put(wood.path, json={"memory_half_life_days": 10})
    wood.act("oak", user_query=QUERY, client_id="ada")
    fresh, generation = memory_of(wood), wood.get()["generation"]
    age_memory(runtime_of(wood.client), today())
    assert (memory_of(wood), wood.get()["generation"]) == (fresh, generation)
    age_memory(runtime_of(wood.client), today() + 10)
    aged = memory_of(wood)
    assert 0 < aged["oak"] < fresh["oak"]
    assert wood.search(QUERY, log=False)["generation"] == wood.get()["generation"] == generation + 1
    age_memory(runtime_of(wood.client), today())
    assert memory_of(wood) == fresh


def test_new_feedback_has_the_same_day_as_existing_feedback(wood: CollectionClient) -> None:
    wood.client.put(wood.path, json={"memory_half_life_days": 10})
    wood.act("oak", user_query=QUERY, client_id="ada")
    age_memory(runtime_of(wood.client), today() + 10)
    aged = memory_of(wood)["oak"]
    wood.act("pine", user_query=QUERY, client_id="ada")
    assert memory_of(wood) == {"oak": aged, "pine": aged}
    age_memory(runtime_of(wood.client), today())
    assert memory_of(wood)["pine"] == memory_of(wood)["oak"] > aged


def test_a_restart_gives_identical_rankings(tmp_path: Path) -> None:
    rankings = []
    for is_new in (True, False):
        with opened(tmp_path / "data") as client:
            wood = CollectionClient(client)
            if is_new:
                wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
                for n, tree in enumerate(TREES * 4):
                    more = {"user_query": [QUERY, PARAPHRASE, ELSEWHERE][n % 3], "client_id": f"client {n % 7}"}
                    action = ["click", "thumbs_down", "purchase"][n % 4 % 3]
                    wood.post("events", event(tree, action, **more) | {"timestamp": days_ago(n)})
                wood.judge(PARAPHRASE, "oak", 3)
                wood.post("events/delete", {"client_id": "client 3"})
            rankings.append([wood.ranking(query) for query in (QUERY, PARAPHRASE, ELSEWHERE)])
    assert rankings[0] == rankings[1]


def test_without_memory_a_new_day_publishes_no_generation(wood: CollectionClient) -> None:
    generation = wood.get()["generation"]
    age_memory(runtime_of(wood.client), today() + 1)
    assert wood.get()["generation"] == generation


def test_without_a_half_life_a_new_day_changes_nothing(client: TestClient) -> None:
    wood = create(client, "for-good", memory_half_life_days=None)
    wood.add({"id": "oak", "text": "the oak is a tall tree"})
    wood.act("oak", user_query=QUERY)
    generation = wood.get()["generation"]
    age_memory(runtime_of(client), today() + 1000)
    assert wood.get()["settings"]["memory_half_life_days"] is None
    assert wood.get()["generation"] == generation


def test_feedback_with_a_future_timestamp_ages(wood: CollectionClient) -> None:
    wood.client.put(wood.path, json={"memory_half_life_days": 10})
    ahead = {"timestamp": "9999-01-01T00:00:00Z"}
    wood.post("events", event("oak", user_query=QUERY, client_id="ada") | ahead)
    fresh = memory_of(wood)["oak"]
    age_memory(runtime_of(wood.client), today() + 10)
    assert memory_of(wood)["oak"] < fresh


@pytest.mark.parametrize("days", [0, -1, 1.5, "30", 36_501])
def test_an_invalid_half_life_is_refused(client: TestClient, days: Any) -> None:
    answer = client.put("/v1/collections/default", json={"memory_half_life_days": days})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/memory_half_life_days")


# --- Explained ---


def test_a_past_query_is_explained_by_its_merged_feedback(wood: CollectionClient) -> None:
    shown = wood.search(QUERY)["query_id"]
    wood.act("oak", query_id=shown, client_id="ada")
    wood.act("oak", "thumbs_up", user_query=QUERY, client_id="bob")
    wood.judge(QUERY, "oak", 4, rater="eve")
    wood.act("pine", user_query=QUERY)
    (key,) = past_queries(wood, "oak")
    assert (key["query"], key["confirmations"], key["cosine"]) == (QUERY, 3, pytest.approx(1.0))
    assert (key["from"], key["query_id"], key["share"]) == ("judgment", None, 1.0)
    judgment, thumb, click = key["feedback"]
    assert (judgment["from"], judgment["rating"]) == ("judgment", 4)
    assert (thumb["action_name"], thumb["query_id"]) == ("thumbs_up", None)
    assert (click["from"], click["action_name"], click["query_id"]) == ("event", "click", shown)


def test_past_queries_that_rejected_a_hit_have_a_negative_share(wood: CollectionClient) -> None:
    wood.act("oak", "thumbs_down", user_query=QUERY, client_id="ada")
    wood.act("oak", "click", user_query=PARAPHRASE, client_id="bob")
    shares = {key["query"]: key["share"] for key in past_queries(wood, "oak")}
    assert shares[QUERY] < 0 < shares[PARAPHRASE]
    assert sum(abs(share) for share in shares.values()) == pytest.approx(1.0)


def test_an_explanation_shows_the_newest_feedback_and_counts_all(wood: CollectionClient) -> None:
    wood.post("events", [event("oak", user_query=QUERY, client_id=f"client {n}") for n in range(15)])
    wood.act("oak", "purchase", user_query=QUERY, client_id="the last")
    (key,) = past_queries(wood, "oak")
    assert (key["confirmations"], len(key["feedback"])) == (16, 10)
    assert [one["action_name"] for one in key["feedback"]] == ["purchase"] + ["click"] * 9
