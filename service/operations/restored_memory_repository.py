"""SQL of feedback that has no `query` key: its document was deleted, or memory was kept for a shorter time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, select
from sqlalchemy.sql.schema import Table

from service.storage.dialects import numbered
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


@dataclass(frozen=True)
class Place:
    """How far the feedback of a collection was read: the greatest ids, and how far there is any."""

    last_judgment: int
    last_event: int
    judgment: int = 0
    event: int = 0

    def after(self, found: Sequence[Unremembered]) -> "Place":
        """Return the place behind this feedback."""
        return replace(
            self,
            judgment=max((one.judgment_id or 0 for one in found), default=0) or self.judgment,
            event=max((one.event_id or 0 for one in found), default=0) or self.event,
        )


def start_of(connection: Connection, collection_id: int) -> Place:
    """Return the place before all feedback of a collection."""
    newest = (
        select(func.max(table.c.id)).where(table.c.collection_id == collection_id) for table in (JUDGMENTS, EVENTS)
    )
    return Place(*(connection.execute(one).scalar() or 0 for one in newest))


def unremembered(connection: Connection, collection_id: int, since: str, most: int, place: Place) -> list[Unremembered]:
    """Return the next feedback without a key whose document exists. since: RFC 3339; earlier events are left out.

    place: only later feedback is read, so that all batches together read the log once.
    """
    judgments = _of_documents(JUDGMENTS, JUDGMENTS.c.rating, *_judgments(collection_id, place)).limit(most)
    events = _of_documents(EVENTS, EVENTS.c.grade, *_events(collection_id, since, place)).limit(most)
    found = [
        Unremembered(text, row, float(grade), **{name: number})
        for name, wanted in (("judgment_id", judgments), ("event_id", events))
        for number, text, grade, row in connection.execute(wanted)
    ]
    return found[:most]


def has_unremembered(connection: Connection, collection_id: int, since: str) -> bool:
    """Return whether there is feedback without a key, also of documents that do not exist."""
    place = start_of(connection, collection_id)
    wanted = select(
        select(JUDGMENTS.c.id).where(*_judgments(collection_id, place)).exists(),
        select(EVENTS.c.id).where(*_events(collection_id, since, place)).exists(),
    )
    return any(connection.execute(wanted).one())


def _judgments(collection_id: int, place: Place) -> list[ColumnElement[bool]]:
    remembered = exists().where(KEYS.c.judgment_id == JUDGMENTS.c.id)
    return [_later(JUDGMENTS, collection_id, place.judgment, place.last_judgment), ~remembered]


def _later(table: Table, collection_id: int, after: int, last: int) -> ColumnElement[bool]:
    """Return the condition that a row is behind a place. The first rows are read by the index of the collection."""
    return numbered(table, table.c.id, collection_id, after, last, by_number=after > 0)


def _events(collection_id: int, since: str, place: Place) -> list[ColumnElement[bool]]:
    remembered = exists().where(KEYS.c.event_id == EVENTS.c.id)
    return [
        _later(EVENTS, collection_id, place.event, place.last_event),
        EVENTS.c.grade != 0,
        EVENTS.c.document_id.is_not(None),
        acted_since(since),
        ~remembered,
    ]


def _of_documents(table: Table, grade: ColumnElement[float], *where: ColumnElement[bool]) -> Select[Any]:
    same = and_(DOCUMENTS.c.collection_id == table.c.collection_id, DOCUMENTS.c.id == table.c.document_id)
    wanted = select(table.c.id, table.c.query_text, grade, DOCUMENTS.c.row)
    return wanted.join_from(table, DOCUMENTS, same).where(*where).order_by(table.c.id)
