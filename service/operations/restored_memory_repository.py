"""SQL of feedback that has no `query` key: its document was deleted, or memory was kept for a shorter time."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, select
from sqlalchemy.sql.schema import Table

from service.storage.event_times import acted_since
from service.storage.tables import DOCUMENTS, EVENTS, JUDGMENTS, KEYS


@dataclass(frozen=True)
class Unremembered:
    """A judgment or a graded event of a document that exists, without its `query` key."""

    text: str
    row: int
    grade: float
    event_id: int | None = None
    judgment_id: int | None = None


def unremembered(connection: Connection, collection_id: int, since: str, most: int) -> list[Unremembered]:
    """Return the first feedback without a key whose document exists. since: RFC 3339; earlier events are left out."""
    judgments = _of_documents(JUDGMENTS, JUDGMENTS.c.rating, *_judgments(collection_id)).limit(most)
    events = _of_documents(EVENTS, EVENTS.c.grade, *_events(collection_id, since)).limit(most)
    found = [
        Unremembered(text, row, float(grade), **{name: number})
        for name, wanted in (("judgment_id", judgments), ("event_id", events))
        for number, text, grade, row in connection.execute(wanted)
    ]
    return found[:most]


def has_unremembered(connection: Connection, collection_id: int, since: str) -> bool:
    """Return whether there is feedback without a key, also of documents that do not exist."""
    wanted = select(
        select(JUDGMENTS.c.id).where(*_judgments(collection_id)).exists(),
        select(EVENTS.c.id).where(*_events(collection_id, since)).exists(),
    )
    return any(connection.execute(wanted).one())


def _judgments(collection_id: int) -> list[ColumnElement[bool]]:
    remembered = exists().where(KEYS.c.judgment_id == JUDGMENTS.c.id)
    return [JUDGMENTS.c.collection_id == collection_id, ~remembered]


def _events(collection_id: int, since: str) -> list[ColumnElement[bool]]:
    remembered = exists().where(KEYS.c.event_id == EVENTS.c.id)
    return [
        EVENTS.c.collection_id == collection_id,
        EVENTS.c.grade != 0,
        EVENTS.c.document_id.is_not(None),
        acted_since(since),
        ~remembered,
    ]


def _of_documents(table: Table, grade: ColumnElement[float], *where: ColumnElement[bool]) -> Select[Any]:
    same = and_(DOCUMENTS.c.collection_id == table.c.collection_id, DOCUMENTS.c.id == table.c.document_id)
    wanted = select(table.c.id, table.c.query_text, grade, DOCUMENTS.c.row)
    return wanted.join_from(table, DOCUMENTS, same).where(*where).order_by(table.c.id)
