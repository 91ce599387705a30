"""Two processes on one directory, a clock that jumps, and a small disk that fills up."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import service.runtime.collection_settings
import service.storage.database
from service.operations import housekeeping, idempotency, retention
from service.storage import database
from service.training import schedule
from tests.faults.tally import SOAK, tell
from tests.service.client import CollectionClient, opened, runtime_of

ROOT = Path(__file__).parents[2]
TIMES = 100 if SOAK else 2
OWNED = 73
MOUNT = 'mount -t tmpfs -o size=64m none "$1" && exec "$2" -m tests.faults.filling "$1"'
"""Runs in a mount namespace of its own, so that nothing stays mounted."""


def test_a_second_process_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    commands = (["serve", "--port", "0"], ["search", "owl"], ["collections", "list"])
    with opened(tmp_path / "data") as client:
        owls = CollectionClient(client)
        for number in range(TIMES):
            owls.add({"id": f"owl-{number}", "text": f"owl number {number}"})
            command = [*commands[number % len(commands)], "--data", str(tmp_path / "data")]
            program = [sys.executable, "-c", "from service.start import main; main()", *command]
            environment = os.environ | {"PYTHONPATH": str(ROOT), "SOFTSEEK_ENCODER": "hashing"}
            second = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
            lost = owls.get()["counts"]["documents"] != number + 1
            loss = second.stderr if second.returncode != OWNED or lost else None
            assert tell("two processes on one directory", loss) is None
            assert f"process {os.getpid()}" in second.stderr


class JumpingTime:
    """The module `time` with a clock that was set by a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def time(self) -> float:
        return datetime.now(UTC).timestamp() + self.seconds

    def time_ns(self) -> int:
        return int(1e9 * self.time())


@contextmanager
def clock_set(by: timedelta) -> Iterator[None]:
    """Set the clock of the service by a duration; clocks that only measure durations go on."""

    class Jumped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + by

    with ExitStack() as stack:
        for module in (database, retention, idempotency, schedule):
            stack.enter_context(patch.object(module, "datetime", Jumped))
        for module in (database, service.runtime.collection_settings):
            stack.enter_context(patch.object(module, "time", JumpingTime(by.total_seconds())))
        yield


JUMPS = {"back": timedelta(days=-4000), "forward": timedelta(days=4000), "an hour back": timedelta(hours=-1)}


@pytest.mark.parametrize("name", JUMPS)
def test_a_clock_that_jumps_loses_nothing(name: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        owls = CollectionClient(client)
        client.put(owls.path, json={"train": {"min_new_queries": 1}, "memory_half_life_days": 30})
        owls.add(*({"id": f"owl-{n}", "text": f"owl number {n}"} for n in range(4)))
        owls.judge("which owl", "owl-2", 4)
        query_id = owls.search("an owl")["query_id"]
        headers = {"Idempotency-Key": "once"}
        event = {"action_name": "click", "timestamp": datetime.now(UTC).isoformat(), "user_query": "owl",
                 "client_id": "c", "event_attributes": {"object": {"object_id": "owl-1"}}}  # fmt: skip
        client.post(f"{owls.path}/events", json=event, headers=headers)
        before = owls.get()["counts"] | {"documents": 8}
        with clock_set(JUMPS[name]):
            owls.add(*({"id": f"late-{n}", "text": f"late owl number {n}"} for n in range(4)))
            housekeeping.age_memory(runtime_of(client))
            retention.forget_old_feedback(runtime_of(client))
            assert owls.get()["counts"]["documents"] == before["documents"]
            assert owls.get()["counts"]["events"] == before["events"]
            assert owls.get(f"queries/{query_id}")["query_id"] == query_id
            assert len(owls.ids("owl", limit=100)) == 8
            if "back" in name:  # a day later the window of 24 hours has ended
                client.post(f"{owls.path}/events", json=event, headers=headers)
                assert owls.get()["counts"]["events"] == before["events"]
            another = owls.search("another owl")["query_id"]
            assert another != query_id
        assert owls.get(f"queries/{another}")["query_id"] == another
        housekeeping.age_memory(runtime_of(client))
        found = owls.ids("owl", limit=100)
    with opened(tmp_path / "data") as client:
        housekeeping.age_memory(runtime_of(client))
        assert CollectionClient(client).ids("owl", limit=100) == found
    tell("clock jumps", None)


def test_feedback_of_the_future_outlives_its_retention_by_no_more_than_its_lead(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        owls = CollectionClient(client)
        client.put(owls.path, json={"retention_days": 30})
        owls.add({"id": "owl", "text": "an owl"})
        with clock_set(timedelta(days=10)):
            owls.act("owl", client_id="c", user_query="owl", timestamp=database.now())
        for days, left in ((0, 1), (39, 1), (41, 0)):
            with clock_set(timedelta(days=days)):
                retention.forget_old_feedback(runtime_of(client))
            assert owls.get()["counts"]["events"] == left


@pytest.mark.skipif(not SOAK, reason="fills a disk of 64 MB; `make soak` does it")
def test_a_full_disk_of_64_megabytes_loses_nothing(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare, to mount a small disk")
    command = [unshare, "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", str(tmp_path), sys.executable]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    filled = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if "mount:" in filled.stderr or "unshare" in filled.stderr:
        pytest.skip("this machine does not allow a test to mount a small disk")
    seen = json.loads(filled.stdout.splitlines()[-1])
    assert seen["refused"][0] >= 500
    assert seen["acknowledged"] > 100
    assert tell("a disk of 64 MB filled up", None if seen["lost"] == 0 and seen["searchable"] else str(seen)) is None
