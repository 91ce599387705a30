"""Retention: deletes raw queries and events after a collection's `retention_days`, and keeps anonymous memory of them.

Memory has a retention of its own, `memory_retention_days` (docs/decisions/0035).
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection

from index.memory.anonymous import AnonymousConfirmation, anonymous
from index.memory.confirmation import Confirmation
from index.memory.grades import weight_of
from service.feedback.repository import MemoryRow, delete_events, insert_memory
from service.operations import retention_repository as repository
from service.operations.each_collection import for_each_collection
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import PART_SIZE, bump_watermark, confirmations
from service.runtime.runtime import Runtime
from service.storage.database import rfc3339

EPOCH = date(1970, 1, 1)


def forget_old_feedback(runtime: Runtime, at: datetime | None = None) -> None:
    """Delete what is older than the retention of its collection, in all collections. at: now by default."""
    now = datetime.now(UTC) if at is None else at

    def forget(state: CollectionState) -> None:
        days, memory_days = state.settings.retention_days, state.settings.memory_retention_days
        if days is not None:
            _expire(runtime, state, rfc3339(now - timedelta(days=days)))
        if memory_days is not None:
            _forget_memory(runtime, state, rfc3339(now - timedelta(days=memory_days)))

    for_each_collection(runtime, forget)


def _expire(runtime: Runtime, state: CollectionState, before: str) -> None:
    """Delete events and impressions of before a time; the clicks that were in memory stay there, without a person."""
    runtime.impressions.flush()
    with state.lock:
        with runtime.database.write() as connection:
            ids = repository.expiring_keys(connection, state.id, before)
            left = anonymous(_confirmations(connection, state.id, ids))
            _, removed = delete_events(connection, state.id, before=before)
            searched = repository.delete_impressions(connection, state.id, before)
            added = insert_memory(connection, state.id, [_stored(one) for one in left])
            changed = bool(removed or added or searched)
            watermark = bump_watermark(connection, state.id, documents=False) if changed else 0
        if changed:
            with runtime.database.read() as connection:
                state.forget(watermark, removed, _confirmations(connection, state.id, added), searched)
            runtime.forget_queries()


def _forget_memory(runtime: Runtime, state: CollectionState, before: str) -> None:
    """Delete the memory of clicks of before a time. Events that are still stored stay, for training."""
    with state.lock:
        with runtime.database.write() as connection:
            removed = repository.delete_memory(connection, state.id, before)
            watermark = bump_watermark(connection, state.id, documents=False) if removed else 0
        if removed:
            state.remember(watermark, [], removed)
            state.remembered_since = max(state.remembered_since, before)


def _confirmations(connection: Connection, collection_id: int, ids: Sequence[int]) -> list[Confirmation]:
    parts = (ids[start : start + PART_SIZE] for start in range(0, len(ids), PART_SIZE))
    return [one for part in parts for one in confirmations(connection, collection_id, part)]


def _stored(one: AnonymousConfirmation) -> MemoryRow:
    day = (EPOCH + timedelta(days=one.day)).isoformat()
    return MemoryRow(one.row, one.name, one.vector, weight_of(one.grade), confirmed_on=day)
