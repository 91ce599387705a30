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
