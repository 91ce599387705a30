"""What past queries say in an explanation: what was asked, and which feedback is behind it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select, text

from index.ranking.explanation import KeyShare
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.storage.tables import Event, Judgment, Key

MOST_FEEDBACK = 10
"""Pieces of feedback that are shown of one past query, the last to come first."""
KEYS = (
    text(
        "SELECT id, event_id, judgment_id FROM keys INDEXED BY ix_keys_memory"  # else all memory is looked through
        " WHERE collection_id = :collection AND kind = 3 AND source = :source AND document_row = :row"
        " ORDER BY id DESC LIMIT :most"
    )
    .columns(Key.id, Key.event_id, Key.judgment_id)
    .subquery()
)
FEEDBACK = (
    select(Event.query_id, Event.action_name, Event.timestamp, Judgment.rating, Judgment.created_at)
    .select_from(KEYS)
    .join(Event, Event.id == KEYS.c.event_id, isouter=True)
    .join(Judgment, Judgment.id == KEYS.c.judgment_id, isouter=True)
    .order_by(KEYS.c.id.desc())
)
"""Made once: a document may have many past queries."""


def past_queries(
    runtime: Runtime, state: CollectionState, row: int, keys: Sequence[KeyShare]
) -> dict[str, dict[str, Any]]:
    """Return by source what each of these keys of the document `row` remembers."""
    if not keys:
        return {}
    with runtime.database.read() as connection:
        return {key.query_key or "": _past_query(connection, state.id, row, key) for key in keys}


def _past_query(connection: Connection, collection_id: int, row: int, key: KeyShare) -> dict[str, Any]:
    feedback = _feedback(connection, collection_id, row, key.query_key or "")
    last = feedback[0] if feedback else {"from": "event", "query_id": None}  # taken back since this generation
    return {
        "query": key.query_key,
        "confirmations": key.confirmations,
        "from": last["from"],
        "query_id": last["query_id"],
        "feedback": feedback,
    }


def _feedback(connection: Connection, collection_id: int, row: int, query_key: str) -> list[dict[str, Any]]:
    found = connection.execute(
        FEEDBACK, {"collection": collection_id, "source": query_key, "row": row, "most": MOST_FEEDBACK}
    )
    return [_shown(one) for one in found]


def _shown(row: Any) -> dict[str, Any]:
    if row.rating is not None:
        return {"from": "judgment", "query_id": None, "rating": row.rating, "timestamp": row.created_at}
    return {"from": "event", "query_id": row.query_id, "action_name": row.action_name, "timestamp": row.timestamp}
