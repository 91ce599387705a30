"""The work of the housekeeping thread: it heals indexes, saves them while no documents change, ages the memory daily,
weighs it for a new champion, deletes feedback after its retention period, starts training runs and snapshots by their
schedules, and gives free memory back.
"""

import threading
from collections.abc import Callable, Mapping

from service.keys.actions import store_last_uses
from service.operations.each_collection import for_each_collection
from service.operations.encoded_blocks import delete_encoded_blocks
from service.operations.idempotency import forget_old_answers
from service.operations.restored_memory import Look, restore_memory
from service.operations.retention import forget_old_feedback
from service.runtime.arenas import give_back_free_memory
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark
from service.runtime.repeated_failures import RepeatedFailures
from service.runtime.runtime import Runtime
from service.snapshots.actions import make_due_snapshot
from service.training.actions import resume_training, start_scheduled_runs

SAVE_SECONDS = 30.0
HOURLY_ROUNDS = 120
"""Rounds of SAVE_SECONDS in an hour."""
Work = Callable[[Runtime], object]


class Housekeeping:
    """The housekeeping thread. It starts at once and runs until `stop`.

    trains: whether it starts training runs and snapshots by schedule. hourly, often: further work of an hour and of
    each round, by the name of its step.
    """

    def __init__(
        self,
        runtime: Runtime,
        trains: bool = True,
        hourly: Mapping[str, Work] | None = None,
        often: Mapping[str, Work] | None = None,
    ) -> None:
        self._runtime = runtime
        self._trains = trains
        self._often: Mapping[str, Work] = {"settle": lambda runtime: runtime.database.settle(), **(often or {})}
        self._hourly: Mapping[str, Work] = {
            "delete_encoded_blocks": lambda runtime: delete_encoded_blocks(runtime.settings.data),
            "forget_old_feedback": forget_old_feedback,
            "forget_old_answers": forget_old_answers,
            "tidy_database": lambda runtime: runtime.database.tidy(),
            **(hourly or {}),
        }
        self._stopped = threading.Event()
        self._failures: dict[str, RepeatedFailures] = {}
        """Name of a step -> its failures."""
        self._seen: dict[int, int] = {}
        self._looks: dict[int, Look] = {}
        self._thread = threading.Thread(target=self._rounds, name="housekeeping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its current round."""
        self._stopped.set()
        self._thread.join()

    def _rounds(self) -> None:
        rounds = 0
        while True:
            for name, work in self._steps(hourly=rounds % HOURLY_ROUNDS == 0).items():
                self._do(name, work)
            rounds += 1
            if self._stopped.wait(SAVE_SECONDS):
                return

    def _steps(self, hourly: bool) -> dict[str, Work]:
        """Return the steps of a round, in their order. Each is tried, whatever the others do."""
        steps: dict[str, Work] = {**self._often, "heal_indexes": heal_indexes, **(self._hourly if hourly else {})}
        steps["restore_memory"] = lambda runtime: restore_memory(runtime, self._looks)
        steps |= {"age_memory": age_memory, "weigh_memory": weigh_memory, "store_last_uses": store_last_uses}
        steps["save_indexes"] = lambda runtime: save_paused(runtime, self._seen)
        if self._trains:
            steps |= {"resume_training": resume_training, "train": start_scheduled_runs, "snapshot": make_due_snapshot}
        return steps | {"give_back_memory": lambda _: give_back_free_memory()}

    def _do(self, name: str, work: Work) -> None:
        failures = self._failures.setdefault(name, RepeatedFailures("housekeeping_failed"))
        try:
            work(self._runtime)
        except Exception as error:
            failures.failed(error)
        else:
            failures.succeeded()


def save_paused(runtime: Runtime, seen: dict[int, int]) -> None:
    """Save each collection whose documents have not changed since the last round. A damaged index is rebuilt first.

    seen: id of a collection -> its watermark of documents in the last round. It is brought up to this round.
    """

    def save(state: CollectionState) -> None:
        before, seen[state.id] = seen.get(state.id), state.documents_watermark
        if before == state.documents_watermark:
            state.with_sound_index(state.save)

    for_each_collection(runtime, save)


def heal_indexes(runtime: Runtime) -> None:
    """Heal the index of every collection that lacks committed changes, or lost its files."""
    for_each_collection(runtime, _heal)


def _heal(state: CollectionState) -> None:
    state.heal()


def age_memory(runtime: Runtime, day: int | None = None) -> None:
    """Age the memory of every collection to this day, and publish it where the day changes. The default is today."""

    def age(state: CollectionState) -> None:
        with state.lock:
            clock = state.settings.decay_clock(day)
            if not len(state.memory):
                state.memory.age(clock)
            elif clock != state.memory.decay_clock:
                with runtime.database.write() as connection:
                    watermark = bump_watermark(connection, state.id, documents=False)
                state.age(watermark, clock)

    for_each_collection(runtime, age)


def weigh_memory(runtime: Runtime) -> None:
    """Weigh the rest of each memory whose champion changed. Other writers get their turn between two parts."""

    def weigh(state: CollectionState) -> None:
        while state.weigh_memory() and not runtime.closing:
            pass

    for_each_collection(runtime, weigh)
