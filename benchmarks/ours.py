"""Our search, measured through the service: untrained, with the judgments in memory, and trained."""

import resource
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from benchmarks.collections import TestSet, post_train_judgments
from benchmarks.measurements import Found
from service.runtime.collection import CollectionState
from service.runtime.model_registry import promote
from service.runtime.runtime import Runtime
from service.search.actions import answer
from service.search.schemas import SearchIn
from service.training import actions as training
from service.training.schemas import TrainingIn

LIMIT = 100
MAX_QUERY_CHARACTERS = 2048
POLL_SECONDS = 0.2


def ours(runtime: Runtime, state: CollectionState, one: TestSet, seeds: Sequence[int]) -> Iterator[Found]:
    """Yield every state of our search. The training of each seed starts from the untrained champion."""
    nothing = {"learn_seconds": 0.0, "live_seconds": 0.0}
    yield Found("untrained", None, searched(runtime, state, one), nothing, {})
    started = time.perf_counter()
    post_train_judgments(runtime, state, one)
    posted = time.perf_counter() - started
    remembered = {"learn_seconds": 0.0, "live_seconds": posted}
    yield Found("memory", None, searched(runtime, state, one), remembered, {})
    before = state.serving.version
    for seed in seeds:
        yield _trained(runtime, state, one, seed)
        if state.serving.version != before:
            promote(runtime, state, before, "the next seed starts from the untrained model", rollback=True)


def _trained(runtime: Runtime, state: CollectionState, one: TestSet, seed: int) -> Found:
    record, cost = train(runtime, state, seed)
    assert record["status"] == "succeeded", record["error"]
    report, promoted = record["report"], record["decision"]["promoted"]
    run = searched(runtime, state, one)
    facts = {"promoted": promoted, "recipe": report["recipe"], "head": report["head"]}
    ungated = None if promoted else searched(runtime, state, one, record["model_version"])
    return Found("trained", seed, run, cost, facts, ungated)


def searched(runtime: Runtime, state: CollectionState, one: TestSet, model: int | None = None) -> dict[str, list[str]]:
    """Return the rankings of the test queries by the service's search path, by the champion or by a version."""
    run = {}
    chosen: dict[str, Any] = {} if model is None else {"model": model}
    for query in sorted(one.test):
        request = SearchIn(q=one.queries[query][:MAX_QUERY_CHARACTERS], limit=LIMIT, log=False, **chosen)
        run[query] = [hit["id"] for hit in answer(runtime, state, request)["hits"]]
    return run


def train(
    runtime: Runtime, state: CollectionState, seed: int, promote: Literal["auto", "never"] = "auto"
) -> tuple[dict[str, Any], dict[str, float]]:
    """Run a training run of the service; return its record, and its cost ({} if it made no model)."""
    started, spent = time.perf_counter(), _children_seconds()
    record = training.start(runtime, state, TrainingIn(seed=seed, promote=promote))
    while record["status"] not in training.ENDED:
        time.sleep(POLL_SECONDS)
        record = training.show(runtime, state, record["id"])
    live, spent = time.perf_counter() - started, _children_seconds() - spent
    if record["status"] != "succeeded":
        return record, {}
    report = record["report"]
    cost = {"learn_seconds": report["train_seconds"], "live_seconds": live, "cpu_seconds": spent}
    return record, cost | {"peak_mib": report["peak_memory_bytes"] // 2**20}


def _children_seconds() -> float:
    """Return the processor time of the ended children of this process, the training process included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
