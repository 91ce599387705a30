"""Reactions of the process of the data directory to reports of busy threads and of damage."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.training import child_process
from service.training.child_process import run_child
from service.training.pauses import PAUSE
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create
from tests.service.workers.pairs import Pair, paired
from tests.service.workers.services import until

TRAINING = f"""
import os, signal, sys
signal.alarm({DEADLINE_SECONDS})
sys.exit(0 if os.read(0, 1) == {PAUSE!r} else 1)
"""
"""A process that ends with code 0 if its first order is a pause."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with paired(tmp_path / "data", search_threads=1) as one:
        yield one


def test_training_pauses_while_all_threads_of_a_worker_are_busy(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(_: dict[str, Any], errors: Any) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", TRAINING]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    monkeypatch.setattr(child_process, "_spawn", spawn)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert not pair.runtime.is_busy_searching
    gate, pool = threading.Event(), pair.follower.search_pool
    search = pool.submit(lambda: gate.wait(DEADLINE_SECONDS))
    try:
        assert run_child(pair.runtime, {"run": "a run", "staging": str(tmp_path)}) == (0, None)
    finally:
        gate.set()
    assert search.result(DEADLINE_SECONDS)
    until(lambda: not pair.runtime.is_busy_searching)


def test_few_busy_processes_on_many_cores_pause_no_training(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, busy, wanted in (
        (2, 1, True),
        (4, 1, False),
        (4, 2, True),
        (16, 7, False),
        (16, 8, True),
        (1, 0, False),
    ):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        for worker in range(1, 9):
            pair.workers.cells.set_busy(worker, worker <= busy)
        assert pair.runtime.is_busy_searching == wanted, (cores, busy)


def test_a_damaged_index_is_rebuilt_once_in_a_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    collections = [create(pair.client, name) for name in ("damaged", "sound")]
    for collection in collections:
        collection.add({"id": "walnut", "text": "The walnut is a nut."})
    damaged, sound = (pair.runtime.collection(collection.name) for collection in collections)
    stores = [damaged.store, sound.store]

    def is_rebuilt_after_a_report() -> bool:
        before = damaged.store
        pair.follower.outbox.report_damage(damaged.id)
        pair.workers.drain()
        for thread in threading.enumerate():
            if thread.name == "mend":
                thread.join(DEADLINE_SECONDS)
        return damaged.store is not before

    monkeypatch.setattr("service.workers.supervisor.MEND_SECONDS", 10.0 * DEADLINE_SECONDS)
    assert is_rebuilt_after_a_report()
    assert not is_rebuilt_after_a_report()
    monkeypatch.setattr("service.workers.supervisor.MEND_SECONDS", 0.0)
    assert is_rebuilt_after_a_report()
    assert damaged.store is not stores[0]
    assert sound.store is stores[1]
    assert CollectionClient(pair.client, "damaged").ids("walnut") == ["walnut"]
