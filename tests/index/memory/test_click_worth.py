"""The worth of a click by its position: inverse examination, bounded, and 1 on average."""

import numpy as np
import pytest

from index.memory.click_worth import ASSUMED_CURVE, ASSUMED_WORTH, LIST, MOST_WORTH, ClickWorth

ETAS = (0.0, 0.3, 0.7, 1.0, 2.0)


def curve(eta: float) -> list[float]:
    return [position**-eta for position in range(1, 51)]


@pytest.mark.parametrize("eta", ETAS)
def test_clicks_on_equally_attractive_documents_are_worth_one_on_average(eta: float) -> None:
    examined, worth = np.asarray(curve(eta)[:LIST]), ClickWorth.of(curve(eta))
    factors = np.asarray([worth.at(position) for position in range(1, LIST + 1)])
    assert examined @ factors == pytest.approx(examined.sum())


@pytest.mark.parametrize("eta", ETAS)
def test_the_worth_rises_with_the_position_up_to_its_bound(eta: float) -> None:
    worth = ClickWorth.of(curve(eta))
    assert list(worth.by_position) == sorted(worth.by_position)
    assert worth.at(1) > 0.3
    assert max(worth.by_position) <= MOST_WORTH


def test_inverse_examination_holds_below_the_bound() -> None:
    assert ASSUMED_WORTH.at(4) / ASSUMED_WORTH.at(2) == pytest.approx(ASSUMED_CURVE[1] / ASSUMED_CURVE[3])


def test_where_all_positions_are_examined_every_click_is_worth_the_same() -> None:
    assert [ClickWorth.of(curve(0.0)).at(position) for position in (1, 5, 10, 50)] == pytest.approx([1, 1, 1, 1])


def test_an_unknown_position_is_worth_one_and_a_far_one_as_the_last() -> None:
    assert ASSUMED_WORTH.at(None) == 1.0
    assert ASSUMED_WORTH.at(100) == ASSUMED_WORTH.at(1_000_000) == MOST_WORTH


@pytest.mark.parametrize(
    "curve", [[], [0.0, 0.0], [1.0, float("nan")], [float("nan")], [1.0, -0.1], [float("inf"), 1.0]]
)
def test_a_curve_that_is_none_has_no_worth(curve: list[float]) -> None:
    with pytest.raises(ValueError, match="examination curve"):
        ClickWorth.of(curve)


def test_the_worth_does_not_depend_on_the_scale_of_the_curve() -> None:
    assert ClickWorth.of([1e-20] * LIST).by_position == pytest.approx([1.0] * LIST)
    assert ClickWorth.of([1e-320, 0.0]).by_position == pytest.approx([1.0, 2.0])
    assert ClickWorth.of([1.0, 0.0]).by_position == pytest.approx([1.0, 2.0])
