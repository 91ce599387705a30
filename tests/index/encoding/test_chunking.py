"""Passages fit the window, do not overlap, have correct offsets, and end at sentence boundaries."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from index.encoding import windows
from index.encoding.chunking import (
    MAX_TITLE_SHARE,
    SENTENCE_TOKENS,
    SPECIAL_TOKENS,
    PassageCutter,
    Span,
)

WINDOW = 80


def count_words(text: str) -> int:
    return len(text.split())


CUTTER = PassageCutter(count_words, WINDOW)
SENTENCES = [f"Sentence {number} has exactly seven words here." for number in range(40)]
LONG = " ".join(SENTENCES)
WORDS = " ".join(f"word{number}" for number in range(500))
"""A text without sentence boundaries."""


@pytest.mark.parametrize("text", [LONG, WORDS, "One.\n\n" * 300])
@pytest.mark.parametrize("title", [None, "A short title", "a long title " * 50])
def test_every_passage_fits_the_window(text: str, title: str | None) -> None:
    spans = CUTTER.passages(text, title)
    assert len(spans) > 1
    assert max(count_words(span.encoded_text) for span in spans) <= WINDOW - SPECIAL_TOKENS


@pytest.mark.parametrize("window", [16, 32, 48, 512])
def test_the_window_may_have_any_size(window: int) -> None:
    spans = PassageCutter(count_words, window).passages(WORDS, "a long title " * 50)
    assert max(count_words(span.encoded_text) for span in spans) <= window
    assert spans[-1].end == len(WORDS)


def test_offsets_point_at_the_characters_that_are_encoded() -> None:
    for span in CUTTER.passages(LONG, None):
        assert LONG[span.start : span.end] == span.encoded_text
    for span in CUTTER.passages(LONG, "Title"):
        assert "Title\n" + LONG[span.start : span.end] == span.encoded_text


def test_offsets_count_characters_and_not_bytes() -> None:
    text = " ".join(f"Größe {number} 😀 naïve 漢字." for number in range(60))
    spans = CUTTER.passages(text, None)
    assert len(spans) > 1
    for span in [*spans, *CUTTER.sentences(text)]:
        assert text[span.start : span.end] == span.encoded_text


def test_no_word_of_the_text_is_lost() -> None:
    for cut in (CUTTER.passages(WORDS, None), CUTTER.sentences(WORDS)):
        found = {word for span in cut for word in span.encoded_text.split()}
        assert found == set(WORDS.split())


@pytest.mark.parametrize("text", [LONG, WORDS])
def test_passages_cover_the_text_without_overlap(text: str) -> None:
    spans = CUTTER.passages(text, None)
    assert len(spans) > 3
    assert [word for span in spans for word in span.encoded_text.split()] == text.split()
    assert all(left.end <= right.start for left, right in pairwise(spans))


def test_passages_begin_and_end_at_sentence_boundaries() -> None:
    for span in CUTTER.passages(LONG, None):
        assert span.encoded_text.startswith("Sentence")
        assert span.encoded_text.endswith("here.")


def test_a_text_that_fits_is_one_passage() -> None:
    assert CUTTER.passages("A short text.", None) == [Span(0, 13, "A short text.")]


def test_every_passage_is_encoded_with_the_title_before_it() -> None:
    spans = CUTTER.passages(LONG, "  The Title ")
    assert len(spans) > 1
    assert all(span.encoded_text.startswith("The Title\nSentence") for span in spans)


def test_a_long_title_is_cut_to_its_share_of_the_window() -> None:
    title = " ".join(f"title{number}" for number in range(300))
    for span in CUTTER.passages(LONG, title):
        prefix, _, rest = span.encoded_text.partition("\n")
        assert 0 < count_words(prefix) <= MAX_TITLE_SHARE * WINDOW
        assert title.startswith(prefix)
        assert rest == LONG[span.start : span.end]


def test_a_long_title_without_spaces_is_cut_too() -> None:
    by_character = PassageCutter(len, 100)
    spans = by_character.passages("text " * 100, "x" * 1000)
    assert spans[0].encoded_text.startswith("x")
    assert max(len(span.encoded_text) for span in spans) <= 100


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_a_document_with_only_a_title_has_the_title_as_its_passage(text: str) -> None:
    assert CUTTER.passages(text, "The Title") == [Span(0, 0, "The Title")]


@pytest.mark.parametrize("title", [None, "", "  "])
def test_an_empty_document_has_no_passage(title: str | None) -> None:
    assert CUTTER.passages("", title) == []
    assert CUTTER.sentences("") == []


def test_sentences_cover_the_text_without_overlap() -> None:
    spans = CUTTER.sentences(LONG)
    assert [text for span in spans for text in span.encoded_text.split(" ")] == LONG.split(" ")
    assert all(left.end <= right.start for left, right in pairwise(spans))


def test_short_sentences_are_joined_up_to_the_capacity() -> None:
    spans = CUTTER.sentences("One two. Three four. " + LONG)
    assert max(count_words(span.encoded_text) for span in spans) <= SENTENCE_TOKENS
    assert spans[0].encoded_text.startswith("One two. Three four. Sentence 0")
    assert all(span.encoded_text.endswith((".", "here.")) for span in spans)


def test_one_sentence_longer_than_the_capacity_is_cut() -> None:
    assert count_words(CUTTER.sentences(WORDS)[0].encoded_text) == SENTENCE_TOKENS


def test_a_text_of_emoji_is_cut() -> None:
    text = "👩‍👩‍👧‍👦 " * 200
    spans = CUTTER.passages(text, "🎉")
    assert len(spans) > 1
    assert all(span.encoded_text == "🎉\n" + text[span.start : span.end] for span in spans)


def written(generator: random.Random, words: Sequence[str], length: int, end: str) -> str:
    """Return sentences of random words: of different lengths, with paragraphs, numbers and abbreviations."""
    text = ""
    while len(text) < length:
        sentence = end.join(generator.choice(words) for _ in range(generator.randrange(3, 40)))
        text += sentence.capitalize() + generator.choice([". ", ". ", ".\n", ".\n\n", "? ", "。", "!\r\n", ".\n\n\n"])
    return text


ENGLISH = ["a", "search", "engine", "reads", "words", "e.g.", "Mr.", "Smith", "3.14", "(see", "1.2)", "U.S.", "naïve,"]
CHINESE = ["漢", "字", "学", "。", "，", "の", "は", "中文"]
THAI = ["กขค", "งจฉ", "ชซ", " "]
MARKDOWN = ["# Title\n\n", "- item\n", "`code`", "word", "two words", "|a|b|\n", "\n\n\n"]


@pytest.mark.parametrize(("words", "end"), [(ENGLISH, " "), (CHINESE, ""), (THAI, ""), (MARKDOWN, " "), (WORDS, "")])
@pytest.mark.parametrize("count", [count_words, len])
def test_a_long_text_is_cut_in_windows_as_it_is_cut_whole(
    words: Sequence[str], end: str, count: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(1)
    cutter = PassageCutter(count, WINDOW)
    texts = [written(generator, words, 6_000, end) for _ in range(4)]
    in_windows = [(cutter.passages(text, "Title"), cutter.sentences(text)) for text in texts]
    monkeypatch.setattr(windows, "CHUNKS", 10_000)  # the first window contains the whole text
    assert [(cutter.passages(text, "Title"), cutter.sentences(text)) for text in texts] == in_windows


@pytest.mark.parametrize("text", ["a a a " * 8_000, "漢字" * 5_000, "a b.\n" * 4_000, "x" * 60_000, " \n" * 4_000])
def test_cutting_reads_a_number_of_characters_that_grows_with_the_text(text: str) -> None:
    """The cost is counted in the characters whose tokens are counted, over all calls."""
    read: list[int] = []

    def count(part: str) -> int:
        read.append(len(part))
        return len(part.split()) + len(part) // 10

    def cost(length: int) -> int:
        read.clear()
        PassageCutter(count, WINDOW).passages(text[:length], None)
        return sum(read)

    assert cost(len(text)) <= 4.5 * cost(len(text) // 4) + 200_000


def test_windows_are_short_where_chunks_are_short() -> None:
    lengths: list[int] = []

    def cut(text: str) -> list[tuple[int, str]]:
        lengths.append(len(text))
        return [(at, text[at : at + 10]) for at in range(0, len(text), 10)]

    text = "x" * 100_000
    assert "".join(chunk for _, chunk in windows.cut_in_windows(cut, text, 10)) == text
    assert max(lengths) <= 200
    assert sum(lengths) <= 3 * len(text)


def test_windows_that_do_not_agree_end_a_run_and_lose_no_text() -> None:
    def cut(text: str) -> list[tuple[int, str]]:
        size = 7 + text.count("a") % 5  # cuts that depend on the whole window never repeat
        return [(at, text[at : at + size]) for at in range(0, len(text), size)]

    text = "ab" * 3_000
    assert "".join(chunk for _, chunk in windows.cut_in_windows(cut, text, 8)) == text


def test_white_space_longer_than_a_window_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MAX_CHARACTERS", 100)
    spans = CUTTER.passages("one two" + " " * 500 + "three", None)
    assert [span.encoded_text for span in spans] == ["one two", "three"]
