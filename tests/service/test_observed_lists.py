"""Lists of times in which no event could come do not count as lists without a click."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.runtime import observed_lists
from service.runtime.feedback_log import gather_feedback
from service.runtime.observed_lists import LEAST_SILENCE, MOST_SILENCE, SILENCE, observed
from tests.service.client import create, opened, runtime_of

SOON = "." * 9 + "x"
"""Ten lists, of which the last has an action."""


def kept(lists: str) -> str:
    """Return the lists that are kept; an x has an action."""
    return "".join(observed(lists, lambda one: one == "x"))


def test_all_lists_of_a_log_with_actions_are_kept_in_their_order() -> None:
    lists = "x" + 50 * SOON + "..."
    assert kept(lists) == lists
    assert [*observed("xaxbc", lambda one: one == "x")] == ["x", "a", "x", "b", "c"]


def test_lists_before_the_first_action_are_left_out() -> None:
    assert kept("...xx.") == "xx."
    assert kept(3 * MOST_SILENCE * "." + "x..") == "x.."
    assert kept("...") == kept("") == ""


@pytest.mark.parametrize("ending", ["", "x" + 5 * SOON], ids=["at the end", "in between"])
def test_a_long_run_without_an_action_is_left_out(ending: str) -> None:
    begun = "x" + 50 * SOON
    assert kept(begun + LEAST_SILENCE * "." + ending) == begun + LEAST_SILENCE * "." + ending
    longer = (LEAST_SILENCE + 1) * "."
    assert kept(begun + longer + ending) == begun + ending


def test_a_run_that_is_left_out_does_not_make_the_next_one_longer() -> None:
    begun, outage = "x" + 50 * SOON, 100 * LEAST_SILENCE * "."
    assert kept(begun + outage + "x" + 5 * SOON + 2 * LEAST_SILENCE * "." + "x") == begun + "x" + 5 * SOON + "x"


def test_where_actions_are_rare_a_run_must_be_longer() -> None:
    rare = "x" + 20 * ((LEAST_SILENCE - 1) * "." + "x")
    run = int(SILENCE * LEAST_SILENCE * 0.9) * "."
    assert kept(rare + run + "x") == rare + run + "x"
    assert kept(rare + 2 * run + "x") == rare + "x"
    assert kept("x" + 3 * MOST_SILENCE * "." + "x" + (MOST_SILENCE + 1) * ".") == "xx", "the buffer has a bound"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


def test_searches_from_before_the_first_event_do_not_count_in_click_rates(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed_lists, "LEAST_SILENCE", 3)
    monkeypatch.setattr(observed_lists, "MOST_SILENCE", 3)
    trees = create(client, "trees")
    trees.add(*({"id": tree, "text": f"the {tree} is tall"} for tree in ("oak", "pine")))

    def search(times: int) -> str:
        return [trees.search("tall", client_id="ada")["query_id"] for _ in range(times)][-1]

    def shown() -> int:
        runtime_of(client).impressions.flush()
        with runtime_of(client).database.read() as connection:
            (one,) = gather_feedback(connection, trees.id)
        return sum(times for by_position in (one.shown or {}).values() for times in by_position.values())

    search(5)  # no event can come yet
    trees.act("oak", query_id=search(1), client_id="ada")
    assert shown() == 2, "both documents of one list"
    search(3)
    assert shown() == 2 * 4, "three lists that nobody clicked"
    search(2)
    assert shown() == 2, "too many in a row: the events are missing"
    trees.act("pine", query_id=search(1), client_id="bob")
    assert shown() == 2 * 2
