"""Texts are cut into words, and text without spaces into pairs of characters."""

import pytest

from index.words.tokens import is_unspaced, spaced, tokens


def words(text: str) -> list[str]:
    return [token.text for token in tokens(text)]


def test_words_are_runs_of_letters_and_digits() -> None:
    assert words("It's 3pm: re_run größer!") == ["It", "s", "3pm", "re", "run", "größer"]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("検索エンジン", ["検索", "索エ", "エン", "ンジ", "ジン"]),
        ("搜索引擎", ["搜索", "索引", "引擎"]),
        ("검색 엔진", ["검색", "엔진"]),
        ("猫", ["猫"]),
        ("ที่นี่", ["ที", "ีน", "นี"]),
    ],
)
def test_text_without_spaces_is_cut_into_overlapping_pairs(text: str, pairs: list[str]) -> None:
    assert words(text) == pairs
    assert spaced(text).split() == pairs


def test_scripts_are_cut_at_their_border() -> None:
    assert words("SQLite入門guide") == ["SQLite", "入門", "guide"]
    assert spaced("SQLite入門guide") == "SQLite 入門 guide"


def test_offsets_point_at_the_characters_of_the_text() -> None:
    text = "see 検索語 now"
    assert all(text[start:end] == word for start, end, word in tokens(text))
    thai = "ก่ข"
    assert [(token.start, token.end, token.text) for token in tokens(thai)] == [(0, 3, "กข")]


def test_only_the_first_characters_are_read() -> None:
    assert [token.text for token in tokens("one two three", 7)] == ["one", "two"]


@pytest.mark.parametrize("text", ["Hello, world_1", "Grüße, world_1 – “it’s”", "Löhne über 3·5", "a\tb\0c", ""])
def test_a_text_without_marks_is_cut_at_its_signs(text: str) -> None:
    assert spaced(text).split() == words(text)


def test_scripts_are_distinguished() -> None:
    assert is_unspaced("検索")
    assert not is_unspaced("search")
