"""A click weighs by its position, and relative to the clicks on other documents of its query."""

from typing import Any

import pytest

from index.memory import aggregation
from index.memory.aggregation import Confirmations
from index.memory.click_worth import ClickWorth
from tests.index.memory.test_aggregation import AGELESS, bits, confirmed, grade, merged, weights

STEEP = ClickWorth.of([1 / position**2 for position in range(1, 51)])


def test_a_click_far_down_weighs_more_than_a_click_at_the_top() -> None:
    top, average, down = (grade(confirmed(1, position=position)) for position in (1, None, 9))
    assert average == pytest.approx(1.0)
    assert top < average < down < 2.0


def test_a_click_at_the_end_of_a_long_list_does_not_become_a_judgment() -> None:
    assert grade(confirmed(1, position=50)) == grade(confirmed(1, position=1_000_000)) == pytest.approx(2.0)


def test_judgments_and_dislikes_have_no_position() -> None:
    assert grade(confirmed(1, -1.0, position=9)) == pytest.approx(-1.0)
    assert grade(confirmed(1, 3.0, judged=True)) == pytest.approx(3.0)


def test_a_click_beside_a_much_clicked_document_weighs_little() -> None:
    crowd = [confirmed(n, client=f"client {n}") for n in range(64)]
    stray = confirmed(100, client="ada", row=2)
    found = weights([*crowd, stray])
    assert found["a", 1] == pytest.approx(64 / 65)
    assert found["a", 2] == pytest.approx(1 / 65)
    assert weights([stray])["a", 2] == pytest.approx(1 / 2)


def test_a_judgment_beside_a_much_clicked_document_counts_fully() -> None:
    crowd = [confirmed(n, client=f"client {n}") for n in range(64)]
    judged, disliked = confirmed(100, 4.0, row=2, judged=True), confirmed(101, -1.0, row=3)
    found = weights([*crowd, judged, disliked])
    assert (found["a", 2], found["a", 3]) == (pytest.approx(4 / 5), pytest.approx(-1 / 2))


def test_removing_a_click_restores_the_weights_of_all_documents_of_its_query() -> None:
    history = [confirmed(n, client=f"client {n}", row=n % 3, position=1 + n % 9) for n in range(30)]
    confirmations = merged(history)
    before = bits(confirmations)
    touched = confirmations.change([confirmed(100 + n, client=f"new {n}", row=2, position=9) for n in range(9)])
    assert touched == {"a"}
    assert bits(confirmations) != before
    confirmations.change([], [100 + n for n in range(9)])
    assert bits(confirmations) == before


def test_another_worth_of_clicks_applies_to_a_past_query_when_it_is_weighed_again() -> None:
    history = [confirmed(n, query_key="abc"[n % 3], client=f"client {n}", position=1 + n) for n in range(9)]
    confirmations = merged(history)
    before = confirmations.keys()
    confirmations.use_worth(STEEP)
    assert [key.weight for key in confirmations.keys(["a"])["a"]] == [key.weight for key in before["a"]]
    assert len(confirmations.weigh_outdated(2)) == 2
    confirmations.weigh_outdated(2)
    assert confirmations.weigh_outdated(2) == set()
    steep = Confirmations(AGELESS, worth=STEEP)
    steep.change(history)
    assert bits(confirmations) == bits(steep)


def test_a_change_weighs_all_of_a_past_query_by_the_new_worth() -> None:
    history = [confirmed(n, row=n, client="ada", position=9) for n in range(3)]
    confirmations = merged(history)
    confirmations.use_worth(STEEP)
    confirmations.change([confirmed(7, row=0, client="bob", position=1)])
    steep = Confirmations(AGELESS, worth=STEEP)
    steep.change([*history, confirmed(7, row=0, client="bob", position=1)])
    assert bits(confirmations) == bits(steep)


def test_a_click_sums_the_grades_of_its_own_pair_only(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmations = merged([confirmed(n, client=f"client {n}", row=n % 50) for n in range(500)])
    summed: list[Any] = []
    sums = aggregation.grade_sums
    monkeypatch.setattr(aggregation, "grade_sums", lambda *given: summed.append(given) or sums(*given))
    confirmations.change([confirmed(1000, client="new", row=7)])
    assert len(summed) == 1
    confirmations.use_worth(STEEP)
    assert len(summed) == 1
    confirmations.weigh_outdated(1)
    assert len(summed) == 51
