"""A query has one key, however it is spelled."""

import unicodedata

import pytest

from index.memory.query_key import (
    anonymous_key,
    are_apart,
    as_query_key,
    bare_key,
    numbers_of,
    renewed_query_key,
)


@pytest.mark.parametrize(
    ("spellings", "key"),
    [
        (
            ["İstanbul", "İSTANBUL", "istanbul", "İstanbul".lower(), unicodedata.normalize("NFD", "İstanbul")],
            "istanbul",
        ),
        (["tea\u00adpot", "tea\u2060pot", "\ufeffTeapot", "teapot"], "teapot"),
        (["❤\ufe0f", "❤"], "❤"),
        (["e\u00ad\u0301", "É", "é"], "é"),
        ([" Red\u3000 SHOE ", "red shoe"], "red shoe"),
        (["\u00ad", "  "], ""),
    ],
)
def test_case_white_space_and_invisible_characters_are_not_part_of_the_key(spellings: list[str], key: str) -> None:
    assert [as_query_key(one) for one in spellings] == [key] * len(spellings)


@pytest.mark.parametrize(("text", "key"), [("İ\u0301", "í"), ("İ\u0307", "i"), ("İΐ", "iι\u0308\u0301")])
def test_a_key_is_its_own_key(text: str, key: str) -> None:
    assert as_query_key(text) == as_query_key(as_query_key(text)) == renewed_query_key(as_query_key(text))
    assert as_query_key(text) == key


def test_other_letters_and_accents_are_part_of_the_key() -> None:
    assert len({as_query_key(one) for one in ("kız", "kiz", "köz", "koz", "می\u200cخواهم", "می خواهم")}) == 6


@pytest.mark.parametrize(
    ("spellings", "bare"),
    [
        (
            ["reset my password?", '"reset my password"', "«reset my password».", "reset, my (password)!"],
            "reset my password",
        ),
        (["c++", "c++?"], "c++"),
        ([".net", ".net."], ".net"),
        (["node.js", "node.js;"], "node.js"),
        (["what's new?", "“what's new”"], "what's new"),
        (["red -shoe"], "red -shoe"),
        (['"-red" shoe'], '"-red" shoe'),
        (["‘red shoe’", "‟red shoe”", "‹red› shoe"], "red shoe"),
        (["密码重置？", "密码重置。", "密码重置"], "密码重置"),
        (["?!"], "?!"),
        (["¿dónde está?"], "dónde está"),
    ],
)
def test_punctuation_around_words_is_not_part_of_the_bare_key(spellings: list[str], bare: str) -> None:
    assert [bare_key(as_query_key(one)) for one in spellings] == [bare] * len(spellings)


def test_the_bare_key_of_an_anonymous_key_is_itself() -> None:
    assert bare_key(anonymous_key("tea?", "(one).")) == anonymous_key("tea?", "(one).")


def test_a_bare_key_is_made_in_time_linear_in_the_punctuation() -> None:
    """A regular expression that tries each place of a run again would take hours."""
    marks = "!" * 1_000_000
    assert bare_key(f"a{marks}b {marks}c{marks}") == f"a{marks}b {marks}c"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("nx-200 pro, 1,000 sheets of a4?", "200 1000 4"),
        ("nx 200 with 10.000 mah", "200 10000"),
        ("iphone15のケース 16gb", "15 16"),
        ("error 0x8007001f", "0x8007001f"),
        ("v5.0 or 5.2.1, not 50", "5 5.2.1 50"),
        ("3,5 mm 10x15", "3.5 10 15"),
        ("1.10 and 11.0", "1.10 11"),
        ("١٢ inch", "12"),
        ("no number", ""),
    ],
)
def test_numbers_are_compared_without_letters_and_separators(text: str, numbers: str) -> None:
    assert numbers_of(as_query_key(text)) == set(numbers.split())
    assert numbers_of(anonymous_key(text)) == set()


def test_queries_are_apart_if_each_has_a_number_that_the_other_lacks() -> None:
    assert are_apart(frozenset({"5.2"}), frozenset({"5.1"}))
    assert not are_apart(frozenset({"5.2"}), frozenset({"5.2", "11"}))
    assert not are_apart(frozenset(), frozenset({"5.2"}))
