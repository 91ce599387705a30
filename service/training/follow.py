"""Follows the process of a training run to its end, registers what it made, and promotes it if the gate says so.

A run ends once: with a model, an error, or because somebody canceled it. That the service ends is no end of a run:
its record stays `processing`, its staging folder stays, and the next start takes it up again.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, Row, select, update

from service.runtime.collection import CollectionState
from service.runtime.model_registry import champion_version, next_version, promote, register
from service.runtime.runtime import Runtime
from service.storage.database import now
from service.storage.tables import Model, TrainingRun
from service.training.staging import MODEL, REPORT, STAGED

log = structlog.get_logger()
MAX_STEPS = 2000
"""Steps kept of a run; in a longer one, later steps of the same phase replace the last."""
COUNTING = ("examples", "resumed", "hop", "evaluate")
"""Phases of whose steps the last alone is kept: it has the count."""
BROKEN_OFF: dict[str, Any] = {"code": "internal_error", "detail": "the run broke off"}

Specification = dict[str, Any]
Outcome = dict[str, Any]
"""Columns of the run's record, when it has ended."""


def follow(runtime: Runtime, state: CollectionState, specification: Specification) -> None:
    """Run the child to its end and keep the run's record; whatever happens, the collection is free afterwards."""
    run_id, staging = specification["run"], Path(specification["staging"])
    outcome: Outcome | None = {"status": "failed", "error": BROKEN_OFF}
    try:
        staging.mkdir(parents=True, exist_ok=True)
        outcome = _outcome(runtime, state, specification)
    except Exception:
        log.exception("training_failed", run=run_id)
    finally:
        try:
            if outcome is None:
                # the next start counts it as taken up again: a service that was stopped in order did not break off
                store(runtime, run_id, resumptions=TrainingRun.resumptions - 1)
            else:
                end(runtime, run_id, outcome)
        finally:
            runtime.training.pop(run_id, None)
            runtime.canceled_training.discard(run_id)
            state.training.release()


def end(runtime: Runtime, run_id: str, outcome: Outcome) -> None:
    """Write down how a run ended, and let its files go."""
    store(runtime, run_id, finished_at=now(), **outcome)
    shutil.rmtree(runtime.staging / run_id, ignore_errors=True)


def store(runtime: Runtime, run_id: str, **values: Any) -> bool:
    """Write columns of a run's record; return whether there is one: it goes with its collection."""
    with runtime.database.write() as connection:
        return connection.execute(update(TrainingRun).where(TrainingRun.id == run_id).values(**values)).rowcount > 0


def _outcome(runtime: Runtime, state: CollectionState, specification: Specification) -> Outcome | None:
    """Return what came of a run, None where it is left for the next start of the service."""
    run_id = specification["run"]
    with runtime.database.read() as connection:
        registered = _model_of(connection, state, run_id) is not None
    if not registered:
        code, error = _fit(runtime, specification)
        if run_id in runtime.canceled_training:
            return {"status": "canceled", "error": None}
        if code < 0 and runtime.closing:
            return None
        if code:
            return {"status": "failed", "error": error or (_crash(code) if code > 0 else _killed(-code))}
    concluded = _conclude(runtime, state, specification)
    return concluded | {"status": "succeeded", "error": None, "progress_done": TrainingRun.progress_total}


def _fit(runtime: Runtime, specification: Specification) -> tuple[int, dict[str, Any] | None]:
    """Run the child, and once more where a signal that is not the service's own killed it."""
    run_id = specification["run"]
    code, error = _run_child(runtime, specification)
    if code < 0 and not runtime.closing and run_id not in runtime.canceled_training:
        log.warning("training_child_killed", run=run_id, signal=-code)
        code, error = _run_child(runtime, specification)
    return code, error


def _crash(code: int) -> dict[str, Any]:
    detail = f"the training process ended with code {code}; the log has more"
    return {"code": "training_failed", "detail": detail}


def _killed(number: int) -> dict[str, Any]:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    detail = f"the training process was killed by {name}, and again when it had been started once more"
    hint = "; where the system kills what takes too much memory, it needs more" if number == signal.SIGKILL else ""
    return {"code": "training_killed", "detail": detail + hint}


def _run_child(runtime: Runtime, specification: Specification) -> tuple[int, dict[str, Any] | None]:
    """Follow the child's lines; return its exit code, below 0 for a signal, and the error that it told.

    One that has staged its model has done all it should: it is let go of, as its end at low priority may take a while.
    """
    run_id, staged = specification["run"], False
    log_path = Path(specification["staging"]) / "stderr.log"
    with log_path.open("wb") as errors:
        child = _spawn(specification, errors)
        runtime.training_children[run_id] = child
        if run_id in runtime.canceled_training or runtime.closing:
            child.terminate()  # while it was being started
        try:
            error, staged = _keep_steps(runtime, run_id, child)
            code = 0 if staged else child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                threading.Thread(target=child.wait, name=f"ending-{run_id}").start() if staged else child.wait()
            for pipe in (child.stdin, child.stdout):
                assert pipe is not None
                pipe.close()
            runtime.training_children.pop(run_id, None)
    if code > 0 and error is None:
        tail = log_path.read_text(errors="replace")[-2000:]
        log.error("training_child_failed", run=run_id, code=code, stderr=tail)
    return code, error


def _spawn(specification: Specification, errors: Any) -> "subprocess.Popen[bytes]":
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    source = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [source, environment.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-m", "service.training.child", json.dumps(specification)],
        stdin=subprocess.PIPE,  # held open as long as this process lives: the child ends with it
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        start_new_session=True,  # a Ctrl-C at the terminal is the service's to handle
    )


def _keep_steps(runtime: Runtime, run_id: str, child: "subprocess.Popen[bytes]") -> tuple[dict[str, Any] | None, bool]:
    """Add each step that the child tells to the run's record; return the error that it told, and if all is staged."""
    with runtime.database.read() as connection:
        kept = connection.execute(select(TrainingRun.steps).where(TrainingRun.id == run_id)).scalar()
    steps, error = list(kept or []), None
    assert child.stdout is not None
    for line in child.stdout:
        try:
            step = json.loads(line)
        except ValueError:  # the last line of a process that was killed as it wrote
            continue
        if STAGED in step:
            return error, True
        error = step.get("error", error)
        _keep(steps, step)
        progress = {"progress_done": step.get("done", 0), "progress_total": step.get("total", 0)}
        if not store(runtime, run_id, steps=steps, **progress):
            runtime.canceled_training.add(run_id)  # its collection was deleted
            child.terminate()
    return error, False


def _keep(steps: list[dict[str, Any]], step: dict[str, Any]) -> None:
    phase = step.get("phase")
    if steps and (len(steps) >= MAX_STEPS or (phase in COUNTING and steps[-1].get("phase") == phase)):
        steps[-1] = step
    else:
        steps.append(step)


def _conclude(runtime: Runtime, state: CollectionState, specification: Specification) -> Outcome:
    """Register the staged model and act on the gate's decision; return what the run's record gets.

    Done again after a kill in the middle, it finds what is done and does the rest.
    """
    with state.lock:
        model = _registered(runtime, state, specification)
        version, decision = model.version, dict(model.decision)
        with runtime.database.read() as connection:
            champion = champion_version(connection, state)
        stayed = _reason_to_stay(specification, champion)
        if champion == version:
            decision["promoted"] = True
        elif decision["promote"] and stayed is None:
            promote(runtime, state, version, f"training run {specification['run']} passed the gate")
            decision["promoted"] = True
        elif stayed is not None and (decision["promote"] or specification["promote"] == "never"):
            decision["reasons"] = [*(one for one in decision["reasons"] if one != stayed), stayed]
        with runtime.database.write() as connection:
            mine = update(Model).where(Model.collection_id == state.id, Model.version == version)
            connection.execute(mine.values(decision=decision))
    return {"model_version": version, "report": model.report, "decision": decision}


def _reason_to_stay(specification: Specification, champion: int) -> str | None:
    """Return why a model is not promoted whatever the gate says, None where nothing stands against it."""
    if specification["promote"] == "never":
        return "promotion was not asked for"
    return None if champion == specification["champion"] else "the champion was changed while the run went on"


def _registered(runtime: Runtime, state: CollectionState, specification: Specification) -> Row[Any]:
    """Return the model of this run: a version already, or the staged one made a version."""
    with runtime.database.write() as connection:
        model = _model_of(connection, state, specification["run"])
        if model is None:
            staging = Path(specification["staging"])
            made = json.loads((staging / REPORT).read_bytes())
            facts = {"lineage": made["lineage"], "report": made["report"]}
            facts["decision"] = made["decision"] | {"promoted": False}
            register(runtime, state, connection, staging / MODEL, next_version(connection, state), facts)
            model = _model_of(connection, state, specification["run"])
            assert model is not None
        return model


def _model_of(connection: Connection, state: CollectionState, run_id: str) -> Row[Any] | None:
    mine = (Model.collection_id == state.id, Model.lineage["training_run"].as_string() == run_id)
    return connection.execute(select(Model.version, Model.report, Model.decision).where(*mine)).one_or_none()
