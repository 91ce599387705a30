"""Snapshots: seconds and bytes at a number of documents, and equal content after kills.

    python -m benchmarks.snapshots --documents 100000 --kills 100 --out benchmarks/results/snapshots.json

Documents are made of 60 words of a vocabulary, with the `hashing` encoder, so that the database has vectors and no time
goes into encoding. Each time is of one run. A document is written every tenth of a second during the snapshot.

A kill is SIGKILL to a process that makes a snapshot, or that restores, in turn. Half of the kills come at a named step
of the work, the other half at a random moment. After each kill the content of the data directory, of every whole
snapshot, and of the restored directory is compared with the content before, by the state hash. Kills work on a
directory with KILL_DOCUMENTS documents.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.result_file import add_out, publish
from index.encoding.hashing_encoder import HashingEncoder
from service.documents.acceptance import accept
from service.documents.indexing import make_searchable
from service.exports.importing import start_import
from service.exports.writing import export_parts
from service.runtime.runtime import Runtime
from service.settings import Settings
from service.snapshots.creating import Maker, make_snapshot
from service.snapshots.restoring import restore, verify
from service.snapshots.state import state_hash
from service.snapshots.stored import delete_unfinished, stored_snapshots
from service.storage.database import DATABASE_FILE
from service.storage.sqlite_database import SqliteDatabase

WORDS = 60
VOCABULARY = 20_000
BATCH = 1000
KILL_DOCUMENTS = 2000
STEPS = {"create": ("copied", "written", "named", "summed"), "restore": ("prepared", "unpacked", "renamed")}
"""Work -> its steps, at which the process kills itself."""
LATEST_SECONDS = {"create": 0.5, "restore": 0.3}
"""Work -> the latest random moment of a kill, in seconds after its start."""


@contextmanager
def running(data: Path) -> Iterator[Runtime]:
    """Yield the opened data directory."""
    runtime = Runtime.open(Settings(encoder="hashing", data=data, log_level="error"), HashingEncoder())
    try:
        yield runtime
    finally:
        runtime.close()


def fill(data: Path, count: int, seed: int) -> None:
    """Make a data directory with documents."""
    rng = random.Random(seed)
    with running(data) as runtime:
        state = runtime.collection("default")
        for first in range(0, count, BATCH):
            batch = [document(rng, at) for at in range(first, min(count, first + BATCH))]
            make_searchable(runtime, state, accept(runtime, state, batch).sequences)


def document(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a made document."""
    words = (f"word{rng.randrange(VOCABULARY)}" for _ in range(WORDS))
    return {"id": f"doc-{number}", "title": f"Document {number}", "text": " ".join(words), "metadata": {"n": number}}


def measure(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Return seconds and bytes of a snapshot, a restore, an export and an import."""
    data = folder / "data"
    fill(data, count, seed)
    figures: dict[str, Any] = {"documents": count}
    opened = time.perf_counter()
    with running(data) as runtime:
        figures["start_seconds"] = seconds_since(opened)
        delays = Writes(runtime, seed)
        made, figures["create_seconds"] = timed(lambda: make_snapshot(Maker(runtime, False, lambda _count: None)))
        figures |= delays.stop()
        exported = runtime.imports / "export.part"
        with exported.open("wb") as file:
            _, figures["export_seconds"] = timed(lambda: file.writelines(export_parts(runtime)))
        figures["database_bytes"] = (data / DATABASE_FILE).stat().st_size
    figures["snapshot_bytes"], figures["export_bytes"] = made["bytes"], exported.stat().st_size
    file_of = data / made["file"]
    _, figures["verify_seconds"] = timed(lambda: verify(file_of, folder))
    _, figures["restore_seconds"] = timed(lambda: restore(file_of, folder / "restored"))
    opened = time.perf_counter()
    with running(folder / "restored"):
        figures["restored_start_seconds"] = seconds_since(opened)
    with running(folder / "imported") as runtime:
        copy = shutil.copy(exported, runtime.imports / "export.part")
        task, figures["import_seconds"] = timed(lambda: finished_import(runtime, Path(copy)))
    assert task["status"] == "succeeded", task
    return figures


class Writes:
    """Puts a document every tenth of a second in a thread, and measures how long each takes."""

    def __init__(self, runtime: Runtime, seed: int) -> None:
        self._runtime = runtime
        self._rng = random.Random(seed + 1)
        self._delays: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self) -> dict[str, Any]:
        """End the writes; return their number and delays in milliseconds."""
        self._stopped.set()
        self._thread.join()
        delays = sorted(1000 * one for one in self._delays)
        return {
            "writes": len(delays),
            "write_p50_ms": round(delays[len(delays) // 2], 1),
            "write_max_ms": round(delays[-1], 1),
        }

    def _write(self) -> None:
        state = self._runtime.collection("default")
        while not self._stopped.is_set() or not self._delays:
            started = time.perf_counter()
            written = accept(self._runtime, state, [document(self._rng, -1)])
            make_searchable(self._runtime, state, written.sequences)
            self._delays.append(time.perf_counter() - started)
            self._stopped.wait(0.1)


def finished_import(runtime: Runtime, path: Path) -> dict[str, Any]:
    """Import an export; return the task when it has ended."""
    task = start_import(runtime, path)
    while not runtime.jobs.wait(task, 600):
        pass
    return runtime.jobs.show(task)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of work, and its seconds."""
    started = time.perf_counter()
    return work(), seconds_since(started)


def seconds_since(started: float) -> float:
    """Return the seconds since a time of the performance counter."""
    return round(time.perf_counter() - started, 2)


def kill_repeatedly(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill processes that make snapshots and that restore; return how often the content was equal afterwards."""
    data, rng = folder / "data", random.Random(seed)
    fill(data, KILL_DOCUMENTS, seed)
    with running(data) as runtime:
        make_snapshot(Maker(runtime, False, lambda _count: None))
    source = shutil.copy(stored_snapshots(data)[0].path, folder / "source.tar")
    state = state_of(data)
    figures = {"kills": kills, "kill_documents": KILL_DOCUMENTS, "equal": 0, "whole_snapshots": 0, "whole_restores": 0}
    for number in range(kills):
        work = ("create", "restore")[number % 2]
        step = rng.choice(STEPS[work]) if number % 4 < 2 else None
        target = folder / "restored"
        killed(work, data, Path(source), target, step, rng.uniform(0, LATEST_SECONDS[work]))
        whole = target.exists()
        if not whole:
            restore(Path(source), target)
        delete_unfinished(data)
        fresh = stored_snapshots(data)
        equal = state_of(data) == state_of(target) == state
        equal = equal and all(verify(one.path, folder)["state"] == state for one in fresh)
        figures["equal"] += equal
        figures["whole_restores"] += whole
        figures["whole_snapshots"] += len(fresh)
        for one in fresh:
            one.delete()
        shutil.rmtree(target)
        print(json.dumps({"kill": number + 1, "work": work, "step": step, "equal": equal}), file=sys.stderr, flush=True)
    return figures


def killed(work: str, data: Path, source: Path, target: Path, step: str | None, after_seconds: float) -> None:
    """Run work in a process that is killed: by itself at a step, or from here at a moment."""
    spawn = multiprocessing.get_context("spawn")
    begun = spawn.Event()
    process = spawn.Process(target=run_work, args=(work, data, source, target, step, begun))
    process.start()
    assert begun.wait(120), "the process did not start its work"
    if step is None:
        time.sleep(after_seconds)
        process.kill()
    process.join(120)
    assert step is None or process.exitcode == -signal.SIGKILL


def run_work(work: str, data: Path, source: Path, target: Path, step: str | None, begun: Any) -> None:
    """Make a snapshot or restore one, and kill this process at a step."""

    def reached(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    if work == "restore":
        begun.set()
        restore(source, target, reached=reached)
        return
    with running(data) as runtime:
        begun.set()
        make_snapshot(Maker(runtime, False, lambda _count: None, reached))


def state_of(data: Path) -> str:
    """Return the state hash of a data directory that no process uses."""
    database = SqliteDatabase(data / DATABASE_FILE)
    with database.read() as connection:
        found = state_hash(connection).sha256
    database.close()
    return found


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000, help="documents of the timed directory; 0 for none")
    parser.add_argument("--kills", type=int, default=0, help="processes to kill")
    parser.add_argument("--seed", type=int, default=0)
    add_out(parser)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.documents:
            (Path(folder) / "timed").mkdir()
            figures |= measure(Path(folder) / "timed", options.documents, options.seed)
        if options.kills:
            (Path(folder) / "kills").mkdir()
            figures |= kill_repeatedly(Path(folder) / "kills", options.kills, options.seed)
    publish(figures, [options.seed], options.out)


if __name__ == "__main__":
    main()
