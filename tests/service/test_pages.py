"""Pages of a search fit together: within the candidates no hit is shown twice, and none is left out."""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from index.ranking.search import Ranking, search
from service.search import actions, passing
from tests.service.client import CollectionClient, create, good, opened

COUNT = 400
COLOURS = ("green", "red", "blue", "grey", "black", "white", "brown")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectionClient]:
    """A collection in which the documents of a search have very different lengths and neighbours."""
    with opened(tmp_path_factory.mktemp("pages") / "data") as client:
        shop = CollectionClient(client)
        documents = (
            {
                "id": str(at),
                "title": f"{COLOURS[at % 7]} soap {at * at % 31}" if at % 3 else None,
                "text": f"a {COLOURS[at % 5]} soap " + f"with {COLOURS[at % 4]} salt and sand {at % 17} " * (at % 11),
                "metadata": {"kind": at % 100, "price": at * 7 % COUNT},
            }
            for at in range(COUNT)
        )
        good(client.put(shop.path, json={"filterable": ["kind", "price"]}))
        shop.add(*documents)
        yield shop


def pages(shop: CollectionClient, begin: int, end: int, **search: Any) -> list[str]:
    """Return the ids on the pages of ten from `begin` to `end`."""
    answers = [shop.search(limit=10, offset=offset, log=False, **search) for offset in range(begin, end, 10)]
    return [hit["id"] for answer in answers for hit in answer["hits"]]


SEARCHES = [{"q": "red soap with salt"}, {"q": "red soap with salt", "mode": "words"}, {"q": "soap", "mode": "dense"}]


@pytest.mark.parametrize("search", SEARCHES)
def test_pages_within_the_candidates_are_of_one_ranking(shop: CollectionClient, search: dict[str, str]) -> None:
    for begin, end in pairwise([0, 20, 80, 320]):
        found = pages(shop, begin, end, candidates=20, **search)
        whole = shop.search(limit=end, candidates=20, log=False, **search)["hits"]
        assert found == [hit["id"] for hit in whole][begin:]
        assert len(set(found)) == end - begin


def test_pages_within_a_step_are_of_one_ranking_while_the_last_word_is_unfinished(shop: CollectionClient) -> None:
    search = {"q": "red soap with s", "prefix": "last"}
    for begin, end in pairwise([0, 50, 200]):
        found = pages(shop, begin, end, **search)
        assert len(set(found)) == end - begin
        assert found == [hit["id"] for hit in shop.search(limit=end, log=False, **search)["hits"]][begin:]


@pytest.mark.parametrize("search", SEARCHES)
def test_a_page_that_ends_with_the_candidates_knows_whether_there_are_more(
    shop: CollectionClient, search: dict[str, str]
) -> None:
    def has_more(limit: int, candidates: int) -> object:
        return shop.search(limit=limit, candidates=candidates, log=False, **search)["page"]["has_more"]

    assert has_more(20, 20) is True
    assert has_more(COUNT, COUNT) is False
    assert has_more(COUNT - 1, COUNT - 1) is True


def test_distinct_hits_and_pins_keep_their_places_on_every_page(shop: CollectionClient) -> None:
    rule = {"query": {"contains": "soap"}, "pin": [{"id": "7", "position": 3}, {"id": "9", "position": 25}]}
    good(shop.client.put(f"{shop.path}/rules/soap", json=rule))
    search: dict[str, Any] = {"q": "blue soap", "distinct": "kind", "candidates": 60}
    found = pages(shop, 0, 60, **search)
    assert (found[2], found[24]) == ("7", "9")
    kinds = [int(id) % 100 for id in found]
    assert len(set(kinds)) == len(kinds) > 25
    assert shop.client.delete(f"{shop.path}/rules/soap").status_code == 204


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("at_once", [passing.MOST_AT_ONCE, 12])
def test_pages_of_sorted_hits_have_all_that_pass_a_logit(
    shop: CollectionClient, search: dict[str, str], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing, "MOST_AT_ONCE", at_once)
    whole = shop.search(**search, sort=["price:asc"], limit=COUNT, log=False)["hits"]
    least = sorted((hit["logit"] for hit in whole), reverse=True)[24]
    passes = [hit for hit in whole if hit["logit"] >= least]
    passed = shop.search(**search, sort=["price:asc"], min_logit=least, limit=COUNT, log=False)
    assert [hit["id"] for hit in passed["hits"]] == [hit["id"] for hit in passes]
    for offset in range(0, len(passes), 10):
        page = shop.search(**search, sort=["price:asc"], min_logit=least, limit=10, offset=offset, log=False)
        assert [hit["id"] for hit in page["hits"]] == [hit["id"] for hit in passes[offset : offset + 10]]
        assert min(hit["logit"] for hit in page["hits"]) >= least
        assert page["page"]["has_more"] == (len(passes) > offset + 10)
    first = {hit["metadata"]["kind"]: hit["id"] for hit in reversed(passes)}
    found = shop.search(**search, sort=["price:asc"], min_logit=least, distinct="kind", limit=10, log=False)
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in passes if hit["id"] in first.values()][:10]


def test_sorted_hits_are_left_out_above_a_null_weight_and_above_all_logits(shop: CollectionClient) -> None:
    search: dict[str, Any] = {"q": "red soap", "sort": ["price:asc"], "min_logit": -1e9}
    assert len(shop.search(**search)["hits"]) == 10
    assert shop.search(**search, max_null_weight=0)["hits"] == []
    assert shop.search(**search | {"min_logit": 1e9})["hits"] == []


def test_a_threshold_that_no_document_passes_ranks_a_bounded_number(
    shop: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked: list[int] = []

    def counted(*arguments: Any) -> Ranking:
        ranked.append(len(arguments[3]))
        return search(*arguments)

    monkeypatch.setattr(actions, "search", counted)
    monkeypatch.setattr(passing, "MOST_AT_ONCE", 12)
    monkeypatch.setattr(passing, "MOST_SORTED", 24)
    assert shop.search("red soap", sort=["price:asc"], min_logit=1e9, limit=5)["hits"] == []
    assert ranked == [6, 12, 6]


@pytest.fixture(scope="module")
def shoes(shop: CollectionClient) -> CollectionClient:
    """Groups of 30 documents, each group nearer to the query than the next; a document has no group."""
    shoes = create(shop.client, "shoes", filterable=["group"])
    for group in range(6):
        text = f"running shoe {'of another kind and make ' * group}"
        shoes.add(
            *(
                {
                    "id": f"{group}-{size:02}",
                    "title": "running shoe " * (6 - group),
                    "text": f"{text} size {size}",
                    "metadata": {"group": group},
                }
                for size in range(30)
            )
        )
    shoes.add({"id": "none", "text": f"a running shoe {'made of many other things ' * 9}"})
    return shoes


@pytest.mark.parametrize("mode", ["hybrid", "words", "dense"])
def test_distinct_hits_are_searched_for_until_none_is_left(shoes: CollectionClient, mode: str) -> None:
    search: dict[str, Any] = {"q": "running shoe", "distinct": "group", "candidates": 20, "mode": mode, "log": False}
    groups = {None, *range(6)}
    answer = shoes.search(**search)
    assert {hit["metadata"].get("group") for hit in answer["hits"]} == groups
    assert (len(answer["hits"]), answer["page"]["has_more"]) == (7, False)
    for limit, has_more in ((1, True), (6, True), (7, False)):
        answer = shoes.search(**search, limit=limit)
        assert (len(answer["hits"]), answer["page"]["has_more"]) == (limit, has_more)
    last = shoes.search(**search, limit=5, offset=5)
    assert (len(last["hits"]), last["page"]["has_more"]) == (2, False)


def test_a_search_whose_distinct_hits_are_all_found_keeps_its_candidates(shoes: CollectionClient) -> None:
    search: dict[str, Any] = {"q": "running shoe", "candidates": 20, "filter": "group <= 0", "log": False}
    alone = shoes.search(**search, mode="words")["attention"]["candidates"]
    answer = shoes.search(**search, mode="words", distinct="group")
    assert (len(answer["hits"]), answer["page"]["has_more"]) == (1, False)
    assert answer["attention"]["candidates"] == alone == 20


def test_distinct_hits_that_pass_a_logit_are_of_the_candidates_above_it(shoes: CollectionClient) -> None:
    search: dict[str, Any] = {"q": "running shoe", "candidates": 20, "mode": "words", "log": False}
    best = shoes.search(**search)["hits"][0]
    answer = shoes.search(**search, distinct="group", min_logit=best["logit"])
    assert [hit["id"] for hit in answer["hits"]] == [best["id"]]
    assert answer["page"]["has_more"] is False


PINNED: dict[str, list[dict[str, Any]]] = {
    "no pin": [],
    "a far pin": [{"id": "p1", "position": 15}],
    "two pins with one value": [{"id": "p1", "position": 1}, {"id": "p2", "position": 2}],
}


@pytest.mark.parametrize("pins", PINNED)
@pytest.mark.parametrize("mode", ["words", "hybrid"])
def test_distinct_hits_of_a_later_page_are_of_the_list_of_the_first(
    shop: CollectionClient, pins: str, mode: str
) -> None:
    lamps, words = create(shop.client, f"lamps-{mode}-{pins}".replace(" ", "-"), filterable=["maker"]), random.Random(3)
    for many, makers in ((80, 4), (600, 90)):
        lamps.add(
            *(
                {
                    "id": f"{many}-{n:03}",
                    "text": " ".join(
                        words.choices(["small", "lamp", "of", "glass", "wood"][: 2 if many == 80 else 5], k=9)
                    ),
                    "metadata": {"maker": n % makers},
                }
                for n in range(many)
            )
        )
    lamps.add(*({"id": id, "text": "a pin", "metadata": {"maker": "p"}} for id in ("p1", "p2")))
    if PINNED[pins]:
        rule = {"query": {"exact": "small lamp"}, "pin": PINNED[pins]}
        good(shop.client.put(f"{lamps.path}/rules/r", json=rule))
    search: dict[str, Any] = {"q": "small lamp", "mode": mode, "distinct": "maker", "candidates": 60, "log": False}
    whole = [hit["id"] for hit in lamps.search(**search, limit=60)["hits"]]
    assert len(set(whole)) == len(whole) == 60
    assert [whole.index(pin["id"]) + 1 for pin in PINNED[pins]] == [pin["position"] for pin in PINNED[pins]]
    for limit in (5, 10, 20, 30):
        pages = [lamps.search(**search, offset=at, limit=limit)["hits"] for at in range(0, 60, limit)]
        assert [hit["id"] for page in pages for hit in page] == whole
