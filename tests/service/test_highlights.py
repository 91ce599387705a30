"""Highlights are the words of a text whose stems are wanted: as every word, one after the other, would be stemmed."""

import random
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest

from index.words.analyzers import analyzer_for
from index.words.tokens import has_unspaced, spaced, tokens
from service.search import highlights
from service.search.highlights import MAX_HIGHLIGHTS, Highlighter

SCANNED_WORDS = (
    "copy copies copying Copied COPY copyist opy cop a A é É café Cafe CAFÉ cafés naïve naive straße STRASSE ﬁnd find "
    "run running runs ran 3 33 x2 ١٢ ½ ② Ελλάδα ελλάδας мир миры हिन्दी e\u0301te\u0301 été i\u0307 İstanbul aa aaa ab"
)  # fmt: skip
WORDS = [*SCANNED_WORDS.split(), "x" * 300]
UNSPACED_WORDS = ["東京都", "京都", "コピー", "ｺﾋﾟｰ", "ภาษาไทย", "서울", "複写", "は"]
BETWEEN = [
    " ",
    " ",
    " ",
    "  ",
    "\n",
    "-",
    "_",
    "__",
    "'",
    "’",
    "·",
    "/",
    ", ",
    ". ",
    "\u200b",
    "\u0301",
    "\u00ad",
    "\u0947",
    "😀",
    "\0",
]


def plain(
    language: str, terms: Mapping[str, AbstractSet[str]], fields: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Return the highlights by a loop over all words of a text: the definition."""
    analyzer = analyzer_for(language)
    found = []
    for field, text in fields.items():
        wanted = highlights._marked(terms[field])
        words = tokens(text or "", highlights.SCANNED_CHARACTERS)
        spans = [(start, end) for start, end, word in words if "".join(analyzer.analyze(word)) in wanted]
        joined = highlights._joined(spans) if has_unspaced(text or "", highlights.SCANNED_CHARACTERS) else spans
        joined = dict.fromkeys(joined)
        for start, end in islice(joined, MAX_HIGHLIGHTS):
            found.append({"field": field, "start": start, "end": end})
    return found


def made_texts(seed: int, count: int) -> Iterator[str]:
    """Yield texts of up to 60 words; one in five has scripts without spaces."""
    draw = random.Random(seed)
    for _ in range(count):
        known = WORDS + UNSPACED_WORDS if draw.random() < 0.2 else WORDS
        parts = (draw.choice(known) + draw.choice(BETWEEN) for _ in range(draw.randrange(60)))
        yield draw.choice(BETWEEN) * draw.randrange(2) + "".join(parts)


def terms_of(language: str, *words: str) -> dict[str, frozenset[str]]:
    analyzer = analyzer_for(language)
    return dict.fromkeys(("title", "text"), frozenset("".join(analyzer.analyze(spaced(word))) for word in words))


@pytest.mark.parametrize("language", ["none", "english", "german"])
def test_highlights_are_the_words_that_a_loop_over_all_words_finds(language: str) -> None:
    highlighter, draw = Highlighter(language), random.Random(3)
    marked = 0
    for title, text in zip(made_texts(1, 400), made_texts(2, 400), strict=True):
        terms = terms_of(language, *draw.sample([*WORDS, "東京", "コピ"], draw.randrange(6)))
        fields = {"title": title, "text": text}
        found = highlighter.for_terms(terms)(fields)
        assert found == plain(language, terms, fields)
        marked += len(found)
    assert marked > 800


@pytest.mark.parametrize("between", [" ", "x", ""])
def test_long_texts_are_cut_at_no_word(monkeypatch: pytest.MonkeyPatch, between: str) -> None:
    """The words that lie across the borders of the windows, and across the last scanned character."""
    monkeypatch.setattr(highlights, "SCANNED_CHARACTERS", 1000)
    monkeypatch.setattr(highlights, "WINDOW_CHARACTERS", 40)
    highlighter, terms = Highlighter("english"), terms_of("english", "copy", "run", "c")
    for shift in range(45):
        text = "-" * shift + ("z" * 11 + between).join(["copies ", " running", "copy", " runs "] * 40)
        assert highlighter.for_terms(terms)({"text": text}) == plain("english", terms, {"text": text})


def test_at_most_fifty_words_are_marked_the_first_of_the_text() -> None:
    text = "copying copies, copied copy; " * 1000
    found = Highlighter("english").for_terms(terms_of("english", "copy"))({"text": text})
    assert found == plain("english", terms_of("english", "copy"), {"text": text})
    assert len(found) == MAX_HIGHLIGHTS


@pytest.mark.parametrize(
    ("language", "query", "before", "marked", "after"),
    [
        ("german", "müller", "Herr ", "Mu\u0308ller", " kommt"),
        ("german", "Mu\u0308ller", "u\u0308ber ", "Mu\u0308llers", ", hier"),
        ("turkish", "istanbul", "Yeni ", "İstanbul", " var"),
        ("english", "words", "an\u00adother ", "wo\u00adrd", ". Wörter"),
        ("tamil", "தமிழ்", "நான் ", "தமிழ்", " பேசுகிறேன்"),
        ("none", "किताब", "यह ", "किताब", " है, किताबें"),
        ("none", "हिन्दी", "हिन्दीया ", "हिन्दी", " हिन्"),
        ("arabic", "محمد", "قال ", "مُحَمَّد", " ذلك"),
        ("none", "ガイ", "a ", "カ\u3099イ", "x"),
        ("none", "한국", "a ", "\u1112\u1161\u11ab\u1100\u116e\u11a8", " b"),
    ],
)
def test_a_marked_word_has_all_its_characters(language: str, query: str, before: str, marked: str, after: str) -> None:
    text = before + marked + after
    found = Highlighter(language).for_terms(terms_of(language, query))({"text": text})
    assert [text[one["start"] : one["end"]] for one in found] == [marked]
    assert found == plain(language, terms_of(language, query), {"text": text})


def test_a_digit_beside_a_word_is_marked_and_a_letter_is_not() -> None:
    text = "the phone 5 of a kind"
    found = Highlighter("english").for_terms(terms_of("english", "a", "phone", "5"))({"text": text})
    assert [text[one["start"] : one["end"]] for one in found] == ["phone", "5"]


def test_a_single_character_is_marked_without_its_neighbours() -> None:
    terms = dict.fromkeys(("text",), frozenset({"猫", "と猫", "猫を", "飼う"}))
    text = "犬と猫。猫を飼う人"
    found = Highlighter("japanese").for_terms(terms)({"text": text})
    assert [text[one["start"] : one["end"]] for one in found] == ["猫", "猫", "飼う"]


def test_a_word_that_was_stemmed_is_not_stemmed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another text with the same words is only cut into words."""
    highlighter, stemmed = Highlighter("english"), []
    analyzed = highlighter._analyzed
    monkeypatch.setattr(highlighter, "_analyzed", lambda word: (stemmed.append(word), analyzed(word))[1])
    for text in ("the copies of a copy", "a copy of the copies", "the copyist"):
        assert highlighter.for_terms(terms_of("english", "copying"))({"text": text}) == plain(
            "english", terms_of("english", "copying"), {"text": text}
        )
    assert sorted(stemmed) == ["a", "copies", "copy", "copyist", "of", "the"]


def test_forgotten_stems_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highlights, "CACHED_BYTES", 40)
    highlighter = Highlighter("english")
    with ThreadPoolExecutor(4) as pool:
        fields = [{"text": text, "title": None} for text in made_texts(5, 300)]
        terms = terms_of("english", "copy", "run", "café")
        found = list(pool.map(highlighter.for_terms(terms), fields))
    assert found == [plain("english", terms, one) for one in fields]
    assert highlighter._stems.bytes <= 40 + max(len(one["text"].encode()) for one in fields)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("电话机 和 移动", []),
        ("移动电话机", ["移动电话"]),
        ("旧移动电话和电话", ["移动电话"]),
        ("手机和电话机", ["手机"]),
        ("plain words", []),
    ],
)
def test_the_pairs_of_a_run_are_marked_only_together(text: str, marked: list[str]) -> None:
    find = Highlighter("none").for_terms({"text": frozenset({"手机"})}, [("移动", "动电", "电话")])
    assert [text[one["start"] : one["end"]] for one in find({"text": text})] == marked


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("1,000 sheets", ["1", "000", "sheets"]),
        ("1 sheet of 000", ["sheet"]),
        ("Blätter: 1.000", ["1", "000"]),
        ("500 sheets", ["sheets"]),
    ],
)
def test_the_groups_of_a_number_are_marked_only_together(text: str, marked: list[str]) -> None:
    find = Highlighter("english").for_terms({"text": frozenset({"1000", "sheet"})}, [("1", "000")])
    assert [text[one["start"] : one["end"]] for one in find({"text": text})] == marked
