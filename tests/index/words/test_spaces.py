"""Words and codes that are typed with other spaces than documents have."""

from dataclasses import replace
from pathlib import Path

import pytest

from index.words.bm25_index import WordIndex
from index.words.reading_options import ReadingOptions, Synonyms
from index.words.spaces import forms_of
from index.words.word_search import WordSearcher

TEXTS = [
    "coaxial cable of copper",
    "a cable for a workstation",
    "Linksys WRT54GL router",
    "a router with Wi-Fi and 4 GB",
    "a card of 16GB and a card of 8 GB",
    "WH-1000XM4 headphones",
    "a cross of wood",
    "from across the water",
    "a cross in the water",
    "an e-mail client",
    "works of art",
    "a laptop with 16 GB, a laptop with 8 GB",
    "DJD2600 toner",
    "game shows, and a show about a game",
    "a mat for a car",
    "car wash",
    "a pet in a car",
    "pet food",
    "pet shop",
]
TYPOS = ReadingOptions(typos=True)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> WordSearcher:
    index = WordIndex(tmp_path_factory.mktemp("words") / "words", "english")
    index.replace(range(len(TEXTS)), TEXTS)
    return index.flush() if index.commit() else index.searcher()


def found(words: WordSearcher, text: str, options: ReadingOptions = TYPOS) -> list[int]:
    return words.search(text, 20, None, options)[0].tolist()


@pytest.mark.parametrize(
    ("typed", "meant", "first"),
    [
        ("coaxialcable", "coaxial cable", 0),
        ("wifi", "wi fi", 3),
        ("gameshows", "game shows", 13),
        ("4gb", "4 gb", 3),
        ("wh1000xm4", "wh 1000xm4", 5),
    ],
)
def test_an_unknown_word_is_searched_as_two_words_of_a_document(
    words: WordSearcher, typed: str, meant: str, first: int
) -> None:
    reading = words.read(f"buy {typed} now", replace(TYPOS, uncorrected=frozenset({"buy", "now"})))
    assert reading.corrections == ((typed, meant),)
    assert reading.text == reading.encoded == f"buy {meant} now"
    assert reading.remembered == f"buy {typed} now"
    assert found(words, typed)[0] == first
    assert found(words, typed, ReadingOptions()) == []


@pytest.mark.parametrize(
    ("typed", "meant", "first"),
    [
        ("works tation", "workstation", 1),
        ("WRT-54GL", "wrt54gl", 2),
        ("wrt 54gl", "wrt54gl", 2),
        ("wrt 54 gl", "wrt54gl", 2),
        ("DJD 2600", "djd2600", 12),
    ],
)
def test_an_unknown_word_is_joined_with_its_neighbours(words: WordSearcher, typed: str, meant: str, first: int) -> None:
    reading = words.read(f"a {typed}, cable", TYPOS)
    assert reading.corrections == ((typed, meant),)
    assert reading.text == f"a {meant}, cable"
    assert found(words, typed)[0] == first


def test_a_joined_word_weighs_as_the_word_itself(words: WordSearcher) -> None:
    typed, meant = words.read("works tation", TYPOS), words.read("workstation", TYPOS)
    assert typed.words.weight.sum() == pytest.approx(meant.words.weight.sum())


@pytest.mark.parametrize("typed", ["16 gb card", "16gb card"])
def test_a_number_with_a_unit_finds_both_forms(words: WordSearcher, typed: str) -> None:
    assert {4, 11} <= set(found(words, typed))
    assert words.read(typed, TYPOS).corrections == ()
    assert words.read(typed, TYPOS).text == typed


def test_a_number_with_an_ending_of_many_words_is_no_number_with_a_unit(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "english")
    index.replace(range(4), ["music of the 1910s", "the king's year 1910", "the queen's year 1910", "the year's end"])
    words = index.commit()
    assert words.read("1910s", TYPOS).words.exact
    index.close()


def test_known_words_are_not_joined_to_a_form_that_is_rarer_than_both(words: WordSearcher) -> None:
    assert 7 not in found(words, "a cross")
    assert words.read("a cross", TYPOS).words.exact


@pytest.mark.parametrize("typed", ["cablecopperwater", "acable", "coper", "watercable", "xqz", "2600 4"])
def test_words_that_never_stand_together_and_common_words_are_not_split(words: WordSearcher, typed: str) -> None:
    assert " " not in "".join(to for _, to in words.read(typed, TYPOS).corrections)


@pytest.mark.parametrize("typed", ["carpet", "gameshows"])
def test_words_of_the_language_and_their_regular_forms_are_not_split(words: WordSearcher, typed: str) -> None:
    assert words.read(typed, TYPOS).corrections != ()
    assert words.read(typed, replace(TYPOS, known=frozenset({"carpet", "gameshow"}))).corrections == ()


def test_a_word_with_a_synonym_is_not_split(words: WordSearcher) -> None:
    assert words.read("carwash", TYPOS).corrections == (("carwash", "car wash"),)
    declared = replace(TYPOS, synonyms=Synonyms({"carwash": ["router"], "4gb": ["router"]}))
    assert words.read("carwash", declared).corrections == ()
    assert words.read("4gb", declared).corrections == (("4gb", "4 gb"),), "a number with a unit"
    absent = replace(TYPOS, synonyms=Synonyms({"carwash": ["autowash"]}))
    assert words.read("carwash", absent).corrections == (("carwash", "car wash"),)


@pytest.mark.parametrize("typed", ["wh1", "wh100", "wh1000", "wh1000x", "wh1000xm4"])
def test_a_code_is_found_while_it_is_typed_without_its_space(words: WordSearcher, typed: str) -> None:
    options = replace(TYPOS, prefix=True)
    assert found(words, typed, options)[:1] == [5]
    assert found(words, f"{typed} ", options) == ([5] if typed == "wh1000xm4" else [])


def test_two_words_come_before_a_correction_by_one_edit_that_is_one_of_them(words: WordSearcher) -> None:
    assert words.read("email", TYPOS).corrections == (("email", "e mail"),)
    assert words.read("acar", TYPOS).corrections == (("acar", "car"),), "a frequent word says nothing"
    assert words.read("acoss", TYPOS).corrections == (("acoss", "across"),)


@pytest.mark.parametrize("typed", ["coaxialcable", "works tation", "wrt 54gl"])
def test_spaces_stay_where_corrections_are_off(words: WordSearcher, typed: str) -> None:
    off = replace(TYPOS, uncorrected=frozenset({"coaxialcable", "works", "wrt"}))
    for options in (ReadingOptions(), off):
        assert " ".join(to for _, to in words.read(typed, options).corrections) not in {"coaxial cable", "workstation"}
        assert "wrt54gl" not in words.read(typed, options).text


def test_the_last_word_may_go_on(words: WordSearcher) -> None:
    unfinished = replace(TYPOS, prefix=True)
    assert words.read("coax", unfinished).corrections == ()
    assert words.read("coaxialcable", unfinished).encoded == "coaxial cable"
    assert words.read("works tation", unfinished).encoded == "workstation"


def test_documents_that_are_not_written_yet_and_removed_documents_count(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "english")
    index.replace(range(2), ["coaxial cable", "copper"])
    assert index.commit().read("coaxialcable", TYPOS).corrections
    assert index.flush().read("coaxialcable", TYPOS).corrections
    index.replace([2], ["coaxial, and no cable"])
    index.remove([0])
    words = index.commit()
    assert words.vocabulary.count_together("coaxial", "cable") == 1
    assert words.vocabulary.count_together("coaxial", "copper") == 0
    index.close()


def test_forms_of_are_those_of_neighbours_and_of_codes() -> None:
    assert forms_of("Work station") == ["workstation"]
    assert forms_of("WH-1000 XM4") == ["wh1000xm4", "wh1000", "1000xm4", "1 000"]
    assert forms_of("10,000 mAh") == ["10000mah", "000mah", "10000"]
    assert forms_of("10 20") == forms_of("one") == forms_of("") == []
