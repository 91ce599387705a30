"""Distinct numbers, as numpy finds them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.candidates.distinct import distinct, is_first

NUMBERS = st.lists(st.integers(-(2**40), 2**40) | st.integers(0, 5))


@given(NUMBERS)
def test_distinct_numbers_ascend_and_none_is_missing(numbers: list[int]) -> None:
    assert distinct(np.asarray(numbers, np.int64)).tolist() == sorted(set(numbers))


@given(NUMBERS)
def test_the_first_of_equal_numbers_is_marked(numbers: list[int]) -> None:
    ascending = np.asarray(sorted(numbers), np.int64)
    expected = [at == 0 or one != ascending[at - 1] for at, one in enumerate(ascending)]
    assert is_first(ascending).tolist() == expected
