"""Rooms: arrays grow, and nobody sees more or other than he was given."""

import numpy as np

from index.storage.growable_array import GrowableArray


def test_a_room_has_what_was_there_and_what_was_added() -> None:
    room = GrowableArray(np.asarray([1, 2])).extended(2, [3, 4, 5])
    assert room.seen.tolist() == [1, 2, 3, 4, 5]
    wide = GrowableArray(np.zeros((0, 2), np.float32)).extended(0, [np.ones(2)])
    assert wide.seen.tolist() == [[1.0, 1.0]]


def test_growing_copies_only_where_there_is_no_room() -> None:
    room = GrowableArray(np.asarray([1, 2])).extended(2, [3])
    assert room.extended(3, range(100)) is room
    assert room.extended(103, range(1000)) is not room


def test_who_goes_on_from_earlier_rows_gets_a_room_of_his_own() -> None:
    room = GrowableArray(np.asarray([1])).extended(1, [2])
    seen = room.rows[:2]
    other = room.extended(1, [7, 8])
    assert seen.tolist() == [1, 2]
    assert other.seen.tolist() == [1, 7, 8]


def test_nothing_added_changes_nothing() -> None:
    room = GrowableArray(np.zeros((3, 2))).extended(3, [])
    assert (room.used, room.rows[:3].tolist()) == (3, [[0, 0]] * 3)


def test_a_spacious_room_is_a_copy_with_space() -> None:
    rows = np.arange(300)
    room = GrowableArray.with_capacity(rows)
    assert room.extended(300, range(300)) is room
    assert room.rows[:300].tolist() == rows.tolist()
    assert not np.shares_memory(room.rows, rows)
