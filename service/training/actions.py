"""Training runs: start a child, follow it, register what it made, and promote it if the gate says so."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import func, insert, select, update

from index.train import FitConfig
from service.database import new_id, now
from service.learning import confirmed_count
from service.problems import Problem, not_found
from service.registry import champion_version, next_version, promote, register
from service.runtime import Runtime
from service.state import CollectionState
from service.tables import Event, Judgment, Model, TrainingRun
from service.training.child import MODEL, REPORT
from service.training.schemas import TrainingIn

log = structlog.get_logger()
ENDED = ("succeeded", "failed", "canceled")
MAX_STEPS = 2000
"""Steps kept of a run; in a longer one, later steps of the same phase replace the last."""


def start(runtime: Runtime, state: CollectionState, wanted: TrainingIn) -> dict[str, Any]:
    """Start a run and return it. Raises Problem 409 while another runs, 422 with have and need for too little."""
    with runtime.database.read() as connection:
        have, need = confirmed_count(connection, state.id), FitConfig().min_queries
    if not state.training.acquire(blocking=False):
        raise Problem(409, "training_already_running", "a training run of this collection is still going on")
    try:
        if have < need:
            detail = f"{have} queries have a confirmed document; a training run needs {need}"
            raise Problem(422, "not_enough_feedback", detail, have=have, need=need)
        run_id = new_id()
        specification = _store_run(runtime, state, run_id, wanted)
        thread = threading.Thread(target=_follow, args=(runtime, state, specification), name=f"training-{run_id}")
        runtime.training[run_id] = thread
        thread.start()
    except BaseException:
        state.training.release()
        raise
    return show(runtime, state, run_id)


def _store_run(runtime: Runtime, state: CollectionState, run_id: str, wanted: TrainingIn) -> dict[str, Any]:
    with runtime.database.write() as connection:
        mine = (Event.collection_id == state.id,)
        first, last, events = connection.execute(
            select(func.min(Event.timestamp), func.max(Event.timestamp), func.count()).where(*mine)
        ).one()
        judgments = connection.execute(
            select(func.count()).select_from(Judgment).where(Judgment.collection_id == state.id)
        ).scalar_one()
        window = {"events": events, "judgments": judgments, "from": first, "to": last}
        champion = champion_version(connection, state)
        connection.execute(
            insert(TrainingRun).values(
                id=run_id,
                collection_id=state.id,
                status="processing",
                seed=wanted.seed,
                promote=wanted.promote,
                progress_done=0,
                progress_total=0,
                steps=[],
                data=window | {"champion": champion},
                report={},
                decision={},
                created_at=now(),
            )
        )
    return {
        "run": run_id,
        "data": str(runtime.settings.data.resolve()),
        "staging": str((runtime.staging / run_id).resolve()),
        "collection_id": state.id,
        "champion": champion,
        "seed": wanted.seed,
        "promote": wanted.promote,
        "window": window,
    }


def _follow(runtime: Runtime, state: CollectionState, specification: dict[str, Any]) -> None:
    """Run the child to its end and keep its record; whatever happens, the run ends and the collection is free."""
    run_id, staging = specification["run"], Path(specification["staging"])
    outcome: dict[str, Any] = {"status": "failed", "error": {"code": "internal_error", "detail": "the run broke off"}}
    try:
        staging.mkdir(parents=True)
        error = _run_child(runtime, specification)
        if run_id in runtime.canceled_training:
            interrupted = {"code": "interrupted", "detail": "the service stopped before this run ended"}
            closing = runtime.closing
            outcome = {"status": "failed" if closing else "canceled", "error": interrupted if closing else None}
        elif error is None:
            outcome = _conclude(runtime, state, specification) | {"status": "succeeded", "error": None}
            outcome["progress_done"] = TrainingRun.progress_total
        else:
            outcome = {"status": "failed", "error": error}
    except Exception:
        log.exception("training_failed", run=run_id)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        try:
            _update(runtime, run_id, finished_at=now(), **outcome)
        finally:
            runtime.training.pop(run_id, None)
            runtime.canceled_training.discard(run_id)
            state.training.release()


def _run_child(runtime: Runtime, specification: dict[str, Any]) -> dict[str, Any] | None:
    """Follow the child's lines; return its error, None when it ended well."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    source = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [source, environment.get("PYTHONPATH", "")]))
    log_path = Path(specification["staging"]) / "stderr.log"
    steps: list[dict[str, Any]] = []
    error: dict[str, Any] | None = None
    with log_path.open("wb") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "service.training.child", json.dumps(specification)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            start_new_session=True,  # a Ctrl-C at the terminal is the service's to handle
        )
        runtime.training_children[specification["run"]] = child
        if specification["run"] in runtime.canceled_training:
            child.terminate()  # canceled while it was being started
        assert child.stdout is not None
        try:
            for line in child.stdout:
                step = json.loads(line)
                error = step.get("error", error)
                _keep(steps, step)
                done, total = step.get("done", 0), step.get("total", 0)
                _update(runtime, specification["run"], steps=steps, progress_done=done, progress_total=total)
            code = child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            child.stdout.close()
            runtime.training_children.pop(specification["run"], None)
    if code and error is None and specification["run"] not in runtime.canceled_training:
        tail = log_path.read_text(errors="replace")[-2000:]
        log.error("training_child_failed", run=specification["run"], code=code, stderr=tail)
        error = {"code": "training_failed", "detail": f"the training process ended with code {code}; the log has more"}
    return error


def _keep(steps: list[dict[str, Any]], step: dict[str, Any]) -> None:
    counting = step.get("phase") in ("examples", "evaluate")
    if steps and (len(steps) >= MAX_STEPS or (counting and steps[-1].get("phase") == step["phase"])):
        steps[-1] = step
    else:
        steps.append(step)


def _conclude(runtime: Runtime, state: CollectionState, specification: dict[str, Any]) -> dict[str, Any]:
    """Register the staged model and act on the gate's decision; return what the run's record gets."""
    staging = Path(specification["staging"])
    made = json.loads((staging / REPORT).read_bytes())
    decision = made["decision"] | {"promoted": False}
    with state.lock:
        with runtime.database.write() as connection:
            version = next_version(connection, state)
            facts = {"lineage": made["lineage"], "report": made["report"], "decision": decision}
            register(runtime, state, connection, staging / MODEL, version, facts)
            same = champion_version(connection, state) == specification["champion"]
        if specification["promote"] == "never":
            decision["reasons"] = [*decision["reasons"], "promotion was not asked for"]
        elif decision["promote"] and not same:
            decision["reasons"] = [*decision["reasons"], "the champion was changed while the run went on"]
        elif decision["promote"]:
            promote(runtime, state, version, f"training run {specification['run']} passed the gate")
            decision["promoted"] = True
        with runtime.database.write() as connection:
            mine = update(Model).where(Model.collection_id == state.id, Model.version == version)
            connection.execute(mine.values(decision=decision))
    return {"model_version": version, "report": made["report"], "decision": decision}


def _update(runtime: Runtime, run_id: str, **values: Any) -> None:
    with runtime.database.write() as connection:
        connection.execute(update(TrainingRun).where(TrainingRun.id == run_id).values(**values))


def cancel(runtime: Runtime, state: CollectionState, run_id: str) -> dict[str, Any]:
    """Ask a run to stop; one that has ended stays as it is."""
    record = show(runtime, state, run_id)
    if record["status"] not in ENDED:
        runtime.canceled_training.add(run_id)
        child = runtime.training_children.get(run_id)
        if child is not None:
            child.terminate()
    return record


def show(runtime: Runtime, state: CollectionState, run_id: str) -> dict[str, Any]:
    """Return a run as the contract shows it."""
    with runtime.database.read() as connection:
        row = connection.execute(
            select(TrainingRun.__table__).where(TrainingRun.id == run_id, TrainingRun.collection_id == state.id)
        ).one_or_none()
    if row is None:
        raise not_found("training_run")
    return _body(row)


def list_runs(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return all runs, newest first, without their steps."""
    with runtime.database.read() as connection:
        rows = connection.execute(
            select(TrainingRun.__table__)
            .where(TrainingRun.collection_id == state.id)
            .order_by(TrainingRun.id.desc())
            .limit(200)
        ).all()
    return {"training_runs": [_body(row) | {"steps": []} for row in rows]}


def _body(row: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "status": row.status,
        "seed": row.seed,
        "promote": row.promote,
        "progress": {"done": row.progress_done, "total": row.progress_total},
        "steps": row.steps,
        "data": row.data,
        "report": row.report,
        "decision": row.decision,
        "model_version": row.model_version,
        "error": row.error,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
    }
