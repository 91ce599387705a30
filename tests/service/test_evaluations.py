"""Evaluations on stored feedback and on given judgments: each query is searched without its own memory."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.learning.examples import TEST_FOLDS, fold_of
from index.ranking.retrieval import Query
from index.ranking.search import search
from service.models import evaluations
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


def test_queries_without_a_relevant_document_are_not_measured(shop: CollectionClient) -> None:
    for text in HELD_OUT:
        shop.judge(text, f"{text}-0", 0)
    task = shop.ended_task(shop.post("evaluations", {"models": [0]}))
    assert (task["status"], task["error"]["code"]) == ("failed", "not_enough_feedback")
    shop.judge(HELD_OUT[0], f"{HELD_OUT[0]}-0", 3)
    found = evaluated(shop)
    assert (found["queries"], found["models"][0]["measures"]["nDCG@10"]["mean"]) == (1, 1.0)


def test_where_all_that_was_shown_was_clicked_no_order_is_better_than_another(shop: CollectionClient) -> None:
    for n in range(60):
        for hit in (found := shop.search(f"gadget{n}", limit=3))["hits"]:
            shop.act(hit["id"], query_id=found["query_id"])
    assert evaluated(shop)["models"][0]["measures"]["nDCG@10"]["mean"] == 1.0


def test_two_spellings_of_a_query_are_one_query_with_all_their_documents(shop: CollectionClient) -> None:
    text, other = HELD_OUT[:2]
    found = evaluated(shop, qrels={text: {f"{other}-0": 2, f"{text}-0": 1}, text.upper(): {f"{text}-0": 3}})
    alone = evaluated(shop, qrels={text: {f"{other}-0": 2, f"{text}-0": 3}})
    assert (found["queries"], found["models"]) == (1, alone["models"])


def test_documents_that_the_collection_does_not_have_are_counted(shop: CollectionClient) -> None:
    text, other = HELD_OUT[:2]
    found = evaluated(shop, qrels={text: {f"{text}-0": 1, "sku-1": 2, "sku-2": 0}, other: {"sku-1": 3}})
    assert found["unknown_documents"] == 2
    assert "unknown_documents" not in evaluated(shop, qrels={text: {f"{text}-0": 1}})


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


def test_a_measure_reads_the_ranking_of_a_page_of_its_length(shop: CollectionClient) -> None:
    shop.add(*({"id": f"nut-{n}", "text": f"nut of a bolt, number {n} " + "x " * (n % 40)} for n in range(900)))
    text = "nut bolt"
    for cutoff, measure in ((200, "R@200"), (300, "R@300"), (1000, "R@1000")):
        first = shop.ids(text, limit=cutoff)
        found = evaluated(shop, qrels={text: dict.fromkeys(first, 1)}, measures=[measure, "nDCG@10", "AP"])
        (model,) = found["models"]
        assert list(model["measures"]) == [measure, "nDCG@10", "AP"]
        assert model["measures"][measure]["mean"] == 1.0
    (model,) = evaluated(shop, qrels={text: {first[700]: 1}}, measures=["RR", "R@300"])["models"]
    assert (model["measures"]["RR"]["mean"], model["measures"]["R@300"]["mean"]) == (pytest.approx(1 / 701), 0)


def test_measures_with_a_cut_off_up_to_200_cost_one_search_with_the_default_candidates(
    shop: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def counted(generation: Any, head: Any, query: Query) -> Any:
        counts.append(query.count)
        return search(generation, head, query)

    monkeypatch.setattr(evaluations, "search", counted)
    qrels = {HELD_OUT[0]: {f"{HELD_OUT[0]}-0": 1}}
    evaluated(shop, qrels=qrels, measures=["nDCG@10", "R@200", "P(rel=2)@5", "Judged@10"])
    assert counts == [200]
    evaluated(shop, qrels=qrels, measures=["nDCG@10", "R@201", "R@801", "Rprec", "P@9999"])
    assert counts[1:] == [200, 800, 3200, 10_000]


def test_a_measure_is_the_same_in_batches_of_queries(shop: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    qrels = {text: {f"{other}-0": 1, f"{text}-1": 2} for text, other in pairwise(HELD_OUT)}
    whole = evaluated(shop, qrels=qrels, measures=["nDCG@10", "AP"])
    monkeypatch.setattr(evaluations, "BATCH", 3)
    assert evaluated(shop, qrels=qrels, measures=["nDCG@10", "AP"]) == whole


def test_neighbours_are_compared_as_often_as_they_are_named(shop: CollectionClient) -> None:
    found = evaluated(shop, models=[0, 0, 0], qrels={HELD_OUT[0]: {f"{HELD_OUT[0]}-0": 1}})
    assert [one["models"] for one in found["comparisons"]] == [[0, 0], [0, 0]]
    assert [one["version"] for one in found["models"]] == [0]


@pytest.mark.parametrize("grades", [{}, {"a": 0, "b": -1}], ids=["none", "zero"])
def test_judgments_without_a_relevant_document_are_named_as_the_reason(
    shop: CollectionClient, grades: dict[str, int]
) -> None:
    task = shop.ended_task(shop.post("evaluations", {"qrels": {"anvil": grades}}))
    assert (task["status"], task["error"]["code"]) == ("failed", "not_enough_feedback")
    assert task["error"]["detail"] == "no document in qrels has a grade above 0"
