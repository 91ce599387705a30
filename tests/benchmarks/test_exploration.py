"""The simulations of exploration run on small logs, and their tables show what they found."""

import numpy as np

from benchmarks import explored_learning
from benchmarks.exploration import CONDITIONS, coverage, simulated_log, world
from benchmarks.exploration_tables import coverage as coverage_table
from benchmarks.exploration_tables import learning as learning_table
from benchmarks.explored_learning import KINDS, LOGGING, TRUE, clicks_per_search, measured, queries, summary


def test_the_table_of_coverage_has_a_row_for_each_estimate() -> None:
    of = world(1)
    sides = coverage(of, "near", 1.0, 100, 2, 1)
    shown = coverage_table({"rows": [{"model": "near", "share": 1.0, "searches": 100, "runs": 2, "sides": sides}]})
    assert "near, 100 % of 100 searches explored | the other model" in shown
    assert len(shown.splitlines()) == 2 + 3


def test_a_simulated_log_has_the_own_order_where_it_is_not_explored() -> None:
    of, generator = world(2), np.random.default_rng(0)
    log = simulated_log(of, 0.05, 400, generator)
    own = np.argsort(-of.logits["logging"], axis=1, kind="stable")[log.query, :10]
    is_own = (log.places == own).all(axis=1)
    assert 0.9 < is_own.mean() < 1
    assert (np.exp(log.logs[is_own, -1]) >= 0.95).all()
    assert (log.logs[~is_own, -1] < np.log(0.05)).all()
    assert {share for share, _ in CONDITIONS} == {0.05, 0.2, 1.0}


def test_true_weights_get_more_clicks_than_the_logging_model() -> None:
    new = queries(100, np.random.default_rng(0))
    for kind in KINDS:
        assert clicks_per_search(kind, TRUE, *new) > clicks_per_search(kind, LOGGING, *new) + 0.05


def test_the_table_of_learning_has_a_row_for_each_system(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    for name, value in {"QUERIES": 20, "SEARCHES": 4, "STEPS": 4, "SHARES": (0.0, 1.0)}.items():
        monkeypatch.setattr(explored_learning, name, value)
    found = summary([measured(KINDS[0], seed) for seed in range(2)])
    assert found.keys() == {
        "logging model", "true weights", "listwise, share 0", "listwise, share 1", "reinforce, share 1"
    }  # fmt: skip
    assert found["logging model"]["gain"] == 0
    assert len(learning_table({"kinds": {KINDS[0]: found}}).splitlines()) == 2 + 5
