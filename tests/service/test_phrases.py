"""Which documents contain a phrase: one of the operators, or a synonym of several words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.client import CollectionClient, create, opened

DOCUMENTS = (
    {"id": "kettle", "title": "steel blue", "text": "kettle of iron"},
    {"id": "cat", "title": "黒猫の写真", "text": "とても可愛い"},
    {"id": "dog", "title": "犬", "text": "白い犬の写真です"},
    {"id": "halfwidth", "text": "カメラ ガ"},
    {"id": "flat", "text": "a flat screen on the wall", "metadata": {"price": 5}},
    {"id": "shoes", "text": "flat shoes", "metadata": {"price": 1}},
    {"id": "door", "text": "a screen door", "metadata": {"price": 2}},
    {"id": "order", "text": "a screen that is flat", "metadata": {"price": 3}},
    {"id": "set", "text": "a television set", "metadata": {"price": 4}},
    {"id": "washer", "text": "5年保証付きの洗濯機"},
    {"id": "years", "text": "保証は10年です"},
    {"id": "dolls", "title": "雛祭り", "text": "3月3日に飾る"},
    {"id": "chapter", "title": "物語第3章の問題", "text": "章の3"},
    {"id": "case", "text": "最新iPhone用ケース"},
    {"id": "lunch", "text": "毎年5月の5 昼食"},
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectionClient]:
    directory: Path = tmp_path_factory.mktemp("phrases")
    with opened(directory / "data") as client:
        shop = create(client, "shop", filterable=["price"])
        shop.add(*DOCUMENTS)
        yield shop


def found(shop: CollectionClient, q: str) -> set[str]:
    return {hit["id"] for hit in shop.search(q, operators=True, mode="words", limit=50)["hits"]}


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ('"steel blue"', {"kettle"}),
        ('"kettle of iron"', {"kettle"}),
        ('"blue kettle"', set()),  # the title ends between the words
        ('kettle -"blue kettle"', {"kettle"}),
        ('kettle -"steel blue"', set()),
    ],
)
def test_the_words_of_a_phrase_are_in_one_field(shop: CollectionClient, q: str, expected: set[str]) -> None:
    assert found(shop, q) == expected


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ('"猫"', {"cat"}),
        ('"い"', {"cat", "dog"}),
        ("写真 -猫", {"dog"}),
        ("写真 -白", {"cat"}),
        ("写真 -写", set()),
        ('"猫、"', {"cat"}),
        ('"\uff76"', {"halfwidth"}),  # halfwidth
        ('"\u304b\u3099"', set()),  # two characters that are one
        ('"\u30ab\u3099"', {"halfwidth"}),
        ("カメラ -\uff76", set()),
    ],
)
def test_one_character_of_a_script_without_spaces_is_a_part_of_pairs(
    shop: CollectionClient, q: str, expected: set[str]
) -> None:
    assert found(shop, q) == expected


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ('"5年"', {"washer"}),
        ('"10年"', {"years"}),
        ('"3月3日"', {"dolls"}),
        ('"第3章"', {"chapter"}),
        ('"第3"', {"chapter"}),
        ('"語3"', set()),
        ('"年5"', {"lunch"}),
        ('"年5月"', {"lunch"}),
        ('"iphone用"', {"case"}),
        ('"新iPhone"', {"case"}),
        ('"最iPhone"', set()),
        ("洗濯機 -5年", set()),
        ('洗濯機 -"5年"', set()),
        ('洗濯機 -"5月"', {"washer"}),
    ],
)
def test_one_character_beside_a_digit_or_a_latin_letter_may_be_in_a_longer_run(
    shop: CollectionClient, q: str, expected: set[str]
) -> None:
    assert found(shop, q) == expected


def test_facets_and_sorting_count_a_synonym_of_several_words_as_a_phrase(shop: CollectionClient) -> None:
    path = f"{shop.path}/synonyms"
    shop.client.put(f"{path}/tv", json={"words": ["tv", "television", "flat screen"]}).raise_for_status()
    answer = shop.search("tv", mode="words", facets=["price"], sort=["price:asc"])
    assert [hit["id"] for hit in answer["hits"]] == ["set", "flat"]
    assert answer["facets"]["price"]["values"] == {"4": 1, "5": 1}
    shop.client.put(f"{path}/door", json={"words": ["tv", "door"]}).raise_for_status()
    shop.client.put(f"{path}/screen", json={"words": ["tv", "screen"]}).raise_for_status()
    answer = shop.search("tv", mode="words", sort=["price:asc"])
    assert [hit["id"] for hit in answer["hits"]] == ["door", "order", "set", "flat"]  # `screen` alone is a synonym too


def test_the_words_of_a_phrase_are_not_corrected(shop: CollectionClient) -> None:
    answer = shop.search('"steel bleu" kettel', operators=True, mode="words")
    assert answer["corrections"] == [{"from": "kettel", "to": "kettle"}]
    assert answer["hits"] == []
    assert {"from": "bleu", "to": "blue"} in shop.search("steel bleu", operators=True, mode="words")["corrections"]


def test_phrases_may_have_typographic_quotation_marks(shop: CollectionClient) -> None:
    assert (
        found(shop, "“steel blue”")
        == found(shop, "„steel blue“")
        == found(shop, "«\u00a0steel blue\u00a0»")
        == {"kettle"}
    )
    assert found(shop, "kettle -“steel blue”") == set()
