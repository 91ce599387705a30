"""The runtime of a searcher: the collections are made from its copy of the database, and follow it.

It answers searches as the process that writes does, from its own files. So it also answers while the database is away,
and says how old its answers are.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import structlog
from sqlalchemy import Connection, RowMapping

from index.encoding.encoder import Encoder
from index.storage.files import MANIFEST, sync_directory
from service.operations.each_collection import for_each_collection
from service.operations.housekeeping import heal_indexes, save_paused, weigh_memory
from service.runtime.arenas import give_back_free_memory
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import TOMBSTONE, collection_aliases, collection_rows
from service.runtime.first_start import require_database
from service.runtime.key_repository import known_keys
from service.runtime.loader import index_directory, load_collection
from service.runtime.repeated_failures import RepeatedFailures
from service.runtime.runtime import Runtime, encoder_of
from service.searchers.document_part import DocumentPart, keep_part
from service.searchers.following import follow_collection
from service.searchers.published import UNFOLLOWED, Publisher, file_of, start_from
from service.searchers.replica import Effects, Replica
from service.searchers.source import Source
from service.searchers.spool import Spool
from service.settings import Settings
from service.storage.change_log import Position, continues, newest_position, touched_after
from service.storage.database import DATABASE_FILE
from service.storage.owner_lock import OwnerLock

RETRY_SECONDS = 0.5
OLD_SECONDS = 5.0
"""Time without the database after which answers say so."""
HOUSEKEEPING_SECONDS = 30.0
log = structlog.get_logger()


class SearcherRuntime(Runtime):
    """The parts of a searcher. A thread follows the database from `open` to `close`."""

    impressions: Spool  # type: ignore[assignment]
    follows = True
    publisher: Publisher | None = None
    """Writes the file that further searchers start from, where the settings name one."""

    def __init__(self, settings: Settings, lock: OwnerLock, replica: Replica, source: Source, encoder: Encoder) -> None:
        self.replica, self.source = replica, source
        super().__init__(settings, lock, replica.database, encoder)
        self.position = replica.position
        self.epoch = self.position.epoch if self.position else 0
        self._seen_at = 0.0
        """The moment of the last look at the database, by `time.monotonic`; 0 before the first."""
        self._is_loaded = False
        self._advanced = threading.Condition()
        self._failures = RepeatedFailures("database_not_followed")
        self._ended = threading.Event()
        self._kept_house_at = time.monotonic()
        self._seen: dict[int, int] = {}
        self._thread = threading.Thread(target=self._watch_database, name="follower", daemon=True)

    @classmethod
    def open(
        cls,
        settings: Settings,
        encoder: Encoder | None = None,
        new: bool = False,
        part: DocumentPart | None = None,
    ) -> Self:
        """Start a searcher on its data directory; the default encoder is the encoder of the settings.

        part: the documents of the copy; None: all. A directory keeps its part. It waits for the first copy of the
        database. A directory with a copy starts without the database too. Raises DirectoryOwned, DatabaseUnreachable,
        UnsuitableDatabase, OtherDatabase, ModelNotFound and DamagedFile.
        """
        assert settings.database_address is not None
        with ExitStack() as opened:
            lock = OwnerLock(settings.data)
            opened.callback(lock.release)
            require_database(settings.data, copy=True)
            published = file_of(settings.generation_file, part)
            if published is not None:
                start_from(published, settings.data, part)
            keep_part(settings.data, part)
            replica = Replica(settings.data / DATABASE_FILE, part)
            opened.callback(replica.database.close)
            source = Source(settings.database_address)
            opened.callback(source.close)
            own = settings.model_copy(update={"database": None})
            runtime = cls(own, lock, replica, source, encoder or encoder_of(settings))
            if published is not None:
                runtime.publisher = Publisher(published, settings.data, replica.database, part)
            opened.pop_all()
        try:
            runtime._begin()
        except BaseException:
            runtime.close()
            raise
        return runtime

    def close(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.publisher is not None:
            self.publisher.close()
        super().close()
        self.source.close()

    @property
    def is_following(self) -> bool:
        """Whether the thread runs that follows the database."""
        return self._thread.is_alive()

    @property
    def age_seconds(self) -> float | None:
        """Seconds since the last look at the database, after which its changes are unknown; None before the first."""
        return time.monotonic() - self._seen_at if self._seen_at else None

    @property
    def standing(self) -> dict[str, Any]:
        age, position = self.age_seconds, self.position
        return {
            "searcher": {
                "age_seconds": None if age is None else round(age, 3),
                "epoch": self.epoch,
                "number": position.number if position else 0,
                "impressions_waiting": self.impressions.waiting,
            }
        }

    def wait_for(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition on what is copied holds; return whether it does."""
        with self._advanced:
            return self._advanced.wait_for(reached, seconds)

    def follow(self) -> bool:
        """Copy what has changed since the last call, and use it; return whether there was anything."""
        with self.source.read() as connection:
            newest = newest_position(connection)
            if newest == self.position:
                effects = Effects()
            elif self.position is None:
                self.replica.copy_all(connection, newest)
                effects = Effects()
            else:
                effects = self._copy(connection, self.position, newest)
        changed = newest != self.position
        with self._advanced:
            self.epoch = newest.epoch
            self.position, self._seen_at = newest, time.monotonic()
            self._advanced.notify_all()
        return changed or bool(effects.tables)

    def _log_of_impressions(self) -> Spool:  # type: ignore[override]
        return Spool(self.settings.data / "spool", self.source.deliver)

    def _begin(self) -> None:
        """Load the collections, or copy the database first where there is no copy yet, and begin to follow.

        The saved indexes are of the copy: what has changed since is added to them in memory. A copy that came with a
        file answers after it was compared with the database. Raises DatabaseUnreachable and UnsuitableDatabase.
        """
        note = self.settings.data / UNFOLLOWED
        if self.position is not None:
            self._load()
        try:
            self.follow()
        except Exception as error:
            if self.position is None or note.exists():
                raise
            self._failures.failed(error)
        note.unlink(missing_ok=True)
        if not self._is_loaded:
            self._load()
        self._thread.start()

    def _copy(self, connection: Connection, position: Position, newest: Position) -> Effects:
        is_same_history = continues(connection, position)
        if is_same_history:
            touched = touched_after(connection, position.number)
        else:
            log.warning("copy_compared", reason="the change log does not continue at the position of this searcher")
            touched = self.replica.differing(connection)
            self._forget_saved()
        with self._all_locked():
            effects = self.replica.copy(connection, touched, newest)
            if not is_same_history:
                for state in self.collections.values():
                    state.forget_rows()
            if self._is_loaded:
                self._use(effects)
        if "erasures" in effects.tables:
            self.database.scrub()
            self.forget_queries()
            if self.publisher is not None:
                self.publisher.forget()
        return effects

    def _forget_saved(self) -> None:
        """Let no saved index pass as current, also after a kill: another history may have the same watermark."""
        for state in self.collections.values():
            with state.lock:
                state.saved_watermark = -1
                (state.directory / MANIFEST).unlink(missing_ok=True)
                if state.directory.is_dir():
                    sync_directory(state.directory)

    @contextmanager
    def _all_locked(self) -> Iterator[None]:
        """Hold the locks of all collections: a search that asks for the newest state waits for the end."""
        with ExitStack() as locks:
            for state in list(self.collections.values()):
                locks.enter_context(state.lock)
            yield

    def _use(self, effects: Effects) -> None:
        """Bring the memory up to the copy. After an error everything is loaded anew in the next round."""
        self._is_loaded = False
        with self.database.read() as connection:
            rows = {row["id"]: row for row in collection_rows(connection) if not row["name"].startswith(TOMBSTONE)}
            if "api_keys" in effects.tables:
                self.keyring.load(known_keys(connection))
            if "collection_aliases" in effects.tables:
                self.aliases = collection_aliases(connection)
            states = {state.id: state for state in self.collections.values()}
            for number, state in states.items():
                if number not in rows:
                    state.remove_index()
                elif not follow_collection(connection, state, rows[number], effects):
                    state.remove_index()  # its saved index may have the watermark of the rows
                    states[number] = self._made(rows[number])
        for number, row in rows.items():
            if number not in states:
                states[number] = self._made(row)
        self.collections = {rows[number]["name"]: state for number, state in states.items() if number in rows}
        self._is_loaded = True

    def _made(self, row: RowMapping) -> CollectionState:
        """Load a collection from the copy."""
        state = load_collection(self.database, row, self.settings.data)
        state.use_encoder(self.encoder)
        return state

    def _load(self) -> None:
        """Load all collections from the copy, in place of what is in memory."""
        for state in self.collections.values():
            state.end()
        with self.database.read() as connection:
            rows = [row for row in collection_rows(connection) if not row["name"].startswith(TOMBSTONE)]
            self.aliases = collection_aliases(connection)
            self.keyring.load(known_keys(connection))
        self.collections = {row["name"]: self._made(row) for row in rows}
        kept = {index_directory(self.settings.data, row["id"]) for row in rows}
        for folder in set(self.settings.data.glob("indexes/*")) - kept:
            shutil.rmtree(folder, ignore_errors=True)
        self._is_loaded = True

    def _watch_database(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._is_loaded:
                    self._load()
                self.follow()
                self._failures.succeeded()
                self.source.wait()
            except Exception as error:
                self._failures.failed(error)
                self._ended.wait(RETRY_SECONDS)
            is_old = (self.age_seconds or OLD_SECONDS) >= OLD_SECONDS
            for state in self.collections.values():
                state.is_old = is_old
            if time.monotonic() > self._kept_house_at + HOUSEKEEPING_SECONDS:
                self._kept_house_at = time.monotonic()
                self._keep_house()

    def _keep_house(self) -> None:
        """Heal and save the indexes, and bring the memory to today, as the housekeeping of a writer does."""
        steps = (heal_indexes, _age_memory, weigh_memory, lambda one: save_paused(one, self._seen), self._publish)
        for work in steps:
            try:
                work(self)
            except Exception as error:
                log.warning("housekeeping_failed", reason=str(error))
        give_back_free_memory()

    def _publish(self, _runtime: Runtime) -> None:
        if self.publisher is not None and self._is_loaded and self.publisher.is_due:
            self.publisher.publish(list(self.collections.values()))


def _age_memory(runtime: Runtime) -> None:
    """Age the memory of every collection to today. The copy is not changed: the writer ages its own."""

    def age(state: CollectionState) -> None:
        with state.lock:
            clock = state.settings.decay_clock()
            if clock != state.memory.decay_clock:
                state.age(state.generation.watermark, clock)

    for_each_collection(runtime, age)
