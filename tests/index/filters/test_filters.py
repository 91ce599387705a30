"""The filter language: trees, positions of faults, limits, and matching documents."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.errors import FilterSyntax
from index.filters.conditions import (
    And,
    Compare,
    Contains,
    Exists,
    In,
    IsEmpty,
    IsNull,
    Not,
    Or,
    Range,
    Value,
)
from index.filters.evaluation import matches
from index.filters.parser import parse_filter

FIELDS = {"lang", "year", "a.b-c_d", "my field", "not", "größe"}

EN, DE = Value("en"), Value("de")


def passes(text: str, metadata: Mapping[str, Any]) -> bool:
    return matches(parse_filter(text, FIELDS), metadata)


def fault(text: str) -> FilterSyntax:
    with pytest.raises(FilterSyntax) as caught:
        parse_filter(text, FIELDS)
    return caught.value


# --- Trees ---


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ('lang = "en"', Compare("lang", "=", EN)),
        ("lang = 'en'", Compare("lang", "=", EN)),
        ("lang = en", Compare("lang", "=", EN)),
        ("lang=en", Compare("lang", "=", EN)),
        ("lang != en", Compare("lang", "!=", EN)),
        ("year >= 2020", Compare("year", ">=", Value("2020", 2020))),
        ("year > -1.5e3", Compare("year", ">", Value("-1.5e3", -1500.0))),
        ('year < "2020"', Compare("year", "<", Value("2020", 2020))),
        ("year <= 9223372036854775807", Compare("year", "<=", Value("9223372036854775807", 2**63 - 1))),
        ("year 2000 TO 2020", Range("year", 2000, 2020)),
        ("lang IN [en, 'de']", In("lang", (EN, DE))),
        ("lang IN [en, de,]", In("lang", (EN, DE))),
        ("lang IN []", In("lang", ())),
        ("lang NOT IN [en]", Not(In("lang", (EN,)))),
        ("lang CONTAINS en", Contains("lang", "en")),
        ("lang NOT CONTAINS en", Not(Contains("lang", "en"))),
        ("lang EXISTS", Exists("lang")),
        ("lang NOT EXISTS", Not(Exists("lang"))),
        ("lang IS NULL", IsNull("lang")),
        ("lang IS NOT NULL", Not(IsNull("lang"))),
        ("lang IS EMPTY", IsEmpty("lang")),
        ("lang IS NOT EMPTY", Not(IsEmpty("lang"))),
    ],
)
def test_each_operator_has_its_node(text: str, node: object) -> None:
    assert parse_filter(text, FIELDS) == node


def test_not_binds_tighter_than_and_which_binds_tighter_than_or() -> None:
    en, de, old = Compare("lang", "=", EN), Compare("lang", "=", DE), Compare("year", "<", Value("1990", 1990))
    assert parse_filter("lang = en OR NOT lang = de AND year < 1990", FIELDS) == Or((en, And((Not(de), old))))
    assert parse_filter("(lang = en OR lang = de) AND year < 1990", FIELDS) == And((Or((en, de)), old))
    assert parse_filter("NOT (lang = en OR lang = de)", FIELDS) == Not(Or((en, de)))


def test_keywords_are_read_in_any_case() -> None:
    upper = parse_filter("NOT lang IN [en] AND year EXISTS OR lang IS NOT NULL", FIELDS)
    assert parse_filter("not lang in [en] And year exists or lang Is Not null", FIELDS) == upper


def test_a_lower_case_keyword_is_a_value_where_only_a_value_is_allowed() -> None:
    assert parse_filter("lang = is", FIELDS) == Compare("lang", "=", Value("is"))
    assert parse_filter("lang IN [in, to, or]", FIELDS) == In("lang", (Value("in"), Value("to"), Value("or")))
    assert parse_filter("lang = or or lang = to", FIELDS) == Or(
        (Compare("lang", "=", Value("or")), Compare("lang", "=", Value("to")))
    )


def test_a_word_that_begins_like_a_keyword_or_a_number_is_a_word() -> None:
    for word in ("ORacle", "AND-1", "IN.x", "TOwn", "2024-01-31", "3d", "1.2.3", "-", "1e"):
        assert parse_filter(f"lang = {word}", FIELDS) == Compare("lang", "=", Value(word))


def test_a_field_is_a_bare_identifier_or_quoted() -> None:
    assert parse_filter("a.b-c_d EXISTS", FIELDS) == Exists("a.b-c_d")
    assert parse_filter("größe EXISTS", FIELDS) == Exists("größe")
    assert parse_filter('"my field" EXISTS', FIELDS) == Exists("my field")
    assert parse_filter("'not' EXISTS", FIELDS) == Exists("not")


@pytest.mark.parametrize(
    ("quoted", "text"),
    [
        (r'"say \"hi\""', 'say "hi"'),
        (r"'it\'s'", "it's"),
        (r'"C:\\dir"', "C:\\dir"),
        (r'"\\"', "\\"),
        ('""', ""),
        ('"(AND) = [,]"', "(AND) = [,]"),
        ('"two\nlines"', "two\nlines"),
    ],
)
def test_quotes_and_backslashes_are_escaped_with_a_backslash(quoted: str, text: str) -> None:
    assert parse_filter(f"lang = {quoted}", FIELDS) == Compare("lang", "=", Value(text))


def test_a_quoted_value_that_is_not_a_valid_number_is_only_text() -> None:
    for text in ("1e999", "nan", "9223372036854775808", " 1", "1 ", "٣"):
        assert parse_filter(f'lang = "{text}"', FIELDS) == Compare("lang", "=", Value(text))


# --- Faults ---


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "a condition"),
        ("   ", 3, "a condition"),
        ("@", 0, "a condition"),
        ("lang", 4, "an operator"),
        ("lang ! en", 5, "an operator"),
        ("lang == en", 6, "a value"),
        ("lang =", 6, "a value"),
        ("lang = AND year > 1", 7, "a value"),
        ('lang = "en', 7, "a closing quote"),
        ("year = 1 AND lang = 'en", 20, "a closing quote"),
        (r'lang = "a\n"', 10, "a quote or a backslash"),
        ("lang = en fr", 10, "AND or OR or the end of the filter"),
        ("lang = en AND", 13, "a condition"),
        ("AND lang = en", 0, "a condition"),
        ("(lang = en", 10, "a closing parenthesis"),
        ("lang = en)", 9, "the end of the filter"),
        ("()", 1, "a condition"),
        ("lang IN en", 8, "["),
        ("lang IN [en de]", 12, "a comma or ]"),
        ("lang IN [en,,de]", 12, "a value"),
        ("lang IN [en", 11, "a comma or ]"),
        ("lang NOT en", 9, "IN or CONTAINS or EXISTS"),
        ("lang IS en", 8, "NOT or NULL or EMPTY"),
        ("lang IS NOT", 11, "NULL or EMPTY"),
        ("year 1 2", 7, "TO"),
        ("year > en", 7, "a number"),
        ("year > true", 7, "a number"),
        ("year 1 TO many", 10, "a number"),
    ],
)
def test_a_fault_has_a_position_and_names_the_expected_input(text: str, position: int, message: str) -> None:
    error = fault(text)
    assert error.position == position, str(error)
    assert f"expected {message}" in str(error)


def test_an_unknown_field_is_a_fault_at_the_field() -> None:
    error = fault('lang = en AND (author = "x")')
    assert error.position == 15
    assert "filterable" in str(error)
    assert "year" in str(error)


def test_a_field_in_other_case_is_unknown() -> None:
    assert fault("Lang = en").position == 0


def test_a_collection_without_filterable_fields_says_so() -> None:
    with pytest.raises(FilterSyntax, match="this collection has none"):
        parse_filter("lang = en", [])


def test_a_field_with_a_double_quote_in_its_name_is_refused() -> None:
    with pytest.raises(FilterSyntax, match="double quote") as caught:
        parse_filter("lang = en OR 'a\"b' = 1", ["lang", 'a"b'])
    assert caught.value.position == 13


@pytest.mark.parametrize(
    "number",
    ["9223372036854775808", "-9223372036854775809", "1" * 400, "1e999", "-1e999", "NaN", "inf", "-inf", "Infinity"],
)
def test_a_number_that_cannot_be_compared_is_a_fault_at_the_number(number: str) -> None:
    for text in (f"year = {number}", f"year > {number}", f"year IN [1, {number}]", f"year {number} TO 3"):
        error = fault(text)
        assert error.position == text.index(number)
        assert "number" in str(error)


@pytest.mark.parametrize("character", ["\0", chr(0xD800), chr(0xDFFF)], ids=["NUL", "high", "low"])
def test_half_surrogates_and_nul_are_faults_at_any_position(character: str) -> None:
    assert fault(f'lang = "a{character}"').position == 9
    assert fault(f"lang{character} = a").position == 4


def test_a_message_never_contains_the_filter_text() -> None:
    for text in (
        "secret = 1",
        "lang = en secret",
        "lang secret 3",
        "year > secret",
        'lang = "secret',
        "lang = @secret",
    ):
        assert "secret" not in str(fault(text))


@given(st.text() | st.text(alphabet="lang year()[]=!<>,.\"'\\ANDORTINS0123e-", max_size=60))
def test_any_text_parses_or_raises_filter_syntax_with_a_position_in_the_text(text: str) -> None:
    try:
        parse_filter(text, FIELDS)
    except FilterSyntax as error:
        position, message = error.position, str(error)
    else:
        return
    assert 0 <= position <= len(text)
    assert message.startswith("expected ")


# --- Limits ---


def test_a_filter_has_at_most_4096_characters() -> None:
    longest = "lang = en" + " " * (4096 - 9)
    assert parse_filter(longest, FIELDS) == Compare("lang", "=", EN)
    assert fault(longest + " ").position == 4096


def test_a_filter_has_at_most_64_conditions() -> None:
    condition = "lang = en OR "
    node = parse_filter(condition * 63 + "lang = en", FIELDS)
    assert isinstance(node, Or)
    assert len(node.nodes) == 64
    assert fault(condition * 64 + "lang = en").position == 64 * len(condition)


def test_a_list_has_at_most_1000_values_and_counts_as_one_condition() -> None:
    node = parse_filter("lang IN [" + "1," * 1000 + "]", FIELDS)
    assert isinstance(node, In)
    assert len(node.values) == 1000
    assert fault("lang IN [" + "1," * 1001 + "]").position == 9 + 2 * 1000


def test_parentheses_nest_8_deep_at_most() -> None:
    assert parse_filter("(" * 8 + "lang = en" + ")" * 8, FIELDS) == Compare("lang", "=", EN)
    assert fault("(" * 9 + "lang = en" + ")" * 9).position == 8


def test_negations_count_as_nesting_until_their_condition_ends() -> None:
    assert passes("NOT " * 8 + "lang = en", {"lang": "en"})
    assert fault("NOT " * 9 + "lang = en").position == 32
    assert fault("NOT (" * 4 + "(" + "lang = en" + ")" * 5).position == 20
    assert passes(" AND ".join(["NOT lang = de"] * 9), {"lang": "en"})
    assert passes(" AND ".join(["NOT (NOT (lang = en))"] * 9), {"lang": "en"})
    assert passes(" OR ".join(["lang NOT IN [de]"] * 9), {"lang": "en"})


@pytest.mark.parametrize("opening", ["(", "NOT ", "NOT("])
def test_thousands_of_levels_raise_filter_syntax_and_no_recursion_error(opening: str) -> None:
    assert "8 levels" in str(fault(opening * (4096 // len(opening))))


# --- Matching ---


def test_equality_ignores_the_case_of_a_to_z_only() -> None:
    assert passes("lang = EN", {"lang": "en"})
    assert passes("lang = én", {"lang": "éN"})
    assert not passes("lang = én", {"lang": "Én"})
    assert not passes("lang = strasse", {"lang": "straße"})


def test_a_value_equals_the_number_and_the_text_that_it_spells() -> None:
    for text in ("year = 2020", 'year = "2020"', "year IN [1, 2020]", "year = 2020.0"):
        assert passes(text, {"year": 2020})
    assert passes("year = 2020", {"year": 2020.0})
    assert passes("year = 2020", {"year": "2020"})
    assert not passes("year = 2020.0", {"year": "2020"})


def test_a_boolean_is_not_a_number() -> None:
    assert passes("lang = true", {"lang": True})
    assert passes("lang = 'FALSE'", {"lang": False})
    assert not passes("lang = 1", {"lang": True})
    assert not passes("lang = true", {"lang": 1})
    assert not passes("lang = 0", {"lang": False})
    assert not passes("lang >= 0", {"lang": True})
    assert not passes("lang 0 TO 1", {"lang": True})


def test_a_list_passes_if_any_of_its_elements_passes() -> None:
    document = {"lang": ["en", "de-AT"]}
    assert passes("lang = en AND lang = de-at", document)
    assert passes("lang IN [fr, en]", document)
    assert passes("lang CONTAINS AT", document)
    assert not passes("lang != en", document)
    assert not passes("lang NOT IN [fr, en]", document)
    assert not passes("lang = en", {"lang": []})


def test_a_missing_field_passes_only_negations() -> None:
    for text in ("lang != en", "lang NOT IN [en]", "lang NOT CONTAINS e", "NOT lang = en", "lang NOT EXISTS"):
        assert passes(text, {})
    for text in ("lang = en", "lang IN [en]", "lang CONTAINS ''", "year >= 0", "year 0 TO 9", "lang EXISTS"):
        assert not passes(text, {})


def test_orderings_compare_numbers_and_never_strings() -> None:
    assert passes("year > 2019 AND year >= 2020 AND year < 2021 AND year <= 2020", {"year": 2020})
    assert not passes("year > 2020 OR year < 2020", {"year": 2020})
    assert not passes("year > 0", {"year": "2020"})
    assert not passes("year > 0", {"year": ["2020"]})


def test_a_range_includes_both_ends() -> None:
    assert [year for year in range(5) if passes("year 1 TO 3", {"year": year})] == [1, 2, 3]
    assert not passes("year 3 TO 1", {"year": 2})


def test_integers_and_floats_are_compared_exactly() -> None:
    assert passes("year = 9007199254740993", {"year": 9007199254740993})
    assert not passes("year = 9007199254740993", {"year": 9007199254740992.0})
    assert passes("year > 9007199254740992.0", {"year": 9007199254740993})


def test_integers_beyond_64_bits_compare_as_floats() -> None:
    assert passes("year = 9223372036854775808.0", {"year": 2**63 + 1})
    assert passes("year > 1e308", {"year": 10**400})
    assert passes("year < -1e308", {"year": -(10**400)})


def test_contains_finds_text_inside_strings_only() -> None:
    assert passes("lang CONTAINS '100%'", {"lang": "a 100% b"})
    assert not passes("lang CONTAINS 'a%b'", {"lang": "a 100% b"})
    assert passes("lang CONTAINS 02", {"lang": "2020"})
    assert not passes("lang CONTAINS 02", {"lang": 2020})
    assert not passes("lang CONTAINS ru", {"lang": True})


def test_a_missing_field_is_not_null() -> None:
    assert passes("lang IS NULL AND lang EXISTS AND lang != en", {"lang": None})
    assert passes("lang IS NOT NULL", {})
    assert not passes("lang IS NULL", {})
    assert not passes("lang IS NULL", {"lang": ""})


def test_only_an_empty_string_or_list_is_empty() -> None:
    assert passes("lang IS EMPTY", {"lang": ""})
    assert passes("lang IS EMPTY", {"lang": []})
    for metadata in ({}, {"lang": None}, {"lang": 0}, {"lang": False}, {"lang": [""]}, {"lang": " "}):
        assert passes("lang IS NOT EMPTY", metadata)
