"""Anonymous memory sums the grades of clients by query, document and day, and has no text."""

import hashlib
from itertools import permutations

import numpy as np
import pytest

from index.memory.anonymous import anonymous
from index.memory.confirmation import Confirmation
from index.memory.grades import DAY
from index.memory.memory import Memory
from index.memory.query_key import anonymous_key, as_query_key, is_anonymous
from index.records import MemoryKey

OAK, ELM = 7, 8
EAST, WEST = np.asarray([1, 0], np.float32), np.asarray([-1, 0], np.float32)


def click(id: int, client: str | None, row: int = OAK, grade: float = 1.0, day: int = 3) -> Confirmation:
    return Confirmation(id, row, "a tree", EAST, grade, client, day * DAY + id, position=9)


def left(*expired: Confirmation) -> list[tuple[str, int, int, float]]:
    return [(one.name, one.row, one.day, one.grade) for one in anonymous(expired)]


def test_a_client_counts_once_and_clients_add_up() -> None:
    name = anonymous_key("a tree")
    found = left(click(1, "ada"), click(2, "ada", grade=3.0), click(3, "bob"), click(4, "bob", row=ELM))
    assert found == [(name, OAK, 3, 4.0), (name, ELM, 3, 1.0)]


def test_the_latest_event_of_a_client_decides_the_sign_and_the_day() -> None:
    expired = (click(1, "ada", grade=3.0, day=1), click(2, "ada", grade=-1.0, day=2))
    assert left(*expired) == [(anonymous_key("a tree"), OAK, 2, -1.0)]


def test_events_without_a_client_count_one_by_one() -> None:
    assert [grade for *_, grade in left(click(1, None), click(2, None), click(3, None, day=4))] == [2.0, 1.0]


def test_grades_that_cancel_leave_nothing() -> None:
    assert left(click(1, "ada"), click(2, "bob", grade=-1.0)) == []


def test_the_order_of_events_has_no_effect() -> None:
    expired = [click(1, "ada", grade=0.1), click(2, "bob", grade=0.2), click(3, "cid", grade=0.3), click(4, None, ELM)]
    assert len({str(left(*order)) for order in permutations(expired)}) == 1


def test_an_anonymous_key_is_a_hash_of_the_query_key_and_no_query_key() -> None:
    key = as_query_key("  A  Tree ")
    assert anonymous_key(key) == " " + hashlib.sha256(b"a tree").hexdigest()[:32]
    assert is_anonymous(anonymous_key(key))
    assert not is_anonymous(key)
    assert as_query_key(anonymous_key(key)) != anonymous_key(key)


@pytest.mark.parametrize(("excluded", "rows"), [([], [OAK, ELM]), (["a tree"], []), (["a bush"], [OAK, ELM])])
def test_a_query_that_leaves_its_own_memory_out_leaves_its_anonymous_memory_out(
    excluded: list[str], rows: list[int]
) -> None:
    memory = Memory.of(
        [MemoryKey(OAK, EAST, 0.5, "a tree", 1, 0.0), MemoryKey(ELM, EAST, 0.5, anonymous_key("a tree"), 1, 0.0)], 2
    )
    positions, _ = memory.near(EAST, 0.9, excluded)
    assert sorted(memory.rows[positions].tolist()) == rows
    assert memory.near(WEST, 0.9, excluded)[0].size == 0
