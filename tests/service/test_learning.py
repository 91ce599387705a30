"""The feedback log is converted into training records: clicks with their lists, and thumbs about whole searches."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.learning.examples import Feedback, hash_of
from service.runtime.feedback_log import combined_grade, feedback_counts, gather_feedback
from service.storage.database import now
from tests.service.client import CollectionClient, create, event, opened, runtime_of

QUERY = "which tree is tall"
TREES = ("oak", "pine", "birch", "willow", "maple")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("learning") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection of a few trees."""
    wood = create(client, re.sub(r"[^a-z0-9]+", "-", request.node.name)[:100])
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    return wood


@dataclass(frozen=True)
class Learned:
    """The feedback of a query, with document ids instead of rows."""

    gains: dict[str, float]
    shown: dict[str, dict[int, int]] | None
    clicks: dict[str, dict[int, int]] | None
    examined: set[str] | None
    sessions: list[tuple[dict[str, int], set[str]]]


def feedback_of(wood: CollectionClient, encoded: bool = False) -> list[Feedback]:
    runtime = runtime_of(wood.client)
    with runtime.database.read() as connection:
        return gather_feedback(connection, wood.id, runtime.encoder.encode if encoded else None)


def learned(wood: CollectionClient, encoded: bool = False) -> dict[str, Learned]:
    """Return query key -> the feedback that training gets."""
    with runtime_of(wood.client).database.read() as connection:
        found = connection.exec_driver_sql("SELECT row, id FROM documents WHERE collection_id = ?", (wood.id,))
        names = {row[0]: row[1] for row in found}

    def by_id(values: Mapping[int, Any] | None) -> Any:
        return None if values is None else {names[row]: value for row, value in values.items()}

    return {
        one.query_key: Learned(
            by_id(one.gains),
            by_id(one.shown),
            by_id(one.clicks),
            None if one.examined is None else {names[row] for row in one.examined},
            [(by_id(each.shown), {names[row] for row in each.clicked}) for each in one.sessions],
        )
        for one in feedback_of(wood, encoded)
        if not one.is_silent
    }


def searched(wood: CollectionClient, query: str = QUERY, **more: Any) -> tuple[str, list[str]]:
    """Return the query_id of a logged search and the ids of its hits."""
    answer = wood.search(query, **more)
    return answer["query_id"], [hit["id"] for hit in answer["hits"]]


# --- Lists ---


def test_a_click_records_its_whole_list_and_the_examined_documents(wood: CollectionClient) -> None:
    query_id, order = searched(wood)
    wood.act(order[1], query_id=query_id, position=2)
    one = learned(wood)[QUERY]
    assert one.gains == {order[1]: 1.0}
    assert one.shown == {tree: {place: 1} for place, tree in enumerate(order, 1)}
    assert one.clicks == {order[1]: {2: 1}}
    assert one.examined == set(order[:3])


def test_the_position_of_a_click_is_the_position_in_the_list(wood: CollectionClient) -> None:
    query_id, order = searched(wood)
    wood.act(order[3], query_id=query_id, position=1)
    wood.act(order[0], query_id=query_id)
    assert learned(wood)[QUERY].clicks == {order[3]: {4: 1}, order[0]: {1: 1}}


def test_lists_without_a_click_count_as_showings(wood: CollectionClient) -> None:
    query_id, order = searched(wood)
    searched(wood, QUERY.upper())
    searched(wood, QUERY, limit=2)
    searched(wood, "a query without actions")
    wood.act(order[0], query_id=query_id)
    every = learned(wood)
    assert every.keys() == {QUERY}
    times = {place: 3 if place <= 2 else 2 for place in range(1, 6)}
    assert sum(sum(at.values()) for at in (every[QUERY].shown or {}).values()) == sum(times.values())
    assert (every[QUERY].shown or {})[order[0]][1] >= 1
    assert every[QUERY].examined == set(order[:2])


def test_a_list_is_compared_with_the_earlier_lists_of_its_query(wood: CollectionClient) -> None:
    first, before = searched(wood, client_id="ada")
    wood.act(before[3], query_id=first, client_id="ada")
    second, after = searched(wood, client_id="bob")
    place = after.index(before[3])
    assert place < 3, "the click raised its document"
    other = after[4]
    wood.act(other, query_id=second, client_id="bob")
    expected = ((before.index(other), 4, -1.0), (3, 3, 1.0))
    assert [one.contrasts for one in feedback_of(wood)] == [tuple(sorted(expected))]
    wood.act(before[3], query_id=second, client_id="eve")  # a list that bob shared
    assert [one.contrasts for one in feedback_of(wood)] == [tuple(sorted(expected))]
    wood.act(before[3], query_id=second, client_id="bob")
    assert [one.contrasts for one in feedback_of(wood)] == [tuple(sorted((*expected, (3, place, -1.0))))]


@pytest.mark.parametrize(
    ("of_list", "of_event", "counts"),
    [
        ({"client_id": "ada"}, {"client_id": "bob"}, False),
        ({"session_id": "s"}, {"client_id": "bob"}, True),
        ({"session_id": "s"}, {"client_id": "bob", "session_id": "s"}, True),
        ({"session_id": "s"}, {"session_id": "s"}, True),
        ({}, {"client_id": "bob"}, True),
        ({"client_id": "ada"}, {}, True),
    ],
    ids=["other", "session, client", "session, both", "session", "none, client", "client, none"],
)
def test_clicks_of_the_client_of_a_list_are_compared(
    wood: CollectionClient, of_list: dict[str, str], of_event: dict[str, str], counts: bool
) -> None:
    first, order = searched(wood, **of_list)
    wood.act(order[2], query_id=first, **of_event)
    searched(wood, **of_list)
    runtime_of(wood.client).impressions.flush()
    assert [one.contrasts for one in feedback_of(wood)] == [((2, 2, 1.0),) if counts else ()]


def test_imported_lists_are_compared_in_the_order_of_their_times(wood: CollectionClient) -> None:
    def shown(query_id: str, ids: Sequence[str], year: int) -> None:
        known = {"query_id": query_id, "user_query": QUERY, "client_id": "ada"}
        for id in ids:
            wood.act(id, "impression", timestamp=f"{year}-01-01T10:00:00Z", **known)

    query_id, order = searched(wood, client_id="ada")
    wood.act(order[0], query_id=query_id, client_id="ada")
    shown("z", order[::-1], 2020)
    shown("a", [order[1], order[0], *order[2:]], 2021)
    wood.act(order[0], query_id="z", user_query=QUERY, client_id="ada", timestamp="2020-01-01T10:01:00Z")
    # the click at the last place of z is compared with no click in a, then the mean of both with the click of today
    assert [one.contrasts for one in feedback_of(wood)] == [((1, 0, -0.5), (4, 0, -0.5), (4, 4, 1.5))]


def test_clicks_without_a_list_do_not_change_the_known_positions(wood: CollectionClient) -> None:
    query_id, order = searched(wood)
    wood.act(order[2], query_id=query_id)
    wood.act(order[4], user_query=QUERY)
    assert learned(wood)[QUERY].gains == {order[2]: 1.0}
    assert learned(wood)[QUERY].shown is not None


# --- Who counts how often ---


def test_a_client_counts_once_per_list_and_document_with_its_best_grade(wood: CollectionClient) -> None:
    first, order = searched(wood)
    for action in ("click", "purchase", "click"):
        wood.act(order[0], action, query_id=first, client_id="ada")
    assert learned(wood)[QUERY].gains == {order[0]: 3.0}
    assert learned(wood)[QUERY].clicks == {order[0]: {1: 1}}
    wood.act(order[0], query_id=first, client_id="bob")
    second, _ = searched(wood)
    wood.act(order[0], query_id=second, client_id="ada")
    assert learned(wood)[QUERY].gains == {order[0]: 5.0}


def test_a_document_that_every_rater_rejected_is_not_confirmed_by_clicks(wood: CollectionClient) -> None:
    query_id, order = searched(wood)
    for tree in order[:2]:
        wood.act(tree, query_id=query_id, client_id="ada")
    wood.judge(QUERY, order[0], 0, rater="bob")
    assert learned(wood)[QUERY].gains == {order[1]: 1.0}
    assert learned(wood)[QUERY].clicks == {order[1]: {2: 1}}
    assert set(learned(wood)[QUERY].shown or {}) == set(order[1:])
    wood.judge(QUERY, order[1], 0, rater="bob")
    assert learned(wood) == {}
    wood.judge(QUERY, order[1], 1, rater="cyd")
    assert learned(wood)[QUERY].gains == {order[0]: 0.0, order[1]: 0.5}


def test_all_names_of_the_client_of_a_list_are_one_client(wood: CollectionClient) -> None:
    query_id, order = searched(wood, client_id="ada", session_id="s")
    for names in ({}, {"client_id": "ada"}, {"session_id": "s"}):
        wood.act(order[0], query_id=query_id, **names)
    assert learned(wood)[QUERY].gains == {order[0]: 1.0}
    assert learned(wood)[QUERY].clicks == {order[0]: {1: 1}}
    wood.act(order[0], query_id=query_id, client_id="bob")
    assert learned(wood)[QUERY].gains == {order[0]: 2.0}


def test_the_later_of_a_click_and_a_thumb_down_of_a_client_counts(wood: CollectionClient) -> None:
    def acted(action: str, client_id: str, second: int) -> dict[str, Any]:
        one = event(order[0], action, query_id=query_id, client_id=client_id)
        return one | {"timestamp": f"2026-09-20T10:00:0{second}Z"}

    query_id, order = searched(wood)
    wood.act(order[1], query_id=query_id, client_id="eve")
    wood.post("events", [acted("thumbs_down", "ada", 2), acted("click", "ada", 1)])  # by timestamp, not by arrival
    assert learned(wood)[QUERY].gains == {order[1]: 1.0}
    wood.post("events", [acted("thumbs_down", "bob", 1), acted("click", "bob", 2)])
    wood.post("events", [acted("click", "cyd", 3)])
    assert learned(wood)[QUERY].gains == {order[0]: 1.0, order[1]: 1.0}  # -1 + 1 + 1


def test_an_event_of_a_client_whose_clock_is_ahead_counts_when_it_was_stored(wood: CollectionClient) -> None:
    query_id, order = searched(wood, client_id="ada")
    wood.act(order[1], query_id=query_id, client_id="ada")
    wood.act(order[0], query_id=query_id, client_id="ada", timestamp="2999-01-01T00:00:00Z")
    wood.act(order[0], "thumbs_down", query_id=query_id, client_id="ada", timestamp=now())
    assert learned(wood)[QUERY].gains == {order[1]: 1.0}


@pytest.mark.parametrize(
    ("before", "grade", "counts"), [(1, 3, 3), (3, 1, 3), (1, -1, -1), (-1, 1, 1), (-1, -1, -1), (0.3, 1, 1)]
)
def test_two_grades_combine_to_the_expected_grade(before: float, grade: float, counts: float) -> None:
    assert combined_grade(before, grade) == counts


@pytest.mark.parametrize(("seconds", "grade"), [(0, 0.3), (5, 0.3), (17.5, 0.65), (30, 1.0), (86400, 1.0)])
def test_the_grade_of_a_click_depends_on_its_dwell_time(wood: CollectionClient, seconds: float, grade: float) -> None:
    one = event("oak", user_query=QUERY)
    one["event_attributes"]["dwell_time_seconds"] = seconds
    wood.post("events", one)
    assert learned(wood)[QUERY].gains == pytest.approx({"oak": grade})


def test_the_grade_of_a_purchase_does_not_depend_on_its_dwell_time(wood: CollectionClient) -> None:
    one = event("oak", "purchase", user_query=QUERY)
    one["event_attributes"]["dwell_time_seconds"] = 1
    wood.post("events", one)
    assert learned(wood)[QUERY].gains == {"oak": 3.0}


# --- Thumbs about a whole search ---


def thumb(action: str = "thumbs_up", second: int = 0, **more: Any) -> dict[str, Any]:
    return event(None, action, **more) | {"timestamp": f"2026-09-20T11:00:0{second}Z"}


def test_a_solved_search_has_its_list_and_the_clicks_on_it(wood: CollectionClient) -> None:
    query_id, order = searched(wood)
    wood.act(order[1], query_id=query_id)
    before = wood.ranking(QUERY)
    assert wood.post("events", thumb(query_id=query_id)) == {"accepted": 1, "rejected": []}
    assert wood.ranking(QUERY) == before
    doc_indices = {tree: place for place, tree in enumerate(order, 1)}
    assert learned(wood)[QUERY].sessions == [(doc_indices, {order[1]})]
    assert wood.get()["counts"]["events"] == 2


def test_queries_without_actions_are_impressions_only(wood: CollectionClient) -> None:
    query_id, order = searched(wood)
    wood.act(order[0], query_id=query_id)
    for text in ("a silent query", "another one", "A silent query"):
        searched(wood, text)
    runtime_of(wood.client).impressions.flush()
    silent = [one for one in feedback_of(wood) if one.is_silent]
    assert [one.query_key for one in silent] == ["a silent query", "another one"]
    assert (silent[0].gains, silent[0].clicks, len(silent[0].vector)) == ({}, {}, 0)
    assert all(sum(by.values()) == 2 for by in (silent[0].shown or {}).values())


def test_the_number_of_silent_queries_is_bounded(wood: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.runtime.feedback_log.MAX_SILENT", 3)
    query_id, (first, *_) = searched(wood)
    wood.act(first, query_id=query_id)  # searches before the first event do not count
    texts = [f"silent {number}" for number in range(12)]
    for text in texts:
        searched(wood, text)
    runtime_of(wood.client).impressions.flush()
    kept = {one.query_key for one in feedback_of(wood) if one.is_silent}
    assert kept == set(sorted(texts, key=hash_of)[:3])


def test_a_solved_session_has_the_searches_that_showed_a_clicked_document(wood: CollectionClient) -> None:
    searched(wood, "tall thing", session_id="s")
    _, none = searched(wood, "short", session_id="s", limit=1)
    query_id, order = searched(wood, session_id="s")
    solving = next(tree for tree in order if tree not in none)
    wood.act(solving, query_id=query_id, session_id="s")
    searched(wood, "another session", session_id="t")
    wood.post("events", thumb(session_id="s"))
    assert {query_key: one.sessions for query_key, one in learned(wood).items()}.keys() == {QUERY}
    every = learned(wood, encoded=True)
    assert every.keys() == {QUERY, "tall thing"}
    assert all(clicked == {solving} for one in every.values() for _, clicked in one.sessions)
    assert every["tall thing"].gains == {}


def test_a_session_solved_without_a_click_has_its_last_list(wood: CollectionClient) -> None:
    searched(wood, "tall thing", session_id="s")
    _, order = searched(wood, session_id="s", limit=3)
    wood.post("events", thumb(session_id="s"))
    assert learned(wood) == {}
    (one,) = learned(wood, encoded=True).values()
    assert one.sessions == [({tree: place for place, tree in enumerate(order, 1)}, set())]


def test_a_thumb_down_without_a_document_only_cancels_a_thumb_up(wood: CollectionClient) -> None:
    query_id, order = searched(wood, session_id="s")
    wood.act(order[0], query_id=query_id)
    wood.post("events", [thumb(query_id=query_id), thumb("thumbs_down", 1, query_id=query_id)])
    assert learned(wood)[QUERY].sessions == []
    assert learned(wood)[QUERY].gains == {order[0]: 1.0}
    wood.post("events", [thumb(second=2, session_id="s"), thumb("thumbs_down", 3, session_id="s")])
    assert learned(wood)[QUERY].sessions == []
    wood.post("events", thumb(second=4, query_id=query_id))
    assert len(learned(wood)[QUERY].sessions) == 1


# --- The record ---


def test_the_counts_of_feedback_are_correct(wood: CollectionClient) -> None:
    query_id, order = searched(wood)
    wood.act(order[0], query_id=query_id)
    wood.post("events", thumb(query_id=query_id))
    wood.judge("a tree by the water", "willow", 4)
    assert feedback_counts(feedback_of(wood)) == {
        "queries": 2,
        "silent_queries": 0,
        "with_shown_positions": 1,
        "showings": 5,
        "clicks": 1,
        "solved_sessions": 1,
    }
