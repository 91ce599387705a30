"""Regular forms of known words are not mistyped."""

import pytest

from index.words.inflections import is_regular_form

KNOWN = {"carton", "heat", "measure", "plan", "carry", "slow"}


@pytest.mark.parametrize(
    "word",
    ["cartons", "heated", "heating", "heater", "heaters", "measuring", "measured", "carries", "carried", "slowly"],
)
def test_a_known_word_with_an_ending_is_a_regular_form(word: str) -> None:
    assert is_regular_form(word, KNOWN)


@pytest.mark.parametrize("word", ["hates", "cartone", "hetaing", "masuring", "carrys ", "plas", "s", "ing", ""])
def test_other_words_are_none(word: str) -> None:
    assert not is_regular_form(word, KNOWN)


RIGHT = {
    *(
        "begin",
        "beginning",
        "control",
        "controlled",
        "accident",
        "accidentally",
        "write",
        "writing",
        "writ",
        "plane",
        "plan",
    ),
    *("planned", "study", "studies", "church", "churches", "happy", "happily", "simple", "simply", "true", "truly"),
}


@pytest.mark.parametrize(
    "word",
    [
        "begining",
        "controled",
        "accidently",
        "writeing",
        "studys",
        "churchs",
        "happyly",
        "simplely",
        "truely",
        "writting",
    ],
)
def test_a_form_whose_right_spelling_is_known_is_mistyped(word: str) -> None:
    assert not is_regular_form(word, RIGHT)


@pytest.mark.parametrize("word", ["planed", "beginner", "controls", "writes", "studied"])
def test_other_forms_of_the_same_words_are_right(word: str) -> None:
    assert is_regular_form(word, RIGHT)
