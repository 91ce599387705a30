"""The examination of positions, estimated from documents that changed positions."""

from collections.abc import Sequence

import numpy as np
import pytest

from index.learning.click_model import (
    ENOUGH_CLICKS,
    PRIOR_IMPRESSIONS,
    count_clicks,
    estimate_examination,
    expectation_maximisation,
    harvest,
    non_increasing,
)
from index.learning.examples import Feedback
from index.memory.click_worth import ASSUMED_CURVE, POSITIONS
from index.records import Floats

VECTOR = np.zeros(2, np.float32)
STEEP = (1.0, 0.4, 0.1)


def clicked(
    query_key: str, shown: dict[int, dict[int, int]], clicks: dict[int, dict[int, int]], grade: float = 1.0
) -> Feedback:
    """Return the feedback of a query with equal gains for all clicks."""
    gains = {row: grade * sum(at.values()) for row, at in clicks.items()}
    return Feedback(query_key, query_key, VECTOR, gains, shown, clicks)


def expected_log(curve: Sequence[float], attractions: Sequence[float], lists: int = 1000) -> list[Feedback]:
    """Return the expected clicks of a query whose documents are shown at each position equally often."""
    positions = range(1, len(curve) + 1)
    shown = {row: dict.fromkeys(positions, lists) for row in range(len(attractions))}
    clicks = {
        row: {position: round(lists * curve[position - 1] * attraction) for position in positions}
        for row, attraction in enumerate(attractions)
    }
    return [clicked("query", shown, clicks)]


def sampled_log(eta: float, lists: int, seed: int) -> list[Feedback]:
    """Return a log of 50 queries, 8 documents each, sampled from the model; good documents are mostly on top."""
    random = np.random.default_rng(seed)
    log = []
    for query in range(50):
        attraction = np.where(random.random(8) < np.linspace(0.5, 0.1, 8), 0.8, 0.1)
        shown: dict[int, dict[int, int]] = {row: {} for row in range(8)}
        clicks: dict[int, dict[int, int]] = {row: {} for row in range(8)}
        for _ in range(lists):
            order = np.argsort(np.arange(8) + 1.5 * random.normal(size=8)).tolist()
            for position, row in enumerate(order, 1):
                shown[row][position] = shown[row].get(position, 0) + 1
                if random.random() < position**-eta * attraction[row]:
                    clicks[row][position] = clicks[row].get(position, 0) + 1
        log.append(clicked(str(query), shown, clicks))
    return log


def curve_of(*chances: float) -> Floats:
    return np.asarray(chances, np.float32)


# --- Examination ---


def test_the_curve_is_recovered_for_any_attractions() -> None:
    counts = count_clicks(expected_log(STEEP, [0.9, 0.5, 0.05]))
    assert harvest(counts, prior_clicks=1e-3)[:3].tolist() == pytest.approx(STEEP, rel=1e-2)


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_the_curve_is_recovered_when_good_documents_are_ranked_high(eta: float) -> None:
    examination = estimate_examination(sampled_log(eta, 200, seed=4))
    truth = np.arange(1, 9) ** -eta
    assert examination.method == "harvest"
    assert np.abs(np.log(examination.curve[:4] / truth[:4])).max() < 0.2
    assert np.abs(examination.curve[:8] - truth).max() < 0.1


def test_documents_that_keep_their_positions_do_not_change_the_curve() -> None:
    still = [
        clicked(str(query), {row: {row + 1: 100} for row in range(3)}, {0: {1: 90}, 1: {2: 1}, 2: {3: 1}})
        for query in range(50)
    ]
    assert len(count_clicks(still).swapped().pair) == 0
    assert harvest(count_clicks(still)).tolist() == pytest.approx(ASSUMED_CURVE.tolist())
    alone = expected_log(STEEP, [0.9, 0.5])
    both = harvest(count_clicks(still + alone))
    assert both.tolist() == pytest.approx(harvest(count_clicks(alone)).tolist(), rel=1e-4)


def test_the_estimator_depends_on_the_number_of_clicks() -> None:
    def log(swapped: int, still: int) -> list[Feedback]:
        shown = {0: {1: 100, 2: 100}, 1: {3: 200}}
        return [clicked("query", shown, {0: {1: swapped - 9, 2: 9}, 1: {3: still}})]

    assert estimate_examination([]).method == "assumed"
    assert estimate_examination(log(50, ENOUGH_CLICKS - 51)).method == "assumed"
    assert estimate_examination(log(50, ENOUGH_CLICKS - 51)).curve.tolist() == ASSUMED_CURVE.tolist()
    assert estimate_examination(log(50, ENOUGH_CLICKS - 50)).method == "em"
    assert estimate_examination(log(ENOUGH_CLICKS - 1, 50)).method == "em"
    assert estimate_examination(log(ENOUGH_CLICKS, 0)).method == "harvest"


@pytest.mark.parametrize("eta", [0.0, 1.0, 2.0])
def test_em_is_closer_to_the_truth_than_the_assumed_curve(eta: float) -> None:
    found = expectation_maximisation(count_clicks(sampled_log(eta, 60, seed=6)))[:8]
    truth = np.log(np.arange(1, 9) ** -eta)
    assert np.abs(np.log(found) - truth).mean() < np.abs(np.log(ASSUMED_CURVE[:8]) - truth).mean() / 1.5
    assert (np.diff(found) <= 0).all()


def test_em_agrees_with_its_equations_by_hand() -> None:
    """One EM step: attraction 1/5, examination 1 and 2^-.7; 4 shown and 2 clicked, then 6 and 1."""
    counts = count_clicks([clicked("query", {0: {1: 4, 2: 6}}, {0: {1: 2, 2: 1}})])
    look, attraction = [1.0, 2**-0.7], 0.2
    after = [
        (clicks + (shown - clicks) * one * (1 - attraction) / (1 - one * attraction) + PRIOR_IMPRESSIONS * one)
        / (shown + PRIOR_IMPRESSIONS)
        for one, shown, clicks in zip(look, [4, 6], [2, 1], strict=True)
    ]
    assert float(expectation_maximisation(counts, steps=1)[1]) == pytest.approx(after[1] / after[0])


def test_the_prior_determines_the_curve_where_no_document_changed_positions() -> None:
    flat = np.ones(POSITIONS, np.float32)
    none = count_clicks([])
    assert harvest(none, flat).tolist() == pytest.approx(flat.tolist())
    assert harvest(none).tolist() == pytest.approx(ASSUMED_CURVE.tolist())


def test_below_the_last_shown_position_the_curve_falls_as_the_assumed_curve() -> None:
    curve = estimate_examination(expected_log(STEEP, [0.9, 0.5, 0.05])).curve
    assert curve.shape == (POSITIONS,)
    assert float(curve[0]) == 1.0
    assert (np.diff(curve) <= 0).all()
    assert (curve > 0).all()
    assert float(curve[49] / curve[19]) == pytest.approx(float(ASSUMED_CURVE[49] / ASSUMED_CURVE[19]), rel=0.05)


def test_impressions_and_clicks_are_counted_per_query() -> None:
    log = [
        clicked("a", {7: {1: 3, 500: 2}, 8: {2: 1}}, {7: {1: 2}}),
        clicked("b", {7: {1: 4}}, {7: {1: 9}}),
        Feedback("judged", "judged", VECTOR, {7: 1.0}),
    ]
    counts = count_clicks(log)
    assert counts.pair.tolist() == [0, 0, 1, 2]
    assert counts.rank.tolist() == [0, POSITIONS - 1, 1, 0]
    assert counts.shown.tolist() == [3.0, 2.0, 1.0, 4.0]
    assert counts.clicks.tolist() == [2.0, 0.0, 0.0, 4.0]
    assert counts.swapped().shown.tolist() == [3.0, 2.0]


def test_the_same_log_gives_the_same_bits() -> None:
    one, other = (estimate_examination(sampled_log(1.0, 30, seed=5)) for _ in range(2))
    assert one.curve.tobytes() == other.curve.tobytes()


def test_a_rising_curve_is_averaged_by_the_weights_of_its_positions() -> None:
    rising = np.asarray([1.0, 0.25, 0.5, 0.1])
    level = 2 ** -((2 * 3 + 1) / 4)  # weighted mean of base 2 logarithms: -2 with weight 3, -1 with weight 1
    found = non_increasing(rising, np.asarray([1.0, 3.0, 1.0, 1.0]))
    assert found.tolist() == pytest.approx([1.0, level, level, 0.1])


def test_the_record_of_a_run_has_the_facts_of_the_curve() -> None:
    said = estimate_examination(expected_log(STEEP, [0.9, 0.5])).as_dict()
    assert (said["method"], said["swapped_pairs"], said["swapped_clicks"], said["clicks"]) == ("harvest", 2, 2100, 2100)
    assert said["curve"][0] == 1.0
    assert len(said["curve"]) == 10
