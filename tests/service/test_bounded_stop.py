"""A stop ends although a child process hangs; new folders are private; a repeated failure is logged briefly."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import service.runtime.training_supervisor
from service.operations.health import diagnose
from service.runtime.repeated_failures import RepeatedFailures
from service.runtime.training_supervisor import TrainingSupervisor
from service.storage.owner_lock import OwnerLock
from tests.service.client import opened, runtime_of

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"


def test_a_process_that_ignores_the_request_to_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.runtime.training_supervisor, "STOP_SECONDS", 0.0)
    supervisor, started = TrainingSupervisor(), threading.Event()
    child = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE)

    def follow() -> None:
        assert child.stdout is not None
        with supervisor.supervised("run", child), child.stdout as printed:
            printed.readline()
            started.set()
            child.wait()

    supervisor.start("run", follow)
    started.wait()
    supervisor.close()
    assert child.returncode == -9
    assert supervisor.threads == []


def test_a_new_data_directory_is_private_and_an_existing_one_keeps_its_rights(tmp_path: Path) -> None:
    OwnerLock(tmp_path / "new").release()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "old").mkdir()
    (tmp_path / "old").chmod(0o755)
    with opened(tmp_path / "old") as client:
        (rights,) = (check for check in diagnose(runtime_of(client)) if check["name"] == "rights")
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o755
    assert rights["ok"]
    assert rights["detail"].startswith("755; other users have rights")


def test_a_failure_that_repeats_has_one_traceback(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with opened(tmp_path / "data"):  # configures the log
        failures = RepeatedFailures("loop_failed")
        for _ in range(9):
            failures.failed(OSError(28, "No space left on device"))
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "loop_failed" in line]
    assert ["exception" in line for line in lines] == [True, False, False, False]
    assert [line["count"] for line in lines[1:]] == [2, 4, 8]
