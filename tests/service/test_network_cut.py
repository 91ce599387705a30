"""A cut network between services and PostgreSQL, in which packets vanish and no connection ends."""

from typing import Any

import pytest

from tests.service.namespaces import seen_in_namespace

BOUND_SECONDS = 60
"""Far above the time-outs of connections, which take ten seconds together on a quiet machine, and far below the time
after which the system gives a connection up."""


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return seen_in_namespace("tests.service.network_cut_check")


def test_a_write_without_a_network_is_refused_in_bounded_time(seen: dict[str, Any]) -> None:
    assert seen["write"] == [503, "database_unreachable"]
    assert seen["write_seconds"] < BOUND_SECONDS
    assert seen["live"] == 200


def test_a_searcher_answers_without_a_network_and_says_that_it_is_old(seen: dict[str, Any]) -> None:
    assert seen["searcher"] == ["oak"]
    assert seen["old_seconds"] < BOUND_SECONDS


def test_writes_and_searchers_go_on_when_the_network_is_back(seen: dict[str, Any]) -> None:
    assert seen["mended_seconds"] < BOUND_SECONDS
    assert seen["ended"] == [0, 0]
