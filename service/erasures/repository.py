"""SQL of erasures: the rows of a subject, their deletion, and the receipts. The caller commits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, false, func, insert, or_, select

from service.http.access import FILTER_DIGITS, FILTERED
from service.storage.checked_rows import update_row
from service.storage.database import now
from service.storage.dialects import contains
from service.storage.tables import Collection, Event, Impression, Judgment, Key, Model
from service.storage.tables_of_administration import Erasure, IdempotentAnswer

PART = 500
"""Values in a condition of a statement, at most."""
MAX_LISTED = 200


@dataclass(frozen=True)
class SubjectRows:
    """The rows of a subject in one collection, and the query keys of its events and searches.

    first_at: the time when the first row was stored, None without rows.
    """

    events: list[int]
    impressions: list[str]
    judgments: list[int]
    query_keys: set[str]
    first_at: str | None

    @property
    def any(self) -> bool:
        """Whether there is a row."""
        return bool(self.events or self.impressions or self.judgments)


def subject_rows(connection: Connection, collection_id: int, kind: str, subject: str) -> SubjectRows:
    """Return the rows of a subject in a collection.

    An event or a search without a client belongs to a client if it shares its search or its session with a row of the
    client, or with another row that belongs to the client. For a session, its search decides in the same way; for a
    user, the search that an event of the user names.
    """
    events, impressions = _named_rows(connection, collection_id, kind, subject)
    seen: dict[str, set[str]] = {"query_id": set(), "session_id": set()} if kind == "client" else {"query_id": set()}
    while shared := _shared(seen, (*events, *impressions)):
        for column, values in shared.items():
            seen[column] |= values
            for part in parts(sorted(values)):
                events += _rows(connection, Event, collection_id, _unnamed(Event, kind), column, part)
                impressions += _rows(connection, Impression, collection_id, _unnamed(Impression, kind), column, part)
    judgments = _judgments(connection, collection_id, subject) if kind == "user" else []
    every = [*events, *impressions, *judgments]
    return SubjectRows(
        sorted({row.id for row in events}),
        sorted({row.query_id for row in impressions}),
        [row.id for row in judgments],
        {row.query_key for row in every},
        min((row.created_at for row in every), default=None),
    )


def _shared(seen: Mapping[str, set[str]], rows: Sequence[Row[Any]]) -> dict[str, set[str]]:
    """Return column -> the values of the rows that were not seen, for the columns of `seen` with such values."""
    found = {column: {getattr(row, column) for row in rows} - {None, ""} - before for column, before in seen.items()}
    return {column: values for column, values in found.items() if values}


def _named_rows(
    connection: Connection, collection_id: int, kind: str, subject: str
) -> tuple[list[Row[Any]], list[Row[Any]]]:
    """Return the events and the impressions that name the subject."""
    events = _columns(Event).where(Event.collection_id == collection_id, _names(Event, kind, subject))
    impressions = _columns(Impression).where(
        Impression.collection_id == collection_id, _names(Impression, kind, subject)
    )
    return list(connection.execute(events)), list(connection.execute(impressions))


def _names(table: Any, kind: str, subject: str) -> ColumnElement[bool]:
    """Return the condition that a row names the subject. Impressions have no user."""
    if kind == "user":
        return Event.body["user_id"].as_string() == subject if table is Event else false()
    if kind == "session":
        return or_(table.session_id == subject, _names_filtered(table, subject))
    named: ColumnElement[bool] = table.client_id == subject
    return named


def _names_filtered(table: Any, session: str) -> ColumnElement[bool]:
    """Return the condition that a row names a session of a key with a filter (`Caller.session`)."""
    named = func.substr(table.session_id, len(FILTERED) + FILTER_DIGITS + 2) == session
    return and_(func.substr(table.session_id, 1, len(FILTERED)) == FILTERED, named)


def _unnamed(table: Any, kind: str) -> ColumnElement[bool]:
    """Return the condition that a row names no subject of this kind."""
    if kind == "user":
        return Event.body["user_id"].as_string().is_(None) if table is Event else Impression.query_id.is_not(None)
    unnamed: ColumnElement[bool] = (table.client_id if kind == "client" else table.session_id).is_(None)
    return unnamed


def _rows(
    connection: Connection,
    table: Any,
    collection_id: int,
    unnamed: ColumnElement[bool],
    column: str,
    values: Sequence[str],
) -> list[Row[Any]]:
    """Return the rows that name no subject and share a search or a session with the subject."""
    wanted = _columns(table).where(table.collection_id == collection_id, unnamed, getattr(table, column).in_(values))
    return list(connection.execute(wanted))


def _columns(table: Any) -> Any:
    key = [Event.id] if table is Event else []
    return select(*key, table.query_id, table.session_id, table.query_key, table.created_at)


def _judgments(connection: Connection, collection_id: int, rater: str) -> list[Row[Any]]:
    wanted = select(Judgment.id, Judgment.query_key, Judgment.created_at)
    return list(connection.execute(wanted.where(Judgment.collection_id == collection_id, Judgment.rater == rater)))


def delete_rows(connection: Connection, rows: SubjectRows) -> list[int]:
    """Delete the rows of a subject with their `query` keys; return the ids of these keys."""
    removed: list[int] = []
    for ids, column, table in ((rows.events, Key.event_id, Event), (rows.judgments, Key.judgment_id, Judgment)):
        for part in parts(ids):
            removed += connection.execute(delete(Key).where(column.in_(part)).returning(Key.id)).scalars()
            connection.execute(delete(table).where(table.id.in_(part)))
    for query_ids in parts(rows.impressions):
        connection.execute(delete(Impression).where(Impression.query_id.in_(query_ids)))
    return removed


def delete_answers(connection: Connection) -> int:
    """Delete the stored answers to searches with an Idempotency-Key: they may quote past queries. Return how many."""
    body = IdempotentAnswer.body
    return int(connection.execute(delete(IdempotentAnswer).where(contains(connection, body, b'"query_id"'))).rowcount)


def models_since(connection: Connection, collection_id: int, first_at: str) -> list[dict[str, Any]]:
    """Return the models of a collection that were trained on feedback and finished at `first_at` or later."""
    trained = and_(Model.lineage["kind"].as_string() == "trained", Model.created_at >= first_at)
    wanted = (
        select(Collection.name, Model.version, Model.lineage, Model.created_at)
        .join(Collection, Collection.id == Model.collection_id)
        .where(Model.collection_id == collection_id, trained)
    )
    return [
        {"collection": name, "version": version, "training_run": lineage["training_run"], "created_at": created_at}
        for name, version, lineage, created_at in connection.execute(wanted.order_by(Model.version))
    ]


def insert_erasure(connection: Connection, subject: str, receipt: dict[str, Any]) -> None:
    """Insert an erasure that begins."""
    values = {"id": receipt["id"], "status": "deleting", "subject": subject, "receipt": receipt, "created_at": now()}
    connection.execute(insert(Erasure).values(values))


def find_erasure(connection: Connection, id: str) -> Row[Any]:
    """Return the row of an erasure. Raises NoResultFound."""
    return connection.execute(select(Erasure.__table__).where(Erasure.id == id)).one()


def update_erasure(connection: Connection, receipt: dict[str, Any], **values: Any) -> None:
    """Replace the receipt of an erasure, its status and further columns."""
    changed = values | {"receipt": receipt, "status": receipt["status"], "finished_at": receipt["finished_at"]}
    update_row(connection, "erasures", {"id": receipt["id"]}, changed)


def unfinished_erasures(connection: Connection) -> list[str]:
    """Return the ids of the erasures that are not done, oldest first."""
    wanted = select(Erasure.id).where(or_(Erasure.status != "done", Erasure.finished_at.is_(None)))
    return list(connection.execute(wanted.order_by(Erasure.id)).scalars())


def newest_receipts(connection: Connection) -> list[dict[str, Any]]:
    """Return the newest MAX_LISTED receipts, newest first."""
    return list(connection.execute(select(Erasure.receipt).order_by(Erasure.id.desc()).limit(MAX_LISTED)).scalars())


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values in parts of PART."""
    return (values[start : start + PART] for start in range(0, len(values), PART))
