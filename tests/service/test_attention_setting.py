"""The collection setting `attention` (form, heads, normaliser) changes the untrained model and later runs only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.ranking.normalisers import NORMALISERS
from index.ranking.score_functions import FORMS
from service.runtime.model_files import load_version
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of

pytestmark = pytest.mark.usefixtures("forked_training")

BIRDS = {
    "heron": "the heron stands in shallow water and waits for fish",
    "wren": "the wren is a small brown bird with a loud song",
    "owl": "the owl hunts mice at night without a sound",
    "swift": "the swift sleeps and eats on the wing",
    "duck": "the duck swims on the pond and eats bread",
}
QUESTIONS = ("which bird waits for fish", "a small bird that sings", "what hunts at night", "bread on the pond")
DEFAULT = {"form": "bilinear", "heads": 1, "normaliser": "softmax", "value_rank": 0}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("attention") / "data") as client:
        yield client


def aviary(client: TestClient, name: str, **attention: Any) -> CollectionClient:
    """Return a collection of birds with this setting."""
    birds = create(client, name, **({"attention": attention} if attention else {}))
    birds.add(*[{"id": id, "title": id, "text": text} for id, text in BIRDS.items()])
    return birds


def change(birds: CollectionClient, **attention: Any) -> Any:
    """Change the setting and return its new value."""
    return good(birds.client.put(birds.path, json={"attention": attention}))["settings"]["attention"]


@pytest.fixture(scope="module")
def plain(client: TestClient) -> CollectionClient:
    return aviary(client, "plain")


def test_the_setting_has_a_default(plain: CollectionClient) -> None:
    assert plain.get()["settings"]["attention"] == DEFAULT


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [1, 3])
def test_every_untrained_form_ranks_like_the_default(
    client: TestClient, plain: CollectionClient, form: str, heads: int
) -> None:
    birds = aviary(client, f"{form}-{heads}", form=form, heads=heads)
    assert birds.get()["settings"]["attention"] == DEFAULT | {"form": form, "heads": heads}
    head = runtime_of(client).collection(birds.name).serving.head
    assert (head.config.form, head.config.heads) == (form, heads)
    for question in QUESTIONS:
        for (id, logit, weight), (same_id, same_logit, same_weight) in zip(
            birds.ranking(question), plain.ranking(question), strict=True
        ):
            assert id == same_id
            assert logit == pytest.approx(same_logit, abs=1e-4)
            assert weight == pytest.approx(same_weight, abs=1e-4)


@pytest.mark.parametrize("normaliser", NORMALISERS)
def test_a_normaliser_changes_the_weights_and_keeps_the_ranking(
    client: TestClient, plain: CollectionClient, normaliser: str
) -> None:
    birds = aviary(client, f"by-{normaliser.replace('_', '-')}", normaliser=normaliser)
    for question in QUESTIONS:
        assert [hit[:2] for hit in birds.ranking(question)] == [hit[:2] for hit in plain.ranking(question)]
        answer = birds.search(question, log=False)
        weights = [hit["score"] for hit in answer["hits"]] + [answer["attention"]["null_weight"]]
        assert sum(weights) == pytest.approx(1, abs=1e-6)
        if normaliser == "softmax":
            assert all(0 < weight < 1 for weight in weights)
        elif normaliser == "one_hot":
            assert sorted(weights, reverse=True) == [1.0, *[0.0] * (len(weights) - 1)]
        else:
            assert weights == pytest.approx([1 / len(weights)] * len(weights))


def test_the_untrained_model_follows_the_setting_at_once_and_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        birds = aviary(client, "birds")
        soft = birds.ranking(QUESTIONS[0])
        assert change(birds, normaliser="uniform") == DEFAULT | {"normaliser": "uniform"}
        flat = birds.ranking(QUESTIONS[0])
        assert [hit[:2] for hit in flat] == [hit[:2] for hit in soft]
        assert len({weight for _, _, weight in flat}) == 1
        assert birds.ranking(QUESTIONS[0], model=0) == flat
    with opened(tmp_path / "data") as client:
        birds = CollectionClient(client, "birds")
        assert birds.get()["settings"]["attention"] == DEFAULT | {"normaliser": "uniform"}
        assert birds.ranking(QUESTIONS[0]) == flat
        assert change(birds, normaliser="softmax") == DEFAULT
        assert birds.ranking(QUESTIONS[0]) == soft
        assert birds.ranking(QUESTIONS[0], model=0) == soft


def test_fields_that_a_change_omits_keep_their_values(client: TestClient) -> None:
    birds = aviary(client, "kept", form="gaussian")
    assert change(birds, heads=2) == {"form": "gaussian", "heads": 2, "normaliser": "softmax", "value_rank": 0}
    assert change(birds) == {"form": "gaussian", "heads": 2, "normaliser": "softmax", "value_rank": 0}
    good(birds.client.put(birds.path, json={"attention": None, "filterable": ["lang"]}))
    assert birds.get()["settings"]["attention"]["form"] == "gaussian"


@pytest.mark.parametrize(
    "attention",
    [
        {"form": "cubic"},
        {"heads": 0},
        {"heads": 9},
        {"heads": 1.5},
        {"normaliser": "hard"},
        {"rank": 3},
        {"form": None},
        "dot",
    ],
)
def test_an_unknown_attention_is_refused(client: TestClient, plain: CollectionClient, attention: Any) -> None:
    refused = problem(client.put(plain.path, json={"attention": attention}), 422, "invalid_request")
    assert refused["errors"][0]["pointer"].startswith("/attention")
    assert plain.get()["settings"]["attention"] == DEFAULT


def test_a_trained_model_keeps_its_configuration_and_the_next_run_starts_from_the_setting(client: TestClient) -> None:
    birds = aviary(client, "learning", form="gaussian", heads=2)
    for n in range(30):
        birds.judge(f"{n} {QUESTIONS[n % 4]}", ("heron", "wren", "owl", "duck")[n % 4], 3)
    assert birds.train(promote="never")["model_version"] == 1
    good(client.put(f"{birds.path}/models/aliases/champion", json={"version": 1, "force": True}))
    by_champion = birds.ranking(QUESTIONS[0])
    change(birds, form="additive", heads=1)
    assert birds.ranking(QUESTIONS[0]) == by_champion
    assert birds.train(promote="never")["model_version"] == 2
    assert [configuration_of(birds, version) for version in (0, 1, 2)] == [
        ("additive", 1),
        ("gaussian", 2),
        ("additive", 1),
    ]
    assert len(birds.ids(QUESTIONS[0], model=2)) == len(BIRDS)


def configuration_of(birds: CollectionClient, version: int) -> tuple[str, int]:
    """Return the form and the number of heads of a version."""
    runtime = runtime_of(birds.client)
    state = runtime.collection(birds.name)
    with runtime.database.read() as connection:
        config = load_version(connection, state.id, state.initial, version).config
    return config.form, config.heads
