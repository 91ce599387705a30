"""Words are compared in their plain form: however accents are encoded, and without characters that are not visible."""

import random
import re
import unicodedata
from pathlib import Path

import pytest

from index.words.bm25_index import WordIndex
from index.words.plain_text import (
    ACCENTS,
    EXTENDING,
    NOT_PLAIN,
    PLAIN_FORMS,
    PLAIN_LETTERS,
    UNUSUAL,
    is_plain,
    plain,
    traced,
)
from index.words.reading_options import EXACTLY, ReadingOptions, folded
from index.words.tokens import is_unspaced, spaced, tokens
from index.words.word_search import WordSearcher

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
MIXED = [
    *"aéßİiIõάΐαςΣᾷёеиЁ .-_1x\u0301\u0308\u0307\u0323\u00ad\u200b\u200c\u200d\u2060م\ufe0f\u212b\u2126\u0958",
    *"करि्त़தி்مُحَمَّកခ\u3099かガ한\u1112\u1161\u11abที่ไ葛\U000e0100😀½",
]


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def searcher_of(directory: Path, language: str, *texts: str) -> WordSearcher:
    index = WordIndex(directory, language)
    index.replace(range(len(texts)), texts)
    index.commit()
    return index.flush()


def rows(searcher: WordSearcher, query: str, options: ReadingOptions = EXACTLY) -> list[int]:
    return sorted(searcher.search(query, 10, None, options)[0].tolist())


@pytest.mark.parametrize("encoded", [str, decomposed])
@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("german", "Übersicht Löhne", "Löhne"),
        ("none", "Übersicht Löhne", "lohne"),
        ("none", "한국어 검색", "한국"),
        ("none", "ガイド", "ガイ"),
        ("russian", "за́мок у моря", "замок"),
    ],
)
def test_composed_and_decomposed_words_are_equal(
    tmp_path: Path, language: str, text: str, query: str, encoded: type[str]
) -> None:
    words = searcher_of(tmp_path, language, text, decomposed(text), "other")
    assert rows(words, encoded(query)) == [0, 1]


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("کتاب فارسی", "كتاب فارسي"),  # Persian and Arabic letters
        ("أسعار إلى آلة", "اسعار الي الة"),
        ("ہم ۀ", "هم ه"),
        ("١٢٣ ۱۲۳ १२३ ๑๒๓", "123 123 123 123"),
        ("мʼяч", "м'яч"),
        ("oʻzbek", "o'zbek"),
        ("ज़मीन चाँद", "जमीन चांद"),
        ("سِلْسِلَۂ خانهٔ كتـــاب مُحَمَّد", "سلسله خانه كتاب محمد"),
        ("סֵפֶר שָׁלוֹם", "ספר שלום"),
    ],
)
def test_letters_and_digits_that_are_typed_for_others_are_equal(written: str, typed: str) -> None:
    assert folded(written) == folded(typed)
    assert [written[start:end] for start, end, _ in tokens(written)] == re.split("[ ʼʻ]", written)


@pytest.mark.parametrize("language", ["turkish", "english", "none"])
@pytest.mark.parametrize("query", ["istanbul", "İstanbul", "İSTANBUL", "İstanbul".lower(), decomposed("İstanbul")])
def test_the_capital_i_with_a_dot_is_an_i(tmp_path: Path, language: str, query: str) -> None:
    assert rows(searcher_of(tmp_path, language, "İstanbul", decomposed("İstanbul"), "Izmir"), query) == [0, 1]


def test_the_capital_i_with_a_dot_is_completed_and_corrected(tmp_path: Path) -> None:
    words = searcher_of(tmp_path, "turkish", "İstanbul")
    assert rows(words, "istan", ReadingOptions(prefix=True)) == [0]
    assert words.read("istnbul", ReadingOptions(typos=True)).corrections == (("istnbul", "istanbul"),)
    assert words.read("İstnbul", ReadingOptions(typos=True)).text == "istanbul"


@pytest.mark.parametrize(
    ("language", "text", "query", "others"),
    [
        ("tamil", "நான் தமிழ் பேசுகிறேன்", "தமிழ்", "தமி"),
        ("tamil", "புத்தகங்கள்", "புத்தகம்", "புது"),
        ("none", "यह किताब है", "किताब", "कि"),
        ("none", "हिन्दी में", "हिन्दी", "हिन"),
        ("arabic", "قال مُحَمَّد", "محمد", "قل"),
        ("none", "שָׁלוֹם", "שָׁלוֹם", "ש"),
    ],
)
def test_signs_of_vowels_belong_to_the_word(tmp_path: Path, language: str, text: str, query: str, others: str) -> None:
    words = searcher_of(tmp_path, language, text)
    assert len(words.read(query).terms) == 1
    assert rows(words, query) == [0]
    assert rows(words, others) == []
    assert rows(words, text[:-1], ReadingOptions(prefix=True)) == [0]


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("an eﬃcient ﬁlter", "efficient filter", "eﬃcient ﬁlter"),
        ("ＷｉＦｉ ６ ルーター", "wifi 6", "ＷｉＦｉ ６"),
        ("a plot of 300 m²", "m2", "m²"),
        ("2½ cups", "2 1/2", "2½"),
        ("½cup of oil", "cup", "cup"),
        ("10㎏ of rice", "10kg", "10㎏"),
        ("the 5ᵗʰ of May", "5th", "5ᵗʰ"),
        ("12㋀", "12", "12"),
        ("㍿会社", "会社", "㍿会社"),
        ("20℃", "20", "20"),
        ("㈱日立の本", "日立", "日立"),
        ("⽇本", "日本", "⽇本"),
        ("Chapter Ⅳ", "iv", "Ⅳ"),
        ("𝐁old", "bold", "𝐁old"),
        ("سلام ﻻ", "لا", "ﻻ"),
        ("5 µg", "5 μg", "5 µg"),
        ("Acme™ phone", "acme", "Acme"),
        ("№5", "5", "5"),
    ],
)
def test_letters_and_digits_in_another_form_are_those_that_they_stand_for(
    tmp_path: Path, text: str, query: str, found: str
) -> None:
    words = searcher_of(tmp_path, "none", text, "other")
    assert rows(words, query) == rows(words, found) == [0]
    wanted = {folded(word) for _, _, word in tokens(query)}
    places = [(start, end) for start, end, word in tokens(text) if folded(word) in wanted]
    assert text[min(start for start, _ in places) : max(end for _, end in places)] == found


@pytest.mark.parametrize("language", ["english", "greek", "russian", "none"])
@pytest.mark.parametrize("encoded", [str, decomposed])
@pytest.mark.parametrize(
    ("texts", "queries", "beginning"),
    [
        (["Σεισμός στην Κρήτη", "ΣΕΙΣΜΟΣ"], ["σεισμός", "σεισμος", "ΣΕΙΣΜΟΣ", "ΣΕΙΣΜΌΣ"], "σεισμό"),
        (["Οδός Ερμού", "ΟΔΟΣ"], ["οδός", "οδος", "ΟΔΟΣ", "οδοσ"], "οδο"),
        (["Αθήνα", "ΑΘΗΝΑ", "Ἀθῆναι Ἀθήνα"], ["αθηνα", "Αθήνα", "ΑΘΉΝΑ"], "αθη"),
        (["Μαΐου", "ΜΑΪΟΥ", "μαιου"], ["μαΐου", "μαϊου", "ΜΑΙΟΥ"], "μαΐ"),
        (["Щётка", "ЩЕТКА"], ["щётка", "щетка", "ЩЁТКА"], "щёт"),
    ],
)
def test_greek_accents_the_final_sigma_and_the_russian_yo_are_folded(
    tmp_path: Path, language: str, encoded: type[str], texts: list[str], queries: list[str], beginning: str
) -> None:
    words = searcher_of(tmp_path, language, *map(encoded, texts), "other")
    every = list(range(len(texts)))
    assert [rows(words, encoded(query)) for query in queries] == [every] * len(queries)
    for typed in (beginning, plain(beginning)):
        assert rows(words, encoded(typed), ReadingOptions(prefix=True)) == every


def test_other_letters_than_greek_ones_and_yo_keep_their_marks() -> None:
    assert plain("йод ї ў é ü ñ مؤمن किताब") == "йод ї ў é ü ñ مؤمن किताब"


def test_folded_letters_have_the_offsets_of_the_text() -> None:
    assert traced("Οδός, ёж") == ("Οδοσ, еж", [*range(8)], [*range(1, 9)])
    assert traced(decomposed("Οδός, ё")) == ("Οδοσ, е", [0, 1, 2, 4, 5, 6, 7], [1, 2, 4, 5, 6, 7, 9])


def test_a_fraction_that_ends_a_query_is_not_completed(tmp_path: Path) -> None:
    words = searcher_of(tmp_path, "none", "cake ½ sugar", "cake 200 sugar", "200", "200")
    reading = words.read("cake ½", ReadingOptions(prefix=True))
    assert (reading.text, reading.encoded, reading.unfinished) == ("cake ½", "cake ½", False)


def test_forms_of_scripts_that_are_cut_into_pairs_stay() -> None:
    assert plain("กำ ㄱ ｶﾞ") == "กำ ㄱ ｶﾞ"
    replaced = {"\u0130", *map(chr, PLAIN_LETTERS)}
    stay = {
        code: form
        for code, form in PLAIN_FORMS.items()
        if not set(form) & replaced and not re.search(f"[{ACCENTS}]", form)
    }
    assert all(plain(form) == form for form in stay.values())
    arabic = {code for code, form in PLAIN_FORMS.items() if "ARABIC" in unicodedata.name(form.strip()[0], "")}
    assert len(stay.keys() - arabic) > len(PLAIN_FORMS.keys() - arabic) - 10
    assert all(plain(plain(form)) == plain(form) for form in PLAIN_FORMS.values())


@pytest.mark.parametrize("sign", ["\u00ad", "\u200b", "\u2060", "\ufeff"])
def test_a_character_that_is_not_visible_does_not_cut_a_word(tmp_path: Path, sign: str) -> None:
    written = f"Zusammen{sign}fassung der Arbeit"
    words = searcher_of(tmp_path, "german", written, "Zusammenfassung")
    assert rows(words, "zusammenfassung") == rows(words, f"Zusammen{sign}fassung") == [0, 1]
    assert next((written[start:end], word) for start, end, word in tokens(written)) == (
        f"Zusammen{sign}fassung",
        "Zusammenfassung",
    )


@pytest.mark.parametrize("between", ["\u200c", " ", ""])
def test_persian_words_are_found_with_a_non_joiner_with_a_space_and_without(tmp_path: Path, between: str) -> None:
    words = searcher_of(tmp_path, "none", *["این کتاب\u200cخانه", "آن کتاب خانه"] * 2, "other")
    assert rows(words, f"کتاب{between}خانه", ReadingOptions(typos=True)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "typed"), [("क्\u200dष", "क्ष"), ("क्\u200cष", "क्ष"), ("ශ්\u200dරී", "ශ්රී"), ("auf\u200clage", "auflage")]
)
def test_joiners_of_other_scripts_do_not_cut_a_word(tmp_path: Path, text: str, typed: str) -> None:
    words = searcher_of(tmp_path, "none", text, typed, "other")
    assert rows(words, text) == rows(words, typed) == [0, 1]
    assert [text[start:end] for start, end, _ in tokens(text)] == [text]


def test_non_joiners_and_khmer_spaces_without_width_separate_words() -> None:
    assert folded("می\u200cخواهم") == folded("می خواهم") == "مي خواهم"
    assert folded("ݐ\u200cا") == "ݐ ا"  # an additional letter
    assert folded("ﻢ\u200cﺍ") == folded("م\u200cا") == "م ا"  # Arabic forms
    assert folded("ភាសា\u200bខ្មែរ") == "ភាសា ខ្មែរ"


def test_signs_of_emoji_are_no_words() -> None:
    assert folded("1\ufe0f\u20e3 ❤\ufe0f ok") == "1 ok"
    assert folded("葛\U000e0100城") == "葛城"


def test_words_of_an_unfinished_and_of_a_phrase_query_have_the_offsets_of_the_query() -> None:
    text = decomposed("über Löhne")
    assert [(start, end) for start, end, _ in tokens(text)] == [(0, 5), (6, 12)]
    assert [word for *_, word in tokens(text)] == ["über", "Löhne"]


def test_the_usual_characters_are_plain_and_stand_alone() -> None:
    usual = [character for character in CHARACTERS if not UNUSUAL.search(character)]
    assert len(usual) > 3000
    for character in usual:
        assert unicodedata.is_normalized("NFC", character)
        assert unicodedata.category(character) not in ("Mn", "Mc", "Me", "Cf")
        assert not NOT_PLAIN.search(character)
        assert not is_unspaced(character)


def test_a_piece_with_its_extending_characters_becomes_plain_alone() -> None:
    draw = random.Random(1)
    for _ in range(3000):
        text = "".join(draw.choice(MIXED) for _ in range(draw.randrange(12)))
        made, starts, ends = traced(text)
        assert made == plain(text)
        assert len(made) == len(starts) == len(ends)
        assert starts == sorted(starts)
        assert ends == sorted(ends)
        assert all(0 <= start < end <= len(text) for start, end in zip(starts, ends, strict=True))
        assert spaced(text).split() == [word for *_, word in tokens(text)]


def test_what_composes_with_the_character_before_is_an_extending_character() -> None:
    extending = re.compile(f"[{EXTENDING}]")
    composed = [one for one in CHARACTERS if unicodedata.is_normalized("NFC", one) and len(decomposed(one)) > 1]
    assert len(composed) > 12_000
    assert [one for one in composed if not extending.fullmatch(decomposed(one)[-1])] == []


def test_no_accent_is_left_and_ascii_is_plain() -> None:
    assert plain("m\u0303 q\u0307\u0323 e\u0301") == "m q é"
    assert is_plain("plain, text_1")
    assert is_plain("Grüße – “ok” 😀")
    assert is_plain("検索 किताब")
    assert not is_plain("e\u0301")
    assert set(ACCENTS) - {"-"} <= set(EXTENDING)
