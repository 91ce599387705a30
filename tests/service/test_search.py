"""Searches: filters, modes, pages, weights, explanations, highlights, and logged impressions."""

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient

from index.records import LEXICAL
from service.runtime import search_pool
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, good, opened, runtime_of

COLOURS = ("red", "green", "blue", "white")
COUNT = 120


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("search") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def shop(client: TestClient) -> CollectionClient:
    """A collection of bowls with different numbers and colours; three bowls are rare."""
    shop = create(client, "shop", filterable=["colour", "number", "rare"])
    bowls = [
        {
            "id": f"bowl-{n:03}",
            "title": f"Bowl {n}",
            "text": f"A {COLOURS[n % 4]} bowl, number {n}, made by hand",
            "metadata": {"colour": COLOURS[n % 4], "number": n} | ({"rare": True} if n in (7, 64, 119) else {}),
        }
        for n in range(COUNT)
    ]
    shop.add(*bowls)
    return shop


def test_a_selective_filter_returns_all_matching_documents(shop: CollectionClient) -> None:
    answer = shop.search("a bowl made by hand", filter="rare = true", candidates=5)
    assert {hit["id"] for hit in answer["hits"]} == {"bowl-007", "bowl-064", "bowl-119"}
    assert answer["page"]["has_more"] is False


@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
def test_a_filter_gives_full_pages_of_matching_documents(shop: CollectionClient, mode: str) -> None:
    condition = "colour = blue AND number 10 TO 90"
    hits = shop.search("a bowl made by hand", filter=condition, limit=15, mode=mode)["hits"]
    assert len(hits) == 15
    assert all(hit["metadata"]["colour"] == "blue" and 10 <= hit["metadata"]["number"] <= 90 for hit in hits)


def test_a_filter_without_matches_gives_an_empty_page(shop: CollectionClient) -> None:
    answer = shop.search("bowl", filter="number > 1000")
    assert (answer["hits"], answer["attention"]["candidates"]) == ([], 0)
    assert answer["attention"]["null_weight"] == pytest.approx(1)


def test_a_search_of_an_empty_collection_finds_nothing(client: TestClient) -> None:
    answer = create(client, "empty").search("bowl", explain=True)
    assert (answer["hits"], answer["page"]["has_more"], answer["attention"]["shown_mass"]) == ([], False, 0)


def test_pages_are_disjoint_and_ordered_and_complete(shop: CollectionClient) -> None:
    whole = shop.search("red bowl", limit=100, log=False)["hits"]
    pages = [shop.search("red bowl", limit=25, offset=offset, log=False)["hits"] for offset in (0, 25, 50, 75)]
    joined = [hit for page in pages for hit in page]
    assert [hit["id"] for hit in joined] == [hit["id"] for hit in whole]
    assert [hit["position"] for hit in joined] == list(range(1, 101))
    assert all(a["logit"] >= b["logit"] for a, b in pairwise(joined))


def test_has_more_is_true_if_there_is_a_next_page(shop: CollectionClient) -> None:
    found = [shop.search("bowl", limit=40, offset=offset, log=False) for offset in (0, 40, 80, 120)]
    assert [len(one["hits"]) for one in found] == [40, 40, 40, 0]
    assert [one["page"]["has_more"] for one in found] == [True, True, False, False]


def test_an_untrained_model_says_that_its_null_weight_is_not_calibrated(shop: CollectionClient) -> None:
    assert shop.search("bowl")["attention"]["null_calibrated"] is False


@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
def test_weights_and_null_weight_sum_to_one_over_all_candidates(shop: CollectionClient, mode: str) -> None:
    answer = shop.search("green bowl by hand", limit=1000, mode=mode)
    weights = [hit["score"] for hit in answer["hits"]]
    assert len(weights) == answer["attention"]["candidates"]
    assert min(weights) >= 0
    assert sum(weights) == pytest.approx(answer["attention"]["shown_mass"])
    assert sum(weights) + answer["attention"]["null_weight"] == pytest.approx(1, abs=1e-5)
    shown = shop.search("green bowl by hand", limit=3, candidates=200, mode=mode)
    assert shown["attention"]["shown_mass"] == pytest.approx(sum(hit["score"] for hit in shown["hits"]))


@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
def test_the_parts_of_an_explanation_add_up_to_the_logit(shop: CollectionClient, mode: str) -> None:
    for hit in shop.search("green bowl 9", explain=True, mode=mode)["hits"]:
        parts = hit["explain"]["parts"]
        assert parts.keys() == {"title", "passage", "sentence", *LEXICAL, "memory"}
        assert sum(parts.values()) == pytest.approx(hit["logit"], abs=1e-4)
        for key in hit["explain"]["keys"]:
            assert 0 <= key["start"] <= key["end"] <= len(hit["title" if key["kind"] == "title" else "text"])


def test_a_mode_uses_only_its_own_evidence(shop: CollectionClient) -> None:
    words = shop.search("bowl 42", mode="words", explain=True)["hits"]
    assert words[0]["id"] == "bowl-042"
    assert {name for name, part in words[0]["explain"]["parts"].items() if part} == set(LEXICAL) - {
        "corrected",
        "completed",
    }
    dense = shop.search("bowl 42", mode="dense", explain=True)["hits"]
    assert {name for name, part in dense[0]["explain"]["parts"].items() if part} <= {"title", "passage", "sentence"}
    assert shop.search("nothingofthekind", mode="words")["hits"] == []
    assert len(shop.search("nothingofthekind", mode="dense")["hits"]) == 10


def test_a_document_with_the_searched_title_comes_first(client: TestClient) -> None:
    cups = create(client, "cups", language="english")
    cups.add(
        {"id": "longer", "title": "Grey cup, set of grey cups", "text": "A grey cup, and a grey cup, and a grey cup."},
        {"id": "titled", "title": "Grey cup", "text": "It holds a litre and is made by hand in a small village. " * 9},
    )
    first, second = cups.search("GREY cups!", explain=True)["hits"]
    assert (first["id"], second["id"]) == ("titled", "longer")
    assert first["explain"]["parts"]["phrase"] > second["explain"]["parts"]["phrase"]
    assert sum(first["explain"]["parts"].values()) == pytest.approx(first["logit"], abs=1e-3)
    assert [hit["id"] for hit in cups.search("cup grey")["hits"]] == ["longer", "titled"]


def test_hits_are_explained_only_on_request(shop: CollectionClient) -> None:
    assert "explain" not in shop.search("bowl")["hits"][0]


def test_highlights_mark_the_words_of_the_query(client: TestClient) -> None:
    notes = create(client, "notes")
    text = "Größe: 😀 copies of folders are copied; a folder copies nothing"
    notes.add({"id": "a", "title": "Copying folders", "text": text})
    (hit,) = notes.search("copy a folder")["hits"]
    found = [(one["field"], hit[one["field"]][one["start"] : one["end"]]) for one in hit["highlights"]]
    assert [word for field, word in found if field == "title"] == ["Copying", "folders"]
    marked = [word for field, word in found if field == "text" and word != "a"]
    assert marked == ["copies", "folders", "copied", "folder", "copies"]


def test_a_search_logs_an_impression_of_the_hits(shop: CollectionClient) -> None:
    options = {"limit": 3, "offset": 2, "client_id": "c1", "session_id": "s1", "filter": "number < 50"}
    answer = shop.search("white bowl", **options)
    logged = shop.get(f"queries/{answer['query_id']}")
    assert (logged["q"], logged["client_id"], logged["session_id"]) == ("white bowl", "c1", "s1")
    assert logged["request"] | {"limit": 3, "offset": 2, "filter": "number < 50"} == logged["request"]
    assert [(one["id"], one["position"], one["logit"], one["score"]) for one in logged["shown"]] == [
        (hit["id"], hit["position"], hit["logit"], hit["score"]) for hit in answer["hits"]
    ]
    assert [one["position"] for one in logged["shown"]] == [3, 4, 5]
    propensities = [one["propensity"] for one in logged["shown"]]
    assert propensities == sorted(propensities, reverse=True)
    assert logged["null_weight"] == answer["attention"]["null_weight"]
    assert (logged["model"]["version"], logged["generation"]) == (0, answer["generation"])


def test_a_search_without_logging_has_no_impression(shop: CollectionClient) -> None:
    query_id = shop.search("white bowl", log=False)["query_id"]
    answer = shop.client.get(f"{shop.path}/queries/{query_id}")
    assert (answer.status_code, answer.json()["code"]) == (404, "query_not_found")


@pytest.mark.parametrize("q", ["*", "-kettle"])
def test_a_search_without_words_says_so_and_is_not_logged(shop: CollectionClient, q: str) -> None:
    answer = shop.search(q, operators=True, log=True)
    assert answer["everything"] is True
    runtime_of(shop.client).impressions.flush()
    assert shop.client.get(f"{shop.path}/queries/{answer['query_id']}").status_code == 404
    assert "everything" not in shop.search("kettle", operators=True)


def test_an_impression_belongs_to_its_collection(shop: CollectionClient, client: TestClient) -> None:
    query_id = shop.search("white bowl")["query_id"]
    assert client.get(f"/v1/collections/default/queries/{query_id}").status_code == 404


def test_a_model_is_selected_by_version_or_alias(shop: CollectionClient) -> None:
    assert shop.search("bowl")["model"] == {"version": 0, "alias": "champion"}
    assert shop.search("bowl", model=0)["model"] == {"version": 0, "alias": None}
    assert shop.ranking("red bowl", model=0) == shop.ranking("red bowl")


def test_equal_searches_give_identical_rankings(shop: CollectionClient) -> None:
    assert shop.ranking("blue bowl 17") == shop.ranking("blue bowl 17")


def test_query_ids_sort_by_time(shop: CollectionClient) -> None:
    ids = [shop.search("bowl", log=False)["query_id"] for _ in range(3)]
    assert all(one[14] == "7" for one in ids)
    assert [one[:13] for one in ids] == sorted(one[:13] for one in ids)


def test_a_search_beyond_the_queue_is_refused_with_retry_after(
    client: TestClient, shop: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_pool, "LONGEST_WAIT_SECONDS", DEADLINE_SECONDS)
    runtime = runtime_of(client)
    gate = threading.Event()
    waiting = []
    while not runtime.search_pool.is_full:
        waiting.append(runtime.run_search(gate.wait))
    assert len(waiting) == runtime.settings.searches_at_once + runtime.settings.search_queue
    refused = client.post(f"{shop.path}/search", json={"q": "bowl"})
    gate.set()
    assert all(one.result(DEADLINE_SECONDS) for one in waiting)
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "overloaded", "1")
    assert good(client.post(f"{shop.path}/search", json={"q": "bowl"}))["hits"]


def test_documents_without_words_do_not_affect_other_documents(client: TestClient) -> None:
    odd = create(client, "odd")
    odd.add({"id": "empty", "text": ""}, {"id": "signs", "text": "?!"}, {"id": "words", "text": "some words"})
    assert odd.ids("some words")[0] == "words"
    assert odd.get()["counts"]["documents"] == 3
    assert odd.ids("?!", limit=3)


def test_a_body_is_read_as_json_for_every_content_type(client: TestClient) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json"):
        answer = client.post("/v1/collections/default/search", content=b'{"q": "x"}', headers={"content-type": kind})
        assert answer.status_code == 200, kind


def test_a_search_uses_no_thread_of_the_framework(shop: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dependency that is a plain function would run in a thread of the framework, for every search."""
    sent: list[object] = []

    async def run_sync(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
        sent.append(function)
        return function(*given)

    monkeypatch.setattr(anyio.to_thread, "run_sync", run_sync)
    assert shop.search("a bowl made by hand")["hits"]
    assert sent == []
    assert shop.get("")["name"] == "shop"
    assert sent  # requests that read the database run in a thread of the framework


def test_a_synonym_of_pairs_is_marked_as_a_whole(client: TestClient) -> None:
    phones = create(client, "phones")
    phones.add(
        {"id": "whole", "text": "移动电话 黑色"}, {"id": "pair", "text": "电话机 座机"}, {"id": "own", "text": "手机"}
    )
    good(client.put(f"{phones.path}/synonyms/phone", json={"words": ["手机", "移动电话"]}))
    hits = {hit["id"]: hit for hit in phones.search("手机")["hits"]}
    marked = {
        id: [hit["text"][one["start"] : one["end"]] for one in hit["highlights"] if one["field"] == "text"]
        for id, hit in hits.items()
    }
    assert marked == {"whole": ["移动电话"], "pair": [], "own": ["手机"]}
