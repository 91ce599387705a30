"""The past queries that a change of a memory concerns."""

import numpy as np
import pytest

from index.memory.changed_queries import ChangedQueries, changed_queries, merged
from index.memory.memory import MOST_FORGOTTEN, Memory
from index.memory.near_queries import TAIL
from index.records import Floats, MemoryKey

RADIUS = 0.5


def key(query_key: str, vector: list[float], row: int = 1, weight: float = 1.0) -> MemoryKey:
    return MemoryKey(row, np.asarray(vector, np.float32), weight, query_key, 1, 0.0)


EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]
BEFORE = Memory.of([key("east", EAST), key("north", NORTH)], 2)


def between(angle: float) -> Floats:
    """Return a unit vector at an angle from EAST, in degrees."""
    return np.asarray([np.cos(np.radians(angle)), np.sin(np.radians(angle))], np.float32)


def names(change: ChangedQueries | None) -> set[str]:
    assert change is not None
    return set(change.bare_keys)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"west": [key("west", WEST)]}, {"west"}),
        ({"east": [key("east", EAST, weight=2.0)]}, {"east"}),
        ({"east": []}, {"east"}),
        ({"east": [], "north": [key("north", NORTH, row=2)]}, {"east", "north"}),
        ({}, set()),
    ],
    ids=["added", "revised", "forgotten", "two", "none"],
)
def test_the_past_queries_with_other_memory_keys_are_changed(
    change: dict[str, list[MemoryKey]], expected: set[str]
) -> None:
    assert names(changed_queries(BEFORE, BEFORE.changed(change))) == expected


def test_a_past_query_with_another_vector_is_changed_where_it_was_and_where_it_is() -> None:
    change = changed_queries(BEFORE, BEFORE.changed({"east": [key("east", WEST)]}))
    assert change is not None
    assert change.concern([""], [between(0)], RADIUS)
    assert change.concern([""], [between(180)], RADIUS)
    assert not change.concern([""], [between(90)], RADIUS)


def test_a_query_is_concerned_within_the_radius_or_with_the_same_text() -> None:
    change = changed_queries(BEFORE, BEFORE.changed({"east": [key("east", EAST, weight=2.0)]}))
    assert change is not None
    assert [change.concern(["other"], [between(angle)], RADIUS) for angle in (0, 59, 60, 61, 180)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert change.concern(["east"], [between(180)], RADIUS)
    assert change.concern(["east"], [], RADIUS)
    assert not change.concern(["other"], [], RADIUS)


def test_several_changes_are_one() -> None:
    first = changed_queries(BEFORE, BEFORE.changed({"east": []}))
    second = changed_queries(BEFORE, BEFORE.changed({"west": [key("west", WEST)]}))
    assert first is not None
    assert second is not None
    both = merged([first, second])
    assert (names(both), len(both)) == ({"east", "west"}, 2)
    assert merged([first]) is first


def test_any_query_may_be_concerned_by_a_memory_that_began_anew() -> None:
    many = {str(n): [key(str(n), EAST)] for n in range(2 * MOST_FORGOTTEN)}
    grown = BEFORE.changed(many)
    assert names(changed_queries(BEFORE, grown)) == many.keys()
    repacked = grown.changed({name: [] for name in many})
    assert changed_queries(grown, repacked) is None
    assert changed_queries(Memory.of([], 2), Memory.of([], 2).changed({"east": [key("east", EAST)]})) is None
    empty = Memory.of([], 2)
    assert changed_queries(empty, empty.changed({"east": [key("east", EAST)]})) is None


def test_any_query_may_be_concerned_by_vectors_that_are_indexed_anew() -> None:
    grown = BEFORE.changed({str(n): [key(str(n), EAST)] for n in range(TAIL)})
    assert grown.sealed is not BEFORE.sealed
    assert changed_queries(BEFORE, grown) is None
