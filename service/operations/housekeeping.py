"""What is done without being asked: indexes are saved when writing has paused, memory fades by the day, and what is
past its retention is forgotten.
"""

import threading
from datetime import UTC, datetime, timedelta

import structlog
from sqlalchemy import delete

from service.feedback.actions import delete_events
from service.runtime.runtime import Runtime
from service.storage.database import rfc3339
from service.storage.tables import Impression

SAVE_SECONDS = 30.0
RETENTION_ROUNDS = 120
"""Rounds of SAVE_SECONDS between two looks at retention: an hour."""
log = structlog.get_logger()


class Housekeeping:
    """A thread that does the rounds until it is stopped."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._rounds, name="housekeeping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the round that is under way."""
        self._stopped.set()
        self._thread.join()

    def _rounds(self) -> None:
        rounds = 0
        seen: dict[str, int] = {}
        while True:
            try:
                if rounds % RETENTION_ROUNDS == 0:
                    forget_old_feedback(self._runtime)
                age_memory(self._runtime)
                self._save_paused(seen)
            except Exception:
                log.exception("housekeeping_failed")
            rounds += 1
            if self._stopped.wait(SAVE_SECONDS):
                return

    def _save_paused(self, seen: dict[str, int]) -> None:
        """Save each collection whose documents did not change since the last round."""
        for name, state in list(self._runtime.collections.items()):
            if seen.get(name) == state.documents_watermark:
                state.save()
            seen[name] = state.documents_watermark


def age_memory(runtime: Runtime, day: int | None = None) -> None:
    """Publish the memory of each collection as it is on this day, or today, where that is another day than it has."""
    for state in list(runtime.collections.values()):
        with state.lock:
            clock = state.settings.clock(day)
            if not len(state.memory):
                state.memory.age(clock)
            elif clock != state.memory.decay_clock:
                with runtime.database.write() as connection:
                    watermark = state.bump(connection, documents=False)
                state.age(watermark, clock)


def forget_old_feedback(runtime: Runtime) -> None:
    """Delete events and impressions that are older than their collection keeps them, with their memory."""
    for state in list(runtime.collections.values()):
        days = state.settings.retention_days
        if days is None:
            continue
        before = rfc3339(datetime.now(UTC) - timedelta(days=days))
        delete_events(runtime, state, None, None, before=before)
        with runtime.database.write() as connection:
            connection.execute(
                delete(Impression).where(Impression.collection_id == state.id, Impression.created_at < before)
            )
