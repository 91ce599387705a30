"""Evaluations on stored feedback and on given judgments: each query is searched without its own memory."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.learning.examples import TEST_FOLDS, fold_of
from tests.service.client import CollectionClient, create, know_no_emoji, opened, problem, runtime_of

HELD_OUT = [text for text in (f"gadget{n}" for n in range(60)) if fold_of(text) < TEST_FOLDS]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("evaluations") / "data") as client:
        yield client


@pytest.fixture
def shop(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with two documents for each held-out query."""
    shop = create(client, re.sub(r"[^a-z0-9]+", "-", request.node.name).strip("-")[:100])
    shop.add(*({"id": f"{text}-{n}", "text": f"{text} model {n}"} for text in HELD_OUT for n in range(2)))
    return shop


def evaluated(shop: CollectionClient, **body: Any) -> Any:
    """Return the result of an evaluation of version 0 by nDCG@10."""
    task = shop.ended_task(shop.post("evaluations", {"models": [0], "measures": ["nDCG@10"], **body}))
    assert (task["status"], task["error"]) == ("succeeded", None)
    return task["result"]


def test_searches_without_a_click_are_no_queries_of_an_evaluation(shop: CollectionClient) -> None:
    shop.judge(HELD_OUT[0], f"{HELD_OUT[0]}-0", 3)
    for text in HELD_OUT[1:]:
        shop.search(text)
    runtime_of(shop.client).impressions.flush()
    assert evaluated(shop)["queries"] == 1


def test_two_spellings_of_a_query_are_one_query_with_all_their_documents(shop: CollectionClient) -> None:
    text, other = HELD_OUT[:2]
    found = evaluated(shop, qrels={text: {f"{other}-0": 2, f"{text}-0": 1}, text.upper(): {f"{text}-0": 3}})
    alone = evaluated(shop, qrels={text: {f"{other}-0": 2, f"{text}-0": 3}})
    assert (found["queries"], found["models"]) == (1, alone["models"])


def test_a_blank_text_is_no_query_of_an_evaluation(shop: CollectionClient) -> None:
    answer = shop.client.post(f"{shop.path}/evaluations", json={"qrels": {" ": {"a": 1}}})
    assert problem(answer, 422, "invalid_request")["errors"][0]["pointer"] == "/qrels/ "


def test_clicks_are_measured_among_the_documents_that_were_shown(shop: CollectionClient) -> None:
    for text in HELD_OUT:
        for client_id in ("ada", "bob", "carl"):
            found = shop.search(text, limit=2, client_id=client_id)
            shop.act(found["hits"][0]["id"], query_id=found["query_id"], client_id=client_id)
    before = evaluated(shop)
    shop.add(*({"id": f"{text}-new{n}", "text": f"{text} {text}"} for text in HELD_OUT for n in range(12)))
    assert evaluated(shop) == before
    assert (before["queries"], before["models"][0]["measures"]["nDCG@10"]["mean"]) == (len(HELD_OUT), 1.0)


@pytest.mark.parametrize("text", ["💥", "anvil 💥 💥 💥 💥 💥 💥 💥", "anvil 💥 hamer"], ids=["none", "few", "most"])
def test_an_evaluation_ranks_as_a_search_does(
    shop: CollectionClient, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    know_no_emoji(monkeypatch, runtime_of(shop.client))
    documents = (
        "anvil " + "of some other kind of iron " * 5,
        "anvils",
        "hammer",
        "hammer anvil " + "iron " * 9,
        "hamersley",
    )
    shop.add(*({"id": str(number), "text": one} for number, one in enumerate(documents)))
    searched = shop.ids(text, limit=100, candidates=200)
    for number in range(len(documents)):
        rank = searched.index(str(number)) + 1 if str(number) in searched else None
        task = shop.ended_task(
            shop.post("evaluations", {"models": [0], "measures": ["RR"], "qrels": {text: {str(number): 1}}})
        )
        (model,) = task["result"]["models"]
        assert model["measures"]["RR"]["mean"] == pytest.approx(0 if rank is None else 1 / rank), number


def test_held_out_queries_are_read_as_searches_read_them(
    shop: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_no_emoji(monkeypatch, runtime_of(shop.client))
    text = next(text for text in ("💥" * n for n in range(1, 60)) if fold_of(text) < TEST_FOLDS)
    shop.judge(text, f"{HELD_OUT[0]}-0", 3)
    assert evaluated(shop)["models"][0]["measures"]["nDCG@10"]["mean"] == 0, (
        "a text of unknown tokens alone finds nothing"
    )
