"""Operators of a query: exact phrases, excluded words, and conditions on fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.words.query_syntax import ParsedQuery, parse_query

FIELDS = ("lang", "year")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("copy a folder", ParsedQuery("copy a folder")),
        ('copy "a folder" now', ParsedQuery("copy a folder now", ("a folder",))),
        ('a "folder"', ParsedQuery("a folder ", ("folder",))),
        ("copy “a folder” now", ParsedQuery("copy a folder now", ("a folder",))),
        (
            "„iphone 15“ -«mini 15» lang:“pt br”",
            ParsedQuery("iphone 15 ", ("iphone 15",), ("mini 15",), (("lang", "pt br"),)),
        ),
        ("«\u00a0iphone\u00a0»", ParsedQuery("iphone ", ("iphone",))),
        ("copy -windows", ParsedQuery("copy ", (), ("windows",))),
        ('copy -"on windows"', ParsedQuery("copy ", (), ("on windows",))),
        ("copy lang:de", ParsedQuery("copy ", (), (), (("lang", "de"),))),
        ('lang:"pt br"', ParsedQuery("", (), (), (("lang", "pt br"),))),
        ("-windows", ParsedQuery("", (), ("windows",))),
    ],
)
def test_operators_are_taken_out_of_the_text(text: str, expected: ParsedQuery) -> None:
    assert parse_query(text, FIELDS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "rm - rf",
        "e-mail",
        'an "open quote',
        "std::vector",
        "http://host",
        "unknown:field",
        "a -",
        "--",
        'a"b"c',
        ":x",
        "a “b",
        "24” screen",
    ],
)
def test_everything_else_is_plain_text(text: str) -> None:
    parsed = parse_query(text, FIELDS)
    assert (parsed.text, parsed.has_operators) == (text, False)


def test_an_empty_phrase_is_ignored() -> None:
    assert parse_query('a "" b', FIELDS) == ParsedQuery("a b")


def test_a_phrase_at_the_end_ends_the_last_word() -> None:
    assert parse_query('copy "a folder"', FIELDS).text == "copy a folder "


def test_a_space_at_the_end_stays_because_it_ends_the_last_word() -> None:
    assert parse_query("python dict ", FIELDS).text == "python dict "


@given(text=st.text(max_size=40))
def test_every_text_is_a_query(text: str) -> None:
    parsed = parse_query(text, FIELDS)
    assert len(parsed.text) <= len(text) + 1
