"""Pages of a search fit together: within the candidates no hit is shown twice, and none is left out."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.service.client import CollectionClient, good, opened

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
                "metadata": {"kind": at % 100},
            }
            for at in range(COUNT)
        )
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
    good(shop.client.put(f"{shop.path}", json={"filterable": ["kind"]}))
    rule = {"query": {"contains": "soap"}, "pin": [{"id": "7", "position": 3}, {"id": "9", "position": 25}]}
    good(shop.client.put(f"{shop.path}/rules/soap", json=rule))
    search: dict[str, Any] = {"q": "blue soap", "distinct": "kind", "candidates": 60}
    found = pages(shop, 0, 60, **search)
    assert (found[2], found[24]) == ("7", "9")
    kinds = [int(id) % 100 for id in found]
    assert len(set(kinds)) == len(kinds) > 25
    assert shop.client.delete(f"{shop.path}/rules/soap").status_code == 204
