"""A snippet is the part of a text with the query words, and cuts no word and no character as it is seen."""

import unicodedata
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from index.words.tokens import Token, tokens
from service.search import snippets
from service.search.highlights import Highlighter
from service.search.snippets import ELLIPSIS, snippet
from tests.service.client import create, opened


def spans(text: str, *words: str) -> list[tuple[int, int]]:
    """Return the spans of words in a text, in reading order."""
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append((at, at + len(word)))
            at = text.find(word, at + 1)
    return sorted(found)


def shown(text: str, marks: list[tuple[int, int]], length: int, best: tuple[int, int] | None = None) -> str:
    """Return the crop of a text without ellipses. best: the passage with the most attention, by default all."""
    return str(snippet(text, marks, best or (0, len(text)), length)["text"]).strip(ELLIPSIS)


@pytest.mark.parametrize(
    ("word", "stray", "filler"),
    [
        ("东京大学", "大学", "这里还有很多其他的内容。"),
        ("東京都", "京都", "ここには別の話題が続きます。"),
        ("แม่น้ำ", "น้ำ", "ที่นี่มีเรื่องอื่นอีกมาก"),
        ("서울대학교", "대학", "여기에는 다른 내용이 이어집니다. "),
    ],
)
def test_a_word_of_a_script_without_spaces_is_shown_before_a_part_of_it(word: str, stray: str, filler: str) -> None:
    for text in (stray + filler * 20 + word + filler * 20, filler * 20 + word + filler * 20 + stray):
        terms = frozenset(one.text for one in tokens(word))
        found = Highlighter("none").for_terms({"text": terms})({"text": text})
        marks = [(one["start"], one["end"]) for one in found]
        assert len(marks) > 1
        assert word in shown(text, marks, 100)
        assert word in shown(text, marks, 100, best=(0, len(stray)))


def test_a_word_of_letters_is_shown_from_the_passage_with_the_most_attention() -> None:
    text = "A copy. " + "Nothing here. " * 30 + "Copy the folder."
    assert shown(text, spans(text, "copy", "Copy", "folder"), 60, best=(0, 7)).startswith("A copy.")


@pytest.mark.parametrize("apart", [40, 80, 150, 190])
def test_all_words_of_the_best_part_are_shown(apart: int) -> None:
    text = "The end. " * 12 + "copy " + "and so on " * (apart // 10) + "folder " + "The end. " * 40
    assert {"copy", "folder"} <= set(shown(text, spans(text, "copy", "folder"), 240).split())


def test_a_word_that_comes_again_does_not_begin_the_best_part() -> None:
    text = "大学，这里有很多内容。" * 30 + "东京大学成立。" + "这里有很多内容。" * 30
    marks = spans(text, "大学", "东京大学")
    marks.remove((text.index("东京大学") + 2, text.index("东京大学") + 4))
    assert "东京大学成立" in shown(text, marks, 240)


def test_of_equal_parts_the_first_one_of_the_passage_is_shown() -> None:
    text = "大学。" + "这里有很多内容。" * 30 + "大学校。"
    assert shown(text, spans(text, "大学"), 60).startswith("大学。")
    assert "大学校" in shown(text, spans(text, "大学"), 60, best=(200, len(text)))


def test_the_words_of_a_search_are_in_its_snippets(tmp_path: Path) -> None:
    filler = "这里还有很多其他的内容用来填充文本长度。"
    with opened(tmp_path / "data") as client:
        texts = create(client, "texts")
        texts.add(
            {"id": "zh", "text": "本市有多所大学。" + filler * 15 + "其中东京大学成立于一八七七年。" + filler * 20}
        )
        (hit,) = texts.search("东京大学", mode="words", snippet=True, fields=[])["hits"]
    marks = [hit["snippet"]["text"][one["start"] : one["end"]] for one in hit["snippet"]["highlights"]]
    assert marks == ["东京大学"]


@pytest.mark.parametrize(
    "characters",
    [
        ["ก", "กิ", "น้ำ", "เ", "ที่"],
        [unicodedata.normalize("NFD", one) for one in "서울특별시"],
        ["👍🏽", "👨\u200d👩\u200d👧\u200d👦", "👋"],
        ["🇩🇪", "🇯🇵", "x"],
        ["e\u0301", "n", "1\ufe0f\u20e3"],
        ["か\u3099", "ｶﾞ", "ア"],
    ],
)  # fmt: skip
def test_no_character_is_cut(characters: list[str]) -> None:
    parts = characters * 12 + ["kettle"] + characters * 30
    text = "".join(parts)
    borders = {0, *accumulate(map(len, parts))}
    for length in range(20, 70):
        crop = shown(text, spans(text, "kettle"), length)
        start = text.index("kettle") - crop.index("kettle")
        assert {start, start + len(crop)} <= borders
        crop = shown(text, [], length, best=(text.index("kettle"), len(text)))
        assert crop.startswith("kettle")
        assert text.index("kettle") + len(crop) in borders


def test_a_border_between_words_is_not_sought_behind_the_word_of_the_query() -> None:
    text = "x" * 40 + "-kettle boils " + "y" * 40
    assert "kettle" in shown(text, spans(text, "kettle"), 20)
    text = "这里有很多内容" * 10 + "东京大学 " + "成立于一八七七年" * 10
    assert "东京大学" in shown(text, spans(text, "东京大学"), 20)


def test_a_snippet_is_never_empty() -> None:
    text = "word " + "x" * 100
    assert shown(text, [], 20, best=(5, 100)) == "x" * 20
    for end in ("\n", " " * 30, "\n" * 300):
        for length in (20, 40):
            text = " \n" * 30 + "x" * 100 + end
            for start in range(0, len(text), 7):
                found = snippet(text, [], (start, len(text)), length)["text"]
                assert "x" * (length // 2) in found
                assert found.strip() == found
    text = "x" * 30 + " " * 300 + "y" * 30
    assert all(shown(text, [], 20, best=(start, 360)).strip() for start in range(360))


def test_a_mark_over_the_border_of_a_crop_is_marked_inside_it() -> None:
    text = "这里有其他内容。" * 20 + "东京大学成立于一八七七年" * 40 + "。结束" * 90
    run = (text.index("东"), text.index("。结束"))
    found = snippet(text, [run], (0, len(text)), 100)
    (mark,) = found["highlights"]
    marked = found["text"][mark["start"] : mark["end"]]
    assert marked.startswith("东京大学")
    assert 75 <= len(marked) <= 100
    text = "x" * 30 + "东京" + "y" * 300
    crop = snippet(text, [(30, 32)], (0, len(text)), 20)
    assert [crop["text"][one["start"] : one["end"]] for one in crop["highlights"]] == ["东京"]


def test_one_character_of_a_mark_is_another_word_and_is_not_marked() -> None:
    text = "东京大学" * 2 + "这里有很多内容" * 20
    for length in range(20, 30):
        border = len(shown(text, [(0, 1)], length))
        found = snippet(text, [(0, 4), (border - 1, border + 1)], (0, 4), length)
        assert found["highlights"] == [{"start": 0, "end": 4}]


def test_of_a_very_long_mark_only_the_part_that_can_be_shown_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def noted(word: str) -> Iterator[Token]:
        read.append(len(word))
        return tokens(word)

    monkeypatch.setattr(snippets, "tokens", noted)
    text = "东京大学成立于一八七七年" * 1000
    assert snippet(text, [(0, len(text))], (0, len(text)), 100)["highlights"] == [{"start": 0, "end": 100}]
    assert read == [100]


@pytest.mark.parametrize(
    "filler", ["The cat and the dog saw the bird. ", "x" * 400 + " "], ids=["frequent words", "far"]
)
def test_words_of_the_passage_are_found_after_many_marks_and_far_behind_in_a_text(filler: str) -> None:
    answer = "Grumman was announced as the LEM contractor."
    text = filler * 60 + answer + " " + filler * 60
    marker = Highlighter("english").for_terms({"text": frozenset({"the", "lem", "contractor"})})
    spans = [(one["start"], one["end"]) for one in marker({"text": text})]
    start = text.index(answer)
    best = (start, start + len(answer))
    near = marker.near_passage(text, spans, best, 100)
    found = snippet(text, near, best, 100)
    assert "LEM contractor" in found["text"]
    marked = [found["text"][one["start"] : one["end"]] for one in found["highlights"]]
    assert {"LEM", "contractor"} <= set(marked)
    assert near[: len(spans)] == spans
    assert list(near) == sorted(set(near)), "in reading order, none twice"
    assert marker.near_passage(text, [], (0, 9), 100) == []
    cut = start + len(answer) - len("actor.")
    ends = [one[1] for one in marker.near_passage(text, spans, (start, start), cut - start)]
    assert cut + len("actor") in ends, "a word at the end of what is read is whole"
