"""A training run reads clicks as it was asked to: in one way alone, or in every way, and validation chooses."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient

from service.cli import learning
from service.training.schemas import ClickReading
from tests.service.client import Spoken, create, opened, problem

BIRDS = (
    "wren robin heron finch swift crane stork raven magpie jay owl kite falcon eagle gull tern plover "
    "curlew snipe godwit dunlin avocet bittern grebe coot teal pintail wigeon"
).split()
QUICK = {"budget_seconds": 1, "promote": "never"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("reading") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def clicked(client: TestClient) -> Spoken:
    """A collection whose searchers clicked on the bird that they asked for."""
    birds = aviary(client, "clicked")
    for bird in BIRDS:
        birds.act(bird, query_id=birds.search(bird)["query_id"])
    return birds


@pytest.fixture(scope="module")
def judged(client: TestClient) -> Spoken:
    """A collection that nobody clicked in."""
    birds = aviary(client, "judged")
    for bird in BIRDS:
        birds.judge(bird, bird, 4)
    return birds


def aviary(client: TestClient, name: str) -> Spoken:
    birds = create(client, name)
    birds.add(*({"id": bird, "text": f"the {bird} is a bird"} for bird in BIRDS))
    return birds


def readings_of_recipes(run: dict[str, Any]) -> set[str]:
    """Return how the recipes tried or skipped read clicks; a recipe's name says so where it is not as `graded`."""
    recipe = run["report"]["recipe"]
    last = {name.rpartition(", ")[2] for name in [*recipe["validation_ndcg"], *recipe["skipped"]]}
    return {word if word in ("debiased", "naive") else "graded" for word in last}


@pytest.mark.parametrize("reading", ["raw", "Graded", "", ["graded"], None])
def test_a_reading_that_there_is_not_is_refused(judged: Spoken, reading: Any) -> None:
    answer = judged.client.post(f"{judged.path}/training-runs", json={"click_reading": reading})
    assert problem(answer, 422, "invalid_request")["errors"][0]["pointer"] == "/click_reading"


def test_the_command_line_offers_the_readings_that_the_service_knows() -> None:
    assert [one.value for one in learning.ClickReading] == list(get_args(ClickReading))


@pytest.mark.parametrize("reading", ["graded", "debiased", "naive"])
def test_a_run_reads_clicks_only_as_it_was_asked_to_and_says_so(clicked: Spoken, reading: str) -> None:
    run = clicked.train(**QUICK, click_reading=reading)
    assert (run["status"], run["click_reading"]) == ("succeeded", reading)
    assert readings_of_recipes(run) == {run["report"]["recipe"]["reading"]} == {reading}
    assert clicked.get(f"models/{run['model_version']}")["lineage"]["click_reading"] == reading


def test_every_reading_is_tried_unless_one_is_asked_for(clicked: Spoken) -> None:
    run = clicked.train(**QUICK)
    assert (run["status"], run["click_reading"]) == ("succeeded", "auto")
    assert readings_of_recipes(run) == {"graded", "debiased", "naive"}
    assert clicked.get(f"models/{run['model_version']}")["lineage"]["click_reading"] == "auto"


@pytest.mark.parametrize("reading", ["debiased", "naive"])
def test_without_clicks_any_reading_learns_from_judgments(judged: Spoken, reading: str) -> None:
    run = judged.train(**QUICK, click_reading=reading)
    assert (run["status"], run["click_reading"]) == ("succeeded", reading)
    assert readings_of_recipes(run) == {run["report"]["recipe"]["reading"]} == {"graded"}
