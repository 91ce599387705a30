"""The examination of positions, estimated from lists that follow earlier clicks."""

from dataclasses import replace

import numpy as np
import pytest

from index.learning.click_model import estimate_examination
from index.learning.contrasts import Contrasts, add_showing, contrasts_of
from index.learning.examination import examination_curve
from index.learning.examples import Feedback
from index.memory.click_worth import ASSUMED_CURVE, POSITIONS
from index.records import Floats

DOCUMENTS = 8
FIRST = 8
"""Positions that are compared with the truth."""


def sampled(eta: float, *, shuffled: float, rise: float, lists: int = 30, queries: int = 120) -> list[Contrasts]:
    """Return the contrasts of a log, in which good documents are mostly on top.

    shuffled: standard deviation of a rank in every list. rise: ranks that a document goes up for each click on it.
    """
    random = np.random.default_rng(7)
    examined = np.arange(1, DOCUMENTS + 1) ** -eta
    found = []
    for _ in range(queries):
        attraction = np.where(random.random(DOCUMENTS) < np.linspace(0.5, 0.1, DOCUMENTS), 0.8, 0.1)
        seen: list[dict[int, tuple[int, int]]] = [{} for _ in range(DOCUMENTS)]
        sums: dict[int, float] = {}
        times = np.zeros(DOCUMENTS)
        for _ in range(lists):
            ranks = np.arange(DOCUMENTS) + shuffled * random.normal(size=DOCUMENTS) - rise * times
            for position, row in enumerate(np.argsort(ranks, kind="stable").tolist(), 1):
                clicked = bool(random.random() < examined[position - 1] * attraction[row])
                if seen[row]:
                    add_showing(sums, seen[row], position, clicked)
                shown, clicks = seen[row].get(position, (0, 0))
                seen[row][position] = shown + 1, clicks + clicked
                times[row] += clicked
        found.append(contrasts_of(sums))
    return found


def error(curve: Floats, eta: float) -> float:
    """Return the mean |log curve - log truth| of the positions from 2 to FIRST."""
    return float(np.abs(np.log(curve[1:FIRST]) + eta * np.log(np.arange(2, FIRST + 1))).mean())


def test_a_showing_is_compared_with_the_mean_of_the_earlier_ones() -> None:
    sums: dict[int, float] = {}
    add_showing(sums, {3: (3, 2), 1: (1, 0)}, 1, clicked=True)
    assert contrasts_of(sums) == ((0, 0, -1 / 4), (2, 0, -3 / 4), (2, 2, 2 / 4))
    add_showing(sums, {3: (1, 1)}, 2, clicked=False)
    assert contrasts_of(sums) == ((0, 0, -1 / 4), (2, 0, -3 / 4), (2, 2, 3 / 2))
    add_showing(sums, {POSITIONS: (1, 1), 900: (1, 0)}, 500, clicked=True)
    last = POSITIONS - 1
    assert contrasts_of(sums)[-1] == (last, last, pytest.approx(1 / 2 - 2 / 2))


@pytest.mark.parametrize(
    ("eta", "shuffled", "rise"), [(0.0, 1.5, 0.0), (1.5, 1.5, 0.0), (0.0, 1.5, 0.5), (0.7, 1.5, 0.5), (0.0, 0.0, 3.0)]
)
def test_the_curve_is_found_whether_or_not_clicks_move_documents(eta: float, shuffled: float, rise: float) -> None:
    curve = examination_curve(sampled(eta, shuffled=shuffled, rise=rise))
    assert error(curve, eta) < 0.25
    assert (float(curve[0]), curve.shape, bool((np.diff(curve) <= 0).all())) == (1.0, (POSITIONS,), True)


def test_a_steep_curve_is_closer_than_the_assumed_one_where_clicks_alone_move_documents() -> None:
    found = examination_curve(sampled(1.5, shuffled=0.0, rise=3.0, lists=40, queries=400))
    assert error(found, 1.5) < 0.6 * error(ASSUMED_CURVE, 1.5)


def test_without_a_change_of_positions_the_curve_is_the_assumed_one() -> None:
    still = sampled(1.5, shuffled=0.0, rise=0.0, lists=5)
    assert any(still)
    for log in (still, [], [()]):
        assert examination_curve(log).tolist() == ASSUMED_CURVE.tolist()


def test_below_the_last_shown_position_the_curve_falls_as_the_assumed_curve() -> None:
    curve = examination_curve(sampled(1.5, shuffled=1.5, rise=0.0, queries=50))
    assert (curve > 0).all()
    assert float(curve[49] / curve[19]) == pytest.approx(float(ASSUMED_CURVE[49] / ASSUMED_CURVE[19]), rel=1e-3)


def test_the_same_log_gives_the_same_bits_and_the_order_of_its_queries_hardly_counts() -> None:
    log = sampled(1.0, shuffled=1.5, rise=1.0, queries=60)
    one, again, reverse = (examination_curve(given) for given in (log, list(log), log[::-1]))
    assert one.tobytes() == again.tobytes()
    assert reverse.tolist() == pytest.approx(one.tolist(), rel=1e-2)


def test_the_record_of_a_run_has_the_facts_of_the_curve() -> None:
    shown, clicks = {7: {1: 90, 2: 90}, 8: {2: 90}}, {7: {1: 50, 2: 40}, 8: {2: 10}}
    contrasts = ((0, 0, 1.0), (0, 1, -1.0))
    one = Feedback("a", "a", np.zeros(2, np.float32), {7: 1.0}, shown, clicks, contrasts=contrasts)
    other = replace(one, shown={}, clicks={}, contrasts=((0, 0, 2.0), (0, 1, -1.0)))
    said = estimate_examination([one, other]).as_dict()
    facts = (said["method"], said["swapped_pairs"], said["swapped_clicks"], said["clicks"])
    assert facts == ("estimated", 1, 90, 100)
    assert said["curve"][0] == 1.0
    assert len(said["curve"]) == 10
    assert said["curve"] != estimate_examination([one]).as_dict()["curve"], "a moment needs two queries"
