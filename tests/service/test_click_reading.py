"""A training run uses the given click interpretation, or averages two."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient

from service.cli.training import ClickInterpretation
from service.training.schemas import ClickReading
from tests.service.client import CollectionClient, create, opened, problem

pytestmark = pytest.mark.usefixtures("forked_training")

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
def clicked(client: TestClient) -> CollectionClient:
    """A collection in which each search for a bird has a click on the bird."""
    birds = aviary(client, "clicked")
    for bird in BIRDS:
        birds.act(bird, query_id=birds.search(bird)["query_id"])
    return birds


@pytest.fixture(scope="module")
def judged(client: TestClient) -> CollectionClient:
    """A collection with judgments and without clicks."""
    birds = aviary(client, "judged")
    for bird in BIRDS:
        birds.judge(bird, bird, 4)
    return birds


def aviary(client: TestClient, name: str) -> CollectionClient:
    birds = create(client, name)
    birds.add(*({"id": bird, "text": f"the {bird} is a bird"} for bird in BIRDS))
    return birds


def interpretations_of_recipes(run: dict[str, Any]) -> set[str]:
    """Return the click interpretations of the recipes tried or skipped. The name of a recipe omits `graded`."""
    recipe = run["report"]["recipe"]
    last = {name.rpartition(", ")[2] for name in [*recipe["validation_ndcg"], *recipe["skipped"]]}
    return {word if word in ("debiased", "naive", "averaged") else "graded" for word in last}


@pytest.mark.parametrize("reading", ["raw", "Graded", "", ["graded"], None])
def test_an_unknown_click_interpretation_is_refused(judged: CollectionClient, reading: Any) -> None:
    answer = judged.client.post(f"{judged.path}/training-runs", json={"click_reading": reading})
    assert problem(answer, 422, "invalid_request")["errors"][0]["pointer"] == "/click_reading"


def test_the_command_line_offers_the_click_interpretations_of_the_service() -> None:
    assert [one.value for one in ClickInterpretation] == list(get_args(ClickReading))


@pytest.mark.parametrize("reading", ["graded", "debiased", "naive"])
def test_a_run_uses_and_reports_only_the_given_interpretation(clicked: CollectionClient, reading: str) -> None:
    run = clicked.train(**QUICK, click_reading=reading)
    assert (run["status"], run["click_reading"]) == ("succeeded", reading)
    assert interpretations_of_recipes(run) == {run["report"]["recipe"]["reading"]} == {reading}
    assert clicked.get(f"models/{run['model_version']}")["lineage"]["click_reading"] == reading


def test_two_interpretations_are_averaged_by_default(clicked: CollectionClient) -> None:
    run = clicked.train(**QUICK | {"budget_seconds": 2})
    assert (run["status"], run["click_reading"]) == ("succeeded", "auto")
    assert interpretations_of_recipes(run) == {run["report"]["recipe"]["reading"]} == {"averaged"}
    assert clicked.get(f"models/{run['model_version']}")["lineage"]["click_reading"] == "auto"


@pytest.mark.parametrize("reading", ["auto", "naive"])
def test_without_clicks_every_interpretation_learns_from_judgments(judged: CollectionClient, reading: str) -> None:
    run = judged.train(**QUICK, click_reading=reading)
    assert (run["status"], run["click_reading"]) == ("succeeded", reading)
    assert interpretations_of_recipes(run) == {run["report"]["recipe"]["reading"]} == {"graded"}
