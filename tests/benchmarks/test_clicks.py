"""All systems learn from the same log. It has the wanted size and no test query, and each interpretation is applied."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import quality_tables
from benchmarks.click_log import ClickLog, Traffic, as_judged, graded, naive
from benchmarks.click_systems import Log, logs, ours_from, theirs_from
from benchmarks.clicks import Measuring, Plan, measure_set, parser, plan_of, shares, summary
from benchmarks.collections import document_ids, opened
from benchmarks.measurements import Measurements
from benchmarks.peers import Task
from benchmarks.simulator import Searchers
from index.encoding.hashing_encoder import HashingEncoder
from index.learning.examples import Feedback
from index.memory.query_key import as_query_key
from index.records import Floats
from service.runtime.collection import CollectionState
from service.runtime.feedback_log import gather_feedback
from service.runtime.runtime import Runtime
from tests.benchmarks.sets import animals
from tests.service.training_processes import forked_runs

KEYS = ("title", "passage")
TRAFFIC = Traffic(popularity=0.0)
VECTOR = np.ones(2, np.float32)
NAMED = ["--only-peers", "fine-tuning"]


@pytest.fixture
def service() -> Iterator[tuple[Runtime, CollectionState]]:
    with opened(animals(), HashingEncoder(), KEYS) as opened_service:
        yield opened_service


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    with opened(animals(), HashingEncoder(), KEYS) as (runtime, state):
        yield next(logs(runtime, state, animals(), TRAFFIC, 0, [200]))


def grown(sizes: list[int], seed: int = 0, traffic: Traffic = TRAFFIC) -> list[tuple[Any, ...]]:
    """Return the feedback of a log that grew to these sizes."""
    with opened(animals(), HashingEncoder(), KEYS) as (runtime, state):
        log = ClickLog(runtime, state, animals(), traffic, seed)
        for size in sizes:
            log.grow(size)
        with runtime.database.read() as connection:
            feedback = gather_feedback(connection, state.id)
    return [(one.query_key, one.shown, one.clicks, one.gains, one.contrasts) for one in feedback]


def test_a_log_is_the_same_however_many_parts_it_grows_in_and_seeds_differ() -> None:
    assert grown([50, 51, 90]) == grown([90])
    assert grown([90]) != grown([90], seed=1)


def test_lists_follow_the_clicks_before_if_they_are_to() -> None:
    steady = replace(TRAFFIC, shuffled=0.0)
    still, moved = (grown([20, 60], traffic=one) for one in (steady, replace(steady, remembers=True)))
    assert moved == grown([60], traffic=replace(steady, remembers=True))
    assert all(len(at) == 1 for _, shown, *_ in still for at in shown.values())
    assert any(len(at) > 1 for _, shown, *_ in moved for at in shown.values())


def test_a_log_has_its_size_and_contains_no_test_query(log: Log) -> None:
    one = animals()
    asked = {each.query_key for each in log.feedback}
    assert asked <= {as_query_key(one.queries[query]) for query in one.train}
    assert not asked & {as_query_key(one.queries[query]) for query in one.test}
    firsts = sum(showings.get(1, 0) for each in log.feedback for showings in (each.shown or {}).values())
    assert 150 < firsts <= 200  # queries without clicks are not in the feedback
    assert sum(sum(each.gains.values()) for each in log.feedback) == log.clicks


def clicked(source: str, wanted: int, by_chance: int, passed_over: int) -> Feedback:
    """Return feedback of 20 lists: two documents alternate at the top, one is always clicked, the other once."""
    shown = {wanted: {1: 10, 2: 10}, by_chance: {1: 10, 2: 10}, passed_over: {3: 20}}
    clicks = {wanted: {1: 9, 2: 7}, by_chance: {1: 1}}
    return Feedback(source, source, VECTOR, {wanted: 16.0, by_chance: 1.0}, shown, clicks)


def test_naive_grades_are_one_for_any_click_and_model_grades_separate_noise_from_relevance() -> None:
    feedback = [clicked(f"query {number}", 3 * number, 3 * number + 1, 3 * number + 2) for number in range(20)]
    assert naive(feedback)["query 1"] == {3: 1, 4: 1, 5: 0}
    assert graded(feedback)["query 1"] == {3: 4, 4: 0, 5: 0}


def test_grades_replace_judgments_and_queries_without_a_positive_grade_are_left_out() -> None:
    one = animals()
    ids = {row: document["id"] for row, document in enumerate(one.documents)}
    judged = as_judged(one, {"when the cat hunts": {7: 2, 8: 0}, "when the cat drinks": {9: 0}}, ids)
    assert judged.train == {"q-cat-hunts": {ids[7]: 2, ids[8]: 0}}
    assert judged == replace(one, train=judged.train)


def test_peers_learn_from_the_log_and_not_from_the_judgments(log: Log) -> None:
    judged = as_judged(log.one, naive(log.feedback), document_ids(log.runtime, log.state))
    blind = replace(log, one=replace(log.one, train={query: {} for query in log.one.train}))
    for seen in (log, blind):
        found = dict(theirs_from(seen, "naive", ["best fixed fusion", "kernel"], Task(encoder="hashing")))
        assert [one.system for one in found.values()] == ["best fixed fusion, naive", "kernel, naive"]
        for one in found.values():
            assert one.seed == 0
            assert one.run.keys() == log.one.test.keys()
            assert one.facts["queries"] == len(judged.train)
            assert one.facts["relevant"] == sum(sum(grades.values()) for grades in judged.train.values())
            assert one.cost["learn_seconds"] > log.read_seconds


def test_after_a_short_log_ours_is_memory_alone_and_peers_do_not_learn(
    service: tuple[Runtime, CollectionState],
) -> None:
    log = next(logs(*service, animals(), TRAFFIC, 0, [3]))
    found = {one.system: one for one in ours_from(log, ["memory", "graded", "chosen", "served"])}
    assert list(found) == ["memory", "graded", "chosen", "served"]
    assert all(one.run == found["memory"].run for one in found.values())
    assert found["chosen"].facts["promoted"] is False
    assert not list(theirs_from(log, "naive", ["kernel"], Task(encoder="hashing")))


def test_an_interpretation_is_searched_with_its_own_head_and_the_untrained_head_serves_afterwards(log: Log) -> None:
    champion = log.state.serving
    (found,) = ours_from(log, ["naive"])
    assert found.run.keys() == log.one.test.keys()
    assert found.facts["recipe"]
    assert log.state.serving is champion


class NeverAsked(HashingEncoder):
    """An encoder that fails: a complete run must not use it."""

    def encode(self, texts: object, encoded: object = None) -> Floats:
        raise AssertionError("a set was loaded again")


@pytest.fixture
def forked_training() -> Iterator[None]:
    with forked_runs():
        yield


@pytest.mark.usefixtures("forked_training")
def test_an_interrupted_run_resumes_and_ours_is_compared_with_peers(tmp_path: Path) -> None:
    one, console, out = animals(), Console(quiet=True), tmp_path / "out.json"
    plan = Plan(TRAFFIC, (150,), (0,), (), ("kernel",), KEYS, Task(encoder="hashing"))
    measure_set(Measuring(one, plan, Measurements(out), console), HashingEncoder())
    theirs = {"best fixed fusion, graded", "best fixed fusion, naive", "kernel, graded", "kernel, naive"}
    assert set(Measurements(out).sets["animals after 150"]["systems"]) == theirs

    both = replace(plan, ours=("chosen", "served"))
    kept = Measurements(out).sets["animals after 150"]["systems"]
    measure_set(Measuring(one, both, Measurements(out), console), HashingEncoder())
    results = Measurements(out)
    assert {name: results.sets["animals after 150"]["systems"][name] for name in theirs} == kept
    measure_set(Measuring(one, both, results, console), NeverAsked())
    other = replace(both, traffic=replace(TRAFFIC, searchers=Searchers(eta=0.5)))
    with pytest.raises(AssertionError, match="loaded again"):
        measure_set(Measuring(one, other, results, console), NeverAsked())

    figures = summary(Measurements(out), ["animals"], 150)
    found = figures["sets"]["animals"]
    assert {"bm25", "dense", "rrf", "untrained", "judgments", "chosen", "served", *theirs} == set(found)
    gap = found["chosen"]["nDCG@10"] - found["kernel, naive"]["nDCG@10"]
    assert found["kernel, naive"]["ours_minus"][0] == pytest.approx(gap, abs=2e-4)
    assert "promoted" in found["chosen"]["facts"]["0"]
    assert {"learn_seconds", "live_seconds", "cpu_seconds", "peak_mib"} <= found["chosen"].keys()
    shown = quality_tables.clicks(json.loads(json.dumps({"impressions": {150: figures}})))
    assert "150 impressions" in shown
    assert all(f"| {name} |" in shown for name in theirs)


def test_a_share_is_relative_to_the_gain_from_judgments() -> None:
    means = {"untrained": 0.5, "judgments": 0.7, "bm25": 0.4, "chosen": 0.6, "kernel, naive": 0.45}
    systems = {name: {"nDCG@10": mean} for name, mean in means.items()}
    assert shares(systems) == {"chosen": 0.5, "kernel, naive": -0.25}
    assert shares(systems | {"judgments": {"nDCG@10": 0.5}}) == {}


def test_fine_tuning_runs_only_if_it_is_named() -> None:
    every, named = (plan_of(parser().parse_args(["--data", ".", *more])) for more in (["--peers"], NAMED))
    assert {"lambdamart", "kernel"} <= set(every.peers)
    assert "fine-tuning" not in every.peers
    assert named.peers == ("fine-tuning",)
