"""The context of a search: the documents of its session, in requests, in the log, and in the inputs of training."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.runtime.feedback_log import MAX_CONTEXTS, gather_feedback
from service.runtime.session_log import SessionLog
from tests.service.client import SECRET, CollectionClient, create, opened, problem, runtime_of

NUMBERS = count()
TEXTS = {
    "river-bank": "the bank of a river with willows and boats",
    "money-bank": "the bank of a town with accounts and loans",
    "boats": "boats and willows along a river",
    "loans": "loans and accounts for a house",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("context") / "data") as client:
        yield client


@pytest.fixture
def town(client: TestClient) -> CollectionClient:
    """A new collection for each test."""
    town = create(client, f"town-{next(NUMBERS)}")
    town.add(*({"id": id, "text": text} for id, text in TEXTS.items()))
    return town


def draw(town: CollectionClient, amount: float) -> None:
    """Let the untrained model use contexts."""
    state = runtime_of(town.client).collection(town.name)
    state.serving = replace(state.serving, head=state.serving.head.changed(context=amount))


def test_version_0_ignores_a_context(town: CollectionClient) -> None:
    assert town.ranking("bank", context=["boats"]) == town.ranking("bank")


def test_a_context_changes_the_logits_of_a_model_that_uses_it(town: CollectionClient) -> None:
    before = {id: logit for id, logit, _ in town.ranking("bank")}
    draw(town, 0.8)
    assert {id: logit for id, logit, _ in town.ranking("bank")} == before
    for known, wanted in (("boats", "river-bank"), ("loans", "money-bank")):
        after = {id: logit for id, logit, _ in town.ranking("bank", context=[known])}
        other = "money-bank" if wanted == "river-bank" else "river-bank"
        assert after[wanted] - after[other] > before[wanted] - before[other] + 0.5
    drawn = town.search("bank", context=["boats"], explain=True, log=False)
    for hit in drawn["hits"]:
        assert sum(hit["explain"]["parts"].values()) == pytest.approx(hit["logit"], abs=1e-4)


def test_documents_that_do_not_exist_are_ignored(town: CollectionClient) -> None:
    draw(town, 0.8)
    assert town.ranking("bank", context=["boats", "gone"]) == town.ranking("bank", context=["boats"])
    assert town.ranking("bank", context=["gone"]) == town.ranking("bank") == town.ranking("bank", context=[])


def test_a_query_string_has_a_context(town: CollectionClient) -> None:
    draw(town, 0.8)
    answer = town.get("search", q="bank", context="boats,loans")
    assert answer["hits"] == town.search("bank", context=["boats", "loans"], log=False)["hits"]


@pytest.mark.parametrize(
    ("pointer", "context"),
    [("/context", ["boats"] * 21), ("/context/0", [""]), ("/context/0", [7]), ("/context", SECRET)],
)
def test_an_invalid_context_is_refused(town: CollectionClient, pointer: str, context: Any) -> None:
    answer = town.client.post(f"{town.path}/search", json={"q": "bank", "context": context})
    assert problem(answer, 422, "invalid_request")["errors"][0]["pointer"] == pointer


def test_an_impression_records_the_context(town: CollectionClient) -> None:
    logged = town.search("bank", context=["boats", "gone"])
    assert town.get(f"queries/{logged['query_id']}")["request"]["context"] == ["boats", "gone"]
    without = town.search("bank")
    assert "context" not in town.get(f"queries/{without['query_id']}")["request"]


def contexts_of(town: CollectionClient) -> dict[str, list[tuple[list[str], list[str]]]]:
    """Return query key -> the contexts of its lists with their clicks, as ids."""
    runtime = runtime_of(town.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        feedback = gather_feedback(connection, town.id)
    row_of = runtime.database.fetch("SELECT row, id FROM documents", [])
    ids = dict(row_of)
    return {
        one.query_key: [
            ([ids[row] for row in each.context], sorted(ids[row] for row in each.clicked)) for each in one.contexts
        ]
        for one in feedback
    }


def search_and_click(town: CollectionClient, q: str, id: str, session: str | None, timestamp: str, **more: Any) -> None:
    query_id = town.search(q, session_id=session)["query_id"]
    town.act(id, query_id=query_id, session_id=session, timestamp=timestamp, **more)


def test_a_list_has_the_earlier_actions_of_its_session_as_context(town: CollectionClient) -> None:
    early, later = "2020-01-01T10:00:00Z", "2020-01-01T11:00:00Z"
    search_and_click(town, "trip", "boats", "ada", later)
    search_and_click(town, "trees", "river-bank", "ada", early)
    search_and_click(town, "house", "loans", "bob", early)
    search_and_click(town, "bank", "river-bank", "ada", "2999-01-01T10:00:00Z")
    search_and_click(town, "bank", "money-bank", "bob", "2999-01-01T10:00:00Z")
    search_and_click(town, "bank", "money-bank", None, "2999-01-01T10:00:00Z")
    search_and_click(town, "bank", "money-bank", "eve", "2999-01-01T10:00:00Z")
    found = contexts_of(town)
    assert found["bank"] == [(["river-bank", "boats"], ["river-bank"]), (["loans"], ["money-bank"])]
    assert found["trip"] == [(["river-bank"], ["boats"])]
    assert found["trees"] == [(["boats"], ["river-bank"])]
    assert found["house"] == []


def test_a_list_without_a_click_and_later_actions_are_no_examples(town: CollectionClient) -> None:
    search_and_click(town, "house", "loans", "bob", "2020-01-01T10:00:00Z")
    town.search("bank", session_id="bob")
    search_and_click(town, "bank", "river-bank", "ada", "2999-01-01T11:00:00Z")
    search_and_click(town, "trip", "boats", "ada", "2999-01-01T10:00:00Z")  # it counts when it was stored
    assert contexts_of(town)["bank"] == []


def test_the_newest_lists_of_a_query_are_kept(town: CollectionClient) -> None:
    for number in range(MAX_CONTEXTS + 2):
        session = f"session {number}"
        search_and_click(town, "trip", "boats" if number < MAX_CONTEXTS else "loans", session, "2020-01-01T10:00:00Z")
        search_and_click(town, "bank", "river-bank", session, "2020-01-01T11:00:00Z")
    found = contexts_of(town)["bank"]
    assert len(found) == MAX_CONTEXTS
    assert [context for context, _ in found[-2:]] == [["loans"], ["loans"]]


class TestSessionLog:
    def test_an_action_at_the_time_of_the_list_is_no_context(self) -> None:
        log = SessionLog()
        for moment, row in (("1", 1), ("2", 2), ("3", 3)):
            log.add("ada", moment, "trip", row, 1.0)
        assert log.before("ada", "2", "bank") == (1,)
        assert log.before("ada", "1", "bank") == ()

    def test_the_newest_twenty_documents_are_returned_with_the_newest_last(self) -> None:
        log = SessionLog()
        for number in range(30):
            log.add("ada", f"2020-01-01T10:00:{number:02d}Z", "trip", number % 25, 1.0)
        assert log.before("ada", "2020-01-01T11:00:00Z", "bank") == (*range(10, 25), *range(5))
        assert log.before("ada", "2020-01-01T10:00:02Z", "bank") == (0, 1)

    def test_actions_for_the_same_query_and_documents_that_were_taken_back_are_left_out(self) -> None:
        log = SessionLog()
        log.add("ada", "1", "bank", 1, 1.0)
        log.add("ada", "2", "trip", 2, 1.0)
        log.add("ada", "3", "trip", 3, 3.0)
        log.add("ada", "4", "trip", 2, -1.0)
        assert log.before("ada", "9", "bank") == (3,)
        assert log.before("ada", "9", "trip") == (1,)
        assert log.before("bob", "9", "bank") == log.before(None, "9", "bank") == ()
