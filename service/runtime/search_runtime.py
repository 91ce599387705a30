"""What every process that answers searches has: the encoder, read access to the database, keys, and search threads.

`service.runtime.runtime` is the process that owns the data directory; `service.workers.worker_runtime` is a worker.
"""

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import faiss

from index.encoding.encoder import Encoder
from index.records import EncodedQuery
from service.http.access import CURRENT, OWNER, Caller
from service.http.problems import Problem, not_found
from service.runtime.keyring import Keyring
from service.runtime.result_cache import ResultCache
from service.runtime.search_pool import SearchPool
from service.runtime.served_collection import ServedCollection
from service.settings import Settings
from service.storage.database import DatabaseReader

CACHED_QUERIES = 4096
"""Query vectors kept in memory: clients ask for further pages and repeat queries."""

T = TypeVar("T")


class Impressions(Protocol):
    """Where searches log their impressions."""

    def add(self, impression: dict[str, Any]) -> None:
        """Queue a row of `queries`."""

    def flush(self) -> None:
        """Wait until every impression queued so far is committed."""


class SearchRuntime:
    """The parts of a process that answers searches."""

    collections: Mapping[str, ServedCollection]
    impressions: Impressions
    follows = False
    """Whether the collections follow those of another process with a delay, so that a request may wait for them."""
    answer_search: Callable[..., dict[str, Any]] | None = None
    """How a search is answered where the documents are in partitions; None: from the generation of the collection."""

    def __init__(self, settings: Settings, database: DatabaseReader, encoder: Encoder) -> None:
        self.settings = settings
        self.database = database
        self.encoder = encoder
        self.aliases: dict[str, str] = {}
        """Alias -> name of its collection. The collection may have been deleted."""
        self.keyring = Keyring()
        self.epoch = 0
        """The number of services that have begun to write to the database; 0 for SQLite, which has one."""
        self.search_pool = SearchPool(settings.searches_at_once, settings.search_queue, _one_native_thread)
        self.result_cache = ResultCache(settings.result_cache_mib << 20)
        self._encode_query = lru_cache(CACHED_QUERIES)(self._encode_one)

    def find_collection(self, name: str) -> ServedCollection | None:
        """Return a collection by its name or an alias, or None."""
        return self._resolved(name)[1]

    def _resolved(self, name: str) -> tuple[str, ServedCollection | None]:
        """Return the name that a name or an alias stands for, and its collection."""
        collections = self.collections
        target = name if name in collections else self.aliases.get(name, name)
        return target, collections.get(target)

    def collection(self, name: str) -> ServedCollection:
        """Return a collection by its name or an alias. Raises Problem 404 if it does not exist, or is not covered.

        It must be covered by the key of the request that this thread works for. An alias may have been moved since the
        head of the request was admitted: the client decides when it sends the body.
        """
        state = self._covered(name)
        if state is None:
            raise not_found("collection")
        return state

    def _covered(self, name: str) -> ServedCollection | None:
        """Return a collection that the caller of this request may use, or None."""
        target, state = self._resolved(name)
        return state if self._covers(CURRENT.get(), name, target) else None

    def covers(self, caller: Caller, name: str) -> bool:
        """Return whether the caller may use the collection with this name or alias: its key has any name of it."""
        return self._covers(caller, name, self._resolved(name)[0])

    def _covers(self, caller: Caller, name: str, target: str) -> bool:
        if caller.covers(name, target):
            return True
        return caller.covers(*(alias for alias, collection in list(self.aliases.items()) if collection == target))

    def state_of(self, name: str) -> tuple[str, int, int] | None:
        """Return the name of a collection, the epoch and the watermark of its generation.

        None if it is unknown, or not covered by the caller of this request.
        """
        state = self._covered(name)
        return None if state is None else (state.name, self.epoch, state.generation.watermark)

    @property
    def standing(self) -> dict[str, Any]:
        """What `/readyz` tells of a searcher; empty for other processes."""
        return {}

    @property
    def obstacle(self) -> Problem | None:
        """Why the process answers no search now, though it has started; None if it does."""
        return None

    async def require_database(self) -> None:
        """Raise DatabaseUnreachable if searches need a database that does not answer now."""

    def encoded_query(self, text: str, caller: Caller = OWNER) -> EncodedQuery:
        """Return the unit vector (D,) of a query text, and the share of its tokens that the encoder knows.

        Callers share a vector that is kept if their keys have the same filter and collections: a faster answer would
        tell another tenant that this text was typed.
        """
        return self._encode_query(text, caller.filter, caller.collections)

    def forget_queries(self) -> None:
        """Drop the query vectors and the results that are kept in memory, with their texts."""
        self._encode_query.cache_clear()
        self.result_cache.clear()

    def run_search(self, work: Callable[[], T]) -> "Future[T]":
        """Run a search in the pool of search threads. Raises Problem 503 `overloaded` if its queue is full."""
        return self.search_pool.submit(work)

    def _encode_one(self, text: str, *_: Hashable) -> EncodedQuery:
        encoded = self.encoder.encode_query(text)
        encoded.vector.setflags(write=False)
        return encoded


def _one_native_thread() -> None:
    faiss.omp_set_num_threads(1)
