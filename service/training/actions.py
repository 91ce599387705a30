"""Training runs: starts them, takes them up again after a restart, cancels and shows them."""

import threading
from typing import Any

import structlog
from sqlalchemy import Connection, func, insert, select

from index.learning.config import FitConfig
from service.http.problems import Problem, not_found
from service.runtime.collection import CollectionState
from service.runtime.feedback_log import confirmed_count
from service.runtime.model_registry import champion_version
from service.runtime.runtime import Runtime
from service.storage.database import new_id, now
from service.storage.tables import Event, Judgment, TrainingRun
from service.training.follow import Specification, end, follow, store
from service.training.schemas import TrainingIn

log = structlog.get_logger()
ENDED = ("succeeded", "failed", "canceled")
MAX_RESUMPTIONS = 3
"""Of a run whose service broke off: one that takes its service down with it must not do so for ever."""
LETTING_GO_SECONDS = 5


def start(runtime: Runtime, state: CollectionState, wanted: TrainingIn) -> dict[str, Any]:
    """Start a run and return it. Raises Problem 409 while another runs, 422 with have and need for too little."""
    with runtime.database.read() as connection:
        have, need = confirmed_count(connection, state.id), FitConfig().min_queries
    if not _acquired(runtime, state):
        raise Problem(409, "training_already_running", "a training run of this collection is still going on")
    try:
        if have < need:
            detail = f"{have} queries have a confirmed document; a training run needs {need}"
            raise Problem(422, "not_enough_feedback", detail, have=have, need=need)
        run_id = new_id()
        with runtime.database.write() as connection:
            _insert(connection, state, run_id, wanted)
        _launch(runtime, state, run_id)
    except BaseException:
        state.training.release()
        raise
    return show(runtime, state, run_id)


def _acquired(runtime: Runtime, state: CollectionState) -> bool:
    """Take the collection's lock of training; one whose run is seen to have ended will let go of it in a moment."""
    if state.training.acquire(blocking=False):
        return True
    going = select(TrainingRun.id).where(TrainingRun.collection_id == state.id, TrainingRun.status == "processing")
    with runtime.database.read() as connection:
        if connection.execute(going).first():
            return False
    return state.training.acquire(timeout=LETTING_GO_SECONDS)


def resume_training(runtime: Runtime) -> None:
    """Take up the runs that went on when the service ended, each in the background; one canceled by then has ended.

    Nothing of theirs is lost: inputs and finished trials lie in the staging folder.
    """
    states = {state.id: state for state in runtime.collections.values()}
    with runtime.database.read() as connection:
        going = select(TrainingRun.__table__).where(TrainingRun.status == "processing").order_by(TrainingRun.id)
        rows = connection.execute(going).all()
    for row in rows:
        state = states.get(row.collection_id)
        if state is None or row.id in runtime.training:
            continue
        if row.cancel_requested:
            end(runtime, row.id, {"status": "canceled", "error": None})
        elif row.resumptions >= MAX_RESUMPTIONS or not state.training.acquire(blocking=False):
            detail = f"the service broke off while this run went on, {row.resumptions + 1} times"
            end(runtime, row.id, {"status": "failed", "error": {"code": "interrupted", "detail": detail}})
        else:
            store(runtime, row.id, resumptions=row.resumptions + 1)
            log.info("training_resumed", run=row.id, collection=state.name, resumptions=row.resumptions + 1)
            _launch(runtime, state, row.id)


def _launch(runtime: Runtime, state: CollectionState, run_id: str) -> None:
    """Start the thread that follows a run; the caller holds the collection's lock of training, the thread frees it."""
    specification = _specification(runtime, state, run_id)
    thread = threading.Thread(target=follow, args=(runtime, state, specification), name=f"training-{run_id}")
    runtime.training[run_id] = thread
    thread.start()


def _insert(connection: Connection, state: CollectionState, run_id: str, wanted: TrainingIn) -> None:
    mine = (Event.collection_id == state.id,)
    first, last, events = connection.execute(
        select(func.min(Event.timestamp), func.max(Event.timestamp), func.count()).where(*mine)
    ).one()
    judgments = connection.execute(
        select(func.count()).select_from(Judgment).where(Judgment.collection_id == state.id)
    ).scalar_one()
    window = {"events": events, "judgments": judgments, "from": first, "to": last}
    connection.execute(
        insert(TrainingRun).values(
            id=run_id,
            collection_id=state.id,
            status="processing",
            **wanted.model_dump(),
            steps=[],
            data=window | {"champion": champion_version(connection, state)},
            report={},
            decision={},
            created_at=now(),
        )
    )


def _specification(runtime: Runtime, state: CollectionState, run_id: str) -> Specification:
    """Return what the child is told, from the run's record alone: taken up again, it is told the same."""
    with runtime.database.read() as connection:
        row = connection.execute(select(TrainingRun.__table__).where(TrainingRun.id == run_id)).one()
    window = dict(row.data)
    return {
        "run": run_id,
        "data": str(runtime.settings.data.resolve()),
        "staging": str((runtime.staging / run_id).resolve()),
        "encoder_precision": runtime.settings.encoder_precision,
        "collection_id": state.id,
        "champion": window.pop("champion"),
        "seed": row.seed,
        "promote": row.promote,
        "budget_seconds": row.budget_seconds,
        "click_reading": row.click_reading,
        "window": window,
    }


def cancel(runtime: Runtime, state: CollectionState, run_id: str) -> dict[str, Any]:
    """Ask a run to stop, for good, also across a restart; one that has ended stays as it is."""
    record = show(runtime, state, run_id)
    if record["status"] not in ENDED:
        store(runtime, run_id, cancel_requested=True)
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
        "budget_seconds": row.budget_seconds,
        "click_reading": row.click_reading,
        "resumptions": row.resumptions,
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
