"""The running service: the owned directory, the database, the encoder, the collections in memory, the pools.

Opened once, passed to whoever works, closed once. Opening is the whole start-up: own the directory, migrate, load the
encoder and every collection, take up what an earlier process accepted and did not finish.
"""

import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import faiss
import orjson
import structlog
from fastapi.responses import Response
from sqlalchemy import delete, insert, select
from threadpoolctl import threadpool_limits

from index.encoding.encoder import Encoder, load_encoder
from index.records import Floats
from service.http.problems import Problem, not_found
from service.runtime.collection import CollectionSettings, CollectionState, load_state
from service.runtime.impressions import ImpressionLog
from service.runtime.jobs import Jobs
from service.settings import Settings
from service.storage.database import DATABASE_FILE, ENCODERS, Database, OwnerLock, now
from service.storage.tables import Alias, Collection, Key, Model, TrainingRun

DEFAULT_COLLECTION = "default"
TOMBSTONE = "/"
"""Begins the name of a collection that is being deleted; no name that a client gives holds it."""
CACHED_QUERIES = 4096
"""Query vectors kept: people page, refine and repeat."""

T = TypeVar("T")
log = structlog.get_logger()


class Runtime:
    """Everything that a request may need."""

    def __init__(self, settings: Settings, lock: OwnerLock, database: Database, encoder: Encoder) -> None:
        self.settings = settings
        self.database = database
        self.encoder = encoder
        self.jobs = Jobs(database, settings.max_tasks)
        self.impressions = ImpressionLog(database)
        self.collections: dict[str, CollectionState] = {}
        self.collections_lock = threading.RLock()
        self.training: dict[str, threading.Thread] = {}
        self.training_children: dict[str, subprocess.Popen[bytes]] = {}
        self.canceled_training: set[str] = set()
        self.closing = False
        """Whether work that stops is to be taken up again at the next start, and not given up."""
        self._lock = lock
        self._search_pool = ThreadPoolExecutor(settings.search_threads, "search", initializer=_one_native_thread)
        self._search_places = threading.BoundedSemaphore(settings.search_threads + settings.search_queue)
        self._encode_query = lru_cache(CACHED_QUERIES)(self._encode_one)

    @classmethod
    def open(cls, settings: Settings, encoder: Encoder | None = None) -> "Runtime":
        """Start the service on its data directory, with the encoder of the settings unless one is given.

        Raises DirectoryOwned, ModelNotFound, DamagedFile (weights), and what SQLite raises for a file that is none.
        """
        threadpool_limits(1, user_api="blas")  # its threads would spin between searches, each on a core of its own
        lock = OwnerLock(settings.data)
        try:
            database = Database(settings.data / DATABASE_FILE)
            database.migrate()
            runtime = cls(settings, lock, database, encoder or _encoder_of(settings))
        except BaseException:
            lock.release()
            raise
        try:
            runtime._load()
        except BaseException:
            runtime.close()
            raise
        return runtime

    def close(self) -> None:
        """Stop the work, save the indexes, checkpoint the database, give the directory up."""
        self.closing = True
        self._search_pool.shutdown(wait=True, cancel_futures=True)
        self._end_training()
        self.jobs.close()
        self.impressions.close()
        self.save()
        for state in self.collections.values():
            state.store.close()
        self.database.close()
        self._lock.release()

    def save(self) -> None:
        """Save every collection's index that changed, so that the next start need not rebuild it."""
        for state in list(self.collections.values()):
            try:
                state.save()
            except Exception:  # the next start rebuilds this one; the others are saved all the same
                log.exception("index_not_saved", collection=state.name)

    def collection(self, name: str) -> CollectionState:
        """Return a collection, or raise the 404 of one that is not there."""
        state = self.collections.get(name)
        if state is None:
            raise not_found("collection")
        return state

    def create_collection(self, name: str, settings: CollectionSettings) -> CollectionState:
        """Create an empty collection with its birth model as champion, durably."""
        with self.collections_lock, self.database.write() as connection:
            values: dict[str, Any] = {
                "name": name,
                "settings": vars(settings),
                "encoder": self.settings.encoder,
                "fingerprint": self.encoder.fingerprint,
                "dim": self.encoder.dim,
                "watermark": 0,
                "documents_watermark": 0,
                "created_at": now(),
            }
            collection_id = connection.execute(insert(Collection).values(values).returning(Collection.id)).scalar_one()
            of = {"collection_id": collection_id}
            initial: dict[str, Any] = {"lineage": {"kind": "birth"}, "report": {}, "decision": {}, "created_at": now()}
            connection.execute(insert(Model).values(version=0, **of, **initial))
            connection.execute(insert(Alias).values(name="champion", version=0, **of))
            row = (
                connection.execute(select(Collection.__table__).where(Collection.id == collection_id)).mappings().one()
            )
        state = self.collections[name] = load_state(self.database, row, self.settings.data)
        return state

    def query_vector(self, text: str) -> Floats:
        """Return the unit vector (D,) of a query text."""
        return self._encode_query(text)

    def run_search(self, work: Callable[[], T]) -> "Future[T]":
        """Run a search in the bounded pool; raises Problem 503 `overloaded` when its queue is full."""
        if not self._search_places.acquire(blocking=False):
            raise Problem(503, "overloaded", "too many searches are waiting", headers={"Retry-After": "1"})
        future = self._search_pool.submit(work)
        future.add_done_callback(lambda _: self._search_places.release())
        return future

    def accepted(self, task_id: str) -> Response:
        """Return the answer 202 of a task: the task itself, and its address."""
        body = orjson.dumps(self.jobs.show(task_id))
        return Response(body, 202, {"Location": f"/v1/tasks/{task_id}"}, "application/json")

    @property
    def staging(self) -> Path:
        """Where training children write; the folders of runs that have not ended survive a start."""
        return self.settings.data / "staging"

    @property
    def imports(self) -> Path:
        """Where streamed bodies wait to be taken in."""
        return self.settings.data / "imports"

    def _encode_one(self, text: str) -> Floats:
        vector: Floats = self.encoder.encode_queries([text])[0]
        vector.setflags(write=False)
        return vector

    def _load(self) -> None:
        self._clear_leftovers()
        with self.database.read() as connection:
            rows = connection.execute(select(Collection.__table__)).mappings().all()
        for row in rows:
            self.collections[row["name"]] = load_state(self.database, row, self.settings.data)
        if DEFAULT_COLLECTION not in self.collections:
            self.create_collection(DEFAULT_COLLECTION, CollectionSettings())

    def _end_training(self) -> None:
        for child in list(self.training_children.values()):
            child.terminate()  # its run is taken up again at the next start
        for thread in list(self.training.values()):
            thread.join()

    def _clear_leftovers(self) -> None:
        """Forget what an earlier process left half done and nobody takes up: open tasks, deleted collections, files."""
        for folder in (self.staging, self.imports):
            folder.mkdir(parents=True, exist_ok=True)
        self.jobs.abandon_unfinished()
        with self.database.write() as connection:
            gone = select(Collection.id).where(Collection.name.startswith(TOMBSTONE))
            connection.execute(delete(Key).where(Key.collection_id.in_(gone)))
            connection.execute(delete(Collection).where(Collection.name.startswith(TOMBSTONE)))
            known = {str(one) for one in connection.execute(select(Collection.id)).scalars()}
            going = set(connection.execute(select(TrainingRun.id).where(TrainingRun.status == "processing")).scalars())
        for folder in self.staging.iterdir():
            if folder.name not in going:
                shutil.rmtree(folder, ignore_errors=True)
        for folder in (*self.settings.data.glob("indexes/*"), *self.settings.data.glob("models/*")):
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)


def _encoder_of(settings: Settings) -> Encoder:
    encoder = load_encoder(settings.encoder, settings.encoder_precision, settings.data / ENCODERS)
    log.info("encoder_loaded", encoder=settings.encoder, precision=encoder.precision)
    return encoder


def _one_native_thread() -> None:
    faiss.omp_set_num_threads(1)
