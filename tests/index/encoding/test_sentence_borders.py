"""Sentences begin and end where the splitter of passages cuts them."""

import pytest
from semantic_text_splitter import TextSplitter

from index.encoding.sentence_borders import whole_sentences

PARTS = [
    ("The den is dug. ", "Cubs are born in January"),
    ("The den of Mr. ", "Smith is dug in January"),
    ("It has 3.", "5 metres of earth above it"),
    ("The law of the U.", "S. is about dens of bears"),
    ("Wait... ", "what is this about bears"),
    ("Wait... ", "What is this about bears"),
    ("What! ", "no bear is born in January"),
    ("What!", ", no bear is born in January"),
    ("He said (as he does.) ", "Then he left the den"),
    ("“Go away.” ", "Then he left the den of bears"),
    ("It ends here.", "[1] Then he left the den of bears"),
    ("Is it?", "yes it is a den of bears"),
    ("see a.", "b is a den of bears in snow"),
    ("मैं हूँ। ", "वह है और वह जाता है"),
    ("他走了。", "她来 了 吗 我 不 知道 啊 是 的"),
    ("bears, ", "wolves and other animals"),
    ("It is 2.) ", "is a small letter after it"),
    ("x; ", "Then he left the den of bears"),
    ("No. ", "5 is alive and well in snow"),
    ("No. ", "5 Dens are alive and well"),
    ("Why ?! ", "Then he left the den of bears"),
]


def cuts(text: str, capacity: int) -> list[str]:
    splitter = TextSplitter.from_callback(len, capacity, trim=False)
    return [chunk for _, chunk in splitter.chunk_indices(text)]


@pytest.mark.parametrize(("first", "second"), PARTS)
def test_a_sentence_ends_where_the_splitter_cuts(first: str, second: str) -> None:
    """The splitter has capacity for the next word too: it cuts before it only where a sentence ends."""
    text = first + second
    capacity = max(len(first), len(second)) + 3
    fits = min(len(text) - 1, max(capacity, len(first) + len(second.split()[0])))
    is_cut = cuts(text, fits)[0] == first
    assert (whole_sentences(text, 0, 1, 1000)[1] == len(first.rstrip())) == is_cut


def test_a_piece_of_a_sentence_becomes_the_whole_sentence() -> None:
    text = "One is here. Two was 3.5 metres long, as Dr. no says. Three?\nFour"
    at = text.index("metres")
    start, end = whole_sentences(text, at, at + 3, 1000)
    assert text[start:end] == "Two was 3.5 metres long, as Dr. no says."
    start, end = whole_sentences(text, text.index("says"), text.index("Three") + 2, 1000)
    assert text[start:end] == "Two was 3.5 metres long, as Dr. no says. Three?"
    assert whole_sentences(text, len(text) - 1, len(text), 1000) == (len(text) - 4, len(text))


def test_whole_sentences_stay_as_they_are() -> None:
    text = "  One is here.  “Two is there.” Three.\n\nFour is a title\nFive"
    for sentence in ("One is here.", "“Two is there.”", "One is here.  “Two is there.”", "Three.", "Four is a title"):
        start = text.index(sentence)
        assert whole_sentences(text, start, start + len(sentence), 1000) == (start, start + len(sentence))


def test_a_span_with_too_long_sentences_stays_as_it_is() -> None:
    text = "Short. " + "word " * 2000 + "end. Short."
    assert whole_sentences(text, 5000, 5010, 4000) == (5000, 5010)
    assert whole_sentences(text, 0, 6, 4000) == (0, 6)


def test_a_full_stop_between_spaces_ends_a_sentence_of_small_letters() -> None:
    text = "the flow is slow . the heat is lost .  a note follows e.g. here"
    assert [text[slice(*whole_sentences(text, at, at + 4, 100))] for at in (4, 20, 40)] == [
        "the flow is slow .",
        "the heat is lost .",
        "a note follows e.g. here",
    ]


@pytest.mark.parametrize("signs", [".", "!?", "…", ". ", ".,"])
def test_a_long_row_of_signs_is_read_once(signs: str) -> None:
    """The time grew with the cube of the length: this row would take an hour."""
    text = "Contents " + signs * 20_000 + ", page 7"
    assert whole_sentences(text, len(text) - 4, len(text), 100)[1] == len(text)
