"""A filter in SQL selects exactly the documents for which `matches` is true."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, create_engine, delete, insert, select

from index.filters import parser
from index.filters.conditions import FilterNode
from index.filters.evaluation import matches
from index.filters.parser import MAX_CONDITIONS, parse_filter
from service.storage.filter_sql import to_sql
from tests.service.client import opened

DOCUMENTS = Table("documents", MetaData(), Column("row", Integer, primary_key=True), Column("metadata", Text))

FIELDS = [
    "lang",
    "year",
    "a.b",
    "my field",
    "größe",
    "😀",
    "it's",
    "a[0]",
    "back\\slash",
    "\ttab",
    "",
    "$",
    "#",
    "-1",
    "%",
]

Metadata = Mapping[str, Any]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """Yield a connection to a new database with one table, `documents`."""
    server = request.getfixturevalue("postgres_server") if request.param == "postgresql" else None
    engine = create_engine(server.database("filters") if server else "sqlite://")
    with engine.connect() as connection:
        DOCUMENTS.metadata.create_all(connection)
        yield connection
    engine.dispose()


def found(database: Connection, node: FilterNode, documents: Sequence[Metadata], ascii_only: bool = True) -> list[int]:
    """Return the indexes of the documents that SQL selects."""
    database.execute(delete(DOCUMENTS))
    rows = [
        {"row": row, "metadata": json.dumps(document, ensure_ascii=ascii_only)}
        for row, document in enumerate(documents)
    ]
    database.execute(insert(DOCUMENTS), rows)
    statement = select(DOCUMENTS.c.row).where(to_sql(database, node, DOCUMENTS.c.metadata)).order_by(DOCUMENTS.c.row)
    return list(database.scalars(statement))


def passing(node: FilterNode, documents: Sequence[Metadata]) -> list[int]:
    """Return the indexes of the documents for which the reference is true."""
    return [row for row, document in enumerate(documents) if matches(node, document)]


# --- Random filters over random documents ---

# Few letters, so that values coincide; the other characters are special in SQL, JSON or LIKE.
LETTERS = "aAbéÉß\\\"'%_ \nſK😀"
TEXTS = st.text(alphabet=LETTERS, max_size=3) | st.sampled_from(["true", "False", "1", "-0.0", "1e3", "null", "u0000"])
FILTER_TEXTS = TEXTS | st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
STORED_TEXTS = TEXTS | st.text(alphabet=LETTERS + "\0u0\x01", max_size=8) | st.text(max_size=5)
NUMBERS = (
    st.integers(-2, 2)
    | st.sampled_from([1000, -0.0, 0.5, 2**53, 2.0**53, 2**53 + 1, 2**63 - 1, 2.0**63, -(2**63), -(2.0**63)])
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
STORED_VALUES = (
    st.none()
    | st.booleans()
    | NUMBERS
    | st.sampled_from([2**63, 2**63 + 1, -(2**63) - 1, 10**400])
    | STORED_TEXTS
    | st.lists(STORED_TEXTS, max_size=3)
)
STORED_KEYS = st.sampled_from([*FIELDS, "Lang", "lang\0", 'a"b', "a", "b"]) | STORED_TEXTS
STORED = st.dictionaries(STORED_KEYS, STORED_VALUES, max_size=6)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


FIELD = st.sampled_from(FIELDS).map(quoted)
NUMBER = NUMBERS.map(repr)
VALUE = NUMBER | FILTER_TEXTS.map(quoted) | st.sampled_from(["true", "false", "TRUE", "a", "is"])
CONDITION = st.one_of(
    st.builds("{} {} {}".format, FIELD, st.sampled_from(["=", "!="]), VALUE),
    st.builds("{} {} {}".format, FIELD, st.sampled_from([">", ">=", "<", "<="]), NUMBER),
    st.builds(
        "{} {} [{}]".format, FIELD, st.sampled_from(["IN", "NOT IN"]), st.lists(VALUE, max_size=4).map(", ".join)
    ),
    st.builds("{} {} TO {}".format, FIELD, NUMBER, NUMBER),
    st.builds("{} {} {}".format, FIELD, st.sampled_from(["CONTAINS", "NOT CONTAINS"]), VALUE),
    st.builds("{} {}".format, FIELD, st.sampled_from(["EXISTS", "NOT EXISTS", "IS NULL", "IS NOT NULL", "IS EMPTY"])),
)


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Combine filters, always in parentheses; the tests of the parser cover precedence."""
    several = st.lists(inner.map("({})".format), min_size=2, max_size=3)
    return inner.map("NOT ({})".format) | several.map(" AND ".join) | several.map(" OR ".join)


FILTERS = st.recursive(CONDITION, joined, max_leaves=5).filter(lambda text: text.count("(") <= 8 and len(text) <= 4096)


@settings(max_examples=250, deadline=None)
@given(FILTERS, st.lists(STORED, min_size=1, max_size=4), st.booleans())
@example('"lang" = "a"', [{"lang": "a\0b"}, {"lang": "a"}], True)
@example('"lang" CONTAINS "u0000"', [{"lang": "a\\u0000"}, {"lang": "\0"}, {"lang": "\\\0"}], True)
@example('"lang" EXISTS', [{"lang\0x": 1}], True)
@example('"lang" -9223372036854775808 TO 0', [{"lang": -(2**63) - 1}, {"lang": -(2.0**63)}], True)
@example('"lang" = 9.223372036854776e+18', [{"lang": 2**63}, {"lang": 2.0**63}, {"lang": 2**63 - 1}], True)
@example('"lang" < 9007199254740993', [{"lang": 2.0**53}, {"lang": 2**53 + 1}], True)
@example('"lang" > 1.7976931348623157e+308', [{"lang": 10**400}, {"lang": -(10**400)}], True)
def test_sql_agrees_with_the_reference(
    database: Connection, text: str, documents: list[Metadata], ascii_only: bool
) -> None:
    node = parse_filter(text, FIELDS)
    assert found(database, node, documents, ascii_only) == passing(node, documents)


@settings(max_examples=100, deadline=None)
@given(STORED_KEYS.filter(lambda key: not set('"\0') & set(key)), STORED_VALUES, st.booleans())
def test_a_document_is_found_by_its_own_values(database: Connection, key: str, value: Any, ascii_only: bool) -> None:
    """Random filters rarely match; these filters are made from the document and match it."""
    texts = [element for element in (value if isinstance(value, list) else [value]) if isinstance(element, str)]
    wanted = [quoted(text) for text in texts if "\0" not in text]
    if isinstance(value, bool):
        wanted.append(str(value))
    elif isinstance(value, int | float) and -(2**63) <= value < 2**63:
        wanted.append(repr(value))
    for condition in ("EXISTS", *(f"= {each}" for each in wanted), *(f"CONTAINS {quoted(text)}" for text in texts[:1])):
        if "\0" not in condition:
            node = parse_filter(f"{quoted(key)} {condition}", [key])
            assert matches(node, {key: value})
            assert found(database, node, [{key: value}, {}], ascii_only) == [0]


@settings(max_examples=100, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([">", ">=", "<", "<=", "=", "!="]))
def test_neighbouring_floats_are_distinguished(database: Connection, number: float, op: str) -> None:
    documents = [
        {"year": math.nextafter(number, -math.inf)},
        {"year": number},
        {"year": math.nextafter(number, math.inf)},
    ]
    documents = [document for document in documents if math.isfinite(document["year"])]
    node = parse_filter(f"year {op} {number!r}", FIELDS)
    assert found(database, node, documents) == passing(node, documents)


# --- Single operators and rows ---


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("lang = EN", [0, 1]),
        ("lang != en", [2, 3, 4, 5, 6]),
        ("lang IN [de, fr]", [1]),
        ("lang NOT IN [de, fr]", [0, 2, 3, 4, 5, 6]),
        ("lang IN []", []),
        ("lang = true", [2]),
        ("lang = 1", [3]),
        ("lang >= 1", [3]),
        ("lang 0 TO 1", [3]),
        ("lang CONTAINS E", [0, 1]),
        ("lang EXISTS", [0, 1, 2, 3, 4, 5]),
        ("lang NOT EXISTS", [6]),
        ("lang IS NULL", [4]),
        ("lang IS EMPTY", [5]),
        ("NOT (lang = en OR lang IS NULL)", [2, 3, 5, 6]),
    ],
)
def test_each_operator_finds_its_rows(database: Connection, text: str, rows: list[int]) -> None:
    values: list[Any] = ["en", ["en", "DE"], True, 1, None, []]
    assert found(database, parse_filter(text, FIELDS), [*({"lang": value} for value in values), {"year": 1}]) == rows


def test_a_row_without_metadata_has_no_fields(database: Connection) -> None:
    database.execute(delete(DOCUMENTS))
    database.execute(insert(DOCUMENTS), {"row": 1, "metadata": None})
    for text, rows in (("lang = en", []), ("lang != en", [1]), ("lang EXISTS", []), ("NOT lang EXISTS", [1])):
        node = parse_filter(text, FIELDS)
        found = select(DOCUMENTS.c.row).where(to_sql(database, node, DOCUMENTS.c.metadata))
        assert list(database.scalars(found)) == rows


def test_a_filter_can_choose_the_rows_to_delete(database: Connection) -> None:
    node = parse_filter("lang = en", FIELDS)
    assert found(database, node, [{"lang": "en"}, {"lang": "de"}]) == [0]
    database.execute(delete(DOCUMENTS).where(to_sql(database, node, DOCUMENTS.c.metadata)))
    assert list(database.scalars(select(DOCUMENTS.c.row))) == [1]


def test_names_and_values_are_bound_and_never_part_of_the_statement(database: Connection) -> None:
    node = parse_filter('"it\'s" IN [\'secret\', 4711] AND "my field" CONTAINS hidden AND year > 815', FIELDS)
    statement = str(to_sql(database, node, DOCUMENTS.c.metadata).compile(database))
    assert not [word for word in ("it's", "secret", "4711", "my field", "hidden", "815") if word in statement]


def test_two_filters_in_a_statement_keep_their_values(database: Connection) -> None:
    both = [to_sql(database, parse_filter(text, FIELDS), DOCUMENTS.c.metadata) for text in ("lang != en", "year != 1")]
    found(database, parse_filter("lang EXISTS", FIELDS), [{"lang": "en"}, {"lang": "de"}, {"year": 1}])
    assert list(database.scalars(select(DOCUMENTS.c.row).where(*both))) == [1]


def test_the_length_of_a_list_does_not_change_the_statement(database: Connection) -> None:
    short, long = (parse_filter(f"lang IN {list(range(count))}", FIELDS) for count in (2, 700))
    assert str(to_sql(database, short, DOCUMENTS.c.metadata)) == str(to_sql(database, long, DOCUMENTS.c.metadata))


def test_the_database_accepts_the_largest_filter(database: Connection) -> None:
    conditions = " AND ".join(["NOT (lang IN [a,b,c])"] * (MAX_CONDITIONS - 1) + ["lang NOT IN [" + "1," * 1000 + "]"])
    assert found(database, parse_filter(conditions, FIELDS), [{"lang": "en"}, {"lang": "b"}, {"lang": 1}]) == [0]


def test_the_parser_is_built_before_the_first_request(tmp_path: Path) -> None:
    parser._parser.cache_clear()
    with opened(tmp_path):
        assert parser._parser.cache_info().currsize == 1
