"""A point of a learning curve uses the feedback of its own queries only, and dips are reported."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import quality_tables
from benchmarks.curves import ALL, UNTRAINED, Plan, first_of, remembering, served, summary
from benchmarks.measurements import Measurements
from benchmarks.workbench import Bench, loaded
from index.encoding.encoder import HashingEncoder
from tests.benchmarks.sets import animals


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    one = animals()
    with loaded(one, HashingEncoder(), sorted(one.test)) as bench:
        yield bench


def test_a_larger_point_contains_every_smaller_point_and_seeds_differ(bench: Bench) -> None:
    few, more, other = (
        {one.query_key for one in first_of(bench.feedback, size, seed)} for size, seed in (("5", 0), ("9", 0), ("5", 1))
    )
    assert len(few) == 5
    assert few < more
    assert few != other
    assert {one.query_key for one in first_of(bench.feedback, ALL, 0)} == {one.query_key for one in bench.feedback}


def test_the_memory_of_a_point_holds_only_its_own_queries(bench: Bench) -> None:
    learned = first_of(bench.feedback, "5", 0)
    memory = remembering(bench.generation, learned).memory
    assert set(memory.query_keys) == {one.query_key for one in learned}
    assert len(bench.generation.memory.query_keys) == len(bench.feedback)


def test_with_too_little_feedback_the_untrained_head_serves_with_memory(bench: Bench) -> None:
    learned = first_of(bench.feedback, "10", 0)
    values, cost, facts = served(bench, learned, 0)
    assert values == bench.measured(remembering(bench.generation, learned), bench.champion)
    assert not cost
    assert facts == {"promoted": False, "recipe": None, "hop": 0.0}


def test_a_point_is_a_dip_if_its_interval_lies_below_untrained(tmp_path: Path) -> None:
    one, plan = animals(), Plan(["2", "4", ALL], [0, 1], {})
    queries = sorted(one.test)
    results = Measurements(tmp_path / "out.json")
    results.open_set(one.name, len(one.documents), len(one.train), queries)
    half = dict.fromkeys(queries, 0.5)
    better, worse, noise = half | {queries[0]: 0.9}, dict.fromkeys(queries, 0.4), half | {queries[0]: 0.4}
    points = {("2", 0): better, ("2", 1): worse, ("4", 0): noise, ("4", 1): half, (ALL, 0): worse, (ALL, 1): worse}
    facts = {"promoted": False, "recipe": None, "hop": 0.0}
    for (system, seed), values in {(UNTRAINED, None): half, **points}.items():
        results.put(one.name, system, seed, {"nDCG@10": values}, settings={}, commit="", cost={}, facts=facts)
    found = summary(results, one, plan)
    assert [dip.split(" [")[0] for dip in found["dips"]] == [
        "2 queries, seed 1",
        "all queries, all seeds",
        "all queries, seed 0",
        "all queries, seed 1",
    ]
    assert found["points"][ALL]["minus_untrained"] == pytest.approx([-0.1, -0.1, -0.1])
    shown = quality_tables.curves({"sets": {one.name: found}}).splitlines()
    assert shown[0] == f"| train queries | animals, untrained .500, {len(one.train)} in all |"
    assert shown[-1] == "| all | -10.0 [-10.0, -10.0] dip |"


def test_a_set_has_no_points_beyond_its_number_of_queries() -> None:
    assert Plan(["10", "20", "50", ALL], [0], {}).sizes_of(24) == ["10", "20", ALL]
