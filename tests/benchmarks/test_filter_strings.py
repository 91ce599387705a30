"""Random strings are filters or are refused, and the benchmark counts them."""

import random

from benchmarks.filter_strings import answered, measured, random_string
from index.filters.parser import MAX_CHARACTERS


def test_random_strings_are_filters_or_refused() -> None:
    seen = measured(200)
    assert seen["strings"] == 200
    assert 40 < seen["filters"] < 100


def test_strings_are_bounded_and_the_same_in_every_run() -> None:
    strings = [random_string(random.Random(seed)) for seed in range(200)]
    assert strings == [random_string(random.Random(seed)) for seed in range(200)]
    assert 1000 < max(map(len, strings)) <= MAX_CHARACTERS


def test_a_filter_is_told_from_other_strings() -> None:
    assert answered("year = 1 AND NOT lang IN [a, b]")
    assert not answered("year = ")
