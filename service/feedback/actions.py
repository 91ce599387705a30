"""Feedback in and out: checked one by one, joined to its query, stored, and remembered as `query` keys at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection, and_, delete, insert, select

from index.memory.aggregation import weight_of
from index.records import Floats, KeyKind
from service.feedback.schemas import MAX_ITEMS, EventIn, JudgmentIn
from service.http.problems import Problem
from service.http.requests import first_error
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, confirmations
from service.runtime.query_text import normalise
from service.runtime.runtime import Runtime
from service.storage.database import now, rfc3339
from service.storage.tables import Document, Event, Impression, Judgment, Key
from service.storage.vector_codec import as_blob


@dataclass(frozen=True)
class Remembered:
    """What one piece of feedback adds to memory: a signed weight between a query and a document."""

    row: int
    query_key: str
    vector: Floats
    weight: float
    event_id: int | None = None
    judgment_id: int | None = None


def read_events(body: bytes) -> list[Any]:
    """Return the items of a body: one object, an array, or newline-delimited JSON; a line that is no JSON is None."""
    try:
        parsed = orjson.loads(body)
        items = parsed if isinstance(parsed, list) else [parsed]
    except orjson.JSONDecodeError:
        lines = [line for line in body.split(b"\n") if line.strip()]
        if len(lines) < 2:
            raise Problem(400, "invalid_json", "the body is neither JSON nor newline-delimited JSON") from None
        items = [_line(line) for line in lines]
    if not items:
        raise Problem(422, "invalid_request", "there is no event in the body")
    too_many(items, "events")
    return items


def too_many(items: Sequence[Any], what: str) -> None:
    """Raise the 422 of a batch that is over the limit."""
    if len(items) > MAX_ITEMS:
        raise Problem(422, f"too_many_{what}", f"a request has at most {MAX_ITEMS} {what}")


def _line(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def take_events(runtime: Runtime, state: CollectionState, items: Sequence[Any]) -> dict[str, Any]:
    """Store the good ones of these events, remember what they confirm, and say why the others are rejected."""
    events, rejected = _checked(EventIn, items, "invalid_event")
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        queries = _known_queries(connection, state, [event.query_id for _, event in events])
        rows = _known_documents(connection, state, [event.document_id for _, event in events])
    accepted = []
    for index, event in events:
        refusal = _refusal(event, queries, rows)
        if refusal:
            rejected.append({"index": index, **refusal})
        else:
            text = queries.get(event.query_id or "") or event.user_query or ""
            accepted.append((event, text))
    vectors = _vectors(runtime, state, [text for event, text in accepted if event.grade and event.document_id])
    with state.lock:
        with runtime.database.write() as connection:
            rows = _known_documents(connection, state, [event.document_id for event, _ in accepted])
            remembered = [_store_event(connection, state, event, text, rows, vectors) for event, text in accepted]
            added = _store_keys(connection, state, remembered)
            watermark = bump_watermark(connection, state.id, documents=False) if added else 0
        if added:
            _remember(runtime, state, watermark, added, [])
    return {"accepted": len(accepted), "rejected": sorted(rejected, key=lambda one: int(one["index"]))}


def take_judgments(runtime: Runtime, state: CollectionState, items: Sequence[Any]) -> dict[str, Any]:
    """Store, replace or take back these judgments, and remember what they confirm."""
    too_many(items, "judgments")
    judgments, rejected = _checked(JudgmentIn, items, "invalid_judgment")
    vectors = _vectors(runtime, state, [judgment.query for _, judgment in judgments if judgment.rating])
    with state.lock:
        with runtime.database.write() as connection:
            rows = _known_documents(connection, state, [judgment.document_id for _, judgment in judgments])
            lost = [(index, one) for index, one in judgments if one.document_id not in rows]
            unknown = {index for index, one in lost if one.rating is not None}  # what is gone can be taken back
            taken = [judgment for index, judgment in judgments if index not in unknown]
            removed: list[int] = []
            added: list[int] = []
            for judgment in taken:  # one by one: the same judgment may come twice in a batch, and the last one counts
                removed += _take_back(connection, state, judgment)
                if judgment.rating is not None:
                    remembered = _store_judgment(connection, state, judgment, rows, vectors)
                    added += _store_keys(connection, state, [remembered])
            visible = bool(added or removed)
            watermark = bump_watermark(connection, state.id, documents=False) if visible else 0
        if visible:
            _remember(runtime, state, watermark, added, removed)
    rejected += [{"index": index, "code": "unknown_document", "detail": "no such document"} for index in unknown]
    return {"accepted": len(taken), "rejected": sorted(rejected, key=lambda one: int(one["index"]))}


def delete_events(
    runtime: Runtime, state: CollectionState, query_id: str | None, client_id: str | None, before: str | None = None
) -> int:
    """Take events back with the memory they made, as if they had never been; return how many there were."""
    where = [Event.collection_id == state.id]
    where += [Event.query_id == query_id] if query_id else []
    where += [Event.client_id == client_id] if client_id else []
    where += [Event.timestamp < before] if before else []
    with state.lock:
        with runtime.database.write() as connection:
            ids = select(Event.id).where(*where)
            removed = list(connection.execute(select(Key.id).where(Key.event_id.in_(ids))).scalars())
            count = connection.execute(delete(Event).where(*where)).rowcount
            watermark = bump_watermark(connection, state.id, documents=False) if removed else 0
        if removed:
            _remember(runtime, state, watermark, [], removed)
    return int(count)


def _checked(
    model: type[BaseModel], items: Sequence[Any], code: str
) -> tuple[list[tuple[int, Any]], list[dict[str, Any]]]:
    good: list[tuple[int, Any]] = []
    bad: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        try:
            good.append((index, model.model_validate(item)))
        except ValidationError as error:
            bad.append({"index": index, "code": code, "detail": first_error(error)})
    return good, bad


def _known_queries(connection: Connection, state: CollectionState, ids: Iterable[str | None]) -> dict[str, str]:
    wanted = sorted({one for one in ids if one})
    found = select(Impression.query_id, Impression.text).where(
        Impression.collection_id == state.id, Impression.query_id.in_(wanted)
    )
    return {row.query_id: row.text for row in connection.execute(found)}


def _known_documents(connection: Connection, state: CollectionState, ids: Iterable[str | None]) -> dict[str, int]:
    wanted = sorted({one for one in ids if one})
    found = select(Document.id, Document.row).where(Document.collection_id == state.id, Document.id.in_(wanted))
    return {row.id: row.row for row in connection.execute(found)}


def _refusal(event: EventIn, queries: dict[str, str], rows: dict[str, int]) -> dict[str, str] | None:
    if event.is_verdict and event.session_id and not event.query_id:
        return None
    if event.query_id not in queries and not event.user_query:
        if event.query_id:
            return {"code": "unknown_query", "detail": "no such query_id, and no user_query to join by"}
        return {"code": "query_missing", "detail": "an event needs a query_id or a user_query"}
    if event.document_id is None:
        if event.grade and not (event.is_verdict and event.query_id in queries):
            return {"code": "document_missing", "detail": _missing(event)}
    elif event.document_id not in rows:
        return {"code": "unknown_document", "detail": "no such document"}
    return None


def _missing(event: EventIn) -> str:
    if event.is_verdict:
        return "a thumb needs event_attributes.object.object_id, or the query_id of a logged search, or a session_id"
    return "this action needs event_attributes.object.object_id"


def _vectors(runtime: Runtime, state: CollectionState, texts: Iterable[str]) -> dict[str, Floats]:
    state.require_encoder(runtime.encoder)
    distinct = sorted(set(texts))
    return dict(zip(distinct, runtime.encoder.encode_queries(distinct), strict=True)) if distinct else {}


def _store_event(
    connection: Connection,
    state: CollectionState,
    event: EventIn,
    text: str,
    rows: dict[str, int],
    vectors: dict[str, Floats],
) -> Remembered | None:
    grade = event.grade
    query_key = normalise(text)
    values = {
        "collection_id": state.id,
        "action_name": event.action_name,
        "grade": grade,
        "query_id": event.query_id,
        "query_text": text,
        "query_key": query_key,
        "document_id": event.document_id,
        "position": event.position,
        "client_id": event.client_id,
        "session_id": event.session_id,
        "timestamp": rfc3339(event.moment),
        "body": event.model_dump(mode="json"),
        "created_at": now(),
    }
    event_id = connection.execute(insert(Event).values(values).returning(Event.id)).scalar_one()
    row = rows.get(event.document_id or "")
    if not grade or row is None:
        return None
    return Remembered(row, query_key, vectors[text], weight_of(grade), event_id=event_id)


def _take_back(connection: Connection, state: CollectionState, judgment: JudgmentIn) -> list[int]:
    same = and_(
        Judgment.collection_id == state.id,
        Judgment.query_key == normalise(judgment.query),
        Judgment.document_id == judgment.document_id,
        Judgment.rater == judgment.rater,
    )
    keys = list(
        connection.execute(select(Key.id).where(Key.judgment_id.in_(select(Judgment.id).where(same)))).scalars()
    )
    connection.execute(delete(Judgment).where(same))
    return [int(key) for key in keys]


def _store_judgment(
    connection: Connection,
    state: CollectionState,
    judgment: JudgmentIn,
    rows: dict[str, int],
    vectors: dict[str, Floats],
) -> Remembered | None:
    query_key = normalise(judgment.query)
    rating = judgment.rating or 0
    values = {
        "collection_id": state.id,
        "query_text": judgment.query,
        "query_key": query_key,
        "document_id": judgment.document_id,
        "rating": rating,
        "rater": judgment.rater,
        "created_at": now(),
    }
    judgment_id = connection.execute(insert(Judgment).values(values).returning(Judgment.id)).scalar_one()
    if rating == 0:
        return None
    weight = weight_of(float(rating))
    return Remembered(rows[judgment.document_id], query_key, vectors[judgment.query], weight, judgment_id=judgment_id)


def _store_keys(connection: Connection, state: CollectionState, remembered: Iterable[Remembered | None]) -> list[int]:
    ids = []
    for one in remembered:
        if one is None:
            continue
        values = {
            "collection_id": state.id,
            "document_row": one.row,
            "kind": int(KeyKind.QUERY),
            "vector": as_blob(one.vector),
            "weight": one.weight,
            "span_start": 0,
            "span_end": 0,
            "query_key": one.query_key,
            "event_id": one.event_id,
            "judgment_id": one.judgment_id,
        }
        ids.append(int(connection.execute(insert(Key).values(values).returning(Key.id)).scalar_one()))
    return ids


def _remember(
    runtime: Runtime, state: CollectionState, watermark: int, added: Sequence[int], removed: Sequence[int]
) -> None:
    with runtime.database.read() as connection:
        confirmed = confirmations(connection, state.id, added) if added else []  # without those taken back again
    state.remember(watermark, confirmed, removed)
