"""The exact rating: judgments decide, several known clients qualify a document, and dislikes undo both."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.memory import aggregation
from index.memory.aggregation import Confirmations
from index.memory.confirmation import Confirmation
from index.memory.exact import ClickCount, exact_rating, may_qualify
from index.memory.grades import Bounds, DecayClock, grade_of, weight_of
from index.records import MemoryKey

VECTOR = np.asarray([1, 0], np.float32)
ABC = frozenset({"client a", "client b", "client c"})


def rated(number: int, rating: float, query_key: str = "q", row: int = 1) -> Confirmation:
    return Confirmation(number, row, query_key, VECTOR, rating, f"rater {number}", 0, judged=True)


def acted(number: int, grade: float, client: str | None, moment: int = 0) -> Confirmation:
    return Confirmation(number, 1, "q", VECTOR, grade, None if client is None else f"client {client}", moment)


def test_ratings_of_all_spellings_count_for_each() -> None:
    memory = Confirmations(DecayClock(0, None), Bounds())
    asked = rated(1, 4, "tea?")
    assert memory.change([rated(2, 4, "tea"), asked]) == {"tea", "tea?"}
    assert exact_of(memory) == {"tea": 4.0, "tea?": 4.0}
    assert memory.change([rated(3, 0, '"tea"')]) == {"tea", "tea?", '"tea"'}
    assert exact_of(memory) == {"tea": 0.0, "tea?": 0.0}, "the mean of 4, 4 and 0"
    assert memory.change([], [3]) == {"tea", "tea?", '"tea"'}
    assert memory.change([], [1]) == {"tea?"}, "the rating of the other stays"
    assert exact_of(memory) == {"tea": 4.0}
    assert memory.change([replace(asked, row=2)]) == {"tea?"}
    assert exact_of(memory) == {"tea": 4.0, "tea?": 4.0}, "of another document"


def test_a_rater_counts_once_for_all_spellings_with_the_latest_rating() -> None:
    first = rated(1, 4, "tea")
    later = replace(rated(2, 1, "tea?"), client=first.client, moment=1)
    assert exact_rating([first]) == 4.0
    assert exact_rating([first, later]) == exact_rating([later, first]) == 0.0
    assert exact_rating([first, replace(later, moment=-1)]) == 4.0
    assert exact_rating([first, replace(later, client="another")]) == 0.0, "the mean of 4 and 1"


@given(data=st.data())
def test_exact_ratings_do_not_depend_on_what_came_before(data: st.DataObject) -> None:
    """Several spellings, tenants, judgments, likes and dislikes, in any order, with removals."""
    spellings, clients = st.sampled_from(["tea", "tea?", "(tea)"]), st.sampled_from("abcde")
    each = st.tuples(spellings, st.integers(1, 2), clients, st.sampled_from(["", "x:"]), st.sampled_from([1, 0, -1, 4]))
    made = {
        number: Confirmation(
            number, row, key, VECTOR, float(grade), f"{tenant}{client}", number, grade in (0, 4), tenant=tenant
        )
        for number, (key, row, client, tenant, grade) in enumerate(data.draw(st.lists(each, max_size=30)))
    }
    removed = data.draw(st.sets(st.sampled_from(sorted(made) or [0])))
    by_steps, at_once = Confirmations(DecayClock(0, None), Bounds()), Confirmations(DecayClock(0, None), Bounds())
    known: dict[str, list[MemoryKey]] = {}
    for number in made:
        known |= by_steps.keys(counted(by_steps, by_steps.change([made[number]])))
    for number in removed:
        known |= by_steps.keys(counted(by_steps, by_steps.change([], [number])))
    left = [one for number, one in made.items() if number not in removed]
    fresh = at_once.keys(counted(at_once, at_once.change(left)))
    as_rows = {key: [(one.row, one.exact) for one in keys] for key, keys in fresh.items() if keys}
    assert {key: [(one.row, one.exact) for one in keys] for key, keys in known.items() if keys} == as_rows


def counted(memory: Confirmations, touched: set[str]) -> set[str]:
    """Count the clicks of these queries, as a collection does: each client clicked in one of two impressions."""
    wanted = memory.clicked_by_several(touched)
    clicks = {
        key: {
            tenant: {
                row: ClickCount(frozenset(each.client or "" for each in memory.of_query(key) if each.row == row), 5, 10)
                for row in rows
            }
            for tenant, rows in of_key.items()
        }
        for key, of_key in wanted.items()
    }
    return memory.use_clicks(touched, clicks)


def test_many_spellings_are_rated_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def noted(confirmations: Collection[Confirmation], clicks: ClickCount | None = None) -> float:
        calls.append(len(confirmations))
        return exact_rating(confirmations, clicks)

    monkeypatch.setattr(aggregation, "exact_rating", noted)
    memory = Confirmations(DecayClock(0, None), Bounds())
    memory.change(rated(number, 4, f"tea{'?' * number}") for number in range(50))
    memory.age(DecayClock(1, None))
    assert calls == [50, 50]
    memory.change([rated(99, 3, "tea?")])
    assert calls == [50, 50, 51]


def exact_of(memory: Confirmations) -> dict[str, float]:
    """Return query key -> the exact rating of its only memory key."""
    return {key: one.exact for key, keys in memory.keys().items() for one in keys}


def clicks_of(*clients: str) -> list[Confirmation]:
    return [acted(number, 1.0, client) for number, client in enumerate(clients, 1)]


@pytest.mark.parametrize(
    ("ratings", "exact"),
    [([4], 4.0), ([3], 3.0), ([4, 3], 3.5), ([2], 0.0), ([4, 1], 0.0), ([4, 2], 3.0), ([4, 0], 0.0), ([0], 0.0)],
)
def test_the_mean_rating_counts_from_three_on(ratings: Sequence[int], exact: float) -> None:
    assert exact_rating([rated(number, rating) for number, rating in enumerate(ratings)]) == exact


def test_a_rating_read_back_from_its_weight_is_still_that_rating() -> None:
    assert exact_rating([rated(1, 0.8 / (1 - 0.8)), rated(2, (2 / 3) / (1 - 2 / 3))]) == 3.0


def test_a_client_that_dislikes_counts_as_a_rating_of_zero() -> None:
    ratings = [rated(1, 4), rated(2, 4), rated(3, 4)]
    assert exact_rating([ratings[0], acted(9, -1, "a")]) == 0.0
    assert exact_rating([*ratings, acted(9, -1, "a")]) == 3.0
    assert exact_rating([*ratings, acted(9, -1, "a"), acted(10, -1, "b")]) == 0.0


def test_all_anonymous_dislikes_count_once() -> None:
    ratings = [rated(1, 4), rated(2, 4), rated(3, 4)]
    assert exact_rating([*ratings, *(acted(number, -1, None) for number in range(10, 60))]) == 3.0


def test_the_latest_event_of_a_client_decides() -> None:
    assert exact_rating([rated(1, 4), acted(2, -1, "a", 5), acted(3, 1, "a", 6)]) == 4.0
    assert exact_rating([rated(1, 4), acted(2, 1, "a", 5), acted(3, -1, "a", 5)]) == 0.0


def test_three_known_clients_qualify_a_document_above_the_rate_of_noise() -> None:
    assert exact_rating(clicks_of("a", "b", "c"), ClickCount(ABC, 3, 20)) == 3.0
    assert exact_rating(clicks_of("a", "b", "c"), ClickCount(ABC, 3, 30)) == 0.0
    assert exact_rating(clicks_of("a", "b", "c"), ClickCount(ABC - {"client c"}, 3, 3)) == 0.0
    assert exact_rating(clicks_of("a", "b", "c")) == 0.0


def by_browser(*confirmations: Confirmation) -> list[Confirmation]:
    return [replace(each, from_browser=True) for each in confirmations]


def test_clicks_of_keys_for_browsers_alone_never_qualify() -> None:
    a, b, c = clicks_of("a", "b", "c")
    count = ClickCount(ABC, 3, 3)
    assert not may_qualify(by_browser(a, b, c))
    assert exact_rating(by_browser(a, b, c), count) == 0.0
    assert may_qualify([*by_browser(a, b), c])
    assert may_qualify([*by_browser(a, b), replace(c, grade=grade_of(weight_of(0.5)))])
    bounced = replace(c, grade=0.3)  # the client liked it too, by the page alone
    assert not may_qualify([*by_browser(a, b, replace(c, id=8)), bounced])
    assert exact_rating([*by_browser(a, b, replace(c, id=8)), bounced], count) == 0.0
    assert exact_rating([*by_browser(a, b), c], count) == 3.0
    # the only client of another key did not click in an impression that showed the document
    others = by_browser(*(acted(number, 1, name) for number, name in enumerate("xyz", 10)))
    assert exact_rating([*others, c], ClickCount(frozenset({"client x", "client y", "client z"}), 3, 3)) == 0.0
    # or it dislikes the document since
    assert not may_qualify([*others, c, acted(9, -1, "c", 1)])


def test_dislikes_of_keys_for_browsers_count_against_clicks_and_not_against_judgments() -> None:
    dislikes = by_browser(acted(9, -1, "e"), acted(10, -1, None))
    assert exact_rating([rated(1, 4), *dislikes]) == 4.0
    assert exact_rating([*clicks_of("a", "b", "c"), *dislikes], ClickCount(ABC, 3, 3)) == 0.0


def test_anonymous_clicks_alone_never_qualify() -> None:
    assert exact_rating([acted(number, 1, None) for number in range(50)], ClickCount(frozenset(), 50, 50)) == 0.0


def test_a_dislike_undoes_the_click_of_one_client() -> None:
    count = ClickCount(ABC | {"client d"}, 4, 4)
    assert exact_rating([*clicks_of("a", "b", "c", "d"), acted(9, -1, "e")], count) == 3.0
    assert exact_rating([*clicks_of("a", "b", "c"), acted(9, -1, "e")], count) == 0.0
    assert exact_rating([*clicks_of("a", "b", "c"), acted(9, -1, "c", 1)], count) == 0.0


def test_judgments_decide_where_they_exist() -> None:
    assert exact_rating([*clicks_of("a", "b", "c"), rated(9, 1)], ClickCount(ABC, 3, 3)) == 0.0


def memory_of(confirmations: Sequence[Confirmation]) -> list[tuple[float, int, float]]:
    memory = Confirmations(DecayClock(0))
    memory.change(confirmations)
    return [(key.weight, key.count, key.exact) for key in memory.keys()["q"]]


def test_the_exact_rating_does_not_depend_on_the_order_of_confirmations() -> None:
    given = [rated(1, 4), rated(2, 3), rated(3, 0), rated(4, 4), acted(5, 1, "a")]
    assert len({tuple(memory_of(order)) for order in permutations(given)}) == 1


def test_removed_confirmations_leave_no_trace() -> None:
    memory = Confirmations(DecayClock(0), Bounds())
    memory.change([rated(1, 4)])
    before = memory.keys()
    memory.change([rated(2, 0), rated(3, 4)])
    assert memory.keys()["q"][0].exact == 0.0
    memory.change([], [2, 3])
    assert memory.keys() == before
    assert before["q"][0].exact == 4.0


def test_a_rating_of_zero_changes_only_the_exact_rating() -> None:
    assert memory_of([rated(1, 4), rated(2, 0)]) == [(0.8, 1, 0.0)]
    memory = Confirmations(DecayClock(0))
    memory.change([rated(1, 0)])
    assert memory.keys() == {"q": []}


def test_age_does_not_change_the_exact_rating() -> None:
    memory = Confirmations(DecayClock(0, half_life_days=10))
    memory.change([rated(1, 4)])
    memory.age(DecayClock(30, half_life_days=10))
    (key,) = memory.keys()["q"]
    assert (round(key.weight, 3), key.exact) == (0.333, 4.0)


def test_counts_of_clicks_are_used_for_their_queries_until_they_are_replaced() -> None:
    memory = Confirmations(DecayClock(0))
    touched = memory.change(clicks_of("a", "b", "c"))
    assert memory.clicked_by_several(touched) == {"q": {"": [1]}}
    memory.use_clicks(touched, {"q": {"": {1: ClickCount(ABC, 3, 3)}}})
    assert memory.keys()["q"][0].exact == 3.0
    memory.use_clicks(["another"], {})
    assert memory.keys()["q"][0].exact == 3.0
    memory.use_clicks(touched, {})
    assert memory.keys()["q"][0].exact == 0.0


def test_two_clients_and_anonymous_clicks_need_no_count() -> None:
    memory = Confirmations(DecayClock(0))
    touched = memory.change([*clicks_of("a", "b"), acted(8, 1, None), acted(9, 1, None)])
    assert memory.clicked_by_several(touched) == {}


def test_neither_positions_nor_the_clicks_on_other_documents_change_the_exact_rating() -> None:
    for position in (1, 9):
        memory = Confirmations(DecayClock(0))
        crowd = [replace(acted(100 + n, 1.0, f"crowd {n}"), row=2) for n in range(200)]
        touched = memory.change([*(replace(one, position=position) for one in clicks_of("a", "b", "c")), *crowd])
        assert memory.clicked_by_several(touched) == {"q": {"": [1, 2]}}
        memory.use_clicks(touched, {"q": {"": {1: ClickCount(ABC, 3, 20)}}})
        assert [(key.row, key.exact) for key in memory.keys()["q"]] == [(1, 3.0), (2, 0.0)]
