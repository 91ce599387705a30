"""SQL of training runs. The caller commits."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select

from index.records import KeyKind
from service.storage.checked_rows import update_row
from service.storage.database import now
from service.storage.tables import (
    AliasChange,
    Document,
    Event,
    Impression,
    Judgment,
    Key,
    Model,
    PendingDocument,
    TrainingRun,
)

MAX_LISTED = 200
CHUNK = 2_000
"""Rows of feedback that are read at a time."""
MAX_TEXT = 20_000
"""Characters of a text that a run on the documents reads, at most."""
ON_DOCUMENTS = func.coalesce(TrainingRun.data["learn_from"].as_string(), "feedback") == "documents"
"""The condition that a run learned from the documents alone."""


def feedback_window(connection: Connection, collection_id: int) -> dict[str, Any]:
    """Return the counts of events and judgments, and the first and last timestamp of the events."""
    wanted = select(func.min(Event.timestamp), func.max(Event.timestamp), func.count())
    first, last, events = connection.execute(wanted.where(Event.collection_id == collection_id)).one()
    rated = select(func.count()).select_from(Judgment).where(Judgment.collection_id == collection_id)
    return {"events": events, "judgments": connection.execute(rated).scalar_one(), "from": first, "to": last}


def explored_count(connection: Connection, collection_id: int) -> int:
    """Return the number of logged first pages of searches that asked for exploration."""
    explored = (Impression.request["explore"].as_float() > 0, Impression.request["offset"].as_integer() == 0)
    wanted = select(func.count()).select_from(Impression).where(Impression.collection_id == collection_id, *explored)
    return connection.execute(wanted).scalar_one()


def last_start(connection: Connection, collection_id: int, failed: bool = True) -> str | None:
    """Return when the last run on feedback of a collection began, or None. failed: whether runs that failed count."""
    wanted = select(TrainingRun.created_at).where(TrainingRun.collection_id == collection_id, ~ON_DOCUMENTS)
    if not failed:
        wanted = wanted.where(TrainingRun.status != "failed")
    return connection.execute(wanted.order_by(TrainingRun.id.desc()).limit(1)).scalar()


def queries_with_feedback_since(connection: Connection, collection_id: int, since: str | None) -> int:
    """Return the number of query texts with a graded event or a judgment that was stored after `since`."""
    newest_events = select(Event.collection_id, Event.query_key, Event.created_at).order_by(Event.id.desc())
    newest_judgments = select(Judgment.collection_id, Judgment.query_key, Judgment.created_at)
    found: set[str] = set()
    for newest_first in (newest_events.where(Event.grade != 0), newest_judgments.order_by(Judgment.id.desc())):
        found.update(_stored_after(connection, newest_first, collection_id, since))
    return len(found - {""})  # a thumb about a whole session has no query text


def _stored_after(
    connection: Connection, newest_first: Select[int, str, str], collection_id: int, since: str | None
) -> Iterator[str]:
    """Yield the query keys of a collection, newest first.

    Rows are stored in the order of time, so that rows from before `since` are not read. The rows of all collections
    are: with a condition on the collection, SQLite reads all its rows through the index and sorts them.
    """
    with closing(connection.execute(newest_first, execution_options={"yield_per": CHUNK})) as rows:
        for collection, query_key, created_at in rows:
            if since is not None and created_at <= since:
                return
            if collection == collection_id:
                yield query_key


def is_processing(connection: Connection, collection_id: int) -> bool:
    """Return whether a run of the collection has not ended."""
    mine = (TrainingRun.collection_id == collection_id, TrainingRun.status == "processing")
    return connection.execute(select(TrainingRun.id).where(*mine).limit(1)).first() is not None


def insert_run(
    connection: Connection, collection_id: int, run_id: str, wanted: dict[str, Any], data: dict[str, Any]
) -> None:
    """Insert a run that is processing; `wanted` holds the parameters of the request."""
    values = {"id": run_id, "collection_id": collection_id, "status": "processing", "data": data, "created_at": now()}
    connection.execute(insert(TrainingRun).values(**values, **wanted, steps=[], report={}, decision={}))


def update_run(connection: Connection, run_id: str, **values: Any) -> bool:
    """Set columns of a run. Return whether the run exists: it is deleted with its collection.

    A run that differs from its checksum loses it, and stays known as damaged.
    """
    return update_row(connection, "training_runs", {"id": run_id}, values)


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
    """Return version, report, decision and lineage of the model that a run has made, or None."""
    own = (Model.collection_id == collection_id, Model.lineage["training_run"].as_string() == run_id)
    wanted = select(Model.version, Model.report, Model.decision, Model.lineage).where(*own)
    return connection.execute(wanted).one_or_none()


def lineages_against(connection: Connection, collection_id: int, champion: int) -> list[dict[str, Any]]:
    """Return the lineages of the models that the gate has compared with a champion, oldest first."""
    trained = (Model.collection_id == collection_id, Model.lineage["kind"].as_string() == "trained")
    wanted = select(Model.lineage).where(*trained, Model.lineage["parent"].as_integer() == champion)
    return list(connection.execute(wanted.order_by(Model.version)).scalars())


def update_decision(connection: Connection, collection_id: int, version: int, decision: dict[str, Any]) -> None:
    """Replace the decision of a model."""
    update_row(connection, "models", {"collection_id": collection_id, "version": version}, {"decision": decision})


def document_rows(connection: Connection, collection_id: int) -> list[int]:
    """Return the rows of the searchable documents of a collection, ascending."""
    mine = select(Document.row).where(Document.collection_id == collection_id).order_by(Document.row)
    return list(connection.execute(mine).scalars())


def texts_of(connection: Connection, chosen: Sequence[int]) -> list[tuple[int, str, str]]:
    """Return row, title and text of these documents, at most 1,000, by row."""
    text = func.substr(Document.text, 1, MAX_TEXT)
    wanted = select(Document.row, Document.title, text).where(Document.row.in_(chosen)).order_by(Document.row)
    return [(row, title or "", text) for row, title, text in connection.execute(wanted)]


def document_counts(connection: Connection, collection_id: int) -> tuple[int, int]:
    """Return the numbers of searchable and of pending documents of a collection."""
    searchable, pending = (
        connection.execute(select(func.count()).select_from(table).where(table.collection_id == collection_id)).scalar()
        for table in (Document, PendingDocument)
    )
    return int(searchable or 0), int(pending or 0)


def documents_at_runs(connection: Connection, collection_id: int) -> list[int]:
    """Return the number of documents at each run on the documents, canceled ones left out."""
    mine = (TrainingRun.collection_id == collection_id, ON_DOCUMENTS, TrainingRun.status != "canceled")
    return [data["documents"] for data in connection.execute(select(TrainingRun.data).where(*mine)).scalars()]


def past_queries(connection: Connection, collection_id: int) -> Iterator[str]:
    """Yield the query keys that have feedback on a document, in order."""
    wanted = select(Key.query_key).where(Key.collection_id == collection_id, Key.kind == KeyKind.QUERY).distinct()
    streamed = {"yield_per": CHUNK}
    for query_key in connection.execute(wanted.order_by(Key.query_key), execution_options=streamed).scalars():
        yield query_key or ""


def has_moved_champion(connection: Connection, collection_id: int) -> bool:
    """Return whether the alias `champion` was ever moved."""
    mine = (AliasChange.collection_id == collection_id, AliasChange.name == "champion")
    return connection.execute(select(AliasChange.id).where(*mine).limit(1)).first() is not None


def model_kind(connection: Connection, collection_id: int, version: int) -> str | None:
    """Return the kind of a model: `initial`, `documents` or `trained`."""
    own = (Model.collection_id == collection_id, Model.version == version)
    kind: str | None = connection.execute(select(Model.lineage["kind"].as_string()).where(*own)).scalar()
    return kind
