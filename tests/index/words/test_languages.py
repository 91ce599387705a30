"""Small collections in German, Japanese and Chinese: words are found in the forms in which people type them."""

from pathlib import Path

import numpy as np
import pytest

from index.words import alternatives
from index.words.bm25_index import WordIndex
from index.words.reading_options import ReadingOptions
from index.words.tokens import tokens
from index.words.visible_words import VisibleWords
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


@pytest.mark.parametrize(
    ("text", "expected"), [("法", [1]), ("書", [0, 3]), ("す", [0, 1]), ("方 法", [1, 3]), ("猫", [])]
)
def test_a_character_is_found_wherever_it_stands_in_a_run(tmp_path: Path, text: str, expected: list[int]) -> None:
    assert sorted(found(searcher(tmp_path, "japanese", JAPANESE), text)) == expected


@pytest.mark.parametrize(("text", "expected"), [("法", [1]), ("書", [0, 3]), ("す", [0, 1]), ("方 法", [1, 3])])
def test_a_character_is_found_wherever_it_stands_in_a_run_while_it_is_typed(
    tmp_path: Path, text: str, expected: list[int]
) -> None:
    assert sorted(found(searcher(tmp_path, "japanese", JAPANESE), text, prefix=True)) == expected


def test_an_unfinished_character_begins_words_ends_pairs_and_is_a_word(tmp_path: Path) -> None:
    words = searcher(tmp_path, "korean", ["학교 책", "학교책", "책상", "연필"])
    assert sorted(found(words, "책", prefix=True)) == [0, 1, 2]
    assert sorted(found(words, "연필 책", prefix=True)) == [0, 1, 2, 3]
    reading = words.read("상", ReadingOptions(prefix=True))
    assert (reading.text, reading.encoded, reading.trust) == ("상", "상", 1.0), "no word begins with it"
    assert not reading.unfinished


def test_an_unfinished_character_of_a_large_collection_only_begins_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = searcher(tmp_path, "korean", ["학교책", "책상"])
    monkeypatch.setattr(alternatives, "MOST_DOCUMENTS", 1)
    assert found(words, "책", prefix=True) == [1]
    assert sorted(found(words, "책")) == [0, 1]


def test_the_end_of_a_pair_is_no_completion_of_the_text(tmp_path: Path) -> None:
    words = searcher(tmp_path, "chinese", ["图书", "图书", "书包"])
    reading = words.read("书", ReadingOptions(prefix=True))
    assert (reading.text, reading.trust, reading.unfinished) == ("书包", 0.5, True)


def test_an_unfinished_letter_of_a_script_with_spaces_only_begins_words(tmp_path: Path) -> None:
    assert found(searcher(tmp_path, "none", ["beta", "alpha"]), "a", prefix=True) == [1]


@pytest.mark.parametrize(("text", "expected"), [("密码", [0, 3]), ("自行车", [2]), ("重置", [0]), ("馆", [1])])
def test_chinese_words_are_found_without_spaces(tmp_path: Path, text: str, expected: list[int]) -> None:
    assert found(searcher(tmp_path, "chinese", CHINESE), text) == expected


@pytest.mark.parametrize("text", ["ﾊﾟｽﾜｰﾄﾞ", "ﾊﾟｽﾜｰﾄﾞ 再設定"])
def test_halfwidth_katakana_finds_ordinary_katakana(tmp_path: Path, text: str) -> None:
    assert found(searcher(tmp_path, "japanese", JAPANESE), text)[0] == 2
    assert found(searcher(tmp_path / "halfwidth", "japanese", ["ﾌﾟﾘﾝﾀｰの紙"]), "プリンター") == [0]


def test_pairs_of_halfwidth_katakana_have_the_offsets_of_the_text() -> None:
    text = "a ﾊﾟｽﾜ"
    assert [(one.text, text[one.start : one.end]) for one in tokens(text)] == [
        ("a", "a"),
        ("パス", "ﾊﾟｽ"),
        ("スワ", "ｽﾜ"),
    ]


def test_terms_are_found_by_their_ending(tmp_path: Path) -> None:
    vocabulary = searcher(tmp_path, "german", GERMAN).vocabulary
    assert sorted(vocabulary.ending("schuh")) == [("handschuh", 1), ("schuh", 1)]
    assert vocabulary.ending("xyz") == []


INSURANCE = ["Haftpflichtversicherungsnachweis", "Die Laterne", "Straßenlaternen am Platz", "Ein Nachweis"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Haftpflicht", [0]),
        ("Nachweise", [3, 0]),
        ("Laternen", [1, 2]),
        ("Laternenpfahl", [1]),
        ("Platznachweis", [3, 2]),
    ],
)
def test_a_part_is_found_where_the_collection_lacks_the_other_part(
    tmp_path: Path, text: str, expected: list[int]
) -> None:
    assert found(searcher(tmp_path, "german", INSURANCE), text, compounds=True)[: len(expected)] == expected


def test_a_plural_is_found_in_compounds_that_begin_with_the_singular(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Fahrradhelm", "Fahrräder", "Ein Helm"])
    assert (
        sorted(found(words, "Fahrräder", compounds=True)) == sorted(found(words, "Fahrrad", compounds=True)) == [0, 1]
    )


def test_both_parts_of_an_unknown_compound_count(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Papier für Briefe", "Der Drucker zieht Papier ein", "Drucker aus"])
    assert found(words, "Druckerpapier", compounds=True)[0] == 1
    reading = words.read("neues Druckerpapier", ReadingOptions(compounds=True))
    assert [term for term, _ in reading.terms[:3]] == ["neu", "druck", "papi"]
    assert len(reading.words.of_query) == 3
    assert reading.text == "neues Druckerpapier"


def test_an_unfinished_compound_is_encoded_as_it_is_typed(tmp_path: Path) -> None:
    beginnings = [f"Papier{end}" for end in "fach korb stau bogen rolle einzug sorte format gewicht lager".split()]
    words = searcher(tmp_path, "german", ["Papier", "Drucker", *(" ".join([one] * 3) for one in beginnings)])
    options = ReadingOptions(compounds=True, prefix=True)
    for text in ("Druckerpapier", "neues Druckerpapier"):
        reading = words.read(text, options)
        assert len(reading.words.of_query) == len(text.split()) + 1
        assert (reading.encoded, reading.remembered) == (text, text)
    assert words.read("Drucker papier", options).encoded == "Drucker", "as a word of its own it is left out"


def test_a_compound_of_three_parts_is_split(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Parken", "Bewohner", "Ein Ausweis zum Park", "Antrag"])
    assert set(found(words, "Bewohnerparkausweis", compounds=True)) == {0, 1, 2}


def test_short_parts_need_a_partner(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Das Fach", "Abo und Kündigung", "Ein Bad", "einfach"])
    assert found(words, "Fach", compounds=True) == [0]
    assert found(words, "Abokündigung", compounds=True) == [1]
    assert found(words, "Badewanne", compounds=True) == []
    assert found(words, "Fachwerk", compounds=True) == []


def test_a_correction_of_the_word_comes_before_a_part_of_it(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Gartenzaun", "Garten"])
    assert found(words, "Gartenzaum", typos=True, compounds=True)[0] == 0
    assert words.read("Gartenzaum", ReadingOptions(typos=True, compounds=True)).corrections == (
        ("Gartenzaum", "gartenzaun"),
    )


def test_a_correction_of_a_part_leaves_the_encoded_text_as_typed(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Der Schlüssel", "Ein Dienst"])
    reading = words.read("Schluesseldienst", ReadingOptions(typos=True, compounds=True))
    assert sorted(found(words, "Schluesseldienst", typos=True, compounds=True)) == [0, 1]
    assert (reading.text, reading.corrections) == ("Schluesseldienst", ())


def test_the_last_part_of_an_unfinished_compound_is_completed(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Drucker", "Schublade", "Kopierschubladenfach"])
    assert sorted(found(words, "Druckerschubl", prefix=True, compounds=True)) == [0, 1]
    assert found(words, "Druckerschubl", compounds=True) == [0]
    assert found(words, "Kopierschubl", prefix=True, compounds=True) == [2]


def of_tenant(words: WordSearcher, text: str, texts: list[str]) -> list[int]:
    """Return what a reader finds that sees only these texts, the first of the documents."""
    numbers, rows = [words.number(one) for one in texts], np.arange(len(texts))
    lengths = np.asarray([len(one) for one in numbers])
    reader = words.of_reader("a", lambda: VisibleWords(words.postings, rows, np.concatenate(numbers), lengths))
    return words.find(reader.read(text, ReadingOptions(compounds=True)), 100, rows)[0].tolist()


CONTRACTS = [
    "Der Vertrag läuft",
    "Mietvertrag Muster",
    "Haftpflicht und Schaden",
    "Kaufvertrag",
    "Grundstückshaftpflichtvertrag",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Kaufvertrag", [0, 1]), ("Pachtvertrag", [0, 1]), ("Grundstückshaftpflichtvertrag", [0, 1, 2])],
)
def test_a_compound_of_documents_that_a_reader_does_not_see_finds_its_parts(
    tmp_path: Path, text: str, expected: list[int]
) -> None:
    alone = searcher(tmp_path / "alone", "german", CONTRACTS[:3])
    shared = searcher(tmp_path / "shared", "german", CONTRACTS)
    assert sorted(of_tenant(alone, text, CONTRACTS[:3])) == expected
    assert sorted(of_tenant(shared, text, CONTRACTS[:3])) == expected
    assert found(shared, "Kaufvertrag", compounds=True) == [3], "who sees all documents gets the word itself"


def test_compounds_that_a_reader_does_not_see_leave_room_for_its_own(tmp_path: Path) -> None:
    others = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}xyzvertrag" for n in range(300)]
    words = searcher(tmp_path, "german", ["Zirkusvertrag", *others, *others])
    assert of_tenant(words, "Vertrag", ["Zirkusvertrag"]) == [0]
    assert len(found(words, "Vertrag", compounds=True)) == 10


def test_a_whole_character_is_found_in_all_its_pairs(tmp_path: Path) -> None:
    pairs = ["中" + chr(0x4E80 + n) for n in range(150)]
    words = searcher(tmp_path, "chinese", [*pairs, *pairs, "中華", "女中"])
    assert len(words.search("中", 1000)[0]) == 302
    unfinished = words.read("中", ReadingOptions(prefix=True))
    assert len(unfinished.words.words) == 1 + alternatives.MAX_COMPLETIONS


@pytest.mark.parametrize(("typed", "meant"), [("delonghi", "de longhi"), ("usbc", "usb c"), ("tshirt", "t shirt")])
def test_a_name_with_a_short_part_is_split_in_a_language_with_compounds(tmp_path: Path, typed: str, meant: str) -> None:
    words = searcher(tmp_path, "german", ["Kaffeemaschine von De'Longhi", "Kabel USB-C", "Ein T-Shirt", "Der Hut"])
    options = ReadingOptions(typos=True, compounds=True)
    assert words.read(typed, options).corrections == ((typed, meant),)
    assert len(words.search(typed, 10, None, options)[0]) == 1


def test_compounds_that_end_with_an_unfinished_word_are_found(tmp_path: Path) -> None:
    words = searcher(tmp_path, "german", ["Ein Schlauchwagen", "Der Gartenschlauch", "Ein Spaten im Garten"])
    assert sorted(found(words, "Schlauch", compounds=True)) == [0, 1]
    assert sorted(found(words, "Schlauch", compounds=True, prefix=True)) == [0, 1]


@pytest.mark.parametrize(("text", "expected"), [("pyörä", [0]), ("pyörät", [0]), ("tuoli", [1])])
def test_finnish_words_are_found_at_the_end_of_compounds(tmp_path: Path, text: str, expected: list[int]) -> None:
    texts = ["Polkupyörä aikuisille", "Toimistotuoli musta", "Kahvikuppi"]
    assert found(searcher(tmp_path, "finnish", texts), text, compounds=True) == expected
