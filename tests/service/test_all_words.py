"""Searches for documents with all words of the query."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.client import CollectionClient, create, good, opened

DOCUMENTS = [
    {"id": "drill", "title": "Bosch cordless drill", "text": "A drill of 18 V.", "metadata": {"price": 99}},
    {"id": "bag", "title": "Vacuum cleaner bag", "text": "Fits Bosch.", "metadata": {"price": 9}},
    {"id": "curtain", "title": "Shower curtain", "text": "Hangs without a drill.", "metadata": {"price": 5}},
    {
        "id": "other",
        "title": "Cordless screwdriver",
        "text": "By Makita, with two batteries.",
        "metadata": {"price": 79},
    },
    {"id": "sofa", "title": "Couch", "text": "A red couch. 1,000 springs.", "metadata": {"price": 300}},
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectionClient]:
    with opened(tmp_path_factory.mktemp("all-words") / "data") as client:
        shop = create(client, "shop", filterable=["price"], stop_words=["a"])
        shop.add(*DOCUMENTS)
        good(client.put(f"{shop.path}/synonyms/sofa", json={"words": ["sofa", "couch"]}))
        good(client.put(f"{shop.path}/synonyms/screw", json={"words": ["driver", "screwdriver makita"]}))
        yield shop


@pytest.mark.parametrize(
    ("q", "more", "expected"),
    [
        ("bosch drill", {}, {"drill"}),
        ("bosh drills", {}, {"drill"}),
        ("a bosch dri", {"prefix": "last"}, {"drill"}),
        ("red sofa", {}, {"sofa"}),
        ("sofa 1000", {}, {"sofa"}),
        ("18v drill", {}, {"drill"}),
        ("bosch", {}, {"drill", "bag"}),
        ("bosch sofa", {}, set()),
        ("sofa couch", {}, {"sofa"}),
        ("couhc couch", {}, {"sofa"}),
        ("cordless -bosch", {"operators": True}, {"other"}),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
def test_hits_have_all_words_or_what_stands_for_them(
    shop: CollectionClient, q: str, more: dict[str, Any], expected: set[str], mode: str
) -> None:
    assert set(shop.ids(q, all_words=True, mode=mode, **more)) == expected


def test_sorted_hits_and_facets_are_of_documents_with_all_words(shop: CollectionClient) -> None:
    answer = shop.search("bosch drill", all_words=True, sort=["price:asc"], facets=["price"], count=True)
    assert [hit["id"] for hit in answer["hits"]] == ["drill"]
    assert (answer["matching"], answer["facets"]["price"]["max"]) == (1, 99)
    assert shop.ids("bosch drill", sort=["price:asc"])[0] == "curtain"


def test_a_search_without_words_is_for_everything(shop: CollectionClient) -> None:
    assert len(shop.ids("*", all_words=True)) == len(DOCUMENTS)


def test_a_phrase_that_stands_for_a_word_counts_as_a_whole(shop: CollectionClient) -> None:
    assert shop.ids("cordless driver", all_words=True) == [], "Makita does not follow the screwdriver"
    shop.add({"id": "whole", "text": "A cordless screwdriver Makita", "metadata": {}})
    assert shop.ids("cordless driver", all_words=True) == ["whole"]
    assert shop.client.delete(f"{shop.path}/documents/whole").is_success


def test_all_words_in_a_query_string(shop: CollectionClient) -> None:
    answer = good(shop.client.get(f"{shop.path}/search", params={"q": "bosch drill", "all_words": "true"}))
    assert [hit["id"] for hit in answer["hits"]] == ["drill"]


def test_words_that_are_written_together_may_stand_apart(shop: CollectionClient) -> None:
    apart = create(shop.client, "apart")
    apart.add(
        {"id": "dress", "text": "红色连衣裙 夏季新款"},
        {"id": "phones", "text": "无线蓝牙耳机 降噪"},
        {"id": "ear", "text": "무선 이어폰"},
        {"id": "repair", "text": "手机 维修 器材"},
    )
    for q, expected in {
        "连衣裙红色": ["dress"],  # no document has 裙红
        "红色连衣裙": ["dress"],
        "连衣": ["dress"],
        "无线耳机": ["phones"],
        "무선이어폰": ["ear"],
        "红色耳机": [],
        "红色 耳机": [],
        "手机 维修": ["repair"],
        "手机 机器": [],  # words of their own, which share a character
    }.items():
        assert apart.ids(q, all_words=True) == expected
