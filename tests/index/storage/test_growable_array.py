"""Growable arrays: views of their first rows never change."""

import numpy as np

from index.storage.growable_array import GrowableArray


def test_an_extended_array_has_its_own_rows_and_the_added_rows() -> None:
    array = GrowableArray(np.asarray([1, 2])).extended(2, [3, 4, 5])
    assert array.view.tolist() == [1, 2, 3, 4, 5]
    wide = GrowableArray(np.zeros((0, 2), np.float32)).extended(0, [np.ones(2)])
    assert wide.view.tolist() == [[1.0, 1.0]]


def test_rows_are_copied_only_when_the_capacity_is_used_up() -> None:
    array = GrowableArray(np.asarray([1, 2])).extended(2, [3])
    assert array.extended(3, range(100)) is array
    assert array.extended(103, range(1000)) is not array


def test_extending_an_earlier_state_copies_it_and_leaves_the_later_rows_unchanged() -> None:
    array = GrowableArray(np.asarray([1])).extended(1, [2])
    view = array.rows[:2]
    other = array.extended(1, [7, 8])
    assert view.tolist() == [1, 2]
    assert other.view.tolist() == [1, 7, 8]


def test_adding_no_rows_changes_nothing() -> None:
    array = GrowableArray(np.zeros((3, 2))).extended(3, [])
    assert (array.used, array.rows[:3].tolist()) == (3, [[0, 0]] * 3)


def test_an_array_with_capacity_is_a_copy_that_grows_in_place() -> None:
    rows = np.arange(300)
    array = GrowableArray.with_capacity(rows)
    assert array.extended(300, range(300)) is array
    assert array.rows[:300].tolist() == rows.tolist()
    assert not np.shares_memory(array.rows, rows)
