"""An interrupted training run is resumed and makes the bit-identical model of an undisturbed run."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.service_process import children
from service.training.pauses import ORPHANED
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, ended, good, opened, runtime_of
from tests.service.stored_models import stored_model
from tests.service.training_processes import Spawn, held_runs

ROOT = Path(__file__).parents[2]
HERBS = (
    "basil oregano thyme rosemary sage parsley dill mint chives fennel tarragon marjoram coriander lavender lovage "
    "sorrel chervil borage hyssop rue savory verbena nettle yarrow dandelion arnica valerian camomile"
).split()
CLICKED = "thyme"
"""The query with a click instead of a judgment. By its text, it is not a held-out query."""
NAME = "herbs"
ASKED = {"seed": 7, "click_reading": "naive"}
FIRST_TRIAL = "journal/*.json"

pytestmark = pytest.mark.usefixtures("forked_training")
LOCKS = Path("/proc/locks")
linux = pytest.mark.skipif(not LOCKS.is_file(), reason="reads processes from /proc")


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with feedback: judged documents have the herb in their title, others have it in their text."""
    data = tmp_path_factory.mktemp("untrained") / "data"
    with opened(data) as client:
        herbs = create(client, NAME)
        herbs.add(*({"id": herb, "title": f"{herb} seeds", "text": f"leaf {at}"} for at, herb in enumerate(HERBS)))
        herbs.add(*({"id": f"{herb}-1", "title": "soil", "text": f"{herb} {herb}"} for herb in HERBS))
        herbs.post("judgments", {"judgments": [judgment(herb) for herb in HERBS if herb != CLICKED]})
        herbs.act(CLICKED, query_id=herbs.search(CLICKED)["query_id"], position=1)
    return data


def judgment(herb: str) -> dict[str, Any]:
    return {"query": herb, "document_id": herb, "rating": 4}


@pytest.fixture(scope="module")
def finished(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory after an undisturbed run."""
    data = copied(untrained, tmp_path_factory.mktemp("finished"))
    with opened(data) as client:
        assert CollectionClient(client, NAME).train(**ASKED)["status"] == "succeeded"
    return data


@pytest.fixture(scope="module")
def stopped(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a service that was stopped in an orderly way during a run, after its first trial."""
    data = copied(untrained, tmp_path_factory.mktemp("stopped"))
    with opened(data) as client:
        run = CollectionClient(client, NAME).post("training-runs", ASKED)
        until(lambda: any((data / "staging" / run["id"]).glob(FIRST_TRIAL)))
    assert the_run(data)["status"] == "processing"
    return data


@pytest.fixture
def disturbed(stopped: Path, tmp_path: Path) -> Path:
    """A copy of the directory `stopped`, for a single test."""
    return copied(stopped, tmp_path)


def copied(data: Path, folder: Path) -> Path:
    shutil.copytree(data, folder / "data")
    return folder / "data"


def until(look: Callable[[], Any]) -> Any:
    """Call `look` until its result is true, and return the result."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (seen := look()):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return seen


def the_run(data: Path) -> dict[str, Any]:
    """Return the row of the only run in a directory."""
    with closing(sqlite3.connect(data / "softseek.db")) as connection:
        connection.row_factory = sqlite3.Row
        (row,) = connection.execute("SELECT * FROM training_runs")
        return dict(row)


def change_run(data: Path, **values: Any) -> None:
    with closing(sqlite3.connect(data / "softseek.db")) as connection, connection:
        columns = ", ".join(f"{name} = ?" for name in values)
        connection.execute(f"UPDATE training_runs SET {columns}", tuple(values.values()))


def staged(data: Path) -> Path:
    """Return the staging folder of the only run."""
    (folder,) = (data / "staging").iterdir()
    return folder


def model_bits(data: Path, version: int = 1) -> str:
    return hashlib.sha256(stored_model(data, version)["head.safetensors"]).hexdigest()


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def phases(run: dict[str, Any]) -> list[str]:
    return [step["phase"] for step in run["steps"]]


def finish(data: Path, first: Callable[[CollectionClient], Any] = lambda _: None) -> dict[str, Any]:
    """Start the service on a directory, call `first`, wait for the end of its run, and return the record."""
    run_id = the_run(data)["id"]
    with opened(data) as client:
        herbs = CollectionClient(client, NAME)
        first(herbs)
        record: dict[str, Any] = herbs.ended_run(run_id)
    return record


# --- The process is killed ---


@pytest.mark.parametrize("moment", ["inputs/*", FIRST_TRIAL])
def test_a_killed_process_is_restarted_and_makes_the_same_model(
    untrained: Path, finished: Path, tmp_path: Path, moment: str
) -> None:
    data = copied(untrained, tmp_path)
    with opened(data) as client:
        herbs = CollectionClient(client, NAME)
        run_id = herbs.post("training-runs", ASKED)["id"]
        until(lambda: any((data / "staging" / run_id).glob(moment)))
        killed = until(lambda: runtime_of(client).training.children.get(run_id))  # the lock is taken before its start
        os.kill(killed.pid, signal.SIGKILL)
        run = herbs.ended_run(run_id)
    assert killed.returncode == -signal.SIGKILL
    assert (run["status"], run["error"], run["resumptions"]) == ("succeeded", None, 0)
    assert ("resumed" in phases(run)) == (moment == FIRST_TRIAL)
    assert model_bits(data) == model_bits(finished)


def test_a_run_whose_process_is_killed_twice_fails_with_the_signal(untrained: Path, tmp_path: Path) -> None:
    data = copied(untrained, tmp_path)
    with held_runs(), opened(data) as client:
        herbs = CollectionClient(client, NAME)
        run_id = herbs.post("training-runs", ASKED)["id"]
        training = runtime_of(client).training
        first = until(lambda: training.children.get(run_id)).pid
        os.kill(first, signal.SIGKILL)
        second = until(
            lambda: (child := training.children.get(run_id)) is not None and child.pid != first and child.pid
        )
        os.kill(second, signal.SIGKILL)
        run = herbs.ended_run(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", "training_killed")
        assert "SIGKILL" in run["error"]["detail"]
        again = herbs.post("training-runs", ASKED)["id"]
        herbs.post(f"training-runs/{again}/cancel")
        assert herbs.ended_run(again)["status"] == "canceled"
        assert list(runtime_of(client).staging.iterdir()) == []


def test_a_process_that_fails_is_not_restarted(disturbed: Path) -> None:
    shutil.rmtree(staged(disturbed) / "inputs")
    (staged(disturbed) / "inputs").write_text("a file where a folder belongs")
    run = finish(disturbed)
    assert (run["status"], run["error"]["code"]) == ("failed", "training_failed")


# --- The service ends ---


@dataclass(frozen=True)
class Resumed:
    """A run that was resumed after a restart, while the process before it had the lock and feedback changed."""

    data: Path
    before: list[dict[str, Any]]
    """The steps until the restart."""
    run: dict[str, Any]
    waited: bool
    """Whether its process was seen waiting for the lock. It is not looked for without /proc."""


@pytest.fixture(scope="module")
def resumed(stopped: Path, tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    data = copied(stopped, tmp_path_factory.mktemp("resumed"))
    before = json.loads(the_run(data)["steps"])
    waited: list[bool] = []
    with (staged(data) / "lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # like the process of a killed service

        def later(herbs: CollectionClient) -> None:
            wrong = [{"query": herb, "document_id": f"{herb}-1", "rating": 4} for herb in HERBS]
            herbs.post("judgments", {"judgments": wrong + [judgment(herb) | {"rating": 0} for herb in HERBS]})
            assert herbs.client.delete(f"{herbs.path}/documents/valerian").status_code == 204
            good(herbs.client.put(herbs.path, json={"attention": {"heads": 2}}))
            (child,) = until(lambda: list(runtime_of(herbs.client).training.children.values()))
            if LOCKS.is_file():
                waited.append(until(lambda: waits_for_lock(child.pid)))
            fcntl.flock(held, fcntl.LOCK_UN)

        run = finish(data, first=later)
    return Resumed(data, before, run, any(waited))


def waits_for_lock(pid: int) -> bool:
    return re.search(rf"-> FLOCK +ADVISORY +WRITE {pid} ", LOCKS.read_text()) is not None


def test_a_run_is_resumed_after_a_restart_and_makes_the_same_model(resumed: Resumed, finished: Path) -> None:
    run, before = resumed.run, resumed.before
    assert (run["status"], run["resumptions"]) == ("succeeded", 0)  # an orderly stop does not count as a resumption
    assert run["steps"][: len(before)] == before
    assert "resumed" in phases(run)[len(before) :]
    assert run["click_reading"] == run["report"]["recipe"]["reading"] == "naive"
    assert model_bits(resumed.data) == model_bits(finished)
    assert not any((resumed.data / "staging").iterdir())


def test_a_resumed_run_does_not_see_later_changes(resumed: Resumed, finished: Path) -> None:
    assert sum(resumed.run["report"]["queries"].values()) == len(HERBS)
    assert model_bits(resumed.data) == model_bits(finished)


@linux
def test_a_process_waits_for_the_end_of_its_predecessor(resumed: Resumed) -> None:
    assert resumed.waited
    assert resumed.run["status"] == "succeeded"


def test_damaged_staging_files_are_made_again(disturbed: Path, finished: Path) -> None:
    """tests/service/test_training_inputs.py damages each of the inputs."""
    for name in ("inputs/index/keys-1.f32", "journal/*.safetensors"):
        flip_a_bit(min(staged(disturbed).glob(name)))
    assert finish(disturbed)["status"] == "succeeded"
    assert model_bits(disturbed) == model_bits(finished)


def test_a_run_fails_after_too_many_resumptions(disturbed: Path) -> None:
    change_run(disturbed, resumptions=3)
    run = finish(disturbed)
    assert (run["status"], run["error"]["code"], run["model_version"]) == ("failed", "interrupted", None)
    assert not any((disturbed / "staging").iterdir())


def test_a_run_canceled_before_the_end_of_the_service_stays_canceled(disturbed: Path) -> None:
    with held_runs(), opened(disturbed) as client:
        run_id = the_run(disturbed)["id"]
        CollectionClient(client, NAME).post(f"training-runs/{run_id}/cancel")
        CollectionClient(client, NAME).ended_run(run_id)
    assert the_run(disturbed)["cancel_requested"]
    change_run(disturbed, status="processing")  # as if the service had ended before it recorded the end of the run
    run = finish(disturbed)
    assert (run["status"], run["model_version"]) == ("canceled", None)


def test_a_model_registered_before_the_end_of_the_service_is_not_made_twice(finished: Path, tmp_path: Path) -> None:
    data = copied(finished, tmp_path)
    change_run(data, status="processing", model_version=None, finished_at=None)
    run = finish(data)
    assert (run["status"], run["model_version"], run["decision"]["promoted"]) == ("succeeded", 1, True)
    with opened(data) as client:
        assert [one["version"] for one in CollectionClient(client, NAME).get("models")["models"]] == [0, 1]


def test_a_run_ends_with_its_collection(disturbed: Path) -> None:
    held = ExitStack()
    held.enter_context(held_runs())
    with held, opened(disturbed) as client:
        runtime = runtime_of(client)
        (thread,) = runtime.training.threads
        task = good(client.delete(f"/v1/collections/{NAME}"))
        ended(lambda: good(client.get(f"/v1/tasks/{task['id']}")))
        held.close()  # the process goes on, and finds that its run is gone
        thread.join(DEADLINE_SECONDS)
        assert not runtime.training.threads
        assert not runtime.training.children
        assert not any(runtime.staging.iterdir())


@contextmanager
def served(data: Path) -> Iterator[tuple[httpx.Client, "subprocess.Popen[str]"]]:
    """A service in a process of its own, which is killed at the end."""
    command = [sys.executable, "-c", "from service.cli import main; main()", "serve", "--port", "0", "--json"]
    found = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": found, "SOFTSEEK_ENCODER": "hashing"}
    with subprocess.Popen(
        [*command, "--data", str(data)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            with httpx.Client(base_url=json.loads(process.stdout.readline())["url"], timeout=60) as client:
                yield client, process
        finally:
            process.kill()


def test_a_killed_service_resumes_its_run_at_the_next_start(untrained: Path, finished: Path, tmp_path: Path) -> None:
    data = copied(untrained, tmp_path)
    runs = f"/v1/collections/{NAME}/training-runs"
    with served(data) as (client, process):
        run_id = good(client.post(runs, json=ASKED))["id"]
        until(lambda: any((data / "staging" / run_id).glob(FIRST_TRIAL)))
        started = children(process.pid)
        process.kill()
        process.wait()
    assert bool(started) == LOCKS.is_file()
    until(lambda: not any(alive(pid) for pid in started))
    assert the_run(data)["status"] == "processing"
    run = finish(data, first=lambda herbs: good(herbs.client.get("/readyz")))
    assert (run["status"], run["resumptions"]) == ("succeeded", 1)
    assert "resumed" in phases(run)
    assert model_bits(data) == model_bits(finished)


@linux
def test_a_training_process_ends_at_once_with_its_service(spawn_forked: Spawn, tmp_path: Path) -> None:
    """The process waits for a lock, so that it writes nothing that would tell it about the end."""
    with (tmp_path / "lock").open("wb") as held, (tmp_path / "stderr.log").open("wb") as errors:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = spawn_forked({"staging": str(tmp_path)}, errors)
        until(lambda: waits_for_lock(process.pid))
        process.stdin.close()  # as the end of the service does
        assert process.wait() == ORPHANED
        process.stdout.close()


def alive(pid: int) -> bool:
    """Return whether a process runs. An ended process without a waiting parent is listed as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second, if it ends between the opening and the reading
        return False


def test_a_run_does_not_wait_for_the_exit_of_a_process_that_has_staged_its_model(
    spawn_forked: Spawn, untrained: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[tuple[subprocess.Popen[bytes], Any]] = []

    def spawn(specification: dict[str, Any], errors: Any) -> "subprocess.Popen[bytes]":
        """Start a process that prints what a training process prints, and then does not end."""
        trains, pipe = spawn_forked(specification, errors), subprocess.PIPE
        printed = trains.stdout.fileno()
        command = ["sh", "-c", f"cat /dev/fd/{printed}; exec sleep 600"]
        spawned.append((subprocess.Popen(command, stdin=pipe, stdout=pipe, pass_fds=[printed]), trains))
        return spawned[-1][0]

    monkeypatch.setattr("service.training.child_process._spawn", spawn)
    data = copied(untrained, tmp_path)
    with opened(data) as client:
        run = CollectionClient(client, NAME).train(**ASKED)
    assert (run["status"], run["error"]) == ("succeeded", None)
    assert model_bits(data) == model_bits(finished)
    lingering, trains = spawned[0]
    assert lingering.wait(DEADLINE_SECONDS) != 0
    for pipe in (trains.stdin, trains.stdout):
        pipe.close()
