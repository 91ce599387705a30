"""Searches with exploration: what is sampled, what keeps its place, and what the log says about it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from index.memory.query_key import as_query_key
from service.runtime.feedback_log import gather_feedback
from tests.service.client import CollectionClient, create, event, good, opened, problem, runtime_of
from tests.service.test_cli import FOUND, Fake, Run, fake, run

__all__ = ["fake", "run"]

TREES = ("oak", "ash", "elm", "fir", "yew", "lime", "pine", "birch")
QUERY = "tree in the wood"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("exploration") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection of eight trees whose logits are close together."""
    wood = create(client, f"wood-{abs(hash(request.node.name))}", filterable=["height", "kind"])
    wood.add(*(tree(name, number) for number, name in enumerate(TREES)))
    return wood


def tree(name: str, number: int) -> dict[str, Any]:
    return {"id": name, "text": f"the {name} is a tree in the wood", "metadata": {"height": number, "kind": number % 4}}


def ids(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def logged(wood: CollectionClient, answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = wood.get(f"queries/{answer['query_id']}")
    return found


def probabilities(wood: CollectionClient, answer: dict[str, Any]) -> list[float]:
    return [hit["selection_probability"] for hit in logged(wood, answer)["shown"]]


def explored(wood: CollectionClient, **more: Any) -> list[dict[str, Any]]:
    """Return the answers to twelve searches whose order is sampled."""
    return [wood.search(QUERY, explore=1.0, **more) for _ in range(12)]


def test_a_search_without_exploration_has_one_order_and_no_selection_probability(wood: CollectionClient) -> None:
    answers = [wood.search(QUERY) for _ in range(3)]
    assert len({tuple(ids(answer)) for answer in answers}) == 1
    assert "explored" not in answers[0]
    shown = logged(wood, answers[0])
    assert "explore" not in shown["request"]
    assert not any("selection_probability" in hit for hit in shown["shown"])


def test_an_explored_search_samples_a_new_order_of_the_same_documents(wood: CollectionClient) -> None:
    answers = explored(wood)
    assert len({tuple(ids(answer)) for answer in answers}) > 1
    assert {frozenset(ids(answer)) for answer in answers} == {frozenset(TREES)}
    assert all(answer["explored"] for answer in answers)
    for answer in answers:
        assert [hit["position"] for hit in answer["hits"]] == list(range(1, 9))


def test_the_log_has_the_probability_of_every_choice(wood: CollectionClient) -> None:
    answer = wood.search(QUERY, explore=1.0, limit=5)
    logits = {hit["id"]: hit["logit"] for hit in wood.search(QUERY, log=False)["hits"]}
    left, expected = dict(logits), []
    for name in ids(answer):
        expected.append(np.exp(left[name]) / sum(np.exp(logit) for logit in left.values()))
        del left[name]
    assert probabilities(wood, answer) == pytest.approx(expected, rel=1e-3)
    shown = logged(wood, answer)
    assert shown["request"]["explore"] == 1.0
    assert [hit["id"] for hit in shown["shown"]] == ids(answer)
    assert all(0 < hit["propensity"] <= 1 for hit in shown["shown"])


def test_a_small_share_seldom_samples_and_its_own_order_is_likely(wood: CollectionClient) -> None:
    own = ids(wood.search(QUERY))
    answers = [wood.search(QUERY, explore=1e-6) for _ in range(5)]
    assert [ids(answer) for answer in answers] == [own] * 5
    assert not any(answer["explored"] for answer in answers)
    assert np.prod(probabilities(wood, answers[0])) == pytest.approx(1, abs=1e-5)


def test_pinned_documents_keep_their_place(wood: CollectionClient) -> None:
    rule = {"query": {"exact": QUERY}, "pin": [{"id": "lime", "position": 2}]}
    good(wood.client.put(f"{wood.path}/rules/lime", json=rule))
    answers = explored(wood)
    assert {ids(answer)[1] for answer in answers} == {"lime"}
    assert len({ids(answer)[0] for answer in answers}) > 1
    assert {probabilities(wood, answer)[1] for answer in answers} == {1.0}


def test_a_document_with_an_exact_rating_comes_first_also_in_an_explored_search(wood: CollectionClient) -> None:
    wood.post("judgments", {"judgments": [{"query": QUERY, "document_id": "yew", "rating": 4, "rater": "ann"}]})
    answers = explored(wood)
    assert {ids(answer)[0] for answer in answers} == {"yew"}
    assert len({tuple(ids(answer)) for answer in answers}) > 1
    shown = logged(wood, answers[0])["shown"]
    assert (shown[0]["exact_rating"], shown[0]["selection_probability"]) == (True, 1.0)
    assert not any("exact_rating" in hit for hit in shown[1:])


@pytest.mark.parametrize("more", [{"sort": ["height:asc"]}, {"offset": 2}])
def test_sorted_searches_and_later_pages_are_not_explored(wood: CollectionClient, more: dict[str, Any]) -> None:
    answers = explored(wood, **more)
    assert len({tuple(ids(answer)) for answer in answers}) == 1
    assert not any(answer["explored"] for answer in answers)
    shown = logged(wood, answers[0])
    assert shown["request"]["explore"] == 1.0
    assert not any("selection_probability" in hit for hit in shown["shown"])


def test_a_search_for_everything_is_not_explored(wood: CollectionClient) -> None:
    answers = [wood.search("*", explore=1.0) for _ in range(5)]
    assert len({tuple(ids(answer)) for answer in answers}) == 1
    assert not answers[0]["explored"]


def test_exploration_keeps_thresholds_filters_and_distinct_values(wood: CollectionClient) -> None:
    own = wood.search(QUERY, distinct="kind")
    answers = explored(wood, distinct="kind")
    assert {frozenset(ids(answer)) for answer in answers} == {frozenset(ids(own))}
    assert len({tuple(ids(answer)) for answer in answers}) > 1
    filtered = explored(wood, filter="height < 3")
    assert {frozenset(ids(answer)) for answer in filtered} == {frozenset(TREES[:3])}
    least = sorted(hit["logit"] for hit in wood.search(QUERY)["hits"])[4]
    for answer in explored(wood, min_logit=least):
        assert min(hit["logit"] for hit in answer["hits"]) >= least
    assert logged(wood, answers[0])["request"]["distinct"] == "kind"


def test_an_explored_search_in_context_has_its_own_answer_and_matrix(wood: CollectionClient) -> None:
    state = runtime_of(wood.client).collection(wood.name)
    state.serving = replace(state.serving, head=state.serving.head.changed(context=0.3))
    more = {"context": ["oak", "gone"], "answer": True, "explain": "matrix", "log": False}
    own = wood.search(QUERY, **more)
    logits = {hit["id"]: hit["logit"] for hit in own["hits"]}
    for answer in explored(wood, **more | {"log": True}):
        assert answer["answer"] == own["answer"]
        assert {hit["id"]: hit["logit"] for hit in answer["hits"]} == logits
        parts = answer["matrix"]["parts_by_documents"]
        assert [one["id"] for one in parts["documents"]] == ids(answer)
        assert np.sum(parts["cells"], axis=0) == pytest.approx([logits[id] for id in ids(answer)], abs=1e-3)
        first = probabilities(wood, answer)[0]
        others = sum(np.exp(logit - logits[ids(answer)[0]]) for logit in logits.values())
        assert first == pytest.approx(1 / others, rel=1e-3)


def test_each_search_of_a_multi_search_is_explored_by_itself(wood: CollectionClient) -> None:
    searches = [{"collection": wood.name, "q": QUERY} | more for more in ({"explore": 1.0}, {}, {"explore": 0.0})]
    results = good(wood.client.post("/v1/multi-search", json={"searches": searches}))["results"]
    assert [one.get("explored") for one in results] == [True, None, None]


def test_a_get_search_takes_the_parameter(wood: CollectionClient) -> None:
    answer = good(wood.client.get(f"{wood.path}/search", params={"q": QUERY, "explore": "1.0"}))
    assert answer["explored"]


@pytest.mark.parametrize("share", [-0.1, 1.1, "often"])
def test_a_share_that_is_no_probability_is_refused(wood: CollectionClient, share: Any) -> None:
    answer = wood.client.post(f"{wood.path}/search", json={"q": QUERY, "explore": share})
    assert [one["pointer"] for one in problem(answer, 422, "invalid_request")["errors"]] == ["/explore"]


def test_training_reads_the_positions_that_were_shown(wood: CollectionClient) -> None:
    answers = explored(wood)
    for answer in answers:
        last = answer["hits"][-1]
        click = event(last["id"], position=last["position"], query_id=answer["query_id"], client_id=answer["query_id"])
        wood.post("events", click)
    runtime = runtime_of(wood.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        [feedback] = [one for one in gather_feedback(connection, wood.id) if one.query_key == as_query_key(QUERY)]
    assert feedback.clicks is not None
    assert feedback.shown is not None
    assert {position for by in feedback.clicks.values() for position in by} == {8}
    assert sum(by.get(1, 0) for by in feedback.shown.values()) == len(answers)


def test_the_command_line_asks_for_exploration_and_says_that_the_order_is_sampled(fake: Fake, run: Run) -> None:
    fake.on("POST", "/v1/collections/default/search", FOUND | {"explored": True})
    shown = run("search", "x", "--explore", "0.05", "--url", fake.url)
    assert "sampled" in shown.err
    assert fake.sent("/v1/collections/default/search")[0]["explore"] == 0.05
    assert run("search", "x", "--explore", "1.5", "--url", fake.url).code == 2
