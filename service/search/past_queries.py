"""Past queries in an explanation: their text, and the feedback behind them."""

from collections.abc import Sequence
from typing import Any

from index.memory.query_key import is_anonymous
from index.ranking.explanation import KeyShare
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection
from service.search import repository

MAX_FEEDBACK = 10
"""Feedback items shown for a past query, the newest first."""


def past_queries(
    runtime: SearchRuntime, state: ServedCollection, row: int, keys: Sequence[KeyShare]
) -> dict[str, dict[str, Any]]:
    """Return query key -> past query, for these `query` keys of the document `row`."""
    if not keys:
        return {}
    with runtime.database.read() as connection:
        return {
            key.query_key or "": _past_query(
                key, repository.feedback(connection, state.id, key.query_key or "", row, MAX_FEEDBACK)
            )
            for key in keys
        }


def _past_query(key: KeyShare, rows: Sequence[Any]) -> dict[str, Any]:
    if is_anonymous(key.query_key or ""):
        found = {"query": None, "confirmations": key.confirmations, "from": "anonymous", "query_id": None}
        return found | {"feedback": []}
    feedback = [_feedback(row) for row in rows]
    # there is no feedback if it was deleted after this generation was published
    newest = feedback[0] if feedback else {"from": "event", "query_id": None}
    return {
        "query": key.query_key,
        "confirmations": key.confirmations,
        "from": newest["from"],
        "query_id": newest["query_id"],
        "feedback": feedback,
    }


def _feedback(row: Any) -> dict[str, Any]:
    if row.rating is not None:
        return {"from": "judgment", "query_id": None, "rating": row.rating, "timestamp": row.created_at}
    return {"from": "event", "query_id": row.query_id, "action_name": row.action_name, "timestamp": row.timestamp}
