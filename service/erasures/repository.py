"""SQL of erasures: the rows of a subject, their deletion, and the receipts. The caller commits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, insert, or_, select, true

from service.storage.checked_rows import as_stored, update_row
from service.storage.checksums import as_json, texts_as_stored
from service.storage.database import now
from service.storage.dialects import contains, contains_text, unindexed
from service.storage.tables import COLLECTIONS, EVENTS, JUDGMENTS, KEYS, MODELS, QUERIES
from service.storage.tables_of_administration import ERASURES, IDEMPOTENT_ANSWERS
from service.storage.tenants import is_named, is_unnamed
from service.storage.unreadable_rows import UnreadableRow, readable_rows, stored_json

PART = 500
"""Values in a condition of a statement, at most."""
MAX_LISTED = 200


@dataclass(frozen=True)
class SubjectRows:
    """The rows of a subject in one collection, and the query keys of its events and searches.

    first_at: the time when the first row was stored, None without rows. "" if the clock may have been ahead then.
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

    @property
    def trained_from(self) -> str:
        """The time from which models may have been trained on the rows, or on the ratings that judgments replaced."""
        return "" if self.judgments else self.first_at or ""


def subject_rows(connection: Connection, collection_id: int, kind: str, subject: str) -> SubjectRows:
    """Return the rows of a subject in a collection.

    An event or a search without a client belongs to a client if it shares its search or its session with a row of the
    client, or with another row that belongs to the client. For a session, its search decides in the same way; for a
    user, the search that an event of the user names. Events of others that quote the text of an erased search are
    rows of the subject too; what shares their session is not. An event whose body cannot be read counts as one that
    names the user, or quotes the search.
    """
    events, impressions = _named_rows(connection, collection_id, kind, subject)
    seen: dict[str, set[str]] = {"query_id": set(), "session_id": set()} if kind == "client" else {"query_id": set()}
    while shared := _shared(seen, (*events, *impressions)):
        for column, values in shared.items():
            seen[column] |= values
            for part in parts(sorted(values)):
                events += _unnamed_events(connection, collection_id, kind, column, part)
                impressions += _rows(connection, QUERIES, collection_id, _unnamed(QUERIES, kind), column, part)
    for part in parts(sorted({row.query_id for row in impressions})):
        named = _rows(connection, EVENTS, collection_id, true(), "query_id", part)
        contents = _contents(connection, named)
        events += [row for row in named if _quotes_its_search(*contents[row.id])]
    judgments = _judgments(connection, collection_id, subject) if kind == "user" else []
    every = [*events, *impressions, *judgments]
    return SubjectRows(
        sorted({row.id for row in events}),
        sorted({row.query_id for row in impressions}),
        [row.id for row in judgments],
        {row.query_key for row in every},
        _first_at(connection, collection_id, every, events),
    )


def _first_at(
    connection: Connection, collection_id: int, rows: Sequence[Row[Any]], events: Sequence[Row[Any]]
) -> str | None:
    """Return the time when the first of these rows was stored, None without rows. events: those that are events.

    It is "" if the clock was ahead then: a time lies ahead of now, or an event that was stored later has an earlier
    time.
    """
    times: list[str] = [row.created_at for row in rows]
    if not times or max(times) > now():
        return "" if times else None
    if events:
        first = min(events, key=lambda row: row.id)
        mine = (EVENTS.c.collection_id == collection_id, EVENTS.c.created_at < first.created_at)
        if connection.execute(select(EVENTS.c.id).where(*mine, EVENTS.c.id > first.id).limit(1)).first() is not None:
            return ""
    return min(times)


def _shared(seen: Mapping[str, set[str]], rows: Sequence[Row[Any]]) -> dict[str, set[str]]:
    """Return column -> the values of the rows that were not seen, for the columns of `seen` with such values."""
    found = {column: {getattr(row, column) for row in rows} - {None, ""} - before for column, before in seen.items()}
    return {column: values for column, values in found.items() if values}


def _named_rows(
    connection: Connection, collection_id: int, kind: str, subject: str
) -> tuple[list[Row[Any]], list[Row[Any]]]:
    """Return the events and the impressions that name the subject. Impressions have no user."""
    if kind == "user":
        return _events_of_user(connection, collection_id, subject), []
    events = _columns(EVENTS).where(_names(EVENTS, collection_id, kind, subject))
    impressions = _columns(QUERIES).where(_names(QUERIES, collection_id, kind, subject))
    return list(connection.execute(events)), list(connection.execute(impressions))


def _names(table: Any, collection_id: int, kind: str, subject: str) -> ColumnElement[bool]:
    """Return the condition that a row of a collection names the client or session, in any tenant."""
    return is_named(table.c.client_id if kind == "client" else table.c.session_id, collection_id, subject)


def _events_of_user(connection: Connection, collection_id: int, user: str) -> list[Row[Any]]:
    """Return the events that name a user.

    PostgreSQL reads no member of a JSON text with a NUL anywhere. So SQL finds the events that have the name as the
    value of a `user_id` at some depth, and their members are read here.
    """
    body = as_stored(connection, EVENTS.c.body)
    written = (f'"user_id": {value}' for value in (as_json(user), user) if value.isascii() and "\0" not in value)
    quotes = or_(*(contains_text(connection, body, part) for part in written))
    found = list(connection.execute(_columns(EVENTS).where(EVENTS.c.collection_id == collection_id, quotes)))
    contents = _contents(connection, found)
    return [row for row in found if _member(contents[row.id][1], "user_id", otherwise=user) == user]


def _unnamed(table: Any, kind: str) -> ColumnElement[bool]:
    """Return the condition that a row names no subject of this kind. For a user, it is true of all."""
    return true() if kind == "user" else is_unnamed(table.c.client_id if kind == "client" else table.c.session_id)


def _unnamed_events(
    connection: Connection, collection_id: int, kind: str, column: str, values: Sequence[str]
) -> list[Row[Any]]:
    """Return the events that name no subject of this kind, and share a search or a session with the subject."""
    found = _rows(connection, EVENTS, collection_id, _unnamed(EVENTS, kind), column, values)
    if kind != "user":
        return found
    contents = _contents(connection, found)
    return [row for row in found if _member(contents[row.id][1], "user_id") is None]


def _contents(connection: Connection, events: Sequence[Row[Any]]) -> dict[int, tuple[str, dict[str, Any] | None]]:
    """Return id -> text of the query and body of events. The body is None if it is no JSON object."""
    wanted = select(EVENTS.c.id, EVENTS.c.query_text, as_stored(connection, EVENTS.c.body))
    contents = {}
    with texts_as_stored(connection):
        for part in parts([event.id for event in events]):
            for id, text, body in connection.execute(wanted.where(EVENTS.c.id.in_(part))):
                contents[id] = text, _object(body)
    return contents


def _object(stored: Any) -> dict[str, Any] | None:
    try:
        found = stored_json(stored)
    except UnreadableRow:
        return None
    return found if isinstance(found, dict) else None


def _quotes_its_search(text: str, body: dict[str, Any] | None) -> bool:
    """Return whether the text of an event came from the search that it names, and not from its client."""
    return text != (_member(body, "user_query") or "")


def _member(body: dict[str, Any] | None, name: str, otherwise: str | None = None) -> str | None:
    """Return a member of an event as a text, None if it is missing or null. otherwise: for an event without a body."""
    if body is None:
        return otherwise
    value = body.get(name)
    return value if value is None or isinstance(value, str) else as_json(value)


def _rows(
    connection: Connection,
    table: Any,
    collection_id: int,
    condition: ColumnElement[bool],
    column: str,
    values: Sequence[str],
) -> list[Row[Any]]:
    """Return the rows that meet a condition and share a search or a session with the subject."""
    mine = (
        unindexed(table, collection_id)
        if table is QUERIES and column == "query_id"
        else table.c.collection_id == collection_id
    )
    wanted = _columns(table).where(mine, condition, table.c[column].in_(values))
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
    """Return the newest MAX_LISTED receipts, newest first, without those that cannot be read."""
    wanted = select(ERASURES.c.receipt).order_by(ERASURES.c.id.desc()).limit(MAX_LISTED)
    rows, _ = readable_rows(connection, wanted, ERASURES.c.id)
    return [row.receipt for row in rows]


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values in parts of PART."""
    return (values[start : start + PART] for start in range(0, len(values), PART))
