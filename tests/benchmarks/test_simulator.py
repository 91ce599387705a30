"""Simulated searchers follow their models of examination, and the same seed gives the same clicks."""

import json
from collections import Counter

import numpy as np
import pytest

from benchmarks.simulator import MODELS, SEVERITIES, Impression, Searchers, attraction, clicked, examination, simulate
from index.records import Floats
from service.feedback.schemas import EventIn

DOCUMENTS = tuple("abcdefghij")
ALWAYS = np.ones(10, np.float32)


def shares(searchers: Searchers, attractive: Floats, lists: int = 4000) -> Floats:
    """Return (N,) the share of the lists in which each rank is clicked."""
    random = np.random.default_rng(0)
    return np.mean([clicked(searchers, attractive, random) for _ in range(lists)], axis=0, dtype=np.float32)


def impressions(count: int, text: str = "query") -> list[Impression]:
    return [Impression(f"search {number}", text, DOCUMENTS) for number in range(count)]


@pytest.mark.parametrize("eta", SEVERITIES)
def test_in_the_position_model_examination_depends_on_the_rank_alone(eta: float) -> None:
    searchers = Searchers("position", eta, abandonment=0.0)
    assert np.abs(shares(searchers, ALWAYS) - examination(eta, 10)).max() < 0.03
    half = ALWAYS * np.float32(0.5)
    assert np.abs(shares(searchers, half) - examination(eta, 10) / 2).max() < 0.03


def test_a_cascade_without_clicks_reaches_each_rank_with_the_power_law() -> None:
    only_last = np.asarray([0.0] * 9 + [1.0], np.float32)
    assert shares(Searchers("cascade", 0.5, abandonment=0.0), only_last)[9] == pytest.approx(10**-0.5, abs=0.03)


def test_a_cascade_ends_after_a_satisfying_click() -> None:
    searchers = Searchers("cascade", 0.0, abandonment=0.0)
    found = shares(searchers, ALWAYS)
    assert found[0] == 1.0
    assert found[1] == pytest.approx(0.3, abs=0.03)
    assert shares(searchers, np.asarray([0.0, 1.0], np.float32))[1] == 1.0


def test_click_probability_grows_with_the_grade_and_starts_at_the_noise() -> None:
    chances = attraction(Searchers(noise=0.1, best=0.9), [0, 1, 2, 3], 3)
    assert chances.tolist() == pytest.approx([0.1, 0.1 + 0.8 / 7, 0.1 + 2.4 / 7, 0.9])


@pytest.mark.parametrize("model", MODELS)
def test_some_searchers_abandon_a_list_unread(model: str) -> None:
    stayed = shares(Searchers(model, 0.0, abandonment=0.0), ALWAYS)[0]
    assert shares(Searchers(model, 0.0, abandonment=0.4), ALWAYS)[0] == pytest.approx(0.6 * stayed, abs=0.03)


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_gives_the_same_clicks(model: str) -> None:
    qrels = {"query": {"c": 2}}

    def log(seed: int) -> str:
        return json.dumps(list(simulate(Searchers(model), impressions(50), qrels, seed)))

    assert log(1) == log(1)
    assert log(1) != log(2)


def test_clicks_are_valid_events_that_name_the_clicked_document() -> None:
    events = list(simulate(Searchers(eta=0.5), impressions(500), {"query": {"c": 2, "e": 1}}, 3))
    for event in events:
        taken = EventIn.model_validate(event)
        assert taken.grade == 1.0
        assert DOCUMENTS[(taken.position or 0) - 1] == taken.document_id
    times = Counter(EventIn.model_validate(event).document_id for event in events)
    assert times["c"] > times["e"] > times["d"] > 0
