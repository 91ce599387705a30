"""Erases the data of one client, user or session: rows and memory first, then every trace in the files.

An erasure has a row from its request on. If the process ends in between, the next start goes on with it: the deletion
from a collection is one transaction, and the rewriting of the files can be repeated.
"""

from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import structlog

from service.erasures import repository
from service.erasures.receipts import (
    COLLECTION_IDS,
    finished,
    is_of_all,
    new_receipt,
    set_aside,
    shown,
    snapshots,
)
from service.erasures.repository import SubjectRows
from service.erasures.schemas import ErasureIn
from service.http.problems import Problem
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, marked_collections, processing_run_ids
from service.runtime.jobs import Progress
from service.runtime.runtime import Runtime
from service.storage.database import DatabaseRead, new_id
from service.training.actions import cancel, end_canceled
from service.training.attention import forget_attention

CANCELED_SECONDS = 60
"""Time that a canceled training run has to end."""
SNAPSHOT_SECONDS = 60
"""Time that an erasure waits for a snapshot that is being made: its copy of the database would keep the rows."""
IMPORT_SECONDS = 60
"""Time that an erasure waits for the imports of exports that were accepted before its request."""
LOOK_SECONDS = 0.05
LATER = "the service tries again within an hour, and at its next start"
EXTERNAL = (
    "another process reads the write-ahead log, and keeps copies of it: stop that process, start the service without"
    " SOFTSEEK_EXTERNAL_CHECKPOINTS, erase, and make the copies again"
)
log = structlog.get_logger()


def start(runtime: Runtime, wanted: ErasureIn) -> str:
    """Record an erasure durably and start its task; return the id of the task. Raises Problem 404, 409 and 503."""
    if runtime.settings.external_checkpoints:
        raise Problem(409, "external_checkpoints", EXTERNAL)
    state = None if wanted.collection is None else runtime.collection(wanted.collection)
    names, ids = (sorted(runtime.collections), None) if state is None else ([state.name], [state.id])
    receipt = new_receipt(new_id(), wanted.kind, wanted.subject, names)
    imports = set(runtime.accepted_imports)  # an import that is accepted later may wait for this erasure to end
    with runtime.database.write() as connection:  # an erasure for whose task there is no place is not recorded
        repository.insert_erasure(connection, wanted.subject, receipt | {COLLECTION_IDS: ids})
        task_id = runtime.jobs.enqueued(connection, "erasure", None if state is None else state.name)

    def work(progress: Progress) -> dict[str, Any]:
        return carry_out(runtime, receipt["id"], imports)

    runtime.jobs.run(task_id, work)
    return task_id


def resume_erasures(runtime: Runtime) -> None:
    """Finish the erasures that an earlier process began. An erasure that fails is tried again later."""
    with runtime.database.read() as connection:
        unfinished = repository.unfinished_erasures(connection)
    for erasure_id in unfinished:
        try:
            carry_out(runtime, erasure_id)
        except Exception:
            log.exception("erasure_failed", erasure=erasure_id)
        else:
            log.info("erasure_finished", erasure=erasure_id)


def retry_erasures(runtime: Runtime) -> None:
    """Finish the erasures that met a reader, a training run or a snapshot; do nothing while an erasure goes on."""
    if not runtime.snapshot_lock.locked():
        resume_erasures(runtime)


def carry_out(runtime: Runtime, erasure_id: str, imports: Set[Path] | None = None) -> dict[str, Any]:
    """Do all steps of an erasure that are left; return its receipt. No snapshot is made meanwhile.

    imports: the files of the imports that were accepted before the request. Without them, as in a later attempt, any
    import may be one of these, and the erasure waits for none. Raises Problem 503, and leaves the erasure unfinished.
    """
    if not runtime.snapshot_lock.acquire(timeout=SNAPSHOT_SECONDS):
        raise Problem(503, "snapshot_in_progress", f"a snapshot or another erasure goes on; {LATER}")
    try:
        return _carry_out(runtime, erasure_id, imports)
    finally:
        runtime.snapshot_lock.release()


def _carry_out(runtime: Runtime, erasure_id: str, imports: Set[Path] | None) -> dict[str, Any]:
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        row = repository.find_erasure(connection, erasure_id)
    receipt = row.receipt
    if row.status == "done":  # another thread finished it
        return receipt  # type: ignore[no-any-return]
    if row.status == "deleting":
        if is_of_all(receipt):
            _await_imports(runtime, imports)
        states = _states(runtime, receipt)
        if is_of_all(receipt):
            names = {*receipt["collections"], *(state.name for state in states)}
            receipt = receipt | {"collections": sorted(names)}
        for state in states:
            receipt = _erase_in(runtime, state, receipt, row.subject)
        receipt = _erase_in_marked(runtime, receipt, row.subject)
        _await_canceled(runtime)
        receipt = _end_deletion(runtime, receipt)
    try:
        runtime.database.scrub()
    except DatabaseRead as error:
        raise Problem(503, "database_busy", f"{error}; {LATER}") from error
    receipt = finished(receipt | _kept_copies(runtime))
    with runtime.database.write() as connection:
        repository.update_erasure(connection, receipt)
    return receipt


def _await_imports(runtime: Runtime, imports: Set[Path] | None) -> None:
    """Wait until these imports of exports have ended: their collections are erased from too.

    Raises Problem 503: without `imports` at once, if any import goes on.
    """
    waiting = set(runtime.accepted_imports) if imports is None else imports
    deadline = monotonic() + (0 if imports is None else IMPORT_SECONDS)
    while waiting & runtime.accepted_imports:
        if runtime.closing or monotonic() >= deadline:  # a service that closes drops the imports that have not begun
            raise Problem(503, "import_in_progress", f"an export is being imported; {LATER}")
        sleep(LOOK_SECONDS)


def receipts(runtime: Runtime) -> dict[str, Any]:
    """Return the newest receipts."""
    with runtime.database.read() as connection:
        return {"erasures": [shown(receipt) for receipt in repository.newest_receipts(connection)]}


def _states(runtime: Runtime, receipt: dict[str, Any]) -> list[CollectionState]:
    """Return the collections of an erasure. Their names may have changed since the request, their ids not."""
    states = list(runtime.collections.values())
    if is_of_all(receipt):
        return states
    if COLLECTION_IDS not in receipt:  # stored by an earlier release
        return [state for state in states if state.name in receipt["collections"]]
    return [state for state in states if state.id in receipt[COLLECTION_IDS]]


def _erase_in(runtime: Runtime, state: CollectionState, receipt: dict[str, Any], subject: str) -> dict[str, Any]:
    """Delete the rows of the subject in a collection, and their memory; return the receipt with them."""
    with runtime.database.read() as connection:
        has_rows = repository.subject_rows(connection, state.id, receipt["kind"], subject).any
        may_have_texts = state.has_deleted_feedback and bool(processing_run_ids(connection, state.id))
    if not has_rows and not may_have_texts:
        return receipt
    with _without_training(runtime, state) as canceled, state.lock:
        with runtime.database.write() as connection:
            rows = repository.subject_rows(connection, state.id, receipt["kind"], subject)
            removed = repository.delete_rows(connection, rows)
            forget_attention(connection, state.id)
            models = repository.models_since(connection, state.id, rows.trained_from) if rows.any else []
            receipt = _with_rows(receipt, rows, len(removed), canceled, models)
            repository.update_erasure(connection, receipt)
            if not rows.any:  # they were deleted since, perhaps with the collection
                return receipt
            watermark = bump_watermark(connection, state.id, documents=False)
        state.forget(watermark, removed, [], rows.query_keys)
    return receipt


def _erase_in_marked(runtime: Runtime, receipt: dict[str, Any], subject: str) -> dict[str, Any]:
    """Delete the rows of the subject in the collections whose deletion goes on; return the receipt with them."""
    with runtime.database.write() as connection:
        for collection_id in marked_collections(connection):
            rows = repository.subject_rows(connection, collection_id, receipt["kind"], subject)
            if rows.any:
                receipt = _with_rows(receipt, rows, len(repository.delete_rows(connection, rows)), [], [])
        repository.update_erasure(connection, receipt)
    return receipt


def _await_canceled(runtime: Runtime) -> None:
    """Wait until all canceled runs have ended, the runs of deleted collections included. Raises Problem 503."""
    deadline = monotonic() + CANCELED_SECONDS
    while runtime.training.has_canceled:
        if runtime.closing or monotonic() >= deadline:
            raise Problem(503, "training_not_stopped", f"a training run did not stop; {LATER}")
        sleep(LOOK_SECONDS)


def _with_rows(
    receipt: dict[str, Any], rows: SubjectRows, memory: int, canceled: list[str], models: list[dict[str, Any]]
) -> dict[str, Any]:
    counts = {"impressions": len(rows.impressions), "events": len(rows.events), "judgments": len(rows.judgments)}
    counts["memory"] = memory
    erased = {name: number + counts.get(name, 0) for name, number in receipt["erased"].items()}
    return receipt | {
        "erased": erased,
        "first_at": min(filter(None, (receipt["first_at"], rows.first_at)), default=None),
        "canceled_training_runs": [*receipt["canceled_training_runs"], *canceled],
        "models": [*receipt["models"], *models],
    }


def _end_deletion(runtime: Runtime, receipt: dict[str, Any]) -> dict[str, Any]:
    """Forget the subject itself, and what quotes it; return the receipt."""
    runtime.forget_queries()
    with runtime.database.write() as connection:
        answers = repository.delete_answers(connection) if receipt["first_at"] else 0
        erased = receipt["erased"] | {"idempotent_answers": answers}
        receipt = shown(receipt) | {"status": "scrubbing", "erased": erased} | _kept_copies(runtime)
        repository.update_erasure(connection, receipt, subject=None)
    return receipt


def _kept_copies(runtime: Runtime) -> dict[str, list[dict[str, Any]]]:
    """Return the snapshots, which may hold what was erased, and what was set aside, as members of the receipt."""
    return {"snapshots": snapshots(runtime.settings.data), "set_aside": set_aside(runtime.settings.data)}


@contextmanager
def _without_training(runtime: Runtime, state: CollectionState) -> Iterator[list[str]]:
    """Cancel the run of a collection, whose staging folder has its feedback, and start none; give its id in a list."""
    with runtime.database.read() as connection:
        going = sorted(processing_run_ids(connection, state.id))
    for run_id in going:
        with suppress(Problem):  # it was deleted with its collection
            cancel(runtime, state, run_id)
    if not state.training_lock.acquire(timeout=CANCELED_SECONDS):
        raise Problem(503, "training_not_stopped", f"a training run did not stop; {LATER}")
    try:
        for run_id in going:  # one that no thread follows could not end beside another
            with suppress(Problem):
                end_canceled(runtime, state, run_id)
        yield going
    finally:
        state.training_lock.release()
