"""SQL of feedback that has no `query` key: its document was deleted, or memory was kept for a shorter time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, select
from sqlalchemy.sql.schema import Table

from service.storage.dialects import numbered_after
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
    """How far the feedback of a collection was read: the greatest ids."""

    judgment: int = 0
    event: int = 0

    def after(self, found: Sequence[Unremembered]) -> "Place":
        """Return the place behind this feedback."""
        return Place(
            max((one.judgment_id or 0 for one in found), default=0) or self.judgment,
            max((one.event_id or 0 for one in found), default=0) or self.event,
        )


START = Place()


def unremembered(
    connection: Connection, collection_id: int, since: str, most: int, place: Place = START
) -> list[Unremembered]:
    """Return the next feedback without a key whose document exists. since: RFC 3339; earlier events are left out.

    place: only later feedback is read, so that all batches together read the log once.
    """
    judgments = _of_documents(JUDGMENTS, JUDGMENTS.c.rating, *_judgments(collection_id, place.judgment)).limit(most)
    events = _of_documents(EVENTS, EVENTS.c.grade, *_events(collection_id, since, place.event)).limit(most)
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


def _judgments(collection_id: int, after: int = 0) -> list[ColumnElement[bool]]:
    remembered = exists().where(KEYS.c.judgment_id == JUDGMENTS.c.id)
    return [numbered_after(JUDGMENTS, JUDGMENTS.c.id, collection_id, after), ~remembered]


def _events(collection_id: int, since: str, after: int = 0) -> list[ColumnElement[bool]]:
    remembered = exists().where(KEYS.c.event_id == EVENTS.c.id)
    return [
        numbered_after(EVENTS, EVENTS.c.id, collection_id, after),
        EVENTS.c.grade != 0,
        EVENTS.c.document_id.is_not(None),
        acted_since(since),
        ~remembered,
    ]


def _of_documents(table: Table, grade: ColumnElement[float], *where: ColumnElement[bool]) -> Select[Any]:
    same = and_(DOCUMENTS.c.collection_id == table.c.collection_id, DOCUMENTS.c.id == table.c.document_id)
    wanted = select(table.c.id, table.c.query_text, grade, DOCUMENTS.c.row)
    return wanted.join_from(table, DOCUMENTS, same).where(*where).order_by(table.c.id)
