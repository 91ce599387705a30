"""Converts the feedback of a collection into training records: a record per query text, judgments before clicks.

Impressions are streamed and only their counts are kept, so that the log of a year fits in memory.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import merge, nsmallest
from typing import Any, TypeVar

import numpy as np
import orjson
from sqlalchemy import Connection

from index.learning.contrasts import contrasts_of
from index.learning.examples import MAX_SILENT, UNKNOWN, Feedback, InContext, Showings, Solved, hash_of
from index.learning.slates import MAX_SLATES
from index.records import Floats
from service.runtime.explored_slates import is_repeatable, slate_of
from service.runtime.feedback_repository import (
    document_rows,
    graded_events,
    impressions,
    judgments,
    query_vectors,
    shown_lists,
)
from service.runtime.observed_lists import observed
from service.runtime.query_record import MAX_POSITIONS, Action, QueryRecord
from service.runtime.session_log import SessionLog

MAX_GAIN = 10.0
"""Upper limit of a document's gain from clicks without a known list: the number of times it was shown is unknown."""
MAX_CONTEXTS = 5
"""Lists with a context of a query that are kept: the newest."""

Encode = Callable[[Sequence[str]], Floats]
"""Query texts to unit vectors (len(texts), D)."""


Records = dict[str, QueryRecord]
"""Query key -> record."""
Document = TypeVar("Document", int, str)
"""The row or the id of a document."""


@dataclass
class EventSummary:
    """The events of a collection, reduced to the last grades and the searches reported as solved."""

    actions: dict[str, dict[tuple[str, int], Action]] = field(default_factory=dict)
    """Query id ("" if unknown) -> client and row -> action."""
    solved_lists: set[str] = field(default_factory=set)
    """Query ids."""
    solved_sessions: set[str] = field(default_factory=set)
    """Session ids."""
    confirmed_in_session: dict[str, set[int]] = field(default_factory=dict)
    """Session id -> rows with a confirming event."""
    log: SessionLog = field(default_factory=SessionLog)
    clients: dict[str, int] = field(default_factory=dict)
    """Name -> number of the clients of the clicks so far. Training gets numbers alone."""

    def number_of(self, client: str) -> int:
        """Return the number of a client; UNKNOWN without a name."""
        return self.clients.setdefault(client, UNKNOWN + 1 + len(self.clients)) if client else UNKNOWN

    def is_solved(self, shown: Any) -> bool:
        """Whether a list, or its session, was reported as solved."""
        return shown.query_id in self.solved_lists or shown.session_id in self.solved_sessions

    def is_acted(self, shown: Any) -> bool:
        """Whether there is an action on a list."""
        return bool(self.actions.get(shown.query_id)) or self.is_solved(shown)


def gather_feedback(
    connection: Connection,
    collection_id: int,
    encode: Encode | None = None,
    explored: bool = False,
    since: str | None = None,
) -> list[Feedback]:
    """Return the feedback of every query text with a confirmed document that still exists, or with a solved session.

    Queries without any feedback follow, as impressions only, at most MAX_SILENT: click rates are estimated from all.

    Queries in memory have vectors. `encode` computes the vectors of the other queries, which have a solved session and
    no confirmed document; without `encode` these queries are left out. explored: the feedback has the explored lists,
    and queries without feedback have vectors if they have such lists; needs `encode`. since: the time from which events
    and lists are read (`learned_since`); judgments have no age.
    """
    rows = document_rows(connection, collection_id)
    records: Records = {}
    _add_judgments(connection, collection_id, rows, records)
    summary = _summarise_events(connection, collection_id, rows, since)
    for action in _all_actions(summary):
        record = records.setdefault(action.query_key, QueryRecord(action.text))
        if action.row not in record.ratings:
            record.places[action.row] = {}
    lists = impressions(connection, collection_id, since), shown_lists(connection, collection_id, since)
    _add_impressions(lists, rows, summary, records, explored)
    for action in _all_actions(summary):  # no known list shows the documents of the actions that are left
        records[action.query_key].unlisted_grades[action.row] += action.grade
    silent = _silent(records, encode if explored else None)
    records = {query_key: record for query_key, record in records.items() if record.is_useful}
    vectors = query_vectors(connection, collection_id)
    missing = sorted(records.keys() - vectors.keys())
    if encode is not None and missing:
        vectors |= dict(zip(missing, encode([records[query_key].text for query_key in missing]), strict=True))
    useful = [_feedback(key, records[key], vectors[key]) for key in sorted(records) if key in vectors]
    return [*useful, *silent]


def read_sessions(connection: Connection, collection_id: int) -> SessionLog:
    """Return the documents that the users of each session acted on, for the documents that still exist."""
    return _summarise_events(connection, collection_id, document_rows(connection, collection_id)).log


def _silent(records: Records, encode: Encode | None) -> list[Feedback]:
    """Return the queries that were shown and never clicked, as counts of impressions: those with the lowest hashes.

    encode: queries with explored lists come first and have a vector. None: no query has.
    """
    found = (key for key, record in records.items() if record.shown and not record.is_useful and not record.is_judged)
    kept = nsmallest(MAX_SILENT, found, key=hash_of)
    keys = sorted(kept, key=lambda key: (not records[key].explored, key))
    explored = [key for key in keys if records[key].explored] if encode is not None else []
    vectors = encode([records[key].text for key in explored]) if encode is not None and explored else ()
    vector_of = dict(zip(explored, vectors, strict=True))
    no_vector = np.empty(0, np.float32)
    return [
        Feedback(
            key,
            records[key].text,
            vector_of.get(key, no_vector),
            {},
            _by_row(records[key].shown, records[key].ratings),
            {},
            frozenset(),
            explored=tuple(records[key].explored) if key in vector_of else (),
        )
        for key in keys
    ]


def _all_actions(summary: EventSummary) -> list[Action]:
    return [action for by_client in summary.actions.values() for action in by_client.values()]


def _add_judgments(connection: Connection, collection_id: int, rows: dict[str, int], records: Records) -> None:
    for judgment in judgments(connection, collection_id):
        row = rows.get(judgment.document_id)
        if row is not None:
            record = records.setdefault(judgment.query_key, QueryRecord(judgment.query_text))
            record.ratings.setdefault(row, []).append(judgment.rating)


def _summarise_events(
    connection: Connection, collection_id: int, rows: dict[str, int], since: str | None = None
) -> EventSummary:
    """Return the summary of the events since a time. A client counts once per list and document."""
    summary = EventSummary()
    for event in graded_events(connection, collection_id, since):
        row = rows.get(event.document_id or "")
        if event.document_id is None:
            _add_verdict(summary, event)
        elif row is not None:
            _add_action(summary, event, row)
    return summary


def _add_action(summary: EventSummary, event: Any, row: int) -> None:
    actions = summary.actions.setdefault(event.query_id or "", {})
    client = client_of(event) or ("" if event.query_id else f"event {event.id}")
    name = (client if event.query_id else f"{client}\n{event.query_key}", row)
    before = actions.get(name)
    grade = event.grade if before is None else combined_grade(before.grade, event.grade)
    actions[name] = Action(event.query_key, event.query_text, row, grade)
    if event.session_id:
        summary.log.add(event.session_id, event.timestamp, event.query_key, row, event.grade)
        confirmed = summary.confirmed_in_session.setdefault(event.session_id, set())
        if grade > 0:
            confirmed.add(row)
        else:
            confirmed.discard(row)


def client_of(event: Any) -> str:
    """Return the name of the client of an event, "" if it has none."""
    return event.client_id or event.session_id or ""


def combined_grade(before: float, grade: float) -> float:
    """Return the grade after another event of the same client on the same document and list.

    The later grade counts if either is negative, otherwise the higher grade counts.
    """
    return grade if min(before, grade) < 0 else max(before, grade)


def _add_verdict(summary: EventSummary, event: Any) -> None:
    """Add a thumb about a whole search. The last thumb counts; a thumb down only cancels a thumb up."""
    if event.query_id:
        solved, name = summary.solved_lists, event.query_id
    else:
        solved, name = summary.solved_sessions, event.session_id
    if name and event.grade > 0:
        solved.add(name)
    elif name:
        solved.discard(name)


def _add_impressions(
    lists: tuple[Iterable[Any], Iterable[Any]],
    rows: dict[str, int],
    summary: EventSummary,
    records: Records,
    explored: bool,
) -> None:
    """Count every logged or imported list of the queries with feedback, and the actions on it.

    Lists without a click count too, if events could come (`observed`): they lower the click rate of the documents that
    they show. Pinned documents are left out. lists: both in the order of their times. explored: explored lists are kept
    too.
    """
    unclicked: dict[str, tuple[QueryRecord, Solved]] = {}
    silent = _SilentKeys(records)
    in_order = merge(*lists, key=lambda shown: shown.created_at)  # each list is compared with the earlier ones
    for shown in observed(in_order, summary.is_acted):
        solved = summary.is_solved(shown)
        if shown.query_key not in records and not solved and not silent.admits(shown.query_key):
            continue
        record = records.setdefault(shown.query_key, QueryRecord(shown.text))
        positions, clicked = _add_list(record, shown, rows, summary, explored)
        if solved:
            in_session = summary.confirmed_in_session.get(shown.session_id or "", set())
            session = Solved(positions, frozenset(clicked | (in_session & positions.keys())))
            if session.clicked or shown.query_id in summary.solved_lists:
                record.sessions.append(session)
            elif not in_session:
                unclicked[shown.session_id] = (record, session)
    for record, session in unclicked.values():  # the hits of the session's last list gave the answer
        record.sessions.append(session)


def _add_list(
    record: QueryRecord, shown: Any, rows: Mapping[str, int], summary: EventSummary, explored: bool
) -> tuple[dict[int, int], set[int]]:
    """Add a list and the actions on it to the record of its query; return row -> position, and the clicked rows."""
    hits = orjson.loads(shown.shown)
    pinned = {rows[hit["id"]] for hit in hits if hit["id"] in rows and hit.get("pinned")}
    ranked = [hit for hit in hits if hit["id"] in rows and rows[hit["id"]] not in pinned]
    positions = {rows[hit["id"]]: int(hit["position"]) for hit in ranked}
    actions = summary.actions.get(shown.query_id, {})
    _drop_actions(actions, pinned)
    record.shown.update(row * MAX_POSITIONS + position for row, position in positions.items())
    clicked, by_searcher = _move_actions(record, positions, summary, shown)
    record.compare(positions, by_searcher)
    slate = slate_of(hits, rows, clicked) if explored else None
    if slate is not None and is_repeatable(orjson.loads(shown.request)):
        record.explored = [*record.explored[1 - MAX_SLATES :], slate]
    if clicked:
        context = summary.log.before(shown.session_id, shown.created_at, shown.query_key)
        _add_context(record, context, positions, clicked)
    return positions, clicked


def _add_context(
    record: QueryRecord, context: tuple[int, ...], positions: Mapping[int, int], clicked: set[int]
) -> None:
    """Add a list with a click, if it was shown after other actions of its session; keep the newest MAX_CONTEXTS."""
    if context:
        record.contexts.append(InContext(context, positions, frozenset(clicked)))
        del record.contexts[:-MAX_CONTEXTS]


class _SilentKeys:
    """Bounds the records of queries without feedback to those with the lowest hashes, while impressions are read."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._hashes: dict[str, int] = {}
        self._highest = 1 << 64

    def admits(self, query_key: str) -> bool:
        """Return whether a query gets a record; records with higher hashes are removed when there are too many."""
        own = hash_of(query_key)
        if own > self._highest:
            return False
        self._hashes[query_key] = own
        if len(self._hashes) > 2 * MAX_SILENT:
            kept = nsmallest(MAX_SILENT, self._hashes, key=self._hashes.__getitem__)
            for key in self._hashes.keys() - set(kept):
                if key in self._records and not self._records[key].is_useful:
                    del self._records[key]
            self._hashes = {key: self._hashes[key] for key in kept}
            self._highest = max(self._hashes.values())
        return True


def _drop_actions(actions: dict[tuple[str, int], Action], pinned: set[int]) -> None:
    """Remove the actions on pinned documents: the owner chose their positions, and not the ranking that learns."""
    for name in [name for name, action in actions.items() if action.row in pinned]:
        del actions[name]


def grades_by_client(
    grades: Mapping[tuple[str, Document], float], searcher: Set[str]
) -> dict[tuple[str, Document], float]:
    """Return client and document -> grade, with the grades under the names `searcher` as those of one client, ""."""
    merged: dict[tuple[str, Document], float] = {}
    for (client, document), grade in grades.items():
        own = ("" if client in searcher else client, document)
        merged[own] = combined_grade(merged[own], grade) if own in merged else grade
    return merged


def searcher_of(shown: Any, actions: Iterable[tuple[str, object]]) -> set[str]:
    """Return the names that the client of a list has in its actions: "" where an action has no client.

    If the list has no client, and its session names none of the actions either, it was shown to the client that acts
    first.
    """
    names = {shown.client_id, shown.session_id} - {None, ""}
    acting = [name for name, _ in actions if name]
    if not shown.client_id and names.isdisjoint(acting):
        names = set(acting[:1])
    return {"", *names}


def _move_actions(
    record: QueryRecord, positions: Mapping[int, int], summary: EventSummary, shown: Any
) -> tuple[set[int], set[int]]:
    """Move the actions on documents of a list from the summary to the record; return the rows that they confirm.

    The actions of the client that the list was shown to count as those of one client. The second set has the rows that
    this client confirms.
    """
    actions = summary.actions.get(shown.query_id, {})
    searcher = searcher_of(shown, actions)
    named = next(filter(None, (shown.client_id, shown.session_id, *sorted(searcher))), "")
    moved = [name for name, action in actions.items() if action.row in positions]
    grades = grades_by_client({name: actions.pop(name).grade for name in moved}, searcher)
    clicked, by_searcher = set(), set()
    for (client, row), grade in grades.items():
        record.listed_grades[row] += grade
        if grade > 0:
            clicked.add(row)
            if not client:
                by_searcher.add(row)
            record.clicks[row * MAX_POSITIONS + positions[row]] += 1
            record.clients[row][summary.number_of(client or named)] += 1
    if clicked:
        lowest = max(positions[row] for row in clicked)
        record.examined.update(row for row, position in positions.items() if position <= lowest + 1)
    return clicked, by_searcher


def _feedback(query_key: str, record: QueryRecord, vector: Floats) -> Feedback:
    return replace(_own_feedback(query_key, record, vector), contexts=tuple(record.contexts))


def _own_feedback(query_key: str, record: QueryRecord, vector: Floats) -> Feedback:
    sessions, explored = tuple(record.sessions), tuple(record.explored)
    if record.is_judged:
        gains = {row: sum(ratings) / len(ratings) for row, ratings in record.ratings.items()}
        return Feedback(query_key, record.text, vector, gains, sessions=sessions, explored=explored)
    gains = record.confirmed(record.listed_grades)
    unlisted = {row: min(MAX_GAIN, grade) for row, grade in record.confirmed(record.unlisted_grades).items()}
    if unlisted and not gains:
        return Feedback(query_key, record.text, vector, unlisted, sessions=sessions, explored=explored)
    shown, clicks = (_by_row(counts, record.ratings) for counts in (record.shown, record.clicks))
    examined = frozenset(record.examined - record.ratings.keys())
    found = Feedback(query_key, record.text, vector, gains, shown, clicks, examined, sessions, explored=explored)
    return replace(found, contrasts=contrasts_of(record.contrasts), clients=record.clients_of_unrated)


def _by_row(counts: Counter[int], rejected: Container[int]) -> Showings:
    """Return row -> position -> count, without rejected documents: nothing was learned from them."""
    by_row: dict[int, dict[int, int]] = {}
    for name in sorted(counts):
        if name // MAX_POSITIONS not in rejected:
            by_row.setdefault(name // MAX_POSITIONS, {})[name % MAX_POSITIONS] = counts[name]
    return by_row


def feedback_counts(feedback: Sequence[Feedback]) -> dict[str, int]:
    """Return the counts of a run's feedback, for its record."""
    implicit = [one for one in feedback if one.shown is not None]
    silent = sum(one.is_silent for one in feedback)
    return {
        "queries": len(feedback) - silent,
        "silent_queries": silent,
        "with_shown_positions": len(implicit),
        "showings": sum(times for one in implicit for by in (one.shown or {}).values() for times in by.values()),
        "clicks": sum(times for one in implicit for by in (one.clicks or {}).values() for times in by.values()),
        "solved_sessions": sum(len(one.sessions) for one in feedback),
    }
