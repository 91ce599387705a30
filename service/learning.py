"""The feedback of a collection as the library learns from it: one record per query text, judgments before clicks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from index.examples import Feedback
from index.records import Floats, KeyKind
from service.state import as_vector
from service.tables import Document, Event, Judgment, Key, Query

MAX_GAIN = 10.0
"""Clicks on one document for one query add up to this much at most, so that a crowd does not drown the rest."""


@dataclass
class Told:
    """What is known of one query text: grades by document row, and where documents were shown."""

    text: str
    judged: dict[int, list[int]] = field(default_factory=dict)
    acted: dict[int, float] = field(default_factory=dict)
    shown: dict[int, int] = field(default_factory=dict)
    unseen: bool = False
    """Whether an event came without its impression, so that nothing is known of what else was looked at."""


def gather_feedback(connection: Connection, collection_id: int) -> list[Feedback]:
    """Return the feedback of every query text with a confirmed document that is still there."""
    rows = {
        row.id: row.row
        for row in connection.execute(select(Document.id, Document.row).where(Document.collection_id == collection_id))
    }
    told: dict[str, Told] = {}
    _add_judgments(connection, collection_id, rows, told)
    _add_events(connection, collection_id, rows, told)
    vectors = _vectors(connection, collection_id)
    found = [_feedback(source, one, vectors.get(source)) for source, one in sorted(told.items())]
    return [one for one in found if one is not None]


def confirmed_count(connection: Connection, collection_id: int) -> int:
    """Return how many query texts have a confirmed document: what a training run needs."""
    wanted = select(Key.source).where(Key.collection_id == collection_id, Key.kind == KeyKind.QUERY, Key.weight > 0)
    return len(set(connection.execute(wanted.distinct()).scalars()))


def _add_judgments(connection: Connection, collection_id: int, rows: dict[str, int], told: dict[str, Told]) -> None:
    wanted = select(Judgment).where(Judgment.collection_id == collection_id).order_by(Judgment.id)
    for one in connection.execute(wanted):
        row = rows.get(one.document_id)
        if row is not None:
            told.setdefault(one.source, Told(one.query_text)).judged.setdefault(row, []).append(one.rating)


def _add_events(connection: Connection, collection_id: int, rows: dict[str, int], told: dict[str, Told]) -> None:
    """Add grades, and as shown what was looked at: each list down to its last click, and one place further."""
    deepest: dict[str, tuple[str, int]] = {}
    wanted = select(
        Event.source, Event.query_text, Event.query_id, Event.document_id, Event.position, Event.grade
    ).where(Event.collection_id == collection_id, Event.grade.is_not(None))
    for one in connection.execute(wanted.order_by(Event.id)):
        row = rows.get(one.document_id or "")
        if row is None or not one.grade:
            continue
        record = told.setdefault(one.source, Told(one.query_text))
        record.acted[row] = min(MAX_GAIN, record.acted.get(row, 0.0) + one.grade)
        if one.position:
            record.shown.setdefault(row, one.position)
        if one.query_id:
            source, depth = deepest.get(one.query_id, (one.source, 0))
            deepest[one.query_id] = (source, max(depth, one.position or 0))
        else:
            record.unseen = True
    _add_shown(connection, collection_id, deepest, rows, told)


def _add_shown(
    connection: Connection,
    collection_id: int,
    deepest: dict[str, tuple[str, int]],
    rows: dict[str, int],
    told: dict[str, Told],
) -> None:
    known = set()
    wanted = select(Query.query_id, Query.shown).where(Query.collection_id == collection_id)
    for query_id, shown in connection.execute(wanted):
        if query_id not in deepest:
            continue
        known.add(query_id)
        source, depth = deepest[query_id]
        record = told[source]
        positions = {rows[one["id"]]: int(one["position"]) for one in shown if one["id"] in rows}
        acted = [place for row, place in positions.items() if row in record.acted]
        for row, place in positions.items():
            if place <= max([depth, *acted]) + 1:
                record.shown[row] = min(place, record.shown.get(row, place))
    for query_id in deepest.keys() - known:
        told[deepest[query_id][0]].unseen = True


def _vectors(connection: Connection, collection_id: int) -> dict[str, Floats]:
    wanted = select(Key.source, Key.vector).where(Key.collection_id == collection_id, Key.kind == KeyKind.QUERY)
    return {row.source: as_vector(row.vector) for row in connection.execute(wanted.order_by(Key.id.desc()))}


def _feedback(source: str, told: Told, vector: Floats | None) -> Feedback | None:
    if vector is None:
        return None
    if any(max(ratings) > 0 for ratings in told.judged.values()):
        gains = {row: sum(ratings) / len(ratings) for row, ratings in told.judged.items()}
        return Feedback(source, told.text, vector, gains)
    gains = {row: grade for row, grade in told.acted.items() if grade > 0}
    if not gains:
        return None
    shown = None if told.unseen or len(told.shown) < 2 else told.shown
    return Feedback(source, told.text, vector, gains, shown)


def summary(feedback: Sequence[Feedback]) -> dict[str, int]:
    """Return counts of what a run learns from, for its record."""
    implicit = sum(one.shown is not None for one in feedback)
    return {"queries": len(feedback), "with_shown_positions": implicit}
