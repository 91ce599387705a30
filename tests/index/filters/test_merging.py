"""A filter with merged values passes the same documents as the filter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.filters.conditions import And, Compare, Exists, FilterNode, In, Not, Or, Value
from index.filters.evaluation import matches
from index.filters.merging import merged
from index.filters.parser import parse_filter

FIELDS = ("a", "b")
SCALARS = st.sampled_from(["x", "X", "1", 1, 1.0, 2.5, True, None])
TESTS = st.builds(
    lambda field, op, text: parse_filter(f"{field} {op} {text}", FIELDS),
    st.sampled_from(FIELDS),
    st.sampled_from(["=", "!="]),
    st.sampled_from(["x", "1", "2.5", "true"]),
)
NODES = st.recursive(
    TESTS | st.sampled_from(FIELDS).map(Exists),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=4)
        .map(tuple)
        .flatmap(lambda nodes: st.sampled_from([Or(nodes), And(nodes), Not(nodes[0])]))
    ),
    max_leaves=12,
)


@given(NODES, st.dictionaries(st.sampled_from(FIELDS), SCALARS | st.lists(SCALARS.filter(bool), max_size=3)))
def test_merged_filters_pass_the_same_documents(node: FilterNode, fields: dict[str, object]) -> None:
    assert matches(merged(node), fields) == matches(node, fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = x OR a = y OR a = x", In("a", (Value("x"), Value("y")))),
        ("a = x OR b = y OR a IN [y, z]", Or((In("a", (Value("x"), Value("y"), Value("z"))), In("b", (Value("y"),))))),
        ("a = x", Compare("a", "=", Value("x"))),
    ],
)
def test_equalities_of_a_field_become_one_list(text: str, expected: FilterNode) -> None:
    assert merged(parse_filter(text, FIELDS)) == expected
