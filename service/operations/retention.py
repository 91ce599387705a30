"""Retention: deletes raw queries and events after a collection's `retention_days`, and keeps anonymous memory of them.

Memory has a retention of its own, `memory_retention_days` (docs/decisions/0035). Both delete in batches, each a
transaction of its own: other writers get their turn between two, and a process that ends between two has lost nothing.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from time import sleep

from sqlalchemy import Connection

from index.memory.anonymous import AnonymousConfirmation, anonymous
from index.memory.confirmation import Confirmation
from index.memory.grades import weight_of
from service.feedback.repository import MemoryRow, insert_memory
from service.operations import retention_repository as repository
from service.operations.each_collection import for_each_collection
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import PART_SIZE, bump_watermark, confirmations
from service.runtime.runtime import Runtime
from service.storage.database import rfc3339
from service.training.attention import forget_attention, outdated_reports

EPOCH = date(1970, 1, 1)
MOST_READ = 2_000
"""Events of all times of the queries of a batch, at most; a batch has at least one query."""
PAUSE_SECONDS = 0.01
"""Pause after each batch. Without it this thread would take the lock again before one that waits for it."""


@dataclass(frozen=True)
class Forgotten:
    """What a batch changed: the ids of `query` keys that it deleted and made, the query keys of its impressions."""

    removed: Sequence[int] = ()
    added: Sequence[int] = ()
    searched: set[str] = field(default_factory=set)


Batch = Callable[[Connection], Forgotten]
"""Deletes a part of what is old, inside a transaction."""


def forget_old_feedback(runtime: Runtime, at: datetime | None = None) -> None:
    """Delete what is older than the retention of its collection, in all collections. at: now by default."""
    now = datetime.now(UTC) if at is None else at

    def forget(state: CollectionState) -> None:
        days, memory_days = state.settings.retention_days, state.settings.memory_retention_days
        if days is not None:
            runtime.impressions.flush()
            batches = _expiry(runtime, state, rfc3339(now - timedelta(days=days)))
            _do_all(runtime, state, batches, lambda: state.settings.retention_days == days)
        if memory_days is not None:
            before = rfc3339(now - timedelta(days=memory_days))
            batches = _memory_expiry(runtime, state, before)
            _do_all(runtime, state, batches, lambda: state.settings.memory_retention_days == memory_days)

    for_each_collection(runtime, forget)


def _do_all(runtime: Runtime, state: CollectionState, batches: Iterable[Batch], is_wanted: Callable[[], bool]) -> None:
    """Do the batches one after the other, until the service stops, the collection is removed or the setting changes."""
    is_begun = False
    try:
        for batch in batches:
            is_begun = True
            with state.lock:
                if runtime.closing or state.is_removed or not is_wanted():
                    return
                _do(runtime, state, batch)
            sleep(PAUSE_SECONDS)
    finally:
        if is_begun:
            runtime.forget_queries()


def _do(runtime: Runtime, state: CollectionState, batch: Batch) -> None:
    """Commit a batch and publish its memory. The caller holds the lock."""
    with runtime.database.write() as connection:
        state.has_deleted_feedback = True
        done = batch(connection)
        changed = bool(done.removed or done.added or done.searched)
        watermark = bump_watermark(connection, state.id, documents=False) if changed else 0
    if changed:
        with runtime.database.read() as connection:
            added = _confirmations(connection, state.id, done.added)
        state.forget(watermark, done.removed, added, done.searched)


def _expiry(runtime: Runtime, state: CollectionState, before: str) -> Iterator[Batch]:
    """Yield the batches that delete events and impressions of before a time; clicks stay in memory, without a person.

    Events that have memory are deleted by whole queries: all that expire of a query leave one anonymous key for each
    document and day.
    """
    with runtime.database.read() as connection:
        silent = array("q", repository.silent_events(connection, state.id, before))
    for ids in _parts(silent):
        yield partial(_delete_silent, ids=ids)
    with runtime.database.read() as connection:
        queries = repository.expiring_queries(connection, state.id, before)
    for query_keys in _together(queries):
        yield partial(_make_anonymous, collection_id=state.id, before=before, query_keys=query_keys)
    impressions = [("", "")]
    while impressions:
        first = impressions[-1][1]
        with runtime.database.read() as connection:
            impressions = repository.old_impressions(connection, state.id, before, first, PART_SIZE)
        if impressions:
            yield partial(_delete_impressions, impressions=impressions)
    with runtime.database.read() as connection:
        outdated = outdated_reports(connection, state.id)
    if outdated:
        yield partial(_forget_attention, collection_id=state.id)


def _memory_expiry(runtime: Runtime, state: CollectionState, before: str) -> Iterator[Batch]:
    """Yield the batches that delete the memory of clicks of before a time. Events stay, for training."""
    with runtime.database.read() as connection:
        old = array("q", repository.old_memory(connection, state.id, before))
    if old:
        state.remembered_since = max(state.remembered_since, before)
    for ids in _parts(old):
        yield partial(_delete_memory, ids=ids)


def _forget_attention(connection: Connection, collection_id: int) -> Forgotten:
    forget_attention(connection, collection_id)
    return Forgotten()


def _delete_silent(connection: Connection, ids: Sequence[int]) -> Forgotten:
    repository.delete_silent_events(connection, ids)
    return Forgotten()


def _make_anonymous(connection: Connection, collection_id: int, before: str, query_keys: Sequence[str]) -> Forgotten:
    ids = repository.expiring_keys(connection, collection_id, before, query_keys)
    left = anonymous(_confirmations(connection, collection_id, ids))
    removed = repository.delete_events(connection, collection_id, before, query_keys)
    return Forgotten(removed, insert_memory(connection, collection_id, [_stored(one) for one in left]))


def _delete_impressions(connection: Connection, impressions: Sequence[tuple[str, str]]) -> Forgotten:
    repository.delete_impressions(connection, [query_id for query_id, _ in impressions])
    return Forgotten(searched={query_key for _, query_key in impressions})


def _delete_memory(connection: Connection, ids: Sequence[int]) -> Forgotten:
    return Forgotten(repository.delete_memory(connection, ids))


def _parts(ids: Sequence[int]) -> Iterator[list[int]]:
    return (list(ids[start : start + PART_SIZE]) for start in range(0, len(ids), PART_SIZE))


def _together(queries: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Yield query keys that have at most MOST_READ events together, of query keys with their numbers of events."""
    part: list[str] = []
    read = 0
    for query_key, count in queries:
        if part and (read + count > MOST_READ or len(part) == PART_SIZE):
            yield part
            part, read = [], 0
        part.append(query_key)
        read += count
    if part:
        yield part


def _confirmations(connection: Connection, collection_id: int, ids: Sequence[int]) -> list[Confirmation]:
    return [one for part in _parts(ids) for one in confirmations(connection, collection_id, part)]


def _stored(one: AnonymousConfirmation) -> MemoryRow:
    day = (EPOCH + timedelta(days=one.day)).isoformat()
    return MemoryRow(one.row, one.name, one.vector, weight_of(one.grade), confirmed_on=day)
