"""Confirmations are merged, aged and bounded; the result does not depend on their history."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import floor, fsum, log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.memory.aggregation import LEAST_WEIGHT, Confirmations
from index.memory.click_worth import ASSUMED_WORTH
from index.memory.confirmation import Confirmation
from index.memory.grades import DAY, Bounds, DecayClock, grade_of, weight_of
from index.memory.memory import Memory
from index.records import MemoryKey
from tests.index.fixtures import unit

AGELESS = DecayClock(0)
TODAY = 20_000
VECTORS = {query_key: unit(1, number) for number, query_key in enumerate("abcdef")}
OTHER_SPELLING = unit(1, 0.001)


def confirmed(number: int, grade: float = 1.0, client: str | None = "ada", **more: Any) -> Confirmation:
    """Return a confirmation of query a and row 1; `more` overrides fields."""
    given = {"row": 1, "query_key": "a", "moment": TODAY * DAY, **more}
    return Confirmation(number, vector=VECTORS[given["query_key"]], grade=grade, client=client, **given)


def merged(history: Iterable[Confirmation], clock: DecayClock = AGELESS, bounds: Bounds | None = None) -> Confirmations:
    confirmations = Confirmations(clock, bounds)
    confirmations.change(history)
    return confirmations


def keys(confirmations: Confirmations) -> list[MemoryKey]:
    return [key for query_key in sorted(confirmations.keys()) for key in confirmations.keys([query_key])[query_key]]


def weights(
    history: Iterable[Confirmation], clock: DecayClock = AGELESS, bounds: Bounds | None = None
) -> dict[Any, float]:
    return {(key.query_key, key.row): key.weight for key in keys(merged(history, clock, bounds))}


def grade(*history: Confirmation, clock: DecayClock = AGELESS) -> float:
    """Return the merged grade of these confirmations of one pair; 0 if there is no memory key."""
    return grade_of(weights(history, clock).get(("a", 1), 0.0))


def bits(confirmations: Confirmations) -> list[tuple[Any, ...]]:
    return [(key.query_key, key.row, key.weight, key.count, key.vector.tobytes()) for key in keys(confirmations)]


# --- Merging ---


def test_confirmations_of_one_query_and_document_merge_into_one_key() -> None:
    history = [confirmed(1), confirmed(2, client="bob"), confirmed(3, row=2), confirmed(4, query_key="b")]
    found = [(key.query_key, key.row, key.count) for key in keys(merged(history))]
    assert found == [("a", 1, 2), ("a", 2, 1), ("b", 1, 1)]


def test_grades_of_clients_add_up_and_each_further_client_adds_less_weight() -> None:
    assert grade(*(confirmed(n, client=f"client {n}") for n in range(4))) == pytest.approx(4.0)
    crowd = [weight_of(float(n)) for n in range(6)]
    assert crowd == [0, pytest.approx(1 / 2), pytest.approx(2 / 3), pytest.approx(3 / 4), pytest.approx(4 / 5), 5 / 6]
    assert weight_of(1e9) < 2 * weight_of(1.0)


def test_repetitions_by_one_client_count_once_with_the_strongest_grade() -> None:
    assert grade(*(confirmed(n) for n in range(50))) == pytest.approx(1.0)
    assert grade(confirmed(1), confirmed(2, 3.0), confirmed(3)) == pytest.approx(3.0)


@pytest.mark.parametrize(("before", "after", "counts"), [(1.0, -1.0, -1.0), (-1.0, 3.0, 3.0), (3.0, -1.0, -1.0)])
def test_the_latest_sign_of_a_client_counts(before: float, after: float, counts: float) -> None:
    history = [confirmed(1, before), confirmed(2, after, moment=TODAY * DAY + 1)]
    assert grade(*history) == grade(*history[::-1]) == pytest.approx(counts)


def test_at_equal_times_the_dislike_counts_as_the_latest() -> None:
    assert grade(confirmed(1, -1.0), confirmed(2, 3.0)) == pytest.approx(-1.0)


def test_dislikes_outweigh_likes_when_there_are_more_of_them() -> None:
    dislikes = [confirmed(n, -1.0, client=f"client {n}") for n in range(3)]
    assert grade(confirmed(9), *dislikes) == pytest.approx(-2.0)
    assert weights([confirmed(9), *dislikes])["a", 1] == pytest.approx(-2 / 3)


def test_likes_and_dislikes_that_cancel_leave_no_key() -> None:
    assert weights([confirmed(1), confirmed(2, -1.0, client="bob")]) == {}


def test_anonymous_confirmations_count_as_at_most_ten_clicks() -> None:
    crowd = [confirmed(n, client=None) for n in range(100)]
    assert grade(*crowd[:3]) == pytest.approx(3.0)
    assert grade(*crowd) == pytest.approx(Bounds().anonymous_grade)
    assert grade(*crowd, confirmed(200, -1.0), confirmed(201, client="bob")) == pytest.approx(10.0)
    dislikes = [confirmed(300 + n, -1.0, client=None) for n in range(400)]
    assert grade(*crowd, *dislikes) == pytest.approx(-10.0)


# --- Ageing ---


def test_a_confirmation_loses_half_its_grade_in_a_half_life() -> None:
    clock = DecayClock(TODAY, half_life_days=30)
    grades = [grade(confirmed(1, 2.0, moment=(TODAY - age) * DAY), clock=clock) for age in (0, 30, 60)]
    assert grades == pytest.approx([2.0, 1.0, 0.5])


def test_age_is_counted_in_whole_days_and_is_zero_in_the_future() -> None:
    clock = DecayClock(TODAY, half_life_days=1)
    moments = [TODAY * DAY, (TODAY + 1) * DAY - 1, (TODAY + 90) * DAY, TODAY * DAY - 1]
    assert [grade(confirmed(1, moment=moment), clock=clock) for moment in moments] == pytest.approx([1, 1, 1, 0.5])


def test_without_a_half_life_grades_do_not_decay() -> None:
    assert grade(confirmed(1, moment=0), clock=DecayClock(TODAY)) == pytest.approx(1.0)


def test_a_key_below_the_least_weight_is_dropped() -> None:
    clock = DecayClock(TODAY, half_life_days=1)
    assert weights([confirmed(1, moment=(TODAY - 6) * DAY)], clock)["a", 1] > LEAST_WEIGHT
    assert weights([confirmed(1, moment=(TODAY - 7) * DAY)], clock) == {}


def test_ageing_gives_the_same_keys_as_merging_on_that_day() -> None:
    history = [confirmed(n, query_key="abc"[n % 3], row=n % 4, moment=(TODAY - n) * DAY) for n in range(30)]
    aged = merged(history, DecayClock(TODAY, 10))
    young = bits(aged)
    aged.age(DecayClock(TODAY + 5, 10))
    assert young != bits(aged) == bits(merged(history, DecayClock(TODAY + 5, 10)))


# --- Bounds ---


def test_a_document_keeps_its_strongest_queries() -> None:
    bounds = Bounds(keys_per_document=2)
    history = [confirmed(1, 1.0, query_key="a"), confirmed(2, -3.0, query_key="b"), confirmed(3, 2.0, query_key="c")]
    assert weights([*history, confirmed(4, query_key="a", row=2)], bounds=bounds).keys() == {
        ("b", 1),
        ("c", 1),
        ("a", 2),
    }


def test_among_equally_strong_queries_the_newest_are_kept() -> None:
    moments = {"a": 1, "b": 3, "c": 2, "d": 2}
    history = [
        confirmed(n, query_key=query_key, moment=moment) for n, (query_key, moment) in enumerate(moments.items())
    ]
    assert weights(history, bounds=Bounds(keys_per_document=2)).keys() == {("b", 1), ("c", 1)}


def test_a_judgment_is_kept_before_stronger_clicks() -> None:
    bounds = Bounds(keys_per_document=1)
    crowd = [confirmed(n, 4.0, query_key="a", client=f"made-up-{n}") for n in range(9)]
    judged = confirmed(20, 3.0, query_key="b", judged=True)
    assert weights([*crowd, judged], bounds=bounds).keys() == {("b", 1)}
    assert weights(crowd, bounds=bounds).keys() == {("a", 1)}


def test_a_key_over_the_limit_returns_when_a_stronger_key_is_removed() -> None:
    history = [confirmed(1, 1.0, query_key="a"), confirmed(2, 3.0, query_key="b"), confirmed(3, 2.0, query_key="c")]
    confirmations = merged(history, bounds=Bounds(keys_per_document=2))
    assert confirmations.change([], [2]) == {"a", "b"}
    assert bits(confirmations) == bits(merged([history[0], history[2]]))


def test_only_the_latest_pairs_of_a_client_count() -> None:
    bounds = Bounds(pairs_per_client=2)
    history = [confirmed(n, query_key=query_key, moment=n) for n, query_key in enumerate("abca")]
    assert weights(history, bounds=bounds).keys() == {("a", 1), ("c", 1)}
    others = [confirmed(9, client="bob", query_key="b"), confirmed(8, client=None, query_key="b")]
    assert weights([*history, *others], bounds=bounds)["b", 1] == pytest.approx(2 / 3)


def test_earlier_pairs_of_a_client_count_again_when_its_latest_are_removed() -> None:
    bounds = Bounds(pairs_per_client=2)
    history = [confirmed(n, query_key=query_key, moment=n) for n, query_key in enumerate("abcd")]
    confirmations = merged(history, bounds=bounds)
    assert confirmations.change([], [3, 2]) == {"a", "b", "c", "d"}
    assert bits(confirmations) == bits(merged(history[:2], bounds=bounds))


def test_judgments_are_not_limited_per_client() -> None:
    history = [replace(confirmed(n, query_key=query_key), judged=True) for n, query_key in enumerate("abcdef")]
    assert len(weights(history, bounds=Bounds(pairs_per_client=2))) == 6


# --- Removal ---


def test_removed_confirmations_leave_no_keys() -> None:
    confirmations = merged([confirmed(1), confirmed(2, client=None)])
    assert confirmations.change([], [1, 2, 77]) == {"a"}
    assert (len(confirmations), confirmations.keys(["a"]), bits(confirmations)) == (0, {"a": []}, [])


def test_a_confirmation_with_a_known_id_replaces_the_old_one() -> None:
    confirmations = merged([confirmed(1), confirmed(2, query_key="b")])
    confirmations.change([confirmed(1, row=5)])
    assert bits(confirmations) == bits(merged([confirmed(1, row=5), confirmed(2, query_key="b")]))


def test_a_query_key_has_the_vector_of_its_latest_spelling() -> None:
    old, new = confirmed(1), replace(confirmed(2, moment=TODAY * DAY + 1), vector=OTHER_SPELLING)
    confirmations = merged([old, new])
    assert np.array_equal(keys(confirmations)[0].vector, OTHER_SPELLING)
    confirmations.change([], [2])
    assert np.array_equal(keys(confirmations)[0].vector, VECTORS["a"])


# --- Any history ---

SMALL = Bounds(keys_per_document=2, pairs_per_client=3, anonymous_grade=4.0)
CLOCK = DecayClock(TODAY, half_life_days=3)


@st.composite
def histories(draw: st.DrawFn) -> list[Confirmation]:
    """Return confirmations of few queries, documents and clients, so that pairs repeat and bounds are reached."""
    one = st.tuples(
        st.sampled_from("abcd"),
        st.integers(1, 3),
        st.sampled_from([-1.0, 1.0, 2.0, 3.0]),
        st.sampled_from([None, "ada", "bob"]),
        st.integers(0, 6),
        st.booleans(),
        st.booleans(),
        st.sampled_from([None, 1, 3, 9]),
    )
    history = []
    for number, (query_key, row, grade, client, age, judged, spelled, position) in enumerate(
        draw(st.lists(one, max_size=25))
    ):
        vector = OTHER_SPELLING if spelled else VECTORS[query_key]
        moment = (TODAY - age) * DAY
        judged = judged and client is not None
        history.append(Confirmation(number, row, query_key, vector, grade, client, moment, judged, position))
    return history


def by_hand(history: Sequence[Confirmation], bounds: Bounds, clock: DecayClock) -> dict[tuple[str, int], float]:
    """Return the weights, computed at once from all confirmations."""
    last: dict[str, dict[tuple[str, int], int]] = {}
    for one in history:
        if one.client and not one.judged:
            moments = last.setdefault(one.client, {})
            moments[one.pair] = max(one.moment, moments.get(one.pair, 0))
    latest = {
        client: set(sorted(moments, key=lambda pair: (-moments[pair], pair))[: bounds.pairs_per_client])
        for client, moments in last.items()
    }
    pairs: dict[tuple[str, int], list[Confirmation]] = {}
    for one in history:
        if one.judged or one.client is None or one.pair in latest[one.client]:
            pairs.setdefault(one.pair, []).append(one)
    sums = {pair: sums_by_hand(of_pair, bounds, clock) for pair, of_pair in pairs.items()}
    found = {}
    for pair, (judged, clicked) in sums.items():
        best = max(each for (query_key, _), (_, each) in sums.items() if query_key == pair[0])
        level = 2 ** (floor(4 * log2(best)) / 4) if best > 0 else 0
        share = clicked / (1 + max(0, level - clicked)) if clicked > 0 else clicked
        found[pair] = (weight_of(judged + share), max(one.moment for one in pairs[pair]))
    kept = {}
    for row in {row for _, row in found}:
        of_row = [pair for pair in found if pair[1] == row and abs(weight_of(sum(sums[pair]))) >= LEAST_WEIGHT]
        of_row.sort(key=lambda pair: (sums[pair][0] == 0, -abs(found[pair][0]), -found[pair][1], pair[0]))
        kept |= {pair: found[pair][0] for pair in of_row[: bounds.keys_per_document]}
    return kept


def sums_by_hand(of_pair: Sequence[Confirmation], bounds: Bounds, clock: DecayClock) -> tuple[float, float]:
    """Return the grades of the judgments and of the events of one pair."""
    total: dict[bool, list[float]] = {True: [], False: []}
    for judged, client in {(one.judged, one.client) for one in of_pair}:
        own = (one for one in of_pair if (one.judged, one.client) == (judged, client))
        of_client = sorted(own, key=lambda one: one.moment)
        aged = [one.grade * 0.5 ** ((clock.today - one.moment // DAY) / 3) for one in of_client]
        if not judged:
            worths = [ASSUMED_WORTH.at(one.position) if one.grade > 0 else 1 for one in of_client]
            aged = [grade * worth for grade, worth in zip(aged, worths, strict=True)]
        if client is None:
            total[judged].append(np.clip(fsum(aged), -bounds.anonymous_grade, bounds.anonymous_grade))
        else:
            newest = [g for g, one in zip(aged, of_client, strict=True) if one.moment == of_client[-1].moment]
            total[judged].append(min(aged) if min(newest) < 0 else max(aged))
    return fsum(total[True]), fsum(total[False])


@settings(max_examples=200, deadline=None)
@given(histories())
def test_weights_agree_with_a_computation_by_hand(history: list[Confirmation]) -> None:
    assert weights(history, CLOCK, SMALL) == pytest.approx(by_hand(history, SMALL, CLOCK))


@settings(max_examples=100, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_confirmations_changes_no_bit(history: list[Confirmation], random: Any) -> None:
    shuffled = random.sample(history, len(history))
    assert bits(merged(history, CLOCK, SMALL)) == bits(merged(shuffled, CLOCK, SMALL))


@settings(max_examples=100, deadline=None)
@given(histories(), st.data())
def test_removed_confirmations_leave_no_trace_in_keys_or_searches(
    history: list[Confirmation], data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.sampled_from([one.id for one in history]))) if history else set()
    cut = data.draw(st.integers(0, len(history)))
    confirmations = merged(history[:cut], CLOCK, SMALL)
    memory = Memory.of(keys(confirmations), 2)
    for one in history[cut:]:
        memory = memory.changed(confirmations.keys(confirmations.change([one])))
    memory = memory.changed(confirmations.keys(confirmations.change([], gone)))
    left = merged([one for one in history if one.id not in gone], CLOCK, SMALL)
    assert bits(confirmations) == bits(left)
    assert found_in(memory) == found_in(Memory.of(keys(left), 2))


def found_in(memory: Memory) -> list[tuple[Any, ...]]:
    """Return the bits that searches with two queries read from a memory, in order."""
    found = []
    for query in (unit(1, 1), unit(1, -0.2)):
        near, cosine = memory.near(query, 0.5)
        query_keys = [memory.query_key_of(at) for at in near]
        found.append((query_keys, memory.rows[near].tolist(), memory.weights[near].tobytes(), cosine.tobytes()))
    return found
