"""Stores and deletes feedback: checks each item, joins it to its query, and makes `query` keys from it at once."""

from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import orjson
from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection

from index.memory.grades import weight_of
from index.memory.query_key import as_query_key
from index.records import Floats
from service.feedback import repository
from service.feedback.repository import EventRow, LoggedQuery, MemoryRow
from service.feedback.schemas import MAX_ITEMS, MAX_LINES, EventIn, JudgmentIn
from service.http.access import OWNER, Caller
from service.http.json_bounds import parse
from service.http.problems import Problem
from service.http.requests import first_error
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, confirmations, require_collection
from service.runtime.runtime import Runtime
from service.storage.reservations import note_answer
from service.storage.tenants import stored_client, stored_name


def read_events(body: bytes) -> list[Any]:
    """Return the items of a body: an object, an array, or newline-delimited JSON. An invalid line becomes None.

    A byte order mark at the start of the body is left out.
    """
    body = body.removeprefix(BOM_UTF8)
    try:
        parsed = parse(body)
        items = parsed if isinstance(parsed, list) else [parsed]
    except orjson.JSONDecodeError:
        items = [_line(line) for line in _lines(body)]
    if not items:
        raise Problem(422, "invalid_request", "the body contains no event")
    too_many(items, "events")
    return items


def too_many(items: Sequence[Any], name: str) -> None:
    """Raise Problem 422 for a batch over the limit."""
    if len(items) > MAX_ITEMS:
        raise Problem(422, f"too_many_{name}", f"a request has at most {MAX_ITEMS} {name}")


def _lines(body: bytes) -> list[bytes]:
    """Return the lines that are not blank. Raises Problem 422 for too many, 400 for fewer than two."""
    if body.removesuffix(b"\n").count(b"\n") >= MAX_LINES:
        raise Problem(422, "too_many_events", f"a request has at most {MAX_LINES} lines, with the blank ones")
    lines = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) < 2:
        raise Problem(400, "invalid_json", "the body is neither JSON nor newline-delimited JSON")
    too_many(lines, "events")
    return lines


def _line(line: bytes) -> Any:
    try:
        return parse(line)
    except orjson.JSONDecodeError:
        return None


def take_body(runtime: Runtime, state: CollectionState, body: bytes, caller: Caller) -> dict[str, Any]:
    """Read and take the events of a body."""
    return take_events(runtime, state, read_events(body), caller)


class _SearchesChanged(Exception):
    """A search that events name was erased or logged while they were encoded."""


def take_events(
    runtime: Runtime, state: CollectionState, items: Sequence[Any], caller: Caller = OWNER
) -> dict[str, Any]:
    """Store the valid events, add them to memory, and return the reasons for rejecting the others.

    caller: if its key has a filter, documents that do not pass it and searches with another filter are unknown.
    """
    events, rejected = _checked(EventIn, items, "invalid_event")
    runtime.impressions.flush()
    while True:
        try:
            return _taken(runtime, state, events, rejected, caller)
        except _SearchesChanged:
            runtime.forget_queries()  # an erased text may have been encoded after its erasure


def _taken(
    runtime: Runtime,
    state: CollectionState,
    events: Sequence[tuple[int, EventIn]],
    invalid: Sequence[dict[str, Any]],
    caller: Caller,
) -> dict[str, Any]:
    """Store events; return the outcome. Raises _SearchesChanged, and stores nothing: their texts may be erased ones."""
    rejected = list(invalid)
    with runtime.database.read() as connection:
        named = [event.query_id for _, event in events]
        queries = repository.logged_queries(connection, state.id, named, caller.filter)
        ids = [event.document_id for _, event in events]
        rows = repository.document_rows(connection, state.id, ids, caller.condition)
        missing = [id for id in ids if id not in rows]
        waiting = repository.waiting_documents(connection, state.id, missing, caller.condition)
        events = [(index, _joined(event, queries, caller)) for index, event in events]
        positions = repository.shown_positions(connection, state.id, [event for _, event in events])
    accepted: list[EventRow] = []
    for index, event in events:
        refusal = _foreign(event, queries, caller) or _refusal(event, queries, rows, waiting)
        if refusal:
            rejected.append({"index": index, **refusal})
        else:
            logged = queries.get(event.query_id or "")
            text = (logged and logged.text) or event.user_query or ""
            position = positions.get((event.query_id or "", event.document_id or ""), event.position)
            is_counted = _is_counted(event, positions, caller)
            accepted.append(EventRow(event, text, position, is_counted, caller.is_browser))
    counted = [one for one in accepted if one.is_counted]
    remembered = [one.text for one in counted if one.event.grade and one.event.document_id]
    vectors = _vectors(runtime, state, remembered, caller)
    with state.lock:
        with runtime.database.write() as connection:
            require_collection(connection, state.id)
            if any(named) and repository.logged_queries(connection, state.id, named, caller.filter) != queries:
                raise _SearchesChanged
            added = _store_events(connection, state, accepted, vectors)
            watermark = bump_watermark(connection, state.id, documents=False) if added else 0
            note_answer(202, _outcome(len(accepted), rejected))
        if added:
            _remember(runtime, state, watermark, added, [])
    return _outcome(len(accepted), rejected)


def _joined(event: EventIn, queries: Mapping[str, LoggedQuery], caller: Caller) -> EventIn:
    """Return the event with the names under which it is stored.

    Feedback with a key with a filter has a client, a session and an unknown search of its tenant: it would otherwise
    join those of other tenants. Feedback with a key without a filter on the search of a tenant is of that tenant too.
    An event that is refused for its unknown search keeps the id.
    """
    logged = queries.get(event.query_id or "")
    tenant = caller.tenant if logged is None or caller.filter is not None else logged.tenant
    names = {"client_id": stored_client(tenant, event.client_id)}
    if event.session_id is not None:
        names["session_id"] = stored_name(tenant, event.session_id)
    is_foreign = event.is_verdict and caller.filter is not None
    is_refused = is_foreign or (event.grade is not None and not event.user_query)
    if event.query_id and logged is None and not is_refused:
        names["query_id"] = stored_name(tenant, event.query_id)
    return event.model_copy(update=names)


def take_judgments(runtime: Runtime, state: CollectionState, items: Sequence[Any]) -> dict[str, Any]:
    """Store, replace or delete judgments, change memory accordingly, and return the reasons for rejections."""
    too_many(items, "judgments")
    judgments, rejected = _checked(JudgmentIn, items, "invalid_judgment")
    vectors = _vectors(runtime, state, [judgment.query for _, judgment in judgments if judgment.rating])
    with state.lock:
        with runtime.database.write() as connection:
            require_collection(connection, state.id)
            rows = repository.document_rows(connection, state.id, [judgment.document_id for _, judgment in judgments])
            # the judgment of a deleted document can still be deleted
            unknown = {
                index: judgment.document_id
                for index, judgment in judgments
                if judgment.document_id not in rows and judgment.rating is not None
            }
            waiting = repository.waiting_documents(connection, state.id, unknown.values())
            accepted = [judgment for index, judgment in judgments if index not in unknown]
            added, removed = _store_judgments(connection, state, accepted, rows, vectors)
            state.has_deleted_feedback |= any(judgment.rating is None for judgment in accepted) or bool(removed)
            watermark = bump_watermark(connection, state.id, documents=False) if added or removed else 0
            rejected += [{"index": index, **_unknown_document(id in waiting)} for index, id in unknown.items()]
            note_answer(200, _outcome(len(accepted), rejected))
        if added or removed:
            _remember(runtime, state, watermark, added, removed)
    return _outcome(len(accepted), rejected)


def delete_events(
    runtime: Runtime, state: CollectionState, query_id: str | None, client_id: str | None, query: str | None
) -> int:
    """Delete events that match all given conditions, and the memory made from them; return the number of events.

    query: a text, in any spelling. Its anonymous memory is deleted too, and counts like events.
    """
    query_key = None if query is None else as_query_key(query)
    with state.lock:
        with runtime.database.write() as connection:
            require_collection(connection, state.id)
            state.has_deleted_feedback = True
            count, removed = repository.delete_events(connection, state.id, query_id, client_id, query_key)
            if query is not None:
                anonymous = repository.delete_anonymous(connection, state.id, query)
                count, removed = count + len(anonymous), removed + anonymous
            watermark = bump_watermark(connection, state.id, documents=False) if removed else 0
            note_answer(200, {"deleted": count})
        if removed:
            _remember(runtime, state, watermark, [], removed)
    return count


def _checked(
    model: type[BaseModel], items: Sequence[Any], code: str
) -> tuple[list[tuple[int, Any]], list[dict[str, Any]]]:
    """Return the valid items with their index, and the rejections of the others."""
    valid: list[tuple[int, Any]] = []
    rejected: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        try:
            valid.append((index, model.model_validate(item)))
        except ValidationError as error:
            rejected.append({"index": index, "code": code, "detail": first_error(error)})
    return valid, rejected


def _outcome(accepted: int, rejected: list[dict[str, Any]]) -> dict[str, Any]:
    return {"accepted": accepted, "rejected": sorted(rejected, key=lambda rejection: int(rejection["index"]))}


def _is_counted(event: EventIn, positions: Mapping[tuple[str, str], int], caller: Caller) -> bool:
    """Return whether an event is learned from. Who has a key made for browsers can make up documents and queries, so
    its events count only for documents that a logged search showed."""
    if not caller.is_browser or event.document_id is None:
        return True
    return (event.query_id or "", event.document_id) in positions


def _foreign(event: EventIn, queries: Mapping[str, LoggedQuery], caller: Caller) -> dict[str, str] | None:
    """Return the reason for rejecting a verdict of a key with a filter on a search that the key does not know."""
    if caller.filter is None or not event.is_verdict or not event.query_id or event.query_id in queries:
        return None
    return {"code": "unknown_query", "detail": "the query_id is unknown"}


def _refusal(
    event: EventIn, queries: Mapping[str, LoggedQuery], rows: Mapping[str, int], waiting: Set[str]
) -> dict[str, str] | None:
    """Return the reason for rejecting an event, or None. waiting: the ids of documents that are not searchable yet."""
    if event.is_verdict and event.session_id and not event.query_id:
        return None
    if event.grade is None:  # stored and not learned from: it may concern no search and no document
        return None
    if event.query_id not in queries and not event.user_query:
        if event.query_id:
            return {"code": "unknown_query", "detail": "the query_id is unknown, and there is no user_query"}
        return {"code": "query_missing", "detail": "an event needs a query_id or a user_query"}
    if event.document_id is None:
        if event.grade and not (event.is_verdict and event.query_id in queries):
            return {"code": "document_missing", "detail": _missing_document(event)}
    elif event.document_id not in rows:
        return _unknown_document(event.document_id in waiting)
    return None


def _unknown_document(is_waiting: bool) -> dict[str, str]:
    """Return the reason for rejecting feedback on a document that has no row. is_waiting: it is stored, and pending."""
    detail = "the document is not searchable yet; wait for its task, and send the feedback again"
    return {"code": "unknown_document", "detail": detail if is_waiting else "no such document"}


def _missing_document(event: EventIn) -> str:
    if event.is_verdict:
        return (
            f"a {event.action_name} event needs event_attributes.object.object_id, or the query_id of a logged search, "
            "or a session_id"
        )
    return "this action needs event_attributes.object.object_id"


def _vectors(
    runtime: Runtime, state: CollectionState, texts: Iterable[str], caller: Caller = OWNER
) -> dict[str, Floats]:
    """Return text -> vector. That of a text that was just searched is kept in this process."""
    state.require_encoder(runtime.encoder)
    return {text: runtime.encoded_query(text, caller).vector for text in sorted(set(texts))}


def _store_events(
    connection: Connection, state: CollectionState, events: list[EventRow], vectors: dict[str, Floats]
) -> list[int]:
    """Store events with their query texts, and make memory from the graded events; return the ids of the new keys.

    An event whose document was deleted since the check is stored without memory.
    """
    rows = repository.document_rows(connection, state.id, [one.event.document_id for one in events])
    memory = []
    for event_id, one in zip(repository.insert_events(connection, state.id, events), events, strict=True):
        row = rows.get(one.event.document_id or "")
        if one.is_counted and one.event.grade and row is not None:
            weight = weight_of(one.event.grade)
            memory.append(MemoryRow(row, as_query_key(one.text), vectors[one.text], weight, event_id=event_id))
    return repository.insert_memory(connection, state.id, memory)


def _store_judgments(
    connection: Connection,
    state: CollectionState,
    judgments: list[JudgmentIn],
    rows: dict[str, int],
    vectors: dict[str, Floats],
) -> tuple[list[int], list[int]]:
    """Store, replace or delete judgments in order; return the ids of the new and of the deleted memory keys.

    If a batch contains the same judgment twice, the last one is stored.
    """
    added: list[int] = []
    removed: list[int] = []
    for judgment in judgments:
        removed += repository.delete_judgment(connection, state.id, judgment)
        if judgment.rating is None:
            continue
        judgment_id = repository.insert_judgment(connection, state.id, judgment)
        # a rating of 0 has the weight 0 and no vector: it only counts in the mean rating of the document
        vector = vectors[judgment.query] if judgment.rating else np.empty(0, np.float32)
        query_key, weight = as_query_key(judgment.query), weight_of(float(judgment.rating))
        key = MemoryRow(rows[judgment.document_id], query_key, vector, weight, judgment_id=judgment_id)
        added += repository.insert_memory(connection, state.id, [key])
    return added, removed


def _remember(
    runtime: Runtime, state: CollectionState, watermark: int, added: Sequence[int], removed: Sequence[int]
) -> None:
    with runtime.database.read() as connection:
        # keys that were added and deleted in the same batch are not stored any more
        confirmed = confirmations(connection, state.id, added) if added else []
    state.remember(watermark, confirmed, removed)
