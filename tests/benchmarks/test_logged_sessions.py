"""Sessions of recommendations come from a log by session id, by the service's own reader."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from benchmarks import recommend, recommend_tables
from benchmarks.collections import TestSet, opened
from benchmarks.logged_sessions import read_back
from benchmarks.recommend import KEYS, LOGGED, MOST_BOUGHT, log_shelf, measured
from benchmarks.session_context import SHOP_SEED
from benchmarks.shop import products
from index.encoding.hashing_encoder import HashingEncoder
from service.feedback.actions import take_events
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from tests.benchmarks.sets import animals

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def opened_animals() -> Iterator[tuple[Runtime, CollectionState]]:
    with opened(animals(), HashingEncoder(), KEYS) as (runtime, state):
        yield runtime, state


def click(session: str, document: str, minute: int, query: str, action: str = "click") -> dict[str, Any]:
    return {
        "action_name": action,
        "user_query": query,
        "session_id": session,
        "client_id": session,
        "timestamp": (START + timedelta(minutes=minute)).isoformat(),
        "event_attributes": {"object": {"object_id": document, "object_id_field": "id"}},
    }


def test_a_session_has_the_clicked_documents_of_all_its_searches_in_the_order_of_time(
    opened_animals: tuple[Runtime, CollectionState],
) -> None:
    runtime, state = opened_animals
    events = [
        click("one", "dog-hunts", 3, "hunting dog"),
        click("one", "cat-hides", 1, "hiding cat"),
        click("two", "owl-hunts", 2, "owl"),
        click("one", "cat-sleeps", 2, "sleeping cat"),
        click("one", "owl-hides", 4, "owl"),
        click("one", "owl-hides", 5, "owl", "thumbs_down"),
        click("one", "cat-hides", 6, "hiding cat"),
    ]
    assert not take_events(runtime, state, events)["rejected"]
    ids = [document["id"] for document in animals().documents]
    (only,) = read_back(runtime, state, ["one", "two", "unknown"])
    assert [ids[at] for at in only] == ["cat-sleeps", "dog-hunts", "cat-hides"]


def small_shop() -> TestSet:
    """Return every sixth product of the shop, without queries."""
    catalogue = products(np.random.default_rng(SHOP_SEED))
    return TestSet("shop", [one.as_document() for one in catalogue[::6]], {}, {}, {})


def test_the_sessions_of_a_log_are_measured_beside_mean_last_and_popularity() -> None:
    shelf, again = (log_shelf(small_shop(), HashingEncoder(), 12, 0) for _ in range(2))
    assert len(shelf.train) > 1
    assert len(shelf.test) > 1
    assert (shelf.train, shelf.test) == (again.train, again.test), "the same seed gives the same sessions"
    assert all(2 <= len(set(one.documents)) == len(one.documents) <= recommend.SIZE for one in shelf.test)
    figures = json.loads(json.dumps(measured([shelf])))
    systems = figures["sets"][LOGGED]["systems"]
    assert {"attention", "mean of the liked", "nearest to the last", MOST_BOUGHT} <= systems.keys()
    assert systems["attention"]["hit_rate"] > 0
    assert f"{LOGGED}, {len(shelf.test)} sessions" in recommend_tables.systems(figures)
    assert np.isfinite(figures["sets"][LOGGED]["liked"])
