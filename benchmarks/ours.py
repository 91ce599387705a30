"""Our own search, measured through the service: untrained, with the judgments remembered, and trained."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.collections import TestSet, post_train_judgments
from service.registry import promote
from service.runtime import Runtime
from service.search.actions import answer
from service.search.schemas import SearchIn
from service.state import CollectionState
from service.training import actions as training
from service.training.schemas import TrainingIn

LIMIT = 100
MAX_QUERY_CHARACTERS = 2048
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Found:
    """One system's rankings with one seed (None: nothing random), what they cost, and facts for the report."""

    system: str
    seed: int | None
    run: dict[str, list[str]]
    cost: dict[str, float]
    facts: dict[str, Any]
    ungated: dict[str, list[str]] | None = None
    """The rankings of the trained model where the gate did not let it go live."""


def ours(runtime: Runtime, state: CollectionState, one: TestSet, seeds: Sequence[int]) -> Iterator[Found]:
    """Yield every state of our search; each seed's training starts from the untrained champion."""
    nothing = {"learn_seconds": 0.0, "live_seconds": 0.0}
    yield Found("untrained", None, _searched(runtime, state, one), nothing, {})
    started = time.perf_counter()
    post_train_judgments(runtime, state, one)
    posted = time.perf_counter() - started
    remembered = {"learn_seconds": 0.0, "live_seconds": posted}
    yield Found("memory", None, _searched(runtime, state, one), remembered, {})
    before = state.serving.version
    for seed in seeds:
        yield _trained(runtime, state, one, seed)
        if state.serving.version != before:
            promote(runtime, state, before, "the next seed starts anew", rollback=True)


def _trained(runtime: Runtime, state: CollectionState, one: TestSet, seed: int) -> Found:
    started = time.perf_counter()
    record = _train(runtime, state, seed)
    live = time.perf_counter() - started
    report, promoted = record["report"], record["decision"]["promoted"]
    run = _searched(runtime, state, one)
    cost = {"learn_seconds": report["train_seconds"], "live_seconds": live}
    cost["peak_mib"] = report["peak_memory_bytes"] // 2**20
    facts = {"promoted": promoted, "recipe": report["recipe"], "head": report["head"]}
    ungated = None if promoted else _searched(runtime, state, one, record["model_version"])
    return Found("trained", seed, run, cost, facts, ungated)


def _searched(runtime: Runtime, state: CollectionState, one: TestSet, model: int | None = None) -> dict[str, list[str]]:
    """Return what the service's own search path answers the test queries, by the champion or a version."""
    run = {}
    chosen: dict[str, Any] = {} if model is None else {"model": model}
    for query in sorted(one.test):
        request = SearchIn(q=one.queries[query][:MAX_QUERY_CHARACTERS], limit=LIMIT, log=False, **chosen)
        run[query] = [hit["id"] for hit in answer(runtime, state, request)["hits"]]
    return run


def _train(runtime: Runtime, state: CollectionState, seed: int) -> dict[str, Any]:
    record = training.start(runtime, state, TrainingIn(seed=seed))
    while record["status"] not in training.ENDED:
        time.sleep(POLL_SECONDS)
        record = training.show(runtime, state, record["id"])
    assert record["status"] == "succeeded", record["error"]
    return record
