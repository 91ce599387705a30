"""The work of the housekeeping thread: it heals indexes, saves them while no documents change, ages the memory daily,
weighs it for a new champion, deletes feedback after its retention period, and starts training runs and snapshots by
their schedules.
"""

import threading

from service.keys.actions import store_last_uses
from service.operations.retention import forget_old_feedback
from service.runtime.collection_repository import bump_watermark
from service.runtime.repeated_failures import RepeatedFailures
from service.runtime.runtime import Runtime
from service.snapshots.actions import make_due_snapshot
from service.training.actions import start_scheduled_runs

SAVE_SECONDS = 30.0
RETENTION_ROUNDS = 120
"""Rounds of SAVE_SECONDS between two checks of retention: an hour."""


class Housekeeping:
    """The housekeeping thread. It starts at once and runs until `stop`.

    trains: whether it starts training runs and snapshots by schedule.
    """

    def __init__(self, runtime: Runtime, trains: bool = True) -> None:
        self._runtime = runtime
        self._trains = trains
        self._stopped = threading.Event()
        self._failures = RepeatedFailures("housekeeping_failed")
        self._thread = threading.Thread(target=self._rounds, name="housekeeping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its current round."""
        self._stopped.set()
        self._thread.join()

    def _rounds(self) -> None:
        rounds = 0
        seen: dict[str, int] = {}
        while True:
            try:
                heal_indexes(self._runtime)  # first: it needs no write, and a full disk may stop the steps below
                if rounds % RETENTION_ROUNDS == 0:
                    forget_old_feedback(self._runtime)
                age_memory(self._runtime)
                weigh_memory(self._runtime)
                store_last_uses(self._runtime)
                self._save_paused(seen)
                if self._trains:
                    start_scheduled_runs(self._runtime)
                    make_due_snapshot(self._runtime)
                self._failures.succeeded()
            except Exception as error:
                self._failures.failed(error)
            rounds += 1
            if self._stopped.wait(SAVE_SECONDS):
                return

    def _save_paused(self, seen: dict[str, int]) -> None:
        """Save each collection whose documents have not changed since the last round."""
        for name, state in list(self._runtime.collections.items()):
            if seen.get(name) == state.documents_watermark:
                state.save()
            seen[name] = state.documents_watermark


def heal_indexes(runtime: Runtime) -> None:
    """Heal the index of every collection that lacks committed changes, or lost its files."""
    for state in list(runtime.collections.values()):
        state.heal()


def age_memory(runtime: Runtime, day: int | None = None) -> None:
    """Age the memory of every collection to this day, and publish it where the day changes. The default is today."""
    for state in list(runtime.collections.values()):
        with state.lock:
            clock = state.settings.decay_clock(day)
            if not len(state.memory):
                state.memory.age(clock)
            elif clock != state.memory.decay_clock:
                with runtime.database.write() as connection:
                    watermark = bump_watermark(connection, state.id, documents=False)
                state.age(watermark, clock)


def weigh_memory(runtime: Runtime) -> None:
    """Weigh the rest of each memory whose champion changed. Other writers get their turn between two parts."""
    for state in list(runtime.collections.values()):
        while state.weigh_memory() and not runtime.closing:
            pass
