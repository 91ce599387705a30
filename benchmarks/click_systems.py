"""The systems that learn from a log of clicks: ours by each click interpretation, and peers with grades."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.baselines import BASELINES, DEPTH, gather
from benchmarks.click_log import PEER_INTERPRETATIONS, SHOWN, ClickLog, Traffic, as_judged
from benchmarks.collections import TestSet, document_ids
from benchmarks.measurements import Found
from benchmarks.ours import searched, train
from benchmarks.peers import Task
from benchmarks.peers.launch import run_peers
from benchmarks.peers.material import Material, Split
from benchmarks.peers.ranking import best, fused
from benchmarks.simulator import examination
from benchmarks.workbench import finished
from index.errors import NotEnoughFeedback
from index.learning.config import FitConfig
from index.learning.examples import Feedback
from index.learning.fit import fit
from index.ranking.attention import AttentionHead
from service.http.problems import Problem
from service.runtime.collection import CollectionState
from service.runtime.feedback_log import gather_feedback
from service.runtime.runtime import Runtime

INTERPRETATIONS = ("graded", "debiased", "naive")
FUSION = BASELINES[-1]
LEAST_QUERIES = 5
"""With fewer queries nothing is left to validate on."""


@dataclass
class Log:
    """A log in a service, and the feedback gathered from it."""

    runtime: Runtime
    state: CollectionState
    one: TestSet
    traffic: Traffic
    seed: int
    size: int
    clicks: int
    feedback: list[Feedback]
    read_seconds: float
    """Seconds of gathering the feedback."""
    test: Split | None = None
    """The test split of peers, once it is computed."""


def logs(
    runtime: Runtime, state: CollectionState, one: TestSet, traffic: Traffic, seed: int, sizes: Sequence[int]
) -> Iterator[Log]:
    """Yield the log at these ascending sizes. Each log continues the previous log."""
    growing = ClickLog(runtime, state, one, traffic, seed)
    test = None
    for size in sizes:
        growing.grow(size)
        started = time.perf_counter()
        with runtime.database.read() as connection:
            feedback = gather_feedback(connection, state.id)
        seconds = time.perf_counter() - started
        log = Log(runtime, state, one, traffic, seed, size, growing.clicks, feedback, seconds, test)
        yield log
        test = log.test


def theirs_from(log: Log, interpretation: str, peers: Sequence[str], task: Task) -> Iterator[tuple[str, Found]]:
    """Yield each of these peers with the rankings of its systems; nothing if the log teaches too few queries."""
    started = time.perf_counter()
    grades = PEER_INTERPRETATIONS[interpretation](log.feedback)
    judged = as_judged(log.one, grades, document_ids(log.runtime, log.state))
    seconds = log.read_seconds + time.perf_counter() - started
    if len(judged.train) < LEAST_QUERIES:
        return
    material = material_from(log, judged, seconds)
    about = {"queries": len(judged.train), "relevant": int((material.grades.grades > 0).sum())}
    if FUSION in peers:
        yield FUSION, _fusion(material, log.seed, interpretation, about)
    learning = [(peer, log.seed) for peer in peers if peer != FUSION]
    for peer, systems in run_peers(material, learning, task) if learning else ():
        for found in systems:
            yield peer, replace(found, system=f"{found.system}, {interpretation}", facts=found.facts | about)


def material_from(log: Log, judged: TestSet, seconds: float) -> Material:
    """Return the material of peers. The seconds of interpreting the log are part of their learning."""
    with threadpool_limits(1):  # other thread counts give other last bits, which trees turn into other rankings
        material = gather(log.runtime, log.state, judged, whole=True, test=log.test)
    log.test = material.test
    return replace(material, shared_seconds=material.shared_seconds + seconds)


def _fusion(material: Material, seed: int, interpretation: str, about: dict[str, Any]) -> Found:
    doc_indices = best(fused(material.fusion, material.test.dense, material.test.words), DEPTH)
    cost = {"learn_seconds": material.shared_seconds, "live_seconds": material.shared_seconds}
    facts = {"fusion": material.fusion, **about}
    return Found(f"{FUSION}, {interpretation}", seed, material.run(doc_indices), cost, facts)


def ours_from(log: Log, wanted: Sequence[str]) -> Iterator[Found]:
    """Yield these systems of ours after a log. With too little feedback all are memory alone."""
    if not wanted:
        return
    memory = searched(log.runtime, log.state, log.one)
    about = {"queries": len(log.feedback), "clicks": log.clicks, "gather_seconds": round(log.read_seconds, 2)}
    if "memory" in wanted:
        nothing = {"learn_seconds": 0.0, "live_seconds": 0.0}
        yield Found("memory", log.seed, memory, nothing, about)
    for interpretation in INTERPRETATIONS:
        if interpretation in wanted:
            yield _fitted(log, interpretation, memory)
    if "chosen" in wanted or "served" in wanted:
        yield from (found for found in _trained(log, memory, about) if found.system in wanted)


def _fitted(log: Log, interpretation: str, memory: dict[str, list[str]]) -> Found:
    """Return the rankings of a fit in this process with a single click interpretation."""
    config = FitConfig(seed=log.seed, interpretations=(interpretation,))
    started, spent = time.perf_counter(), time.process_time()
    try:
        fitted, _ = finished(fit(log.state.generation, log.feedback, log.state.serving.head, config))
    except NotEnoughFeedback:
        return Found(interpretation, log.seed, memory, {}, {"recipe": None})
    seconds, spent = time.perf_counter() - started, time.process_time() - spent
    with _serving(log.state, fitted.head):
        run = searched(log.runtime, log.state, log.one)
    cost = {"learn_seconds": seconds, "live_seconds": seconds, "cpu_seconds": spent}
    facts = {"promoted": fitted.decision.promote, "recipe": fitted.report["recipe"]["recipe"]}
    return Found(interpretation, log.seed, run, cost, facts)


@contextmanager
def _serving(state: CollectionState, head: AttentionHead) -> Iterator[None]:
    """Serve a head that has no version."""
    champion = state.serving
    state.serving = replace(champion, head=head)
    try:
        yield
    finally:
        state.serving = champion


def _trained(log: Log, memory: dict[str, list[str]], about: dict[str, Any]) -> Iterator[Found]:
    """Yield the rankings of the head of a training run (`chosen`), and of the head after the gate (`served`)."""
    try:
        record, cost = train(log.runtime, log.state, log.seed, promote="never")  # the next log starts untrained too
    except Problem as problem:
        record, cost = {"status": "failed", "error": {"code": problem.code}}, {}
    if record["status"] != "succeeded":
        assert record["error"]["code"] == "not_enough_feedback", record["error"]
        facts = about | {"promoted": False, "recipe": None}
        yield from (Found(system, log.seed, memory, {}, facts) for system in ("chosen", "served"))
        return
    measured, promoted = record["report"], record["decision"]["promote"]
    recipe, curve = measured["recipe"], examination(log.traffic.searchers.eta, SHOWN)
    facts = about | {"promoted": promoted, "recipe": recipe["recipe"], "reading": recipe["reading"]}
    facts |= {"examination": measured["examination"], "true_curve": [round(float(chance), 4) for chance in curve]}
    run = searched(log.runtime, log.state, log.one, record["model_version"])
    yield Found("chosen", log.seed, run, cost, facts)
    yield Found("served", log.seed, run if promoted else memory, cost, {"promoted": promoted})
