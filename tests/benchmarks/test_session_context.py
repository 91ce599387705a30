"""The simulated sessions of the benchmark of contexts, and their table."""

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import context_tables
from benchmarks.collections import opened
from benchmarks.session_context import simulate
from benchmarks.shop import products, shop
from index.encoding.hashing_encoder import HashingEncoder
from service.runtime.feedback_log import gather_feedback


def logged(sessions: int) -> list[tuple[str, tuple[tuple[int, ...], ...]]]:
    """Return the clicked queries of some sessions, each with its contexts."""
    catalogue = {one.id: one for one in products(np.random.default_rng(0))}
    random = np.random.default_rng(1)
    some = replace(shop(0), documents=shop(0).documents[:200])
    with opened(some, HashingEncoder(), ("passage",)) as (runtime, state):
        for number in range(sessions):
            simulate(runtime, state, catalogue, f"session {number}", True, random)
        runtime.impressions.flush()
        with runtime.database.read() as connection:
            feedback = gather_feedback(connection, state.id)
    return [(one.query_key, tuple(each.context for each in one.contexts)) for one in feedback if not one.is_silent]


def test_later_clicks_of_a_session_have_earlier_clicks_as_context() -> None:
    found = logged(12)
    assert len(found) > 3
    contexts = [context for _, of_query in found for context in of_query]
    assert contexts
    assert all(0 < len(context) <= 20 for context in contexts)
    assert found == logged(12)


def test_a_row_of_the_table_has_the_choice_and_the_gain() -> None:
    run: dict[str, Any] = {"lists": 80, "chosen": 0.5, "tried": {"0": 0.5, "0.5": 0.6}, "gain": [0.1, 0.05, 0.15]}
    none = run | {"chosen": 0.0, "gain": None, "tried": {"0": 0.5}}
    shown = context_tables.logs({"logs": {"one purpose": [run], "other purposes": [none]}})
    assert "| one purpose | 80 | .500 | .600 | 0.5 | +10.0 [+5.0, +15.0] |" in shown
    assert "| other purposes | 80 | .500 | - | 0 | - |" in shown
