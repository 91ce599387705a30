"""A document with a synonym of several words comes before documents with one of the words."""

from pathlib import Path

import pytest

from index.generation.generation import Generation
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Mode, Query
from index.ranking.search import search
from index.words.reading_options import ReadingOptions, Synonyms, folded
from tests.index.fixtures import ENCODER, generation_of, vector_of, written

TEXTS = (
    "tv",
    "flat shoes",
    "screen protector",
    "flat screen black 40",
    "screen of a flat",
    "手机 白色",
    "电话机 座机",
    "移动电话 黑色",
    "无线移动硬盘",
    "fridge",
    "냉장고 신품",
    "냉장 식품",
    "เครื่องปรับอากาศ ใหม่",
    "เครื่องซักผ้า",
)
SYNONYMS = {"tv": "flat screen", "手机": "移动电话", "fridge": "냉장고", "cooler": "เครื่องปรับอากาศ", "移动电话": "手机"}
OPTIONS = ReadingOptions(synonyms=Synonyms({folded(word): [folded(other)] for word, other in SYNONYMS.items()}))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    directory: Path = tmp_path_factory.mktemp("synonyms")
    return generation_of(directory, [written(row, text) for row, text in enumerate(TEXTS, 1)])


def found(shop: Generation, q: str) -> list[str]:
    head = AttentionHead(HeadConfig(dim=ENCODER.dim))
    ranking = search(shop, head, Query(q, vector_of(q), Mode.WORDS, reading=OPTIONS))
    return [TEXTS[row - 1] for row in shop.rows[ranking.doc_indices]]


def test_the_whole_phrase_comes_before_its_words(shop: Generation) -> None:
    first, second, *others = found(shop, "tv")
    assert (first, second) == ("tv", "flat screen black 40")
    assert set(others) == {"flat shoes", "screen protector", "screen of a flat"}, "each word is weak evidence"


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("手机", ["手机 白色", "移动电话 黑色"]),
        ("fridge", ["fridge", "냉장고 신품"]),
        ("cooler", ["เครื่องปรับอากาศ ใหม่"]),
    ],
)
def test_a_pair_of_a_longer_word_is_no_evidence(shop: Generation, q: str, expected: list[str]) -> None:
    assert found(shop, q) == expected


def test_a_word_that_stands_for_a_longer_word_keeps_its_place(shop: Generation) -> None:
    assert found(shop, "移动电话")[:2] == ["移动电话 黑色", "手机 白色"]


def test_documents_with_a_phrase_are_those_that_a_search_by_words_finds(shop: Generation) -> None:
    for q in ("tv", "手机", "cooler"):
        words = shop.words.read(q, OPTIONS).words.without_parts()
        matching = shop.rows[shop.documents_with(words)]
        assert {TEXTS[row - 1] for row in matching} == set(found(shop, q))
