"""The running service: the data directory, the database, the encoder, the collections in memory and the thread pools.

`Runtime.open` performs the whole start-up: it locks the directory, migrates the database, and loads the encoder and
every collection.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import structlog
from sqlalchemy import RowMapping
from threadpoolctl import threadpool_limits

from index.encoding.encoder import Encoder, load_encoder
from index.encoding.precision import cores
from index.storage.files import make_durable_directory
from index.storage.full_disk import is_full
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import (
    collection_aliases,
    collection_rows,
    greatest_collection_id,
    marked_collections,
)
from service.runtime.collection_settings import CollectionSettings
from service.runtime.first_start import require_database, require_database_of, start_anew
from service.runtime.impressions import ImpressionLog
from service.runtime.jobs import Jobs
from service.runtime.key_repository import damaged_keys, known_keys
from service.runtime.leftovers import delete_leftovers
from service.runtime.loader import create_collection, load_collection
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection
from service.runtime.training_supervisor import TrainingSupervisor
from service.settings import Settings
from service.storage.database import ENCODERS, Database
from service.storage.database_probe import DatabaseProbe
from service.storage.identity_repository import identity_of
from service.storage.opening import open_database
from service.storage.owner_lock import OwnerLock
from service.storage.reservations import note_collection
from service.storage.watermarks import Watermarks

DEFAULT_COLLECTION = "default"
log = structlog.get_logger()


class Workers(Protocol):
    """The other processes of a service that answer searches, see `service.workers.supervisor`."""

    count: int
    """Their number."""

    @property
    def ready(self) -> int:
        """The number of them that take connections."""

    @property
    def busy(self) -> int:
        """The number of them that have no thread that is free for a further search."""

    @property
    def samples(self) -> Sequence[Mapping[str, float]]:
        """The counts of their metrics."""


class Runtime(SearchRuntime):
    """The shared parts of a running service. It is opened at the start and closed at the end."""

    database: Database
    impressions: ImpressionLog

    def __init__(self, settings: Settings, lock: OwnerLock, database: Database, encoder: Encoder) -> None:
        super().__init__(settings, database, encoder)
        self.epoch = database.epoch
        self.jobs = Jobs(database, settings.max_tasks)
        self.impressions = self._log_of_impressions()
        self.training = TrainingSupervisor()
        self.collections: dict[str, CollectionState] = {}
        self.collections_lock = threading.RLock()
        self.snapshot_lock = threading.Lock()
        """Held while a snapshot waits or is made: there is at most one. An erasure holds it too."""
        self.export_slots = threading.BoundedSemaphore(2)
        """Exports that may be written at the same time. Each keeps a state of the database."""
        self.accepted_imports: set[Path] = set()
        """The files of exports whose import was accepted and has not ended. An erasure waits for them."""
        self.workers: Workers | None = None
        """The other processes that answer searches, if there are any."""
        self.missing_collections = range(0)
        """The numbers of collections that an earlier process changed and that the database has never known."""
        self.forgotten = 0
        """How often the texts of queries were forgotten: the copies of other processes must follow."""
        self.closing = False
        """Whether the service is closing. Work that stops then is resumed at the next start."""
        self.owner_lock = lock
        """The lock of the data directory, which tells commands of this machine where the server listens."""
        self._watermarks = Watermarks(settings.data)
        is_apart = settings.database_address is not None and not settings.only_reads  # searchers have a copy
        self._probe = DatabaseProbe(database) if is_apart else None

    @classmethod
    def open(cls, settings: Settings, encoder: Encoder | None = None, new: bool = False) -> "Runtime":
        """Start the service on its data directory; the default encoder is the encoder of the settings.

        new: move the contents of a directory without a database aside. Raises DirectoryOwned, DatabaseLost,
        DatabasePresent, OtherDatabase, DatabaseOwned, DatabaseUnreachable, ModelNotFound, DamagedFile (weights), and
        SQLite's errors for a damaged database file.
        """
        threadpool_limits(1, user_api="blas")  # BLAS threads would spin between searches and occupy other cores
        lock = OwnerLock(settings.data)
        database: Database | None = None
        try:
            if new:
                log.warning("started_anew", aside=str(start_anew(settings.data)))
            if settings.database_address is None:
                require_database(settings.data)
            database = open_database(settings.data, settings.database_address, not settings.external_checkpoints)
            database.migrate()
            if settings.database_address is not None:
                with database.read() as connection:
                    require_database_of(settings.data, identity_of(connection))
            runtime = cls(settings, lock, database, encoder or encoder_of(settings))
        except BaseException:
            if database is not None:
                with suppress(Exception):  # a file that is no database cannot be closed in order either
                    database.close()
            lock.release()
            raise
        try:
            runtime._load()
        except BaseException:
            runtime.close()
            raise
        return runtime

    def _log_of_impressions(self) -> ImpressionLog:
        return ImpressionLog(self.database)

    def close(self) -> None:
        """Stop all work, save the indexes, checkpoint the database and unlock the data directory."""
        self.closing = True
        self.search_pool.close()
        self.training.close()
        self.jobs.close()
        self.impressions.close()
        if self._probe is not None:
            self._probe.close()
        self.save()
        for state in self.collections.values():
            state.store.close()
        self.database.close()
        self._watermarks.close()
        self.owner_lock.release()

    def save(self) -> None:
        """Save the index of every collection that changed, so that the next start does not rebuild it."""
        for state in list(self.collections.values()):
            try:
                state.save()
            except Exception:  # the next start rebuilds this index; the others are still saved
                log.exception("index_not_saved", collection=state.name)

    async def require_database(self) -> None:
        if self._probe is not None:
            await self._probe.require()

    def find_collection(self, name: str) -> CollectionState | None:
        state = super().find_collection(name)
        assert state is None or isinstance(state, CollectionState)
        return state

    def _resolved(self, name: str) -> tuple[str, ServedCollection | None]:
        target, state = super()._resolved(name)
        note_collection(name, None if state is None else state.id)
        return target, state

    def collection(self, name: str) -> CollectionState:
        state = super().collection(name)
        assert isinstance(state, CollectionState)
        return state

    @property
    def is_busy_searching(self) -> bool:
        """Whether searches take half the cores or more: those of the processes without a thread for a further one."""
        busy = self.search_pool.is_busy + (self.workers.busy if self.workers is not None else 0)
        return busy > 0 and 2 * busy * self.settings.searches_at_once >= cores()

    def forget_queries(self) -> None:
        super().forget_queries()
        self.forgotten += 1

    def create_collection(self, name: str, settings: CollectionSettings) -> CollectionState:
        """Create an empty collection with the untrained model as champion, durably."""
        with self.collections_lock:
            own = self.settings
            state = create_collection(self.database, own.data, name, settings, own.encoder, self.encoder)
            self._watermarks.write(state.id, 0)  # the number may be of a collection that the database has lost
            return self._adopted(state)

    def open_collection(self, row: RowMapping, new: bool = False, has_index: bool = True) -> CollectionState:
        """Load a stored collection and make it available under its name, in place of an earlier state.

        new: whether the collection has just been stored: an earlier watermark of its number is of another. has_index:
        as in `load_collection`.
        """
        state = load_collection(self.database, row, self.settings.data, has_index=has_index)
        if new:
            self._watermarks.write(state.id, 0)
        return self._adopted(state)

    @property
    def staging(self) -> Path:
        """The folder where training processes write, with a folder for each unfinished run."""
        return self.settings.data / "staging"

    @property
    def imports(self) -> Path:
        """The folder of streamed request bodies that wait to be imported."""
        return self.settings.data / "imports"

    def _adopted(self, state: CollectionState) -> CollectionState:
        state.use_encoder(self.encoder)
        self._watch(state)
        self.collections[state.name] = state
        return state

    def _watch(self, state: CollectionState) -> None:
        """Compare the watermark of a collection with the file of watermarks, and write it there from now on."""
        state.missing_changes = max(0, self._watermarks.read(state.id) - state.generation.watermark)
        if state.missing_changes:
            log.error("commits_missing", collection=state.name, changes=state.missing_changes)
        state.mark = lambda watermark: self._watermarks.write(state.id, watermark + state.missing_changes)

    def accept_missing_changes(self, state: CollectionState) -> None:
        """Report the missing changes of a collection no longer: they are lost, and the owner knows it."""
        state.missing_changes = 0
        state.mark(state.generation.watermark)

    def _look_for_missing_collections(self, known: int) -> None:
        """Compare the file of watermarks with the greatest number that the database gave to a collection."""
        self.missing_collections = range(known + 1, self._watermarks.greatest_id() + 1)
        if self.missing_collections:
            log.error("collections_missing", collections=len(self.missing_collections))

    def accept_missing_collections(self) -> None:
        """Report the missing collections no longer: they are lost, and the owner knows it."""
        for number in set(self.missing_collections) - {state.id for state in self.collections.values()}:
            self._watermarks.write(number, 0)
        self.missing_collections = range(0)

    def _load(self) -> None:
        for folder in (self.staging, self.imports):
            with going_on_a_full_disk():
                make_durable_directory(folder)
        with going_on_a_full_disk():
            self.jobs.abandon_unfinished()
        with going_on_a_full_disk():
            delete_leftovers(self.database, self.settings.data, self.staging)
        with self.database.read() as connection:
            marked = {*marked_collections(connection)}  # whose deletion failed
            rows = [row for row in collection_rows(connection) if row["id"] not in marked]
            self.aliases = collection_aliases(connection)
            self.keyring.load(known_keys(connection))
            for key_id in damaged_keys(connection):
                log.error("key_damaged", key_id=key_id, reason="it differs from its checksum and is refused")
            known = greatest_collection_id(connection)
        for row in rows:
            self.open_collection(row)
        self._look_for_missing_collections(known)
        if DEFAULT_COLLECTION not in self.collections:
            self.create_collection(DEFAULT_COLLECTION, CollectionSettings())


@contextmanager
def going_on_a_full_disk() -> Iterator[None]:
    """Log the error of a full disk instead of raising it: the service starts, and searches and reads."""
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        log.warning("disk_full", reason=str(error))


def encoder_of(settings: Settings) -> Encoder:
    """Load the encoder of the settings."""
    encoder = load_encoder(settings.encoder, settings.encoder_precision, settings.data / ENCODERS)
    log.info("encoder_loaded", encoder=settings.encoder, precision=encoder.precision)
    return encoder
