"""Follows a training run from its start to its end, in the thread that `TrainingSupervisor` gives it.

A run ends once: with a model, with an error, or by cancellation. A stop of the service does not end the run: its record
stays `processing`, its staging folder stays, and the next start resumes it.
"""

import shutil
import signal
from pathlib import Path
from typing import Any

import structlog

from index.storage.files import write_atomically
from index.storage.full_disk import is_full
from service.http.problems import Problem
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.training import repository
from service.training.child_process import Specification, run_child
from service.training.conclusion import conclude
from service.training.staging import KNOWN_WORDS, NO_SPACE

log = structlog.get_logger()
INTERNAL_ERROR: dict[str, Any] = {"code": "internal_error", "detail": "the run ended with an unexpected error"}

Outcome = dict[str, Any]
"""Columns of the record of a run that has ended."""
CANCELED: Outcome = {"status": "canceled", "error": None}


def follow(runtime: Runtime, state: CollectionState, specification: Specification) -> None:
    """Run the training process to its end and record the outcome. Releases the collection's training lock."""
    run_id = specification["run"]
    outcome: Outcome | None = {"status": "failed", "error": INTERNAL_ERROR}
    try:
        staging = Path(specification["staging"])
        staging.mkdir(parents=True, exist_ok=True)
        if not (staging / KNOWN_WORDS).is_file():  # a resumed run reads its queries as it began
            write_atomically(staging / KNOWN_WORDS, "\n".join(sorted(runtime.encoder.words)).encode())
        outcome = _outcome(runtime, state, specification)
    except Problem as problem:  # the collection was deleted
        log.info("training_canceled", run=run_id, code=problem.code)
        outcome = CANCELED
    except Exception as error:
        log.exception("training_failed", run=run_id)
        if is_full(error):
            outcome = {"status": "failed", "error": NO_SPACE}
    finally:
        try:
            if outcome is None:
                # the next start adds 1 to the count, which does not include resumptions after an orderly stop
                with runtime.database.write() as connection:
                    repository.uncount_resumption(connection, run_id)
            else:
                end(runtime, run_id, outcome)
        except Exception:  # the run stays `processing`: housekeeping resumes it
            log.exception("training_not_recorded", run=run_id)
        finally:
            state.training_lock.release()


def end(runtime: Runtime, run_id: str, outcome: Outcome) -> None:
    """Record the outcome of a run and delete its staging folder."""
    with runtime.database.write() as connection:
        repository.end_run(connection, run_id, outcome)
    shutil.rmtree(runtime.staging / run_id, ignore_errors=True)


def _outcome(runtime: Runtime, state: CollectionState, specification: Specification) -> Outcome | None:
    """Return the outcome of a run, None if the next start of the service resumes it."""
    run_id = specification["run"]
    with runtime.database.read() as connection:
        registered = repository.model_of_run(connection, state.id, run_id) is not None
    if not registered:
        code, error = _fit(runtime, specification)
        if runtime.training.is_canceled(run_id):
            return CANCELED
        if code < 0 and runtime.training.closing:
            return None
        if code:
            return {"status": "failed", "error": error or (_failed(code) if code > 0 else _killed(-code))}
    return conclude(runtime, state, specification) | {"status": "succeeded", "error": None}


def _fit(runtime: Runtime, specification: Specification) -> tuple[int, dict[str, Any] | None]:
    """Run the training process; if a signal from outside the service killed it, run it once more."""
    run_id = specification["run"]
    code, error = run_child(runtime, specification)
    if code < 0 and not runtime.training.closing and not runtime.training.is_canceled(run_id):
        log.warning("training_child_killed", run=run_id, signal=-code)
        code, error = run_child(runtime, specification)
    return code, error


def _failed(code: int) -> dict[str, Any]:
    detail = f"the training process ended with code {code}; the log has more"
    return {"code": "training_failed", "detail": detail}


def _killed(number: int) -> dict[str, Any]:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    detail = f"{name} killed the training process, and killed it again after it was started once more"
    hint = "; the system may have killed it because it used too much memory" if number == signal.SIGKILL else ""
    return {"code": "training_killed", "detail": detail + hint}
