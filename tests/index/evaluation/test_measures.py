"""Measures agree with a calculation by hand, and every judged query is measured."""

import math
import re
from math import log2
from typing import Any

import numpy as np
import pytest

from index.errors import InvalidArgument
from index.evaluation.measures import compare_runs, measure_run, parse_measure

QRELS = {"q": {"a": 2, "b": 1, "c": 0}}


def ndcg(run: list[str], at: int = 10) -> float:
    return measure_run({"q": run}, QRELS, [f"nDCG@{at}"])[f"nDCG@{at}"]["q"]


def test_ndcg_agrees_with_a_calculation_by_hand() -> None:
    ideal = 2 / log2(2) + 1 / log2(3)
    assert ndcg(["a", "b", "c"]) == pytest.approx(1.0)
    assert ndcg(["c", "a", "b"]) == pytest.approx((2 / log2(3) + 1 / log2(4)) / ideal)
    assert ndcg(["x", "y", "b"]) == pytest.approx((1 / log2(4)) / ideal)
    assert ndcg(["x", "a", "y", "b"], at=2) == pytest.approx((2 / log2(3)) / ideal)


def test_recall_counts_relevant_documents_down_to_its_rank() -> None:
    run = {"q": ["x", "b", "y", "a"]}
    measured = measure_run(run, QRELS, ["R@1", "R@2", "R@100"])
    assert [measured[name]["q"] for name in ("R@1", "R@2", "R@100")] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("run", [{}, {"q": []}, {"other": ["a"]}])
def test_a_judged_query_without_results_counts_as_zero(run: dict[str, list[str]]) -> None:
    assert measure_run(run, QRELS) == {"nDCG@10": {"q": 0.0}, "R@100": {"q": 0.0}}


def test_a_query_without_a_relevant_document_is_not_measured() -> None:
    qrels = QRELS | {"empty": {}, "irrelevant": {"a": 0}}
    assert set(measure_run({"q": ["a"], "irrelevant": ["a"]}, qrels)["nDCG@10"]) == {"q"}
    assert measure_run({"q": ["a"]}, {}) == {"nDCG@10": {}, "R@100": {}}


def test_only_the_order_of_a_run_is_measured_and_not_the_names() -> None:
    names = [f"d{number}" for number in range(60)]
    for order in (names, names[::-1]):
        for rank in (0, 9, 10, 59):
            measured = measure_run({"q": order}, {"q": {order[rank]: 1}}, ["RR", "nDCG@10"])
            assert measured["RR"]["q"] == pytest.approx(1 / (rank + 1))
            assert measured["nDCG@10"]["q"] == pytest.approx(1 / log2(rank + 2) if rank < 10 else 0.0)


def test_a_measure_prints_as_it_is_written() -> None:
    assert [str(parse_measure(name)) for name in ("nDCG@10", "R@100", "RR")] == ["nDCG@10", "R@100", "RR"]


@pytest.mark.parametrize("name", ["nonsense", "", "nDCG@x", "nDCG@-1", "foo(", "1+1", "nDCG@10 R@5", "nDCG(x=1)@3"])
def test_an_unknown_measure_is_named_in_the_error(name: str) -> None:
    with pytest.raises(InvalidArgument, match="unknown measure") as caught:
        parse_measure(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "ERR@10",
        "nDCG(dcg='exp-log2')@10",
        "RBP",
        "AP_IA",
        "R",
        "nDCG@0",
        "RR@0",
        "Judged@0",
        "AP(rel=0)",
        "P@True",
        "RR@9999999999",
    ],
)
def test_a_measure_that_no_provider_computes_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidArgument, match="measure") as caught:
        parse_measure(name)
    assert repr(name) in str(caught.value)


def test_two_spellings_of_one_measure_have_the_same_values() -> None:
    measured = measure_run({"q": ["a"]}, QRELS, ["R@100", "Recall@100"])
    assert measured["R@100"] == measured["Recall@100"] == {"q": 0.5}


def test_two_runs_are_compared_on_every_measure_query_by_query() -> None:
    qrels = {"q": {"a": 1}, "r": {"b": 1}}
    comparisons = compare_runs({"q": ["a"]}, {"q": ["a"], "r": ["x", "b"]}, qrels, ["RR", "R@1"])
    assert (comparisons["RR"].a, comparisons["RR"].b) == (0.5, 0.75)
    assert (comparisons["R@1"].a, comparisons["R@1"].b) == (0.5, 0.5)
    assert comparisons["RR"].queries == 2


@pytest.mark.parametrize("grade", [1.5, math.nan, 2**31, 10**400, "2", None])
def test_a_grade_that_no_measure_takes_is_named_in_the_error(grade: Any) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(repr(grade))):
        measure_run({"q": ["a"]}, {"q": {"a": 1, "b": grade}})


@pytest.mark.parametrize("grade", [2.0, np.int64(2), np.float32(2)])
def test_a_whole_grade_of_another_type_counts_like_the_integer(grade: Any) -> None:
    run = {"q": ["b", "a"]}
    assert measure_run(run, {"q": {"a": grade, "b": 1}}) == measure_run(run, {"q": {"a": 2, "b": 1}})
