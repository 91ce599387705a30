"""Persistent maps and arrays: a change leaves what was read before as it was."""

import numpy as np

from index.storage.paged_numbers import PAGE, PagedNumbers
from index.storage.sharded_map import ShardedMap


def test_a_changed_map_has_the_changes_and_the_map_before_does_not() -> None:
    before = ShardedMap().changed({f"text {n}": n for n in range(5000)})
    after = before.changed({"text 7": None, "text 8": 80, "new": 1, "absent": None})
    assert (len(before), before["text 7"], before["text 8"], before.get("new")) == (5000, 7, 8, None)
    assert (len(after), after.get("text 7"), after["text 8"], after["new"]) == (5000, None, 80, 1)
    assert sorted(after) == sorted({*before, "new"} - {"text 7"})


def test_an_empty_map_has_nothing() -> None:
    assert (len(ShardedMap()), list(ShardedMap()), ShardedMap().get("a")) == (0, [], None)


def test_a_changed_array_has_the_changes_and_the_array_before_does_not() -> None:
    numbers = np.arange(3 * PAGE + 5)
    before = PagedNumbers.of(numbers)
    after = before.changed({0: -1, PAGE: -2, 5 * PAGE + 1: 9})
    assert before.all(len(numbers)).tolist() == numbers.tolist()
    assert after.take([0, 1, PAGE, PAGE + 1, 4 * PAGE, 5 * PAGE + 1]).tolist() == [-1, 1, -2, PAGE + 1, 0, 9]
    assert before.take([0, PAGE]).tolist() == [0, PAGE]
    assert PagedNumbers().take([]).tolist() == []


def test_a_change_copies_only_the_pages_that_it_concerns() -> None:
    before = PagedNumbers.of(np.arange(3 * PAGE))
    after = before.changed({PAGE: 1})
    shared = [one is other for one, other in zip(before._pages, after._pages, strict=True)]
    assert shared == [True, False, True]
