"""Runs the training process of a run, and records the steps that it prints."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO, cast

import structlog

from service.runtime.child_environment import child_environment
from service.runtime.runtime import Runtime
from service.runtime.training_supervisor import Child
from service.training import repository
from service.training.pauses import pausing
from service.training.staging import READ, STAGED

log = structlog.get_logger()
MAX_STEPS = 2000
"""Steps kept of a run. In a longer run, each later step replaces the last step."""
COUNTING_PHASES = ("examples", "resumed", "hop", "trees", "priors", "context", "evaluate")
"""Phases of which only the last step is kept, because it has the final count."""

ADDRESS = "database"
"""The member of a specification with the address of the database, or None. The process gets it in its environment."""
ON_CLUSTER = "on_cluster"
"""Whether the fit runs on the Ray cluster of `ray_address`."""
Specification = dict[str, Any]
"""The argument of the training process: see `service.training.actions`."""


def run_child(runtime: Runtime, specification: Specification) -> tuple[int, dict[str, Any] | None]:
    """Run the training process; return its exit code, negative for a signal, and the error that it printed.

    A process that has staged its model counts as ended with code 0: at low priority, its own exit may take a while.
    """
    run_id, staged = specification["run"], False
    log_path = Path(specification["staging"]) / "stderr.log"
    with log_path.open("wb") as errors, runtime.training.supervised(run_id, _spawn(specification, errors)) as child:
        assert child.stdin is not None
        try:
            with pausing(cast(BinaryIO, child.stdin), lambda: runtime.is_busy_searching):
                error, staged = _record_steps(runtime, run_id, child)
            code = 0 if staged else child.wait()
        finally:
            _end(child, wait=not staged)
    if code > 0 and error is None:
        tail = log_path.read_text(errors="replace")[-2000:]
        log.error("training_child_failed", run=run_id, code=code, stderr=tail)
    return code, error


def _spawn(specification: Specification, errors: Any) -> Child:
    shown = {name: value for name, value in specification.items() if name != ADDRESS}  # it may have a password
    program = "service.cluster.training" if specification[ON_CLUSTER] else "service.training"
    return subprocess.Popen(
        [sys.executable, "-m", program, json.dumps(shown)],
        stdin=subprocess.PIPE,  # brings orders, and stays open as long as the service lives: the process ends with it
        stdout=subprocess.PIPE,
        stderr=errors,
        env=training_environment(specification[ADDRESS]),
        start_new_session=True,  # Ctrl-C at the terminal does not reach the process; the service ends it
    )


def training_environment(address: str | None) -> dict[str, str]:
    """Return the environment of a training process: one thread. address: of the database, which it reads."""
    return child_environment(address) | {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _end(child: Child, wait: bool) -> None:
    """Kill a process that still runs, and close its pipes. Without `wait`, a thread waits for its exit."""
    if child.poll() is None:
        child.kill()
        if wait:
            child.wait()
        else:
            threading.Thread(target=child.wait, name=f"ending-{child.pid}").start()
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        pipe.close()


def _record_steps(runtime: Runtime, run_id: str, child: Child) -> tuple[dict[str, Any] | None, bool]:
    """Add each printed step to the run's record; return the printed error, and whether the model is staged."""
    with runtime.database.read() as connection:
        steps = repository.run_steps(connection, run_id)
    error = None
    assert child.stdout is not None
    for line in child.stdout:
        try:
            step = json.loads(line)
        except ValueError:  # the process was killed while it printed its last line
            continue
        if STAGED in step:
            return error, True
        if READ in step:
            with runtime.database.write() as connection:
                repository.add_data(connection, run_id, step[READ])
            continue
        error = step.get("error", error)
        _append(steps, step)
        progress = {"progress_done": step.get("done", 0), "progress_total": step.get("total", 0)}
        with runtime.database.write() as connection:
            recorded = repository.update_run(connection, run_id, steps=steps, **progress)
        if not recorded:  # the collection was deleted
            runtime.training.cancel(run_id)
    return error, False


def _append(steps: list[dict[str, Any]], step: dict[str, Any]) -> None:
    phase = step.get("phase")
    if steps and (len(steps) >= MAX_STEPS or (phase in COUNTING_PHASES and steps[-1].get("phase") == phase)):
        steps[-1] = step
    else:
        steps.append(step)
