"""SQL of training runs. The caller commits."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from service.storage.database import now
from service.storage.tables import Event, Judgment, Model, TrainingRun

MAX_LISTED = 200


def feedback_window(connection: Connection, collection_id: int) -> dict[str, Any]:
    """Return the counts of events and judgments, and the first and last timestamp of the events."""
    wanted = select(func.min(Event.timestamp), func.max(Event.timestamp), func.count())
    first, last, events = connection.execute(wanted.where(Event.collection_id == collection_id)).one()
    rated = select(func.count()).select_from(Judgment).where(Judgment.collection_id == collection_id)
    return {"events": events, "judgments": connection.execute(rated).scalar_one(), "from": first, "to": last}


def insert_run(
    connection: Connection, collection_id: int, run_id: str, wanted: dict[str, Any], data: dict[str, Any]
) -> None:
    """Insert a run that is processing; `wanted` holds the parameters of the request."""
    values = {"id": run_id, "collection_id": collection_id, "status": "processing", "data": data, "created_at": now()}
    connection.execute(insert(TrainingRun).values(**values, **wanted, steps=[], report={}, decision={}))


def update_run(connection: Connection, run_id: str, **values: Any) -> bool:
    """Set columns of a run. Return whether the run exists: it is deleted with its collection."""
    return connection.execute(update(TrainingRun).where(TrainingRun.id == run_id).values(**values)).rowcount > 0


def end_run(connection: Connection, run_id: str, outcome: dict[str, Any]) -> None:
    """Set the columns `outcome` of a run that has ended; a run that succeeded gets its full progress."""
    progress = {"progress_done": TrainingRun.progress_total} if outcome["status"] == "succeeded" else {}
    update_run(connection, run_id, finished_at=now(), **outcome, **progress)


def uncount_resumption(connection: Connection, run_id: str) -> None:
    """Decrease the number of resumptions, for a run that is left to the next start by an orderly stop."""
    update_run(connection, run_id, resumptions=TrainingRun.resumptions - 1)


def find_run(connection: Connection, collection_id: int, run_id: str) -> Row[Any] | None:
    """Return the row of a run, or None."""
    wanted = select(TrainingRun.__table__).where(TrainingRun.id == run_id, TrainingRun.collection_id == collection_id)
    return connection.execute(wanted).one_or_none()


def newest_runs(connection: Connection, collection_id: int) -> Sequence[Row[Any]]:
    """Return the newest MAX_LISTED runs of a collection, newest first."""
    wanted = select(TrainingRun.__table__).where(TrainingRun.collection_id == collection_id)
    return connection.execute(wanted.order_by(TrainingRun.id.desc()).limit(MAX_LISTED)).all()


def processing_runs(connection: Connection) -> Sequence[Row[Any]]:
    """Return the runs of all collections that have not ended, oldest first."""
    wanted = select(TrainingRun.__table__).where(TrainingRun.status == "processing")
    return connection.execute(wanted.order_by(TrainingRun.id)).all()


def run_steps(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the stored steps of a run."""
    return list(connection.execute(select(TrainingRun.steps).where(TrainingRun.id == run_id)).scalar() or [])


def model_of_run(connection: Connection, collection_id: int, run_id: str) -> Row[Any] | None:
    """Return version, report and decision of the model that a run has made, or None."""
    own = (Model.collection_id == collection_id, Model.lineage["training_run"].as_string() == run_id)
    return connection.execute(select(Model.version, Model.report, Model.decision).where(*own)).one_or_none()


def update_decision(connection: Connection, collection_id: int, version: int, decision: dict[str, Any]) -> None:
    """Replace the decision of a model."""
    own = (Model.collection_id == collection_id, Model.version == version)
    connection.execute(update(Model).where(*own).values(decision=decision))
