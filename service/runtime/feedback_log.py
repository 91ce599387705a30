"""The feedback of a collection as the library learns from it: one record per query text, judgments before clicks.

Lists are read as a stream and kept as counts, so that a year of impressions fits in memory.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, Select, Text, cast, select

from index.learning.examples import Feedback, Showings, Solved
from index.records import Floats, KeyKind
from service.storage.tables import Document, Event, Impression, Judgment, Key
from service.storage.vector_codec import as_vector

MAX_GAIN = 10.0
"""Clicks whose lists are not known add up to this much at most: nobody knows how often the document was looked at."""
CHUNK = 2_000
"""Rows that are read from the database at a time."""
PLACES = 1 << 20
"""More than any position: a row and a position are counted as one number."""


@dataclass
class Told:
    """What is known of one query text: grades by document row, where documents were shown, and where clicked."""

    text: str
    judged: dict[int, list[int]] = field(default_factory=dict)
    listed: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Row -> grades given on lists that are known."""
    loose: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Row -> grades given where the list is not known, so that nobody knows what else was looked at."""
    shown: Counter[int] = field(default_factory=Counter)
    """Row and position (`PLACES`) -> how many lists showed it there."""
    clicks: Counter[int] = field(default_factory=Counter)
    examined: set[int] = field(default_factory=set)
    sessions: list[Solved] = field(default_factory=list)


@dataclass(slots=True)
class Act:
    """What one client thinks of one document of one list, as of its last event."""

    query_key: str
    text: str
    row: int
    grade: float


@dataclass
class Heard:
    """All events of a collection: acts by list ("" where it is not known), and who called a search solved."""

    acts: dict[str, dict[tuple[str, int], Act]] = field(default_factory=dict)
    solved_lists: set[str] = field(default_factory=set)
    solved_sessions: set[str] = field(default_factory=set)
    clicked: dict[str, set[int]] = field(default_factory=dict)
    """Session -> rows with a confirming event in it."""


def gather_feedback(
    connection: Connection, collection_id: int, encode: Callable[[Sequence[str]], Floats] | None = None
) -> list[Feedback]:
    """Return the feedback of every query text with a confirmed document that is still there, or a solved session.

    Vectors are those of memory; encode gives the others theirs, and without it their queries are left out: those that
    have a solved session and no confirmed document of their own.
    """
    wanted = select(Document.id, Document.row).where(Document.collection_id == collection_id)
    rows = {row.id: row.row for row in connection.execute(wanted)}
    told: dict[str, Told] = {}
    _add_judgments(connection, collection_id, rows, told)
    heard = _hear(connection, collection_id, rows)
    for act in (act for acts in heard.acts.values() for act in acts.values()):
        told.setdefault(act.query_key, Told(act.text))
    _add_lists(connection, collection_id, rows, heard, told)
    for acts in heard.acts.values():  # those that are left: no known list shows their document
        for act in acts.values():
            told[act.query_key].loose[act.row] += act.grade
    told = {query_key: one for query_key, one in told.items() if _teaches(one)}
    vectors = _vectors(connection, collection_id, told, encode)
    return [
        _feedback(query_key, told[query_key], vectors[query_key]) for query_key in sorted(told) if query_key in vectors
    ]


def confirmed_count(connection: Connection, collection_id: int) -> int:
    """Return how many query texts have a confirmed document: what a training run needs."""
    wanted = select(Key.query_key).where(Key.collection_id == collection_id, Key.kind == KeyKind.QUERY, Key.weight > 0)
    return len(set(connection.execute(wanted.distinct()).scalars()))


def _add_judgments(connection: Connection, collection_id: int, rows: dict[str, int], told: dict[str, Told]) -> None:
    wanted = select(Judgment).where(Judgment.collection_id == collection_id).order_by(Judgment.id)
    for one in connection.execute(wanted):
        row = rows.get(one.document_id)
        if row is not None:
            told.setdefault(one.query_key, Told(one.query_text)).judged.setdefault(row, []).append(one.rating)


def _hear(connection: Connection, collection_id: int, rows: dict[str, int]) -> Heard:
    """Return what events say, read in the order of their time: a client counts once per list and document."""
    heard = Heard()
    wanted = (
        select(
            Event.id, Event.query_key, Event.query_text, Event.query_id, Event.document_id, Event.grade,
            Event.client_id, Event.session_id,
        )
        .where(Event.collection_id == collection_id, Event.grade != 0)
        .order_by(Event.timestamp, Event.id)
    )  # fmt: skip
    for one in _streamed(connection, wanted):
        row = rows.get(one.document_id or "")
        if one.document_id is None:
            _hear_of_session(heard, one)
        elif row is not None:
            acts = heard.acts.setdefault(one.query_id or "", {})
            client = one.client_id or one.session_id or ("" if one.query_id else f"event {one.id}")
            name = (client if one.query_id else f"{client}\n{one.query_key}", row)
            before = acts.get(name)
            grade = one.grade if before is None else settled(before.grade, one.grade)
            acts[name] = Act(one.query_key, one.query_text, row, grade)
            if one.session_id:
                clicked = heard.clicked.setdefault(one.session_id, set())
                clicked.add(row) if grade > 0 else clicked.discard(row)
    return heard


def settled(before: float, grade: float) -> float:
    """Return what counts of two grades by one client for one document of one list: a change of mind, or the better."""
    return grade if min(before, grade) < 0 else max(before, grade)


def _hear_of_session(heard: Heard, one: Any) -> None:
    """Note a thumb about a whole search; the later one counts, and a thumb down only takes back a thumb up."""
    where, name = (heard.solved_lists, one.query_id) if one.query_id else (heard.solved_sessions, one.session_id)
    if name and one.grade > 0:
        where.add(name)
    elif name:
        where.discard(name)


def _add_lists(
    connection: Connection, collection_id: int, rows: dict[str, int], heard: Heard, told: dict[str, Told]
) -> None:
    """Count every logged list of the queries that somebody acted on, and what was done with it.

    Lists without a click count as well: a document is as good as its clicks over its looks, and without them it would
    look as good where it was passed over. A query that nobody ever acted on teaches nothing.
    """
    silent: dict[str, tuple[Told, Solved]] = {}
    wanted = select(
        Impression.query_id,
        Impression.query_key,
        Impression.text,
        Impression.session_id,
        cast(Impression.shown, Text).label("shown"),
    )
    wanted = wanted.where(Impression.collection_id == collection_id).order_by(Impression.query_id)
    for one in _streamed(connection, wanted):
        solved = one.query_id in heard.solved_lists or one.session_id in heard.solved_sessions
        if one.query_key not in told and not solved:
            continue
        hits = orjson.loads(one.shown)
        positions = {rows[hit["id"]]: int(hit["position"]) for hit in hits if hit["id"] in rows}
        record = told.setdefault(one.query_key, Told(one.text))
        record.shown.update(row * PLACES + position for row, position in positions.items())
        clicked = _take_acts(record, positions, heard.acts.get(one.query_id, {}))
        if solved:
            in_session = heard.clicked.get(one.session_id or "", set())
            session = Solved(positions, frozenset(clicked | (in_session & positions.keys())))
            if session.clicked or one.query_id in heard.solved_lists:
                record.sessions.append(session)
            elif not in_session:
                silent[one.session_id] = (record, session)
    for record, session in silent.values():  # solved without a click: by what the hits of the last list said
        record.sessions.append(session)


def _take_acts(record: Told, positions: Mapping[int, int], acts: dict[tuple[str, int], Act]) -> set[int]:
    """Take the acts on documents that a list shows out of `acts` and count them; return the rows confirmed."""
    clicked = set()
    for name in [name for name, act in acts.items() if act.row in positions]:
        act = acts.pop(name)
        record.listed[act.row] += act.grade
        if act.grade > 0:
            clicked.add(act.row)
            record.clicks[act.row * PLACES + positions[act.row]] += 1
    if clicked:
        deepest = max(positions[row] for row in clicked)
        record.examined.update(row for row, position in positions.items() if position <= deepest + 1)
    return clicked


def _streamed(connection: Connection, wanted: Select[*tuple[Any, ...]]) -> Iterator[Any]:
    return iter(connection.execute(wanted, execution_options={"yield_per": CHUNK}))


def _vectors(
    connection: Connection,
    collection_id: int,
    told: Mapping[str, Told],
    encode: Callable[[Sequence[str]], Floats] | None,
) -> dict[str, Floats]:
    wanted = select(Key.query_key, Key.vector).where(Key.collection_id == collection_id, Key.kind == KeyKind.QUERY)
    vectors = {row.query_key: as_vector(row.vector) for row in connection.execute(wanted.order_by(Key.id.desc()))}
    missing = sorted(told.keys() - vectors.keys())
    if encode is not None and missing:
        vectors |= dict(zip(missing, encode([told[query_key].text for query_key in missing]), strict=True))
    return vectors


def _judged(told: Told) -> bool:
    return any(max(ratings) > 0 for ratings in told.judged.values())


def _teaches(told: Told) -> bool:
    return _judged(told) or bool(told.sessions) or max([0, *told.listed.values(), *told.loose.values()]) > 0


def _feedback(query_key: str, told: Told, vector: Floats) -> Feedback:
    sessions = tuple(told.sessions)
    if _judged(told):
        gains = {row: sum(ratings) / len(ratings) for row, ratings in told.judged.items()}
        return Feedback(query_key, told.text, vector, gains, sessions=sessions)
    gains = {row: grade for row, grade in told.listed.items() if grade > 0}
    if not gains and any(grade > 0 for grade in told.loose.values()):
        gains = {row: min(MAX_GAIN, grade) for row, grade in told.loose.items() if grade > 0}
        return Feedback(query_key, told.text, vector, gains, sessions=sessions)
    shown, clicks = _by_row(told.shown), _by_row(told.clicks)
    return Feedback(query_key, told.text, vector, gains, shown, clicks, frozenset(told.examined), sessions)


def _by_row(counts: Counter[int]) -> Showings:
    """Return row -> position -> times of what was counted as one number."""
    by_row: dict[int, dict[int, int]] = {}
    for name in sorted(counts):
        by_row.setdefault(name // PLACES, {})[name % PLACES] = counts[name]
    return by_row


def summary(feedback: Sequence[Feedback]) -> dict[str, int]:
    """Return counts of what a run learns from, for its record."""
    implicit = [one for one in feedback if one.shown is not None]
    return {
        "queries": len(feedback),
        "with_shown_positions": len(implicit),
        "showings": sum(times for one in implicit for by in (one.shown or {}).values() for times in by.values()),
        "clicks": sum(times for one in implicit for by in (one.clicks or {}).values() for times in by.values()),
        "solved_sessions": sum(len(one.sessions) for one in feedback),
    }
