"""SQL of training runs. The caller commits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, or_, select, true, union

from index.records import KeyKind
from service.runtime.model_repository import LEARNED_INDEX, REENCODED, champion_version
from service.storage.checked_rows import update_row
from service.storage.database import now
from service.storage.tables import (
    ALIAS_CHANGES,
    DOCUMENTS,
    EVENTS,
    JUDGMENTS,
    KEYS,
    MODELS,
    PENDING_DOCUMENTS,
    QUERIES,
    TRAINING_RUNS,
)
from service.storage.unreadable_rows import readable_rows

MAX_LISTED = 200
CHUNK = 2_000
"""Rows of feedback that are read at a time."""
MAX_TEXT = 20_000
"""Characters of a text that a run on the documents reads, at most."""
ON_DOCUMENTS = func.coalesce(TRAINING_RUNS.c.data["learn_from"].as_string(), "feedback") == "documents"
"""The condition that a run learned from the documents alone."""
READS_FEEDBACK = func.coalesce(TRAINING_RUNS.c.data["objective"].as_string(), "listwise") != "reinforce"
"""The condition that a run on feedback reads more of it than explored lists."""


def feedback_window(connection: Connection, collection_id: int) -> dict[str, Any]:
    """Return the counts of events and judgments, and the first and last timestamp of the events.

    `stored_until` is the time when the newest of them was stored, None without feedback: what comes later is new.
    """
    read_at = now()
    event, judgment = EVENTS.c, JUDGMENTS.c
    wanted = select(func.count(), func.min(event.timestamp), func.max(event.timestamp), func.max(event.created_at))
    events, first, last, stored = connection.execute(wanted.where(event.collection_id == collection_id)).one()
    rated = select(func.count(), func.max(judgment.created_at)).where(judgment.collection_id == collection_id)
    judgments, judged = connection.execute(rated).one()
    newest = max(filter(None, (stored, judged)), default=None)
    stored_until = newest and min(newest, read_at)  # the clock of the service may have been ahead in between
    return {"events": events, "judgments": judgments, "from": first, "to": last, "stored_until": stored_until}


def explored_count(connection: Connection, collection_id: int) -> int:
    """Return the number of logged first pages of searches that asked for exploration."""
    explored = (QUERIES.c.request["explore"].as_float() > 0, QUERIES.c.request["offset"].as_integer() == 0)
    wanted = select(func.count()).select_from(QUERIES).where(QUERIES.c.collection_id == collection_id, *explored)
    return connection.execute(wanted).scalar_one()


def last_start(connection: Connection, collection_id: int) -> str | None:
    """Return when the last run on feedback of a collection began, with any outcome, or None."""
    return _of_last_run(connection, collection_id, TRAINING_RUNS.c.created_at, true())


def last_reading(connection: Connection, collection_id: int) -> str | None:
    """Return when the newest feedback was stored that the last run read that read the feedback to an end, or None.

    A run that failed or was canceled did not, except where it found too little feedback. A run with the objective
    `reinforce` reads explored lists alone.
    """
    code = TRAINING_RUNS.c.error["code"].as_string()
    stored_until = TRAINING_RUNS.c.data["stored_until"].as_string()  # the data of earlier runs do not have it
    return _of_last_run(
        connection,
        collection_id,
        func.coalesce(stored_until, TRAINING_RUNS.c.created_at),
        and_(READS_FEEDBACK, or_(TRAINING_RUNS.c.status.not_in(("failed", "canceled")), code == "not_enough_feedback")),
    )


def _of_last_run(
    connection: Connection, collection_id: int, moment: ColumnElement[str], condition: ColumnElement[bool]
) -> str | None:
    """Return a time of the last run on feedback for which a condition holds, or None."""
    mine = (TRAINING_RUNS.c.collection_id == collection_id, ~ON_DOCUMENTS, condition)
    wanted = select(moment).where(*mine).order_by(TRAINING_RUNS.c.id.desc())
    found: str | None = connection.execute(wanted.limit(1)).scalar()
    return found


def queries_with_feedback_since(connection: Connection, collection_id: int, since: str | None) -> int:
    """Return the number of query texts with a graded event or a judgment that was stored after `since`.

    since: RFC 3339 text; None counts all feedback.
    """
    parts = [
        select(table.c.query_key).where(
            table.c.collection_id == collection_id,
            table.c.created_at > ("" if since is None else since),  # the condition that the indexes by time are for
            graded,
        )
        for table, graded in ((EVENTS, EVENTS.c.grade != 0), (JUDGMENTS, true()))
    ]
    new = union(*parts).subquery()
    wanted = select(func.count()).select_from(new).where(new.c.query_key != "")  # a thumb about a session has no text
    return connection.execute(wanted).scalar_one()


def is_processing(connection: Connection, collection_id: int) -> bool:
    """Return whether a run of the collection has not ended."""
    mine = (TRAINING_RUNS.c.collection_id == collection_id, TRAINING_RUNS.c.status == "processing")
    return connection.execute(select(TRAINING_RUNS.c.id).where(*mine).limit(1)).first() is not None


def insert_run(
    connection: Connection, collection_id: int, run_id: str, wanted: dict[str, Any], data: dict[str, Any]
) -> None:
    """Insert a run that is processing; `wanted` holds the parameters of the request."""
    values = {"id": run_id, "collection_id": collection_id, "status": "processing", "data": data, "created_at": now()}
    connection.execute(insert(TRAINING_RUNS).values(**values, **wanted, steps=[], report={}, decision={}))


def update_run(connection: Connection, run_id: str, **values: Any) -> bool:
    """Set columns of a run. Return whether the run exists: it is deleted with its collection.

    A run that differs from its checksum loses it, and stays known as damaged.
    """
    return update_row(connection, "training_runs", {"id": run_id}, values)


def add_data(connection: Connection, run_id: str, data: dict[str, Any]) -> None:
    """Set members of the data of a run, if it exists."""
    stored = connection.execute(select(TRAINING_RUNS.c.data).where(TRAINING_RUNS.c.id == run_id)).scalar() or {}
    update_run(connection, run_id, data=stored | data)


def end_run(connection: Connection, run_id: str, outcome: dict[str, Any]) -> None:
    """Set the columns `outcome` of a run that has ended; a run that succeeded gets its full progress."""
    progress = {"progress_done": TRAINING_RUNS.c.progress_total} if outcome["status"] == "succeeded" else {}
    update_run(connection, run_id, finished_at=now(), **outcome, **progress)


def uncount_resumption(connection: Connection, run_id: str) -> None:
    """Decrease the number of resumptions, for a run that is left to the next start by an orderly stop."""
    update_run(connection, run_id, resumptions=TRAINING_RUNS.c.resumptions - 1)


def find_run(connection: Connection, collection_id: int, run_id: str) -> Row[Any] | None:
    """Return the row of a run, or None."""
    wanted = select(TRAINING_RUNS).where(TRAINING_RUNS.c.id == run_id, TRAINING_RUNS.c.collection_id == collection_id)
    return connection.execute(wanted).one_or_none()


def newest_runs(connection: Connection, collection_id: int) -> Sequence[Row[Any]]:
    """Return the newest MAX_LISTED runs of a collection, newest first, without those that cannot be read."""
    wanted = select(TRAINING_RUNS).where(TRAINING_RUNS.c.collection_id == collection_id)
    rows, _ = readable_rows(
        connection, wanted.order_by(TRAINING_RUNS.c.id.desc()).limit(MAX_LISTED), TRAINING_RUNS.c.id
    )
    return rows


def processing_runs(connection: Connection) -> Sequence[Row[Any]]:
    """Return the runs of all collections that have not ended, oldest first."""
    wanted = select(TRAINING_RUNS).where(TRAINING_RUNS.c.status == "processing")
    return connection.execute(wanted.order_by(TRAINING_RUNS.c.id)).all()


def run_steps(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the stored steps of a run."""
    return list(connection.execute(select(TRAINING_RUNS.c.steps).where(TRAINING_RUNS.c.id == run_id)).scalar() or [])


def model_of_run(connection: Connection, collection_id: int, run_id: str) -> Row[Any, Any, Any, Any] | None:
    """Return version, report, decision and lineage of the model that a run has made, or None."""
    own = (MODELS.c.collection_id == collection_id, MODELS.c.lineage["training_run"].as_string() == run_id)
    wanted = select(MODELS.c.version, MODELS.c.report, MODELS.c.decision, MODELS.c.lineage).where(*own)
    return connection.execute(wanted).one_or_none()


def lineages_against(connection: Connection, collection_id: int, champion: int) -> list[dict[str, Any]]:
    """Return the lineages of the models that the gate has compared with a champion, oldest first."""
    trained = (MODELS.c.collection_id == collection_id, MODELS.c.lineage["kind"].as_string() == "trained")
    wanted = select(MODELS.c.lineage).where(*trained, MODELS.c.lineage["parent"].as_integer() == champion)
    return list(connection.execute(wanted.order_by(MODELS.c.version)).scalars())


def update_decision(connection: Connection, collection_id: int, version: int, decision: dict[str, Any]) -> None:
    """Replace the decision of a model."""
    update_row(connection, "models", {"collection_id": collection_id, "version": version}, {"decision": decision})


def document_rows(connection: Connection, collection_id: int) -> list[int]:
    """Return the rows of the searchable documents of a collection, ascending."""
    mine = select(DOCUMENTS.c.row).where(DOCUMENTS.c.collection_id == collection_id).order_by(DOCUMENTS.c.row)
    return list(connection.execute(mine).scalars())


def newer_documents(connection: Connection, collection_id: int, rows: Sequence[int]) -> list[int]:
    """Return the rows of the searchable documents that are newer than all documents with these rows; none for no row.

    The time when a document with the id was first stored decides, because a changed document gets a new row.
    """
    newest = ""
    for first in range(0, len(rows), CHUNK):
        of_part = select(func.max(DOCUMENTS.c.created_at)).where(DOCUMENTS.c.row.in_(rows[first : first + CHUNK]))
        newest = max(newest, connection.execute(of_part).scalar() or "")
    mine = (DOCUMENTS.c.collection_id == collection_id, DOCUMENTS.c.created_at > newest)
    return list(connection.execute(select(DOCUMENTS.c.row).where(*mine)).scalars()) if newest else []


def texts_of(connection: Connection, chosen: Sequence[int]) -> list[tuple[int, str, str]]:
    """Return row, title and text of these documents, at most 1,000, by row."""
    text = func.substr(DOCUMENTS.c.text, 1, MAX_TEXT)
    wanted = (
        select(DOCUMENTS.c.row, DOCUMENTS.c.title, text).where(DOCUMENTS.c.row.in_(chosen)).order_by(DOCUMENTS.c.row)
    )
    return [(row, title or "", text) for row, title, text in connection.execute(wanted)]


def metadata_of(connection: Connection, collection_id: int) -> Iterator[Mapping[str, Any]]:
    """Yield the metadata of the searchable documents of a collection."""
    wanted = select(DOCUMENTS.c.metadata).where(DOCUMENTS.c.collection_id == collection_id)
    yield from connection.execute(wanted).scalars()


def document_counts(connection: Connection, collection_id: int) -> tuple[int, int]:
    """Return the numbers of searchable and of pending documents of a collection."""
    tables, count = (DOCUMENTS, PENDING_DOCUMENTS), select(func.count())
    counting = (count.select_from(table).where(table.c.collection_id == collection_id) for table in tables)
    searchable, pending = (connection.execute(one).scalar_one() for one in counting)
    return int(searchable), int(pending)


def documents_at_runs(connection: Connection, collection_id: int) -> list[int]:
    """Return the number of documents at each run on the documents.

    Canceled runs are left out, and those whose model learned from another index, or was retired for the vectors of
    another encoder.
    """
    mine = (TRAINING_RUNS.c.collection_id == collection_id, ON_DOCUMENTS, TRAINING_RUNS.c.status != "canceled")
    counted = select(TRAINING_RUNS.c.id, TRAINING_RUNS.c.data).where(*mine)
    found = {run: data["documents"] for run, data in connection.execute(counted)}
    if not found:
        return []
    champion = champion_version(connection, collection_id)
    models = select(MODELS.c.version, MODELS.c.lineage).where(MODELS.c.collection_id == collection_id)
    for version, lineage in connection.execute(models):
        if LEARNED_INDEX in lineage or ("encoder" in lineage and version != champion):
            found.pop(lineage.get("training_run"), None)
    return list(found.values())


def reports_with_attention(connection: Connection, collection_id: int) -> list[tuple[str, dict[str, Any]]]:
    """Return id and report of each run of a collection whose report has weights of held-out queries."""
    wanted = select(TRAINING_RUNS.c.id, TRAINING_RUNS.c.report).where(TRAINING_RUNS.c.collection_id == collection_id)
    return [(row.id, row.report) for row in connection.execute(wanted) if (row.report or {}).get("attention")]


def past_queries(connection: Connection, collection_id: int) -> Iterator[str]:
    """Yield the query keys that have feedback on a document, in order."""
    wanted = (
        select(KEYS.c.query_key).where(KEYS.c.collection_id == collection_id, KEYS.c.kind == KeyKind.QUERY).distinct()
    )
    streamed = {"yield_per": CHUNK}
    for query_key in connection.execute(wanted.order_by(KEYS.c.query_key), execution_options=streamed).scalars():
        yield query_key or ""


def has_moved_champion(connection: Connection, collection_id: int) -> bool:
    """Return whether the alias `champion` was moved, and not by `softseek reencode` in the end."""
    mine = (ALIAS_CHANGES.c.collection_id == collection_id, ALIAS_CHANGES.c.name == "champion")
    newest = select(ALIAS_CHANGES.c.reason).where(*mine).order_by(ALIAS_CHANGES.c.id.desc()).limit(1)
    reason = connection.execute(newest).scalar()
    return reason is not None and not reason.startswith(REENCODED)


def model_kind(connection: Connection, collection_id: int, version: int) -> str | None:
    """Return the kind of a model: `initial`, `documents` or `trained`."""
    own = (MODELS.c.collection_id == collection_id, MODELS.c.version == version)
    kind: str | None = connection.execute(select(MODELS.c.lineage["kind"].as_string()).where(*own)).scalar()
    return kind
