"""The runtime of a worker: follows the feed of the process that owns the data directory, and answers searches from it.

It opens the database for reading only, and writes nothing but messages.
"""

import threading
import time
from pathlib import Path
from typing import Any

import structlog

from index.encoding.encoder import Encoder
from service.runtime.key_repository import known_keys
from service.runtime.repeated_failures import RepeatedFailures
from service.runtime.search_runtime import SearchRuntime
from service.settings import Settings
from service.storage.identity_repository import epoch_of
from service.storage.opening import open_reader
from service.workers.cells import NO_POSITION, Cells
from service.workers.journal import JournalReader
from service.workers.messages import Outbox
from service.workers.mirrored_collection import MirroredCollection, NotMirrored

LOOK_SECONDS = 0.01
RETRY_SECONDS = 0.5
"""Time from an error to the next attempt to follow."""
log = structlog.get_logger()


class WorkerRuntime(SearchRuntime):
    """The parts of a worker. `follow` brings it up to the feed."""

    collections: dict[str, MirroredCollection]

    def __init__(
        self, settings: Settings, folder: Path, cells: Cells, worker: int, outbox: Outbox, encoder: Encoder
    ) -> None:
        """folder: of the feed. worker: the number of this process."""
        super().__init__(settings, open_reader(settings.data, settings.database_address), encoder)
        if settings.database_address is not None:
            with self.database.read() as connection:
                self.epoch = epoch_of(connection)
        self.impressions = self.outbox = outbox
        self.collections = {}
        self._by_id: dict[int, MirroredCollection] = {}
        self._cells, self._worker = cells, worker
        self._reader = JournalReader(folder)
        self._lock = threading.Lock()
        self._key_changes: int | None = None
        self._is_complete = False
        self._retry_at = 0.0
        self._failures = RepeatedFailures("feed_not_followed")
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="follower", daemon=True)
        self._thread.start()

    @property
    def published(self) -> int:
        """The position up to which changes are published, or NO_POSITION."""
        return self._cells.position

    def has_reached(self, position: int) -> bool:
        """Return whether all changes up to a position are applied. Nothing reaches NO_POSITION."""
        return position != NO_POSITION and self._is_complete and self._reader.position >= position

    def follow(self) -> bool:
        """Apply all frames that are published; return whether there were any.

        After an error the worker begins anew a little later; meanwhile it has reached nothing.
        """
        with self._lock:
            position = self._cells.position
            if position in (NO_POSITION, self._reader.position) or time.monotonic() < self._retry_at:
                return False
            self._is_complete = False
            try:
                begins, frames = self._reader.read(position)
                if begins:
                    self._forget()
                for head, arrays in frames:
                    self._apply(head, arrays)
                self._is_complete = True
            except Exception as error:
                self._failures.failed(error)
                self._reader.restart()
                self._retry_at = time.monotonic() + RETRY_SECONDS
            return True

    def can_read(self, collection: str) -> bool:
        """Return whether requests that read a collection are answered here."""
        state = self.find_collection(collection)
        return state is not None and isinstance(state, MirroredCollection) and state.is_ready

    def state_of(self, name: str) -> tuple[str, int, int] | None:
        try:
            return super().state_of(name)
        except NotMirrored:  # the process of the data directory answers
            return None

    def close(self) -> None:
        """End the threads."""
        self._closed.set()
        self._thread.join()
        self.search_pool.close()
        self.outbox.close()
        self.database.close()

    def _forget(self) -> None:
        self.collections, self._by_id, self._key_changes = {}, {}, None
        self.forget_queries()

    def _apply(self, head: dict[str, Any], arrays: Any) -> None:
        kind = head["kind"]
        if kind == "registry":
            self._use_registry(head)
        elif kind == "facts":
            if head["id"] not in self._by_id:
                self._by_id[head["id"]] = MirroredCollection(self, self.follow, self.outbox.report_damage)
            self._by_id[head["id"]].apply_facts(head)
        elif kind == "documents":
            self._by_id[head["id"]].apply_documents(head, arrays)
        elif kind == "absent":
            self._by_id[head["id"]].drop_documents()

    def _use_registry(self, head: dict[str, Any]) -> None:
        ids = head["collections"].values()
        self._by_id = {number: state for number, state in self._by_id.items() if number in ids}
        if head["keys"] != self._key_changes:
            with self.database.read() as connection:
                self.keyring.load(known_keys(connection))
            self._key_changes = head["keys"]
        self.aliases = head["aliases"]
        self.collections = {name: self._by_id[number] for name, number in head["collections"].items()}

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            self.follow()
            self._cells.set_busy(self._worker, self.search_pool.is_busy)
