"""Memory stays within its bytes; which past queries stay depends only on the set of confirmations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.memory.aggregation import Confirmations
from index.memory.bounded_memory import BoundedMemory
from index.memory.confirmation import Confirmation
from index.memory.grades import DAY, Bounds, DecayClock
from index.memory.rank import bytes_of, rank_of
from index.records import MemoryKey
from tests.index.fixtures import unit

TODAY = 20_000
DIM = 2
BOUNDS = Bounds(keys_per_document=2, pairs_per_client=3, anonymous_grade=4.0)
CLOCK = DecayClock(TODAY, half_life_days=10)
ONE = bytes_of(DIM, 1)
"""The bytes of a past query with a single confirmation."""


def confirmed(number: int, query_key: str, grade: float = 1.0, age: int = 0, **more: Any) -> Confirmation:
    """Return a confirmation of row 1 by a client of its own; `more` overrides fields."""
    given: dict[str, Any] = {"row": 1, "client": f"client {number}", "moment": (TODAY - age) * DAY, **more}
    return Confirmation(number, query_key=query_key, vector=unit(1, ord(query_key[0])), grade=grade, **given)


class Log:
    """A memory with the log that it reads: what is committed is in `stored`."""

    def __init__(self, max_bytes: int | None, history: Iterable[Confirmation] = (), clock: DecayClock = CLOCK) -> None:
        self.stored = {one.id: one for one in history}
        self.read = 0
        self.memory = Confirmations(clock, BOUNDS)
        self.bounded = BoundedMemory(self.memory, DIM, max_bytes, BOUNDS, self._read)
        no_vector = np.empty(0, np.float32)
        together = sorted(self.stored.values(), key=lambda one: one.query_key)
        self.affected = self.bounded.load(replace(one, vector=no_vector) for one in together)
        self.read = 0

    def _read(self, query_keys: Sequence[str] | None) -> list[Confirmation]:
        found = [one for one in self.stored.values() if query_keys is None or one.query_key in query_keys]
        self.read += len(found)
        return found

    def add(self, *added: Confirmation) -> set[str]:
        self.stored |= {one.id: one for one in added}
        return self.bounded.change(added)

    def take_back(self, *ids: int) -> set[str]:
        for id in ids:
            del self.stored[id]
        return self.bounded.change([], ids)

    @property
    def kept(self) -> set[str]:
        """The past queries in memory, also those whose weight is too small for a key."""
        return set(self.memory.keys())

    @property
    def bits(self) -> list[tuple[Any, ...]]:
        return sorted(
            (key.query_key, key.row, key.weight, key.count, key.exact, key.vector.tobytes())
            for keys in self.memory.keys().values()
            for key in keys
        )


def weights(keys: Mapping[str, Sequence[MemoryKey]]) -> dict[tuple[str, int], float]:
    return {(query_key, key.row): key.weight for query_key, of_query in keys.items() for key in of_query}


# --- What is dropped first ---


def test_a_stale_click_is_dropped_before_recent_and_repeated_clicks_and_an_old_exact_rating() -> None:
    history = [
        confirmed(1, "exact", 4.0, age=900, judged=True),
        confirmed(2, "repeated", age=25),
        *(confirmed(number, "repeated", age=25) for number in range(10, 19)),
        confirmed(3, "fresh", age=0),
        confirmed(4, "stale", age=25),
    ]
    order = []
    log = Log(None, history)
    for max_bytes in range(12 * ONE, 0, -ONE // 4):
        gone = log.kept.copy()
        log.bounded.limit(max_bytes)
        order += sorted(gone - log.kept)
    assert order == ["stale", "fresh", "repeated", "exact"]


def test_among_equal_clicks_the_latest_stay() -> None:
    log = Log(2 * ONE, [confirmed(1, "a", moment=1), confirmed(2, "b", moment=3), confirmed(3, "c", moment=2)])
    assert log.kept == {"b", "c"}


def test_at_the_same_time_the_first_by_name_stay() -> None:
    assert Log(2 * ONE, [confirmed(number, query_key) for number, query_key in enumerate("cab")]).kept == {"a", "b"}


def test_a_click_one_half_life_later_counts_as_much_as_two_clicks() -> None:
    two = [confirmed(1, "two", age=10), confirmed(2, "two", age=10)]
    for age, first in ((1, "one"), (-1, "two")):
        ranks = [rank_of(each[0].query_key, each, 10, BOUNDS) for each in (two, [confirmed(3, "one", age=1 - age)])]
        assert min(ranks)[-1] == first


def test_repeated_clicks_of_one_client_and_of_a_crowd_without_names_do_not_lift_a_query_for_ever() -> None:
    own = [confirmed(number, "own", client="ada") for number in range(50)]
    nameless = [confirmed(number, "nameless", client=None) for number in range(50)]
    four = [confirmed(number, "four") for number in range(4)]
    strengths = [-rank_of(each[0].query_key, each, None, BOUNDS)[1] for each in (own, nameless, four)]
    assert strengths == pytest.approx([0.0, 2.0, 2.0])


def test_the_order_of_two_past_queries_is_the_same_on_every_day() -> None:
    history = [confirmed(number, query_key, age=3 * number) for number, query_key in enumerate("abcd")]
    later = DecayClock(TODAY + 500, 10)
    assert Log(2 * ONE, history).bounded.size == Log(2 * ONE, history, later).bounded.size
    log = Log(2 * ONE, history)
    log.memory.age(later)
    assert log.bits == Log(2 * ONE, history, later).bits


# --- The limit ---


def test_a_lower_limit_drops_at_once_and_a_higher_limit_brings_everything_back_from_the_log() -> None:
    history = [confirmed(number, query_key, age=number) for number, query_key in enumerate("abcdef")]
    log = Log(None, history)
    before = log.bits
    assert log.bounded.limit(2 * ONE) >= set("cdef")
    assert (log.kept, len(log.memory)) == (set("ab"), 2)
    size = log.bounded.size
    assert (size.queries, size.bytes, size.max_bytes, size.dropped) == (2, 2 * ONE, 2 * ONE, 4)
    assert log.bounded.limit(None) >= set("cdef")
    assert (log.bits, log.bounded.size.dropped) == (before, 0)


def test_a_past_query_comes_back_when_a_stronger_one_is_taken_back() -> None:
    log = Log(2 * ONE, [confirmed(number, query_key, age=number) for number, query_key in enumerate("abc")])
    assert log.take_back(0) >= {"a", "c"}
    assert (log.kept, log.bounded.size.dropped) == (set("bc"), 0)


def test_a_click_on_a_dropped_past_query_brings_it_back_with_its_earlier_clicks() -> None:
    log = Log(3 * ONE, [confirmed(number, query_key, age=number) for number, query_key in enumerate("abcd")])
    assert log.kept == set("abc")
    log.add(confirmed(9, "d", age=1))
    assert [(key.query_key, key.count) for key in log.memory.keys(["d"])["d"]] == [("d", 2)]
    assert log.bits == Log(3 * ONE, log.stored.values()).bits


def test_a_change_reads_from_the_log_what_it_moves_and_no_more() -> None:
    history = [confirmed(number, f"{number:03}", age=number % 30, row=number) for number in range(500)]
    log = Log(100 * ONE, history)
    log.add(confirmed(900, "new", row=900))
    assert log.read == 0
    log.take_back(900)
    assert log.read == 1
    log.add(confirmed(901, "029", row=901))
    assert log.read == 1 + 2 + 2, "its two clicks are read to rank it, and again to keep it"


def test_another_half_life_ranks_all_past_queries_again() -> None:
    two_old, one_new = [confirmed(1, "old", age=8), confirmed(2, "old", age=8)], [confirmed(3, "new")]
    limit, history = bytes_of(DIM, 2), [*two_old, *one_new]
    for before, after, kept in ((10, 4, {"new"}), (4, None, {"old"})):
        log = Log(limit, history, DecayClock(TODAY, before))
        log.memory.age(DecayClock(TODAY, after))
        assert log.bounded.use_half_life(after) >= {"old", "new"}
        assert log.kept == kept
        assert log.bits == Log(limit, history, DecayClock(TODAY, after)).bits


# --- Any history ---


@st.composite
def histories(draw: st.DrawFn) -> list[Confirmation]:
    """Return confirmations of few queries, documents and clients, so that ranks tie and limits are reached."""
    one = st.tuples(
        st.sampled_from("abcdefgh"), st.integers(1, 3), st.sampled_from([-1.0, 0.0, 1.0, 3.0]),
        st.sampled_from([None, "ada", "bob"]), st.sampled_from([0, 1, 10]), st.booleans(),
    )  # fmt: skip
    drawn = enumerate(draw(st.lists(one, max_size=30)))
    return [
        confirmed(number, query, grade, age, row=row, client=client, judged=judged and client is not None)
        for number, (query, row, grade, client, age, judged) in drawn
        if grade or (judged and client is not None)
    ]


@settings(max_examples=200, deadline=None)
@given(histories(), st.data())
def test_any_order_of_adding_taking_back_and_limits_gives_the_memory_of_the_set(
    history: list[Confirmation], data: st.DataObject
) -> None:
    limits = st.sampled_from([0, ONE, 2 * ONE + 1200, 4 * ONE, 7 * ONE, None])
    shuffled = data.draw(st.permutations(history))
    cut = data.draw(st.integers(0, len(history)))
    log = Log(data.draw(limits), shuffled[:cut])
    reached = dict(log.memory.keys())
    for one in shuffled[cut:]:
        steps = [log.add(one)]
        if data.draw(st.integers(0, 3)) == 0:
            steps.append(log.take_back(data.draw(st.sampled_from(sorted(log.stored)))))
        if data.draw(st.integers(0, 5)) == 0:
            steps.append(log.bounded.limit(data.draw(limits)))
        for affected in steps:
            reached |= log.memory.keys(affected)
    whole = Log(log.bounded.size.max_bytes, log.stored.values())
    assert log.bits == whole.bits
    assert log.bounded.size == whole.bounded.size
    assert weights(reached) == weights(log.memory.keys()), "the affected query keys are all that changed"


@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(0, 20_000))
def test_kept_past_queries_are_the_longest_beginning_of_the_order_that_fits(
    history: list[Confirmation], max_bytes: int
) -> None:
    by_query: dict[str, list[Confirmation]] = {}
    for one in history:
        by_query.setdefault(one.query_key, []).append(one)
    expected, total = [], 0
    for query_key in sorted(by_query, key=lambda each: rank_of(each, by_query[each], 10, BOUNDS)):
        total += bytes_of(DIM, len(by_query[query_key]))
        if total > max_bytes:
            break
        expected += by_query[query_key]
    log = Log(max_bytes, history)
    assert len(log.memory) == len(expected)
    only = Confirmations(CLOCK, BOUNDS)
    only.change(expected)
    assert log.memory.keys().keys() == only.keys().keys()
    assert log.bits == Log(None, expected).bits


def test_without_a_limit_memory_is_as_it_was() -> None:
    history = [confirmed(number, "abc"[number % 3], row=number % 4, age=number) for number in range(20)]
    plain = Confirmations(CLOCK, BOUNDS)
    plain.change(history)
    log = Log(None)
    for one in history:
        log.add(one)
    assert log.read == 0
    bits = [(key.query_key, key.row, key.weight) for keys in plain.keys().values() for key in keys]
    assert sorted(bits) == [each[:3] for each in log.bits]
