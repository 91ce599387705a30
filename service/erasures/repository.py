"""SQL of erasures: the rows of a subject, their deletion, and the receipts. The caller commits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, false, func, insert, or_, select

from service.http.access import FILTER_DIGITS, FILTERED
from service.storage.checked_rows import update_row
from service.storage.database import now
from service.storage.dialects import contains
from service.storage.tables import COLLECTIONS, EVENTS, JUDGMENTS, KEYS, MODELS, QUERIES
from service.storage.tables_of_administration import ERASURES, IDEMPOTENT_ANSWERS

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
    user, the search that an event of the user names. Events of others that quote the text of an erased search are
    rows of the subject too; what shares their session is not.
    """
    events, impressions = _named_rows(connection, collection_id, kind, subject)
    seen: dict[str, set[str]] = {"query_id": set(), "session_id": set()} if kind == "client" else {"query_id": set()}
    while shared := _shared(seen, (*events, *impressions)):
        for column, values in shared.items():
            seen[column] |= values
            for part in parts(sorted(values)):
                events += _rows(connection, EVENTS, collection_id, _unnamed(EVENTS, kind), column, part)
                impressions += _rows(connection, QUERIES, collection_id, _unnamed(QUERIES, kind), column, part)
    for part in parts(sorted({row.query_id for row in impressions})):
        events += _rows(connection, EVENTS, collection_id, _quotes_its_search(), "query_id", part)
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
    events = _columns(EVENTS).where(EVENTS.c.collection_id == collection_id, _names(EVENTS, kind, subject))
    impressions = _columns(QUERIES).where(QUERIES.c.collection_id == collection_id, _names(QUERIES, kind, subject))
    return list(connection.execute(events)), list(connection.execute(impressions))


def _names(table: Any, kind: str, subject: str) -> ColumnElement[bool]:
    """Return the condition that a row names the subject. Impressions have no user."""
    if kind == "user":
        return EVENTS.c.body["user_id"].as_string() == subject if table is EVENTS else false()
    if kind == "session":
        return or_(table.c.session_id == subject, _names_filtered(table, subject))
    named: ColumnElement[bool] = table.c.client_id == subject
    return named


def _names_filtered(table: Any, session: str) -> ColumnElement[bool]:
    """Return the condition that a row names a session of a key with a filter (`Caller.session`)."""
    named = func.substr(table.c.session_id, len(FILTERED) + FILTER_DIGITS + 2) == session
    return and_(func.substr(table.c.session_id, 1, len(FILTERED)) == FILTERED, named)


def _unnamed(table: Any, kind: str) -> ColumnElement[bool]:
    """Return the condition that a row names no subject of this kind."""
    if kind == "user":
        return EVENTS.c.body["user_id"].as_string().is_(None) if table is EVENTS else QUERIES.c.query_id.is_not(None)
    unnamed: ColumnElement[bool] = (table.c.client_id if kind == "client" else table.c.session_id).is_(None)
    return unnamed


def _quotes_its_search() -> ColumnElement[bool]:
    """Return the condition that the text of an event came from the search that it names, and not from its client."""
    own = func.coalesce(EVENTS.c.body["user_query"].as_string(), "")
    quotes: ColumnElement[bool] = EVENTS.c.query_text != own
    return quotes


def _rows(
    connection: Connection,
    table: Any,
    collection_id: int,
    condition: ColumnElement[bool],
    column: str,
    values: Sequence[str],
) -> list[Row[Any]]:
    """Return the rows that meet a condition and share a search or a session with the subject."""
    wanted = _columns(table).where(table.c.collection_id == collection_id, condition, table.c[column].in_(values))
    return list(connection.execute(wanted))


def _columns(table: Any) -> Any:
    key = [EVENTS.c.id] if table is EVENTS else []
    return select(*key, table.c.query_id, table.c.session_id, table.c.query_key, table.c.created_at)


def _judgments(connection: Connection, collection_id: int, rater: str) -> list[Row[Any]]:
    wanted = select(JUDGMENTS.c.id, JUDGMENTS.c.query_key, JUDGMENTS.c.created_at)
    return list(
        connection.execute(wanted.where(JUDGMENTS.c.collection_id == collection_id, JUDGMENTS.c.rater == rater))
    )


def delete_rows(connection: Connection, rows: SubjectRows) -> list[int]:
    """Delete the rows of a subject with their `query` keys; return the ids of these keys."""
    removed: list[int] = []
    for ids, column, table in ((rows.events, KEYS.c.event_id, EVENTS), (rows.judgments, KEYS.c.judgment_id, JUDGMENTS)):
        for part in parts(ids):
            removed += connection.execute(delete(KEYS).where(column.in_(part)).returning(KEYS.c.id)).scalars()
            connection.execute(delete(table).where(table.c.id.in_(part)))
    for query_ids in parts(rows.impressions):
        connection.execute(delete(QUERIES).where(QUERIES.c.query_id.in_(query_ids)))
    return removed


def delete_answers(connection: Connection) -> int:
    """Delete the stored answers to searches with an Idempotency-Key: they may quote past queries. Return how many."""
    body = IDEMPOTENT_ANSWERS.c.body
    return int(connection.execute(delete(IDEMPOTENT_ANSWERS).where(contains(connection, body, b'"query_id"'))).rowcount)


def models_since(connection: Connection, collection_id: int, first_at: str) -> list[dict[str, Any]]:
    """Return the models of a collection that were trained on feedback and finished at `first_at` or later."""
    trained = and_(MODELS.c.lineage["kind"].as_string() == "trained", MODELS.c.created_at >= first_at)
    wanted = (
        select(COLLECTIONS.c.name, MODELS.c.version, MODELS.c.lineage, MODELS.c.created_at)
        .join(COLLECTIONS, COLLECTIONS.c.id == MODELS.c.collection_id)
        .where(MODELS.c.collection_id == collection_id, trained)
    )
    return [
        {"collection": name, "version": version, "training_run": lineage["training_run"], "created_at": created_at}
        for name, version, lineage, created_at in connection.execute(wanted.order_by(MODELS.c.version))
    ]


def insert_erasure(connection: Connection, subject: str, receipt: dict[str, Any]) -> None:
    """Insert an erasure that begins."""
    values = {"id": receipt["id"], "status": "deleting", "subject": subject, "receipt": receipt, "created_at": now()}
    connection.execute(insert(ERASURES).values(values))


def find_erasure(connection: Connection, id: str) -> Row[Any]:
    """Return the row of an erasure. Raises NoResultFound."""
    return connection.execute(select(ERASURES).where(ERASURES.c.id == id)).one()


def update_erasure(connection: Connection, receipt: dict[str, Any], **values: Any) -> None:
    """Replace the receipt of an erasure, its status and further columns."""
    changed = values | {"receipt": receipt, "status": receipt["status"], "finished_at": receipt["finished_at"]}
    update_row(connection, "erasures", {"id": receipt["id"]}, changed)


def unfinished_erasures(connection: Connection) -> list[str]:
    """Return the ids of the erasures that are not done, oldest first."""
    wanted = select(ERASURES.c.id).where(or_(ERASURES.c.status != "done", ERASURES.c.finished_at.is_(None)))
    return list(connection.execute(wanted.order_by(ERASURES.c.id)).scalars())


def newest_receipts(connection: Connection) -> list[dict[str, Any]]:
    """Return the newest MAX_LISTED receipts, newest first."""
    return list(
        connection.execute(select(ERASURES.c.receipt).order_by(ERASURES.c.id.desc()).limit(MAX_LISTED)).scalars()
    )


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values in parts of PART."""
    return (values[start : start + PART] for start in range(0, len(values), PART))
