"""The attention that a report shows is of held-out queries, of those whose ranking changed most, without own memory."""

from dataclasses import replace
from math import log2
from pathlib import Path

import numpy as np
import pytest

from index.learning import held_out_attention
from index.learning.examples import TEST_FOLDS, fold_of, hash_of, split
from index.learning.held_out_attention import QUERIES, RANKS, change, most_changed, weights_by_rank
from index.ranking.attention import AttentionHead
from tests.index.fixtures import remembered
from tests.index.learning_fixtures import INITIAL, asked, collection_of, run


def test_the_change_of_a_ranking_counts_the_first_ranks_most() -> None:
    rows = [str(number) for number in range(20)]
    assert change(rows, rows) == change(rows, [*rows[:RANKS], "x"]) == 0
    assert change(rows, ["x", *rows[1:]]) == pytest.approx(1.0)
    assert change(rows, [*rows[:2], "x", *rows[3:]]) == pytest.approx(1 / log2(4))
    assert change(["a", "b"], ["b", "a"]) == pytest.approx(1 + 1 / log2(3))
    assert change([], ["a"]) == change(["a"], []) == pytest.approx(1.0)


def test_the_queries_that_changed_most_come_first_and_ties_go_by_query_key() -> None:
    queries = asked(shifted=False, count=12)
    before = {one.query_key: ["a", "b", "c"] for one in queries}
    after = before | {"query 7": ["c", "b", "a"], "query 3": ["a", "c", "b"]}
    chosen = [one.query_key for one in most_changed(queries, before, after)]
    assert chosen[:4] == ["query 7", "query 3", "query 0", "query 1"]
    assert len(chosen) == QUERIES
    disliked = [replace(one, gains={1: -1.0}) for one in queries]
    assert most_changed(disliked, before, after) == [], "a query without a confirmed document is not shown"


def test_a_report_has_only_queries_of_test_folds_and_each_learned_query_is_left_out(tmp_path: Path) -> None:
    feedback = asked(shifted=True)
    learn, test = split(feedback)
    fitted, _ = run(collection_of(tmp_path), feedback)
    shown = fitted.report["attention"]
    assert len(shown) == QUERIES
    assert {one["hash"] for one in shown} <= {f"{hash_of(one.query_key):016x}" for one in test}
    assert all(one["fold"] < TEST_FOLDS for one in shown)
    assert all(fold_of(one.query_key) >= TEST_FOLDS for one in learn)
    assert all(len(one[name]) == RANKS + 1 for one in shown for name in ("before", "after"))
    assert any(one["before"] != one["after"] for one in shown)


def test_the_weights_are_those_of_a_search_without_the_memory_of_the_query(tmp_path: Path) -> None:
    (one, *_) = asked(shifted=False)
    (row,) = one.gains
    own = remembered(1, row, one.vector, query_key=one.query_key)
    head = AttentionHead(INITIAL)
    without = weights_by_rank(collection_of(tmp_path / "without"), head, one)
    assert weights_by_rank(collection_of(tmp_path / "own", [own]), head, one) == without
    other = replace(own, query_key="another query")
    assert weights_by_rank(collection_of(tmp_path / "other", [other]), head, one) != without
    assert len(without) == RANKS + 1
    assert without[:-1] == sorted(without[:-1], reverse=True)


def test_a_ranking_with_few_documents_is_filled_with_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out_attention, "RANKS", 100)
    weights = weights_by_rank(collection_of(tmp_path), AttentionHead(INITIAL), asked(shifted=False)[0])
    assert (len(weights), weights[99]) == (101, 0.0)
    assert np.sum(weights) == pytest.approx(1.0, abs=0.01)
