"""Invalid feedback is rejected item by item; training with too little feedback is refused with the counts."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from service.documents.acceptance import accept
from service.documents.indexing import make_searchable
from service.feedback.repository import EventRow, insert_events, insert_judgment
from service.feedback.schemas import MAX_EVENT_BYTES, EventIn, JudgmentIn
from tests.service.client import (
    DEFAULT,
    SECRET,
    CollectionClient,
    create,
    event,
    good,
    ndjson,
    opened,
    problem,
    runtime_of,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bad") / "data") as client:
        CollectionClient(client).add({"id": "known", "text": "a known document"})
        yield client


def post_events(client: TestClient, items: list[Any]) -> Any:
    return client.post(f"{DEFAULT}/events", json=items)


def rejected(client: TestClient, item: Any) -> str:
    """Post the item between two valid events, which must be accepted; return the code of its rejection."""
    fine = event("known", user_query="whatever")
    answer = post_events(client, [fine, item, fine])
    assert (answer.status_code, answer.json()["accepted"]) == (202, 2), answer.text
    (one,) = answer.json()["rejected"]
    assert one["index"] == 1
    assert one["detail"]
    assert SECRET not in answer.text
    return str(one["code"])


def test_each_event_is_accepted_or_rejected_separately(client: TestClient) -> None:
    assert rejected(client, event(SECRET, user_query="x")) == "unknown_document"
    assert rejected(client, event("known", query_id=SECRET)) == "unknown_query"
    assert rejected(client, event("known")) == "query_missing"
    assert rejected(client, event(None, user_query="x")) == "document_missing"
    assert rejected(client, {"action_name": "click"}) == "invalid_event"
    assert rejected(client, SECRET) == "invalid_event"
    assert rejected(client, event("known", user_query="x") | {"timestamp": SECRET}) == "invalid_event"
    assert rejected(client, event("known", user_query="x") | {"timestamp": "2026-09-20T10:00:00"}) == "invalid_event"
    for number in (5, 946_684_799, 5.5, True, "5", "-5"):
        assert rejected(client, event("known", user_query="x") | {"timestamp": number}) == "invalid_event"
    too_early = {"timestamp": 946_684_799}
    answer = post_events(client, [event("known", user_query="x") | too_early]).json()
    assert "a number must be a time from the year 2000 on" in answer["rejected"][0]["detail"]
    for number in (1_760_000_000, 1_760_000_000_000, "1760000000.5", "1999-12-31T23:59:59Z"):
        assert CollectionClient(client).post("events", event("known", user_query="x") | {"timestamp": number})[
            "accepted"
        ]
    assert rejected(client, event("known", user_query=SECRET * 1000)) == "invalid_event"
    assert rejected(client, event("known", user_query="")) == "invalid_event"
    assert rejected(client, event("known", user_query=" \t\u2003")) == "invalid_event"


@pytest.mark.parametrize("seconds", [-1, 86_401, "12", True, [], 1e300])
def test_an_impossible_dwell_time_is_rejected(client: TestClient, seconds: Any) -> None:
    one = event("known", user_query="x")
    one["event_attributes"]["dwell_time_seconds"] = seconds
    assert rejected(client, one) == "invalid_event"


def test_a_thumb_without_a_document_needs_a_search_or_a_session(client: TestClient) -> None:
    query_id = CollectionClient(client).search("known")["query_id"]
    for named in ({"query_id": query_id}, {"session_id": "s"}):
        for action in ("thumbs_up", "thumbs_down"):
            assert post_events(client, [event(None, action, **named)]).json() == {"accepted": 1, "rejected": []}
    assert rejected(client, event(None, "thumbs_up", user_query="x")) == "document_missing"
    assert rejected(client, event(None, "thumbs_up", query_id=SECRET)) == "unknown_query"
    assert rejected(client, event(None, "thumbs_up", query_id=SECRET, session_id="s")) == "unknown_query"
    assert rejected(client, event(None, "click", query_id=query_id)) == "document_missing"
    assert rejected(client, event(None, "click", session_id="s")) == "query_missing"


@pytest.mark.parametrize("timestamp", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_outside_the_range_of_utc_is_rejected(client: TestClient, timestamp: str) -> None:
    assert rejected(client, event("known", user_query="x") | {"timestamp": timestamp}) == "invalid_event"


@pytest.mark.parametrize("depth", [100, 300, 900])
def test_a_deeply_nested_event_is_accepted_or_rejected(client: TestClient, depth: int) -> None:
    nested: Any = SECRET
    for _ in range(depth):
        nested = {"a": nested}
    answer = post_events(client, [event("known", user_query="x") | {"more": nested}])
    assert answer.status_code == 202, answer.text
    assert answer.json()["accepted"] + len(answer.json()["rejected"]) == 1
    assert SECRET not in answer.text


def test_a_position_has_an_ordinal_or_coordinates_or_both_or_neither(client: TestClient) -> None:
    for position in ({"ordinal": 3, "xy": {"x": 1, "y": 2}}, {}, {"ordinal": 3}, {"xy": {"x": 1, "y": 2}}):
        one = event("known", user_query="x")
        one["event_attributes"]["position"] = position
        assert post_events(client, [one]).json() == {"accepted": 1, "rejected": []}
    for ordinal in (0, -1, "3", 1.5, 2**63):
        one = event("known", user_query="x")
        one["event_attributes"]["position"] = {"ordinal": ordinal}
        assert rejected(client, one) == "invalid_event"


def test_an_invalid_line_of_events_is_rejected_with_its_index(client: TestClient) -> None:
    fine = event("known", user_query="x")
    answer = client.post(f"{DEFAULT}/events", content=ndjson([fine, f"{{{SECRET}", fine]))
    assert (answer.status_code, answer.json()["accepted"]) == (202, 2)
    assert [one["index"] for one in answer.json()["rejected"]] == [1]
    assert SECRET not in answer.text


@pytest.mark.parametrize("count", [1, 2])
def test_a_byte_order_mark_before_events_is_left_out(client: TestClient, count: int) -> None:
    body = b"\xef\xbb\xbf" + ndjson([event("known", user_query="x")] * count)
    answer = client.post(f"{DEFAULT}/events", content=body)
    assert (answer.status_code, answer.json()) == (202, {"accepted": count, "rejected": []})


@pytest.mark.parametrize("query", [" ", "\n\t", "\u2003", "\u200b"])
def test_a_deletion_by_a_blank_text_keeps_the_events_without_a_text(client: TestClient, query: str) -> None:
    post_events(client, [event(None, "own_action"), event(None, "thumbs_up", session_id="s")])
    assert CollectionClient(client).post("events/delete", {"query": query}) == {"deleted": 0}


def test_too_many_events_and_judgments_are_refused(client: TestClient) -> None:
    problem(post_events(client, [event("known", user_query=SECRET)] * 1001), 422, "too_many_events")
    problem(post_events(client, []), 422, "invalid_request")
    judgments = [{"query": SECRET, "document_id": "known", "rating": 1}] * 1001
    problem(client.post(f"{DEFAULT}/judgments", json={"judgments": judgments}), 422, "too_many_judgments")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"document_id": SECRET}, "unknown_document"),
        ({"rating": 5}, "invalid_judgment"),
        ({"rating": -1}, "invalid_judgment"),
        ({"rating": "4"}, "invalid_judgment"),
        ({"query": ""}, "invalid_judgment"),
        ({"query": " \n"}, "invalid_judgment"),
        ({"colour": SECRET}, "invalid_judgment"),
    ],
)
def test_each_judgment_is_accepted_or_rejected_separately(
    client: TestClient, change: dict[str, Any], code: str
) -> None:
    fine = {"query": "x", "document_id": "known", "rating": 0}
    answer = client.post(f"{DEFAULT}/judgments", json={"judgments": [fine, fine | change]})
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
    assert [(one["index"], one["code"]) for one in answer.json()["rejected"]] == [(1, code)]
    assert SECRET not in answer.text


def test_feedback_on_a_document_that_is_not_searchable_yet_is_refused_until_it_is(client: TestClient) -> None:
    wood = create(client, "waiting")
    runtime = runtime_of(client)
    state = runtime.collection("waiting")
    accepted = accept(runtime, state, [{"id": "late", "text": "a late document"}])
    assert wood.get("documents/late")["id"] == "late"
    detail = "the document is not searchable yet; wait for its task, and send the feedback again"
    expected = [
        {"index": 0, "code": "unknown_document", "detail": detail},
        {"index": 1, "code": "unknown_document", "detail": "no such document"},
    ]
    ids = ("late", "absent")
    judgments = {"judgments": [{"query": "x", "document_id": id, "rating": 4} for id in ids]}
    events = [event(id, user_query="x") for id in ids]
    assert wood.post("judgments", judgments) == wood.post("events", events) == {"accepted": 0, "rejected": expected}
    make_searchable(runtime, state, accepted.sequences)
    assert wood.post("judgments", judgments) == wood.post("events", events) == {"accepted": 1, "rejected": expected[1:]}


@pytest.mark.parametrize("blank", [" ", "\u2060", " \u00ad\ufeff"])
def test_feedback_on_a_query_without_a_visible_character_is_refused(client: TestClient, blank: str) -> None:
    given = {"judgments": [{"query": blank, "document_id": "oak", "rating": 4}]}
    for path, body in (("judgments", given), ("events", [event("oak", user_query=blank)])):
        answer = good(client.post(f"{DEFAULT}/{path}", json=body))
        assert answer["accepted"] == 0
        assert "must contain more than white space" in answer["rejected"][0]["detail"]


def test_feedback_on_a_blank_query_that_was_stored_earlier_is_read_and_can_be_deleted(client: TestClient) -> None:
    old = create(client, "old")
    old.add({"id": "a", "text": "a document"})
    state = runtime_of(client).collection("old")
    blank = {"query": " ", "document_id": "a", "rater": ""}
    with runtime_of(client).database.write() as connection:
        insert_judgment(connection, state.id, JudgmentIn.model_construct(rating=3, **blank))
        insert_events(connection, state.id, [EventRow(EventIn.model_validate(event("a")), " ", None)])
    assert old.get()["counts"]["events"] == old.get()["counts"]["judgments"] == 1
    problem(client.post(f"{old.path}/training-runs", json={}), 422, "not_enough_feedback")
    assert old.search("document")["hits"]
    assert old.post("judgments", {"judgments": [blank | {"rating": None}]})["accepted"] == 1
    assert old.post("events/delete", {"query": " "}) == {"deleted": 1}
    assert old.get()["counts"]["events"] == old.get()["counts"]["judgments"] == 0


def test_a_deletion_has_exactly_one_selector(client: TestClient) -> None:
    for body in ({}, {"query_id": SECRET, "client_id": SECRET}):
        problem(client.post(f"{DEFAULT}/events/delete", json=body), 422, "invalid_request")
        problem(client.post(f"{DEFAULT}/documents/delete", json={}), 422, "invalid_request")


def test_training_with_three_judgments_is_refused_with_the_counts(client: TestClient) -> None:
    few = create(client, "few")
    few.add({"id": "a", "text": "a document"})
    for n in range(3):
        few.judge(f"query number {n}", "a", 3)
    body = problem(client.post(f"{few.path}/training-runs", json={}), 422, "not_enough_feedback")
    assert (body["have"], body["need"]) == (3, 20)
    problem(client.post(f"{few.path}/training-runs", json={"seed": -1}), 422, "invalid_request")
    problem(client.post(f"{few.path}/training-runs", json={"promote": SECRET}), 422, "invalid_request")


def test_an_event_has_a_bounded_size(client: TestClient) -> None:
    def sent(size: int) -> Any:
        plain = event("known", user_query="q") | {"own": ""}
        plain["own"] = "x" * (size - len(orjson.dumps(plain)))
        return good(post_events(client, [plain]))

    assert sent(MAX_EVENT_BYTES)["accepted"] == 1
    (rejected,) = sent(MAX_EVENT_BYTES + 1)["rejected"]
    assert (rejected["code"], str(MAX_EVENT_BYTES) in rejected["detail"]) == ("invalid_event", True)
