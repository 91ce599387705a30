"""Gives feedback that is stored its memory again (docs/decisions/0061).

A deletion deletes the `query` keys of a document, and its judgments and events stay. When a document with the same id
is searchable again, keys are made from them anew. They are made from events too that `memory_retention_days` removed
from memory, when the setting is longer or null. Anonymous memory is gone: its texts are not stored.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from index.memory.grades import weight_of
from index.memory.query_key import as_query_key
from index.records import Floats
from service.feedback.repository import MemoryRow, insert_memory
from service.operations import restored_memory_repository as repository
from service.operations.each_collection import for_each_collection
from service.operations.restored_memory_repository import Place, Unremembered
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, confirmations
from service.runtime.runtime import Runtime
from service.storage.database import rfc3339

BATCH = 256
"""Judgments and events whose keys are made in a transaction."""
UNFINISHED = -1
"""The watermark of a look that ended early: the next one need not wait for a change of documents."""
REST = 20.0
"""After a look at the feedback of a collection, the next one waits for so many times as long as the look took."""


@dataclass(frozen=True)
class Look:
    """The last look at a collection: its watermark of documents, and the earliest time of the next one."""

    watermark: int
    not_before: float


def restore_memory(runtime: Runtime, looks: dict[int, Look]) -> None:
    """Make the keys that are missing, in all collections whose documents changed since the last look.

    looks: id of a collection -> its last look. It is brought up to date. A collection is looked at once after a start,
    and then only after a deletion that took memory away, and after its memory is kept for longer. A look that ended
    early is repeated.
    """

    def restore(state: CollectionState) -> None:
        look, watermark, begun = looks.get(state.id), state.documents_watermark, time.monotonic()
        since = _since(state)
        waits = not state.lacks_memory or (look and (look.watermark == watermark or begun < look.not_before))
        if waits and since >= state.remembered_since:
            return
        more = None
        state.lacks_memory = False  # a deletion during the look sets it again
        try:
            more = _restored(runtime, state, since)
        finally:
            state.lacks_memory |= more is not False
        ended = time.monotonic()
        if more is not None:
            state.remembered_since = since
        looks[state.id] = Look(UNFINISHED if more is None else watermark, ended + REST * (ended - begun))

    for_each_collection(runtime, restore)


def _since(state: CollectionState) -> str:
    """Return the time from which on events are kept in memory, as RFC 3339 text; "" without a limit."""
    days = state.settings.memory_retention_days
    return "" if days is None else rfc3339(datetime.now(UTC) - timedelta(days=days))


def _restored(runtime: Runtime, state: CollectionState, since: str) -> bool | None:
    """Make the missing keys of a collection; return whether there is more feedback without a key, of other documents.

    None if it ended early: for another encoder, at the stop of the service, or where feedback was deleted meanwhile.
    """
    if state.fingerprint != runtime.encoder.fingerprint:
        return None
    with runtime.database.read() as connection:
        place = repository.start_of(connection, state.id)
    while not runtime.closing:
        with runtime.database.read() as connection:
            missing = repository.unremembered(connection, state.id, since, BATCH, place)
            if not missing:
                return repository.has_unremembered(connection, state.id, since)
        texts = sorted({one.text for one in missing if one.grade})
        vectors = dict(zip(texts, runtime.encoder.encode_queries(texts), strict=True)) if texts else {}
        if not _remember(runtime, state, since, place, vectors):
            break
        place = place.after(missing)
    return None


def _remember(runtime: Runtime, state: CollectionState, since: str, place: Place, vectors: dict[str, Floats]) -> bool:
    """Store and publish the keys of feedback that still has none, and whose text has a vector; return whether any."""
    with state.lock:
        if state.is_removed:
            return False
        with runtime.database.write() as connection:
            missing = repository.unremembered(connection, state.id, since, BATCH, place)
            keys = [_key(one, vectors) for one in missing if one.text in vectors or not one.grade]
            added = insert_memory(connection, state.id, keys)
            watermark = bump_watermark(connection, state.id, documents=False) if added else 0
        if added:
            with runtime.database.read() as connection:
                confirmed = confirmations(connection, state.id, added)
            state.remember(watermark, confirmed)
        return bool(added)


def _key(one: Unremembered, vectors: dict[str, Floats]) -> MemoryRow:
    vector = vectors[one.text] if one.grade else np.empty(0, np.float32)
    return MemoryRow(one.row, as_query_key(one.text), vector, weight_of(one.grade), one.event_id, one.judgment_id)
