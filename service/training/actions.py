"""Starts training runs, on request and by schedule, resumes them after a restart, cancels and shows them."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import structlog
from sqlalchemy import Row

from index.learning.config import FitConfig
from service.http.problems import Problem, not_found
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import processing_run_ids, require_collection
from service.runtime.feedback_repository import confirmed_count
from service.runtime.model_repository import champion_version
from service.runtime.runtime import Runtime
from service.storage.database import new_id, now
from service.storage.reservations import not_reserved, note_answer
from service.training import repository
from service.training.child_process import ADDRESS, ON_CLUSTER, Specification
from service.training.follow import CANCELED, end, follow
from service.training.from_documents import why_due
from service.training.schedule import Standing
from service.training.schemas import TrainingIn

log = structlog.get_logger()
ENDED = ("succeeded", "failed", "canceled")
MAX_RESUMPTIONS = 3
"""Resumptions of a run after crashes of the service. The limit stops a run that crashes the service every time."""
LOCK_WAIT_SECONDS = 5
PARAMETERS = ("trigger", "reason", "learn_from", "objective")
"""Members of the stored data of a run that are not data."""


def start(runtime: Runtime, state: CollectionState, wanted: TrainingIn) -> dict[str, Any]:
    """Start a run and return it. A run on the documents that started by itself gives way to it.

    Raises Problem 409 while another run of the collection goes on, 422 with `have` and `need` for too few queries or
    documents, and 404 if the collection was deleted; EncoderMismatch if another encoder made its vectors.
    """
    state.require_encoder(runtime.encoder)
    shortage = _shortage(runtime, state, wanted)
    if not _acquired(runtime, state, preempts=shortage is None):
        raise Problem(409, "training_already_running", "another training run of this collection has not ended")
    try:
        if shortage is not None:
            raise shortage
        run = _begin(runtime, state, wanted)
    except BaseException:
        state.training_lock.release()
        raise
    return _body(run)


def _shortage(runtime: Runtime, state: CollectionState, wanted: TrainingIn) -> Problem | None:
    """Return the problem of a collection that has too little for this run, or None."""
    if wanted.learn_from == "documents":
        if state.generation.count:
            return None
        return Problem(422, "not_enough_documents", "the collection has no searchable document", have=0, need=1)
    if wanted.objective == "reinforce":
        runtime.impressions.flush()
    with runtime.database.read() as connection:
        have, need = confirmed_count(connection, state.id), FitConfig().min_queries
        detail = f"{have} queries have a confirmed document; a training run needs {need}"
        if have >= need and wanted.objective == "reinforce":
            have, need = repository.explored_count(connection, state.id), FitConfig().min_explored
            detail = f"{have} searches were explored; a training run with the objective reinforce needs {need}"
    return None if have >= need else Problem(422, "not_enough_feedback", detail, have=have, need=need)


def start_scheduled_runs(runtime: Runtime, at: datetime | None = None) -> None:
    """Start a run of every collection whose schedule or number of documents says so. at: now by default."""
    for state in list(runtime.collections.values()):
        try:
            run_id = _start_if_due(runtime, state, at)
        except Problem as problem:  # the collection is being deleted
            log.warning("scheduled_training_failed", collection=state.name, code=problem.code)
            continue
        except Exception:  # the others still get their runs
            log.exception("scheduled_training_failed", collection=state.name)
            continue
        if run_id is not None:
            log.info("training_scheduled", run=run_id, collection=state.name)


def _start_if_due(runtime: Runtime, state: CollectionState, at: datetime | None) -> str | None:
    """Start a scheduled run and return its id, or None. The lock is held while the conditions are checked."""
    settings = state.settings
    if settings.train is None and not settings.train_from_documents:
        return None
    if not state.training_lock.acquire(blocking=False):
        return None
    started = None
    try:
        trigger, reason = None, None
        with runtime.database.read() as connection:
            if settings.train is not None:
                standing = Standing(runtime, state, connection, at)
                trigger = standing.trigger if next(standing.obstacles(), None) is None else None
            if trigger is None:
                reason = why_due(runtime, state, connection)
        if trigger is not None:
            started = _begin(runtime, state, TrainingIn(), {"trigger": trigger}).id
        elif reason is not None:
            started = _begin(runtime, state, TrainingIn(learn_from="documents"), {"reason": reason}).id
    finally:
        if started is None:
            state.training_lock.release()
    return started


def _begin(
    runtime: Runtime, state: CollectionState, wanted: TrainingIn, more: Mapping[str, Any] = MappingProxyType({})
) -> Row[Any]:
    """Record a run and follow it; return its row. The caller holds the training lock. more: further data of the run.

    Raises Problem 404 if the collection was deleted.
    """
    run_id = new_id()
    with runtime.database.write() as connection:
        require_collection(connection, state.id)
        if wanted.learn_from == "documents":
            documents, _ = repository.document_counts(connection, state.id)
            data: dict[str, Any] = {"learn_from": "documents", "documents": documents}
        else:
            data = repository.feedback_window(connection, state.id)
        data |= {"champion": champion_version(connection, state.id), **more}
        if wanted.objective != "listwise":
            data["objective"] = wanted.objective
        parameters = wanted.model_dump(exclude={"learn_from", "objective"})
        repository.insert_run(connection, state.id, run_id, parameters, data)
        location = f"/v1/collections/{state.name}/training-runs/{run_id}"
        run = repository.find_run(connection, state.id, run_id)
        assert run is not None
        note_answer(202, _body(run), location)
        if processing_run_ids(connection, state.id) == {run_id}:
            state.has_deleted_feedback = False
    _follow(runtime, state, run)
    return run


def _acquired(runtime: Runtime, state: CollectionState, preempts: bool) -> bool:
    """Take the collection's training lock. A run whose record has ended releases the lock a moment later.

    preempts: cancel a run on the documents that started by itself, so that no client gets an error because of it.
    """
    if state.training_lock.acquire(blocking=False):
        return True
    with runtime.database.read() as connection:
        going = [run for run in repository.processing_runs(connection) if run.collection_id == state.id]
    if any(not preempts or "reason" not in run.data for run in going):
        return False
    with not_reserved():
        for run in going:
            cancel(runtime, state, run.id)
    return state.training_lock.acquire(timeout=LOCK_WAIT_SECONDS)


def resume_training(runtime: Runtime) -> None:
    """Resume the runs that no thread follows: the service ended, or a full disk kept their outcome from the database.

    Their inputs and finished trials are in the staging folder. Runs whose cancellation was requested end here. A run
    beside another run of its collection waits for the end of the other.
    """
    states = {state.id: state for state in list(runtime.collections.values())}
    with runtime.database.read() as connection:
        runs = repository.processing_runs(connection)
    for run in runs:
        state = states.get(run.collection_id)
        if runtime.closing:  # the next start resumes what stops now
            return
        if state is None or not state.training_lock.acquire(blocking=False):
            continue
        is_followed = False
        try:
            is_followed = _resume(runtime, state, run.id)
        finally:
            if not is_followed:
                state.training_lock.release()


def _resume(runtime: Runtime, state: CollectionState, run_id: str) -> bool:
    """Follow a run again, or end it; return whether it is followed. The caller holds the training lock."""
    with runtime.database.read() as connection:
        run = repository.find_run(connection, state.id, run_id)
    if run is None or run.status in ENDED:  # its thread recorded it and released the lock in the meantime
        return False
    if run.cancel_requested:
        end(runtime, run_id, CANCELED)
        return False
    if run.resumptions >= MAX_RESUMPTIONS:
        detail = f"this run broke off {run.resumptions + 1} times"
        end(runtime, run_id, {"status": "failed", "error": {"code": "interrupted", "detail": detail}})
        return False
    with runtime.database.write() as connection:
        repository.update_run(connection, run_id, resumptions=run.resumptions + 1)
    log.info("training_resumed", run=run_id, collection=state.name, resumptions=run.resumptions + 1)
    _follow(runtime, state, run)
    return True


def _follow(runtime: Runtime, state: CollectionState, run: Row[Any]) -> None:
    """Start the thread that follows a run. The caller holds the training lock; the thread releases it."""
    specification = _specification(runtime, state, run)
    runtime.training.start(run.id, lambda: follow(runtime, state, specification))


def _specification(runtime: Runtime, state: CollectionState, run: Row[Any]) -> Specification:
    """Return the argument of the training process. It depends only on the run's record, also after a restart."""
    window = {name: value for name, value in run.data.items() if name not in PARAMETERS}
    return {
        "run": run.id,
        "data": str(runtime.settings.data.resolve()),
        "staging": str((runtime.staging / run.id).resolve()),
        "encoder_precision": runtime.settings.encoder_precision,
        ADDRESS: runtime.settings.database_address,
        ON_CLUSTER: runtime.settings.ray_training,
        "ray_address": runtime.settings.ray_address,
        "collection_id": state.id,
        "champion": window.pop("champion"),
        "seed": run.seed,
        "promote": run.promote,
        "budget_seconds": run.budget_seconds,
        "click_reading": run.click_reading,
        "learn_from": run.data.get("learn_from", "feedback"),
        "objective": run.data.get("objective", "listwise"),
        "window": window,
    }


def cancel(runtime: Runtime, state: CollectionState, run_id: str) -> dict[str, Any]:
    """Cancel a run; a restart does not resume it. A run that has ended does not change."""
    record = show(runtime, state, run_id)
    if record["status"] not in ENDED:
        with runtime.database.write() as connection:
            repository.update_run(connection, run_id, cancel_requested=True)
        if state.training_lock.acquire(blocking=False):  # no thread follows a run of this collection
            try:
                end_canceled(runtime, state, run_id)
            finally:
                state.training_lock.release()
        else:
            runtime.training.cancel(run_id)
    return record


def end_canceled(runtime: Runtime, state: CollectionState, run_id: str) -> None:
    """End a run that no thread follows, unless it has ended. The caller holds the training lock."""
    if show(runtime, state, run_id)["status"] not in ENDED:
        end(runtime, run_id, CANCELED)


def show(runtime: Runtime, state: CollectionState, run_id: str) -> dict[str, Any]:
    """Return a run as JSON. Raises Problem 404."""
    with runtime.database.read() as connection:
        run = repository.find_run(connection, state.id, run_id)
    if run is None:
        raise not_found("training_run")
    return _body(run)


def show_again(runtime: Runtime, state: CollectionState, record: dict[str, Any]) -> dict[str, Any]:
    """Return a run that was shown before. If it was deleted with its collection, it is canceled, and no row says so."""
    try:
        return show(runtime, state, record["id"])
    except Problem:
        return record | CANCELED | {"finished_at": now()}


def list_runs(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return the newest runs without their steps, newest first, and the schedule with what is missing."""
    with runtime.database.read() as connection:
        runs = repository.newest_runs(connection, state.id)
        schedule = None if state.settings.train is None else Standing(runtime, state, connection).body()
    return {"training_runs": [_body(run) | {"steps": []} for run in runs], "schedule": schedule}


def _body(run: Row[Any]) -> dict[str, Any]:
    data = dict(run.data)
    trigger, reason = data.pop("trigger", None), data.pop("reason", None)
    learn_from, objective = data.pop("learn_from", "feedback"), data.pop("objective", "listwise")
    started_by = "schedule" if trigger else "documents" if reason else "request"
    if trigger:
        reason = f"{trigger['new_queries']} queries had new feedback"
    return {
        "id": run.id,
        "status": run.status,
        "started_by": started_by,
        "trigger": trigger,
        "reason": reason or "it was requested",
        "learn_from": learn_from,
        "objective": objective,
        "seed": run.seed,
        "promote": run.promote,
        "budget_seconds": run.budget_seconds,
        "click_reading": run.click_reading,
        "resumptions": run.resumptions,
        "progress": {"done": run.progress_done, "total": run.progress_total},
        "steps": run.steps,
        "data": data,
        "report": run.report,
        "decision": run.decision,
        "model_version": run.model_version,
        "error": run.error,
        "created_at": run.created_at,
        "finished_at": run.finished_at,
    }
