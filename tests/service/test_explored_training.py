"""A training run that learns from explored lists: its parameters, what it needs, its data and its report."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.learning.config import FitConfig
from index.learning.slates import MAX_SLATES
from service.runtime import feedback_log
from service.runtime.explored_slates import slate_of
from service.runtime.feedback_log import gather_feedback
from tests.service.client import CollectionClient, create, event, opened, problem, runtime_of
from tests.service.test_cli import Fake, Run, fake, run
from tests.service.test_click_reading import BIRDS, aviary

pytestmark = pytest.mark.usefixtures("forked_training")

__all__ = ["fake", "run"]

LISTS = 12
REINFORCE = {"objective": "reinforce", "budget_seconds": 1, "promote": "never"}
HITS = [
    {"id": "oak", "position": 1, "selection_probability": 1.0, "pinned": True},
    {"id": "ash", "position": 2, "selection_probability": 0.25},
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("explored") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def birds(client: TestClient) -> CollectionClient:
    """A collection in which searches for each bird are explored, with a click on the bird where it is shown."""
    birds = aviary(client, "birds")
    for bird in BIRDS:
        answers = [birds.search(bird, explore=1.0) for _ in range(LISTS)]
        clicks = [
            event(bird, position=hit["position"], query_id=answer["query_id"], client_id=answer["query_id"])
            for answer in answers
            for hit in answer["hits"]
            if hit["id"] == bird
        ]
        birds.post("events", clicks)
    birds.search("a bird without clicks", explore=1.0)
    return birds


def test_a_run_learns_from_explored_lists_and_reports_it(birds: CollectionClient) -> None:
    ended = birds.train(**REINFORCE)
    assert (ended["status"], ended["objective"]) == ("succeeded", "reinforce"), ended["error"]
    assert ended["report"]["recipe"]["reading"] == "explored"
    assert ended["report"]["queries"]["explored_lists"] >= FitConfig().min_explored
    assert "objective" not in ended["data"]
    assert {check["name"] for check in ended["decision"]["checks"]} >= {"recall_not_worse"}
    assert birds.get(f"models/{ended['model_version']}")["lineage"]["objective"] == "reinforce"


def test_other_runs_are_listwise(birds: CollectionClient) -> None:
    ended = birds.train(budget_seconds=1, promote="never", click_reading="graded")
    assert (ended["status"], ended["objective"]) == ("succeeded", "listwise")
    assert "explored_lists" not in ended["report"]["queries"]
    assert "objective" not in birds.get(f"models/{ended['model_version']}")["lineage"]


def test_a_run_needs_explored_searches(client: TestClient) -> None:
    few = aviary(client, "few")
    for bird in BIRDS:
        few.judge(bird, bird, 4)
    few.search("wren", explore=1.0)
    few.search("wren")
    found = problem(few.client.post(f"{few.path}/training-runs", json=REINFORCE), 422, "not_enough_feedback")
    assert (found["have"], found["need"]) == (1, FitConfig().min_explored)
    assert "explored" in found["detail"]


@pytest.mark.parametrize(
    "more", [{"objective": "listen"}, REINFORCE | {"learn_from": "documents"}, REINFORCE | {"click_reading": "naive"}]
)
def test_an_objective_that_does_not_fit_is_refused(birds: CollectionClient, more: dict[str, Any]) -> None:
    problem(birds.client.post(f"{birds.path}/training-runs", json=more), 422, "invalid_request")


def test_explored_lists_are_gathered_only_for_a_run_that_learns_from_them(birds: CollectionClient) -> None:
    runtime = runtime_of(birds.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        usual = gather_feedback(connection, birds.id, runtime.encoder.encode_queries)
        found = gather_feedback(connection, birds.id, runtime.encoder.encode_queries, explored=True)
    assert not any(one.explored for one in usual)
    by_key = {one.query_key: one for one in found}
    assert by_key.keys() == {one.query_key for one in usual}
    assert len(by_key["wren"].explored) == LISTS
    assert sum(sum(each.clicked) for each in by_key["wren"].explored) > 0
    silent = by_key["a bird without clicks"]
    assert (len(silent.explored), silent.is_silent, len(silent.vector) > 0) == (1, True, True)
    assert [len(one.vector) > 0 for one in found] == sorted((len(one.vector) > 0 for one in found), reverse=True)


@pytest.mark.parametrize("more", [{"filter": "size > 0"}, {"context": ["wren"]}, {"min_logit": 0.0}, {"typos": False}])
def test_lists_of_searches_that_select_other_documents_are_no_training_data(
    client: TestClient, more: dict[str, Any]
) -> None:
    park = create(client, f"park-{next(iter(more))}", filterable=["size"])
    park.add(*({"id": bird, "text": f"the {bird} is a bird", "metadata": {"size": 1}} for bird in ("wren", "owl")))
    for q, asked in (("a bird", {}), ("a bird", more)):
        hits = park.search(q, explore=1.0, **asked)
        park.act("wren", query_id=hits["query_id"])
    runtime = runtime_of(client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        (found,) = gather_feedback(connection, park.id, runtime.encoder.encode_queries, explored=True)
    assert len(found.explored) == 1


def test_the_lists_of_a_query_are_bounded(birds: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback_log, "MAX_SLATES", 3)
    runtime = runtime_of(birds.client)
    with runtime.database.read() as connection:
        found = gather_feedback(connection, birds.id, runtime.encoder.encode_queries, explored=True)
    assert max(len(one.explored) for one in found) == 3 < MAX_SLATES


def test_a_logged_list_becomes_a_slate() -> None:
    found = slate_of(HITS, {"oak": 5, "ash": 7}, [7])
    assert found is not None
    assert (found.rows, found.kept, found.clicked) == ((5, 7), (True, False), (False, True))
    assert found.probabilities == (1.0, 0.25)
    assert slate_of(HITS, {"oak": 5}, []) is None  # the ash is deleted
    assert slate_of([{"id": "oak", "position": 1}], {"oak": 5}, []) is None  # not explored
    assert slate_of(HITS[1:], {"ash": 7}, []) is None  # the first position is missing
    assert slate_of([], {}, []) is None


def test_the_command_line_names_the_objective(fake: Fake, run: Run) -> None:
    fake.on("POST", "/v1/collections/default/training-runs", {"id": "r1"})
    assert run("train", "--objective", "reinforce", "--no-wait", "--url", fake.url).code == 0
    assert run("train", "--no-wait", "--url", fake.url).code == 0
    sent = fake.sent("/v1/collections/default/training-runs")
    assert [body.get("objective") for body in sent] == ["reinforce", None]
