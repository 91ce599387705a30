"""Small collections in German, Japanese and Chinese: words are found in the forms in which people type them."""

from pathlib import Path

import pytest

from index.words.bm25_index import WordIndex
from index.words.reading_options import ReadingOptions
from index.words.word_search import WordSearcher

GERMAN = [
    "Das Handschuhfach im Auto klemmt",
    "Warme Handschuhe für den Winter",
    "Schuhe aus Leder, Größe 42",
    "Die Geschirrspülmaschine reinigt das Geschirr",
    "Ein Fach im Regal",
    "Kündigung der Versicherung",
    "Haftpflichtversicherung für Hunde",
    "Haftpflicht und Schaden",
]
JAPANESE = [
    "東京都の図書館は午後八時に閉まります",
    "自転車を駅前に駐輪する方法",
    "パスワードを忘れた場合の再設定",
    "図書カードの使い方",
]
CHINESE = ["如何重置密码", "图书馆的开放时间", "把自行车停在车站前", "密码至少需要八个字符"]


def searcher(directory: Path, language: str, texts: list[str]) -> WordSearcher:
    index = WordIndex(directory, language)
    index.replace(range(len(texts)), texts)
    return index.commit()


def found(words: WordSearcher, text: str, **options: bool) -> list[int]:
    return words.search(text, 10, None, ReadingOptions(**options))[0].tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("groesse", [2]),
        ("grosse", [2]),  # as it is typed without the keys ö and ß
        ("Handschuh", [1, 0]),
        ("Handschuhfach", [0, 4, 1]),
        ("Versicherung", [5, 6]),
        ("Haftpflichtversicherung", [6, 7, 5]),
        ("Fach", [4, 0]),
        ("versichrung", [5]),
    ],
)
def test_german_words_are_found_in_compounds_and_without_umlauts(
    tmp_path: Path, text: str, expected: list[int]
) -> None:
    words = searcher(tmp_path, "german", GERMAN)
    assert sorted(found(words, text, typos=True, compounds=True)) == sorted(expected)
    if expected:
        assert found(words, text, typos=True, compounds=True)[0] == expected[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("図書館", [0, 3]), ("駐輪", [1]), ("パスワード 再設定", [2, 3]), ("駅", [1]), ("東京都", [0])],
)
def test_japanese_words_are_found_without_spaces(tmp_path: Path, text: str, expected: list[int]) -> None:
    assert found(searcher(tmp_path, "japanese", JAPANESE), text) == expected


@pytest.mark.parametrize(("text", "expected"), [("密码", [0, 3]), ("自行车", [2]), ("重置", [0]), ("馆", [1])])
def test_chinese_words_are_found_without_spaces(tmp_path: Path, text: str, expected: list[int]) -> None:
    assert found(searcher(tmp_path, "chinese", CHINESE), text) == expected


def test_words_are_found_by_their_ending(tmp_path: Path) -> None:
    vocabulary = searcher(tmp_path, "german", GERMAN).vocabulary
    assert sorted(vocabulary.ending("versicherung")) == [("haftpflichtversicherung", 1), ("versicherung", 1)]
    assert vocabulary.ending("xyz") == []


def test_compounds_are_not_split_where_the_collection_lacks_a_part(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Handtuch", "Gartenschlauch und Garten"])
    assert found(words, "Gartenzaun", compounds=True) == []
    assert found(words, "Handtuchhalter", compounds=True) == []
