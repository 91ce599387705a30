"""Feedback changes the next search, can be deleted without a trace, and becomes training examples."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.learning.examples import Feedback
from service.operations.retention import forget_old_feedback
from service.runtime.feedback_log import gather_feedback
from service.storage.database import rfc3339
from tests.service.client import CollectionClient, create, event, ndjson, opened, runtime_of

QUERY = "which tree is tall"
TREES = ("oak", "pine", "birch", "willow", "maple")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("feedback") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with five documents."""
    wood = create(client, request.node.name.replace("_", "-").replace("[", "-").rstrip("]")[:100])
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    return wood


def logits(wood: CollectionClient, query: str = QUERY) -> dict[str, float]:
    return {one: logit for one, logit, _ in wood.ranking(query)}


def learned_from(wood: CollectionClient) -> dict[str, tuple[dict[str, float], dict[str, dict[int, int]] | None]]:
    """Return query key -> (gains, shown) by document id, as training receives them."""
    runtime = runtime_of(wood.client)
    state = runtime.collection(wood.name)
    rows = {}
    with runtime.database.read() as connection:
        found: list[Feedback] = gather_feedback(connection, state.id)
        for row in connection.exec_driver_sql("SELECT row, id FROM documents WHERE collection_id = ?", (state.id,)):
            rows[row[0]] = row[1]

    def by_id(values: Any) -> Any:
        return None if values is None else {rows[row]: value for row, value in values.items()}

    return {one.query_key: (by_id(one.gains), by_id(one.shown)) for one in found}


def test_deleting_a_judgment_restores_the_ranking(wood: CollectionClient) -> None:
    before = wood.ranking(QUERY)
    wood.judge(QUERY, "birch", 4, rater="ada")
    assert wood.ranking(QUERY) != before
    wood.judge(QUERY, "birch", None, rater="ada")
    assert wood.ranking(QUERY) == before
    assert wood.get()["counts"]["judgments"] == wood.get()["counts"]["keys"]["query"] == 0
    assert wood.judge(QUERY, "birch", None, rater="ada") == {"accepted": 1, "rejected": []}


def test_a_judgment_replaces_only_the_judgment_of_the_same_rater(wood: CollectionClient) -> None:
    wood.judge(QUERY, "birch", 1, rater="ada")
    once = wood.ranking(QUERY)
    wood.judge(QUERY, "birch", 4, rater="ada")
    wood.judge(f"  {QUERY.upper()} ", "birch", 1, rater="ada")
    assert wood.get()["counts"]["judgments"] == 1
    assert wood.ranking(QUERY) == once
    wood.judge(QUERY, "birch", 1, rater="bob")
    assert wood.get()["counts"]["judgments"] == 2
    assert logits(wood)["birch"] > {one: logit for one, logit, _ in once}["birch"]


def test_of_duplicate_judgments_in_a_batch_the_last_is_stored(wood: CollectionClient) -> None:
    def batch(*ratings: int | None) -> Any:
        items = [{"query": QUERY, "document_id": "birch", "rating": rating} for rating in ratings]
        return wood.post("judgments", {"judgments": items})

    before = wood.ranking(QUERY)
    assert batch(4) == {"accepted": 1, "rejected": []}
    once = wood.ranking(QUERY)
    assert batch(1, 0, None, 4) == {"accepted": 4, "rejected": []}
    assert wood.ranking(QUERY) == once
    assert batch(1, None)["accepted"] == 2
    assert wood.ranking(QUERY) == before
    assert wood.get()["counts"]["keys"]["query"] == 0


def test_a_rating_of_zero_is_stored_without_memory(wood: CollectionClient) -> None:
    before = wood.ranking(QUERY)
    wood.judge(QUERY, "birch", 0)
    assert wood.ranking(QUERY) == before
    assert wood.get()["counts"]["judgments"] == 1


def test_thumbs_down_lowers_only_its_document_and_only_near_its_query(wood: CollectionClient) -> None:
    wood.act("birch", "thumbs_up", user_query=QUERY)
    liked = logits(wood)
    elsewhere = wood.ranking("maple syrup on pancakes")
    wood.act("birch", "thumbs_down", user_query=QUERY)
    disliked = logits(wood)
    assert disliked["birch"] < liked["birch"]
    assert {tree: disliked[tree] for tree in TREES if tree != "birch"} == {
        tree: liked[tree] for tree in TREES if tree != "birch"
    }
    assert wood.ranking("maple syrup on pancakes") == elsewhere


def test_actions_with_higher_grades_raise_the_logit_more(wood: CollectionClient) -> None:
    grades = []
    for action in ("impression", "click", "add_to_cart", "purchase"):
        wood.act("pine", action, user_query=QUERY, client_id="one")
        grades.append(logits(wood)["pine"])
        wood.post("events/delete", {"client_id": "one"})
    assert grades == sorted(grades)
    assert len(set(grades)) == 4


@pytest.mark.parametrize("action", ["impression", "hover"])
def test_an_action_without_a_grade_is_stored_without_effect(wood: CollectionClient, action: str) -> None:
    before = wood.ranking(QUERY)
    assert wood.act("oak", action, user_query=QUERY)["accepted"] == 1
    assert wood.ranking(QUERY) == before
    assert wood.get()["counts"]["events"] == 1
    assert learned_from(wood) == {}


def test_deleting_the_events_of_a_client_keeps_other_events(wood: CollectionClient) -> None:
    wood.act("oak", user_query=QUERY, client_id="ada")
    before = wood.ranking(QUERY)
    wood.act("pine", user_query=QUERY, client_id="bob")
    wood.act("pine", user_query=f"{QUERY}?", client_id="bob")
    assert wood.post("events/delete", {"client_id": "bob"}) == {"deleted": 2}
    assert wood.ranking(QUERY) == before
    assert wood.post("events/delete", {"client_id": "bob"}) == {"deleted": 0}
    assert wood.get()["counts"]["events"] == 1


def test_events_are_an_object_an_array_or_lines(wood: CollectionClient) -> None:
    one = event("oak", user_query=QUERY)
    address = f"{wood.path}/events"
    for body in (ndjson([one]), b"[" + ndjson([one]) + b"]", ndjson([one, one]), ndjson([one, one]) + b"\n\n"):
        assert wood.client.post(address, content=body).status_code == 202
    assert wood.get()["counts"]["events"] == 6


def test_the_text_of_an_event_that_was_just_searched_is_not_encoded_again(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    query_id = wood.search("a text to find")["query_id"]
    encoder, encoded = runtime_of(wood.client).encoder, []
    encode = encoder.encode_query
    monkeypatch.setattr(encoder, "encode_query", lambda text: encoded.append(text) or encode(text))
    wood.act(TREES[0], query_id=query_id)
    wood.act(TREES[0], user_query="a text to find", client_id="another")
    assert encoded == []
    for client_id in ("ada", "bob"):
        wood.act(TREES[0], user_query="a text that nobody searched", client_id=client_id)
    assert encoded == ["a text that nobody searched"]


def test_an_event_of_an_unknown_search_is_joined_by_its_query_text(wood: CollectionClient) -> None:
    assert wood.act("oak", query_id="unknown", user_query=QUERY)["accepted"] == 1
    explained = wood.search(QUERY, explain=True)["hits"]
    (key,) = [key for hit in explained for key in hit["explain"]["keys"] if key["kind"] == "query"]
    assert (key["query"], key["from"]) == (QUERY, "event")


def test_impressions_past_the_retention_are_deleted(wood: CollectionClient) -> None:
    runtime = runtime_of(wood.client)
    query_id = wood.search(QUERY)["query_id"]
    wood.client.put(wood.path, json={"retention_days": 30})
    wood.get(f"queries/{query_id}")
    with runtime.database.write() as connection:
        past = rfc3339(datetime.now(UTC) - timedelta(days=31))
        connection.exec_driver_sql("UPDATE queries SET created_at = ? WHERE query_id = ?", (past, query_id))
    forget_old_feedback(runtime)
    assert wood.client.get(f"{wood.path}/queries/{query_id}").status_code == 404


def test_a_click_without_a_known_list_gives_an_example_without_positions(wood: CollectionClient) -> None:
    wood.act("oak", user_query=QUERY, position=4)
    assert learned_from(wood)[QUERY] == ({"oak": 1.0}, None)


def test_judgments_take_precedence_over_clicks(wood: CollectionClient) -> None:
    shown = wood.search(QUERY)
    wood.act("oak", query_id=shown["query_id"], position=1)
    wood.judge(QUERY, "pine", 4, rater="ada")
    wood.judge(QUERY, "pine", 2, rater="bob")
    wood.judge(QUERY, "oak", 0)
    assert learned_from(wood)[QUERY] == ({"pine": 3.0, "oak": 0.0}, None)


def test_the_gain_of_clicks_is_bounded_and_spellings_of_a_query_are_merged(wood: CollectionClient) -> None:
    spellings = [QUERY, QUERY.upper(), f"  {QUERY}  ", QUERY.replace(" ", "\t")] * 5
    wood.post("events", [event("oak", user_query=text) for text in spellings])
    ((query_key, (gains, _)),) = learned_from(wood).items()
    assert (query_key, gains) == (QUERY, {"oak": 10.0})


def test_feedback_on_a_deleted_document_gives_no_example(wood: CollectionClient) -> None:
    wood.act("oak", user_query=QUERY)
    wood.judge("a tree by the water", "willow", 4)
    assert len(learned_from(wood)) == 2
    wood.post("documents/delete", {"ids": ["oak", "willow"]})
    assert learned_from(wood) == {}
    assert wood.get()["counts"]["keys"]["query"] == 0


def test_a_judgment_can_be_deleted_after_its_document(wood: CollectionClient) -> None:
    wood.judge(QUERY, "oak", 4)
    wood.post("documents/delete", {"ids": ["oak"]})
    wood.judge(QUERY, "oak", None)
    assert wood.get()["counts"]["judgments"] == 0
