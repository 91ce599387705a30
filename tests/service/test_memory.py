"""Memory over HTTP: merged, bounded, fading, explained, near its own query alone, and taken back without a trace."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.memory.aggregation import Bounds
from service.operations.housekeeping import age_memory
from service.runtime.collection_settings import today
from service.storage.database import rfc3339
from tests.service.client import Spoken, create, event, opened, runtime_of

QUERY = "which tree is tall"
PARAPHRASE = "which tree is very tall"
ELSEWHERE = "maple syrup on pancakes"
TREES = ("oak", "pine", "birch", "willow", "maple")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.operations.housekeeping.SAVE_SECONDS", 3600.0)  # these tests turn the day themselves
        with opened(tmp_path_factory.mktemp("memory") / "data") as client:
            yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> Spoken:
    """A collection of its own, of a few trees."""
    wood = create(client, request.node.name.replace("_", "-").replace("[", "-").rstrip("]")[:100])
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    return wood


def memory_of(wood: Spoken, query: str = QUERY) -> dict[str, float]:
    """Return what memory adds to the logit of each hit, where it adds anything."""
    hits = wood.search(query, explain=True, log=False)["hits"]
    return {hit["id"]: part for hit in hits if (part := hit["explain"]["parts"]["memory"])}


def logits(wood: Spoken, query: str) -> dict[str, float]:
    return {one: logit for one, logit, _ in wood.ranking(query)}


def past_queries(wood: Spoken, document: str, query: str = QUERY) -> list[dict[str, Any]]:
    """Return the past queries that explain a hit."""
    (hit,) = [one for one in wood.search(query, explain=True, log=False)["hits"] if one["id"] == document]
    return [key for key in hit["explain"]["keys"] if key["kind"] == "query"]


def days_ago(days: int) -> str:
    return rfc3339(datetime.now(UTC) - timedelta(days=days))


# --- Near its own query ---


def test_a_paraphrase_profits_less_than_the_query_itself_and_another_query_not_at_all(wood: Spoken) -> None:
    before, elsewhere = wood.ranking(PARAPHRASE), wood.ranking(ELSEWHERE)
    last = before[-1][0]
    for n in range(20):
        wood.act(last, "purchase", user_query=QUERY, client_id=f"client {n}")
    assert wood.ids(PARAPHRASE)[0] == last
    assert 0 < memory_of(wood, PARAPHRASE)[last] < memory_of(wood)[last]
    assert wood.ranking(ELSEWHERE) == elsewhere
    assert memory_of(wood, ELSEWHERE) == {}


def test_a_thumb_down_pushes_its_document_down_near_its_query_and_nowhere_else(wood: Spoken) -> None:
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


def test_who_clicks_and_then_dislikes_dislikes(wood: Spoken) -> None:
    moment = datetime.now(UTC)
    for seconds, action in ((60, "click"), (30, "thumbs_down")):
        told = event("oak", action, user_query=QUERY, client_id="ada")
        wood.post("events", told | {"timestamp": rfc3339(moment - timedelta(seconds=seconds))})
    assert memory_of(wood)["oak"] < 0


# --- Merged and bounded ---


def test_what_a_client_repeats_changes_nothing_and_another_client_does(wood: Spoken) -> None:
    wood.act("oak", user_query=QUERY, client_id="ada")
    once = wood.ranking(QUERY)
    for _ in range(5):
        wood.act("oak", user_query=f" {QUERY.upper()} ", client_id="ada")
    assert wood.ranking(QUERY) == once
    assert wood.get()["counts"]["keys"]["query"] == 6
    wood.act("oak", user_query=QUERY, client_id="bob")
    assert wood.ranking(QUERY) != once


def test_raters_and_clients_of_one_name_are_two(wood: Spoken) -> None:
    wood.act("oak", user_query=QUERY, client_id="ada")
    once = memory_of(wood)["oak"]
    wood.judge(QUERY, "oak", 1, rater="ada")
    assert memory_of(wood)["oak"] > once


def test_taking_back_merged_feedback_leaves_the_rest_as_if_it_had_been_alone(wood: Spoken) -> None:
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


def test_feedback_that_came_in_another_order_gives_the_same_ranking(client: TestClient) -> None:
    told = [
        event(tree, action, user_query=query, client_id=who) | {"timestamp": days_ago(age)}
        for age, (tree, action, query, who) in enumerate(
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
    for name, order in (("forwards", told), ("backwards", told[::-1])):
        wood = create(client, name)
        wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
        untold = wood.ranking(QUERY)
        for one in order:
            wood.post("events", one)
        rankings.append(wood.ranking(QUERY))
        assert rankings[-1] != untold
    assert rankings[0] == rankings[1]


def test_one_client_cannot_fill_the_memory_and_room_is_given_back(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.collection.BOUNDS", Bounds(pairs_per_client=2))
    wood = create(client, "a-busy-client")
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    for age, tree in ((3, "oak"), (2, "pine"), (1, "birch")):
        told = event(tree, user_query=QUERY, client_id="bot", query_id=f"of {tree}") | {"timestamp": days_ago(age)}
        wood.post("events", told)
    assert memory_of(wood).keys() == {"pine", "birch"}
    wood.act("oak", user_query=QUERY, client_id="ada")
    assert memory_of(wood).keys() == {"pine", "birch", "oak"}
    wood.post("events/delete", {"client_id": "ada"})
    wood.post("events/delete", {"query_id": "of birch"})
    assert memory_of(wood).keys() == {"oak", "pine"}


def test_a_document_is_remembered_for_its_strongest_queries_and_the_rest_comes_back(
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


# --- Fading ---


def test_memory_fades_by_the_half_life_of_its_collection(wood: Spoken) -> None:
    wood.client.put(wood.path, json={"memory_half_life_days": 30})
    parts = []
    for age in (0, 30, 60):
        wood.post("events", event("oak", user_query=QUERY, client_id="ada") | {"timestamp": days_ago(age)})
        parts.append(memory_of(wood)["oak"])
        wood.post("events/delete", {"client_id": "ada"})
    assert parts[0] > parts[1] > parts[2] > 0


def test_a_new_half_life_counts_at_once_and_null_ends_fading(wood: Spoken) -> None:
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


def test_memory_fades_when_the_day_changes_and_the_generation_tells(wood: Spoken) -> None:
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


def test_feedback_has_the_day_of_all_others(wood: Spoken) -> None:
    wood.client.put(wood.path, json={"memory_half_life_days": 10})
    wood.act("oak", user_query=QUERY, client_id="ada")
    age_memory(runtime_of(wood.client), today() + 10)
    aged = memory_of(wood)["oak"]
    wood.act("pine", user_query=QUERY, client_id="ada")
    assert memory_of(wood) == {"oak": aged, "pine": aged}
    age_memory(runtime_of(wood.client), today())
    assert memory_of(wood)["pine"] == memory_of(wood)["oak"] > aged


def test_a_restart_remembers_the_same_to_the_bit(tmp_path: Path) -> None:
    rankings = []
    for told in (True, False):
        with opened(tmp_path / "data") as client:
            wood = Spoken(client)
            if told:
                wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
                for n, tree in enumerate(TREES * 4):
                    more = {"user_query": [QUERY, PARAPHRASE, ELSEWHERE][n % 3], "client_id": f"client {n % 7}"}
                    action = ["click", "thumbs_down", "purchase"][n % 4 % 3]
                    wood.post("events", event(tree, action, **more) | {"timestamp": days_ago(n)})
                wood.judge(PARAPHRASE, "oak", 3)
                wood.post("events/delete", {"client_id": "client 3"})
            rankings.append([wood.ranking(query) for query in (QUERY, PARAPHRASE, ELSEWHERE)])
    assert rankings[0] == rankings[1]


def test_where_nothing_is_remembered_a_new_day_is_no_new_generation(wood: Spoken) -> None:
    generation = wood.get()["generation"]
    age_memory(runtime_of(wood.client), today() + 1)
    assert wood.get()["generation"] == generation


def test_without_a_half_life_the_day_changes_nothing(client: TestClient) -> None:
    wood = create(client, "for-good", memory_half_life_days=None)
    wood.add({"id": "oak", "text": "the oak is a tall tree"})
    wood.act("oak", user_query=QUERY)
    generation = wood.get()["generation"]
    age_memory(runtime_of(client), today() + 1000)
    assert wood.get()["settings"]["memory_half_life_days"] is None
    assert wood.get()["generation"] == generation


def test_a_clock_that_is_ahead_makes_no_feedback_that_never_fades(wood: Spoken) -> None:
    wood.client.put(wood.path, json={"memory_half_life_days": 10})
    ahead = {"timestamp": "9999-01-01T00:00:00Z"}
    wood.post("events", event("oak", user_query=QUERY, client_id="ada") | ahead)
    fresh = memory_of(wood)["oak"]
    age_memory(runtime_of(wood.client), today() + 10)
    assert memory_of(wood)["oak"] < fresh


@pytest.mark.parametrize("days", [0, -1, 1.5, "30", 36_501])
def test_a_half_life_is_a_number_of_days(client: TestClient, days: Any) -> None:
    answer = client.put("/v1/collections/default", json={"memory_half_life_days": days})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/memory_half_life_days")


# --- Explained ---


def test_a_past_query_is_explained_by_the_feedback_that_is_merged_in_it(wood: Spoken) -> None:
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


def test_past_queries_that_spoke_against_a_hit_have_a_negative_share(wood: Spoken) -> None:
    wood.act("oak", "thumbs_down", user_query=QUERY, client_id="ada")
    wood.act("oak", "click", user_query=PARAPHRASE, client_id="bob")
    shares = {key["query"]: key["share"] for key in past_queries(wood, "oak")}
    assert shares[QUERY] < 0 < shares[PARAPHRASE]
    assert sum(abs(share) for share in shares.values()) == pytest.approx(1.0)


def test_of_much_feedback_the_last_is_shown_and_all_is_counted(wood: Spoken) -> None:
    wood.post("events", [event("oak", user_query=QUERY, client_id=f"client {n}") for n in range(15)])
    wood.act("oak", "purchase", user_query=QUERY, client_id="the last")
    (key,) = past_queries(wood, "oak")
    assert (key["confirmations"], len(key["feedback"])) == (16, 10)
    assert [one["action_name"] for one in key["feedback"]] == ["purchase"] + ["click"] * 9
