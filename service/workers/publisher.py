"""The writing side of the feed: publishes what the process of the data directory has in memory to its workers.

It compares the state with the state that was published last. It is called before every answer to a request that may
have changed something, and by a thread, for changes by background tasks. So a change that a client knows of is in the
feed, and a worker reads the feed before it answers.
"""

import itertools
import shutil
import threading
import time
from dataclasses import fields
from operator import is_
from pathlib import Path
from typing import Any

import structlog

from index.generation.generation import Generation
from index.generation.mirroring import Change, Files, GenerationFeed
from index.generation.store import GenerationStore
from index.storage.frames import frame
from service.runtime.collection import CollectionState
from service.runtime.repeated_failures import RepeatedFailures
from service.runtime.runtime import Runtime
from service.workers.cells import NO_POSITION, Cells
from service.workers.journal import Journal

LOOK_SECONDS = 0.02
INLINE_KEYS = 20_000
"""A collection with more keys is copied for the workers by the thread, and no request waits for it."""
PAUSE_SECONDS = 5.0
"""Time between two attempts after an error, such as a full disk."""
_Files = tuple[GenerationStore, tuple[Path, Path] | None]
NOTHING_SEEN: tuple[object, ...] = (object(),) * 9
log = structlog.get_logger()


class _Published:
    """What the workers know of a collection."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] | None = None
        self.serving: object = None
        self.rules: object = None
        self.changes = itertools.count(1)
        self.feed: GenerationFeed | None = None
        self.files: object = None
        """The store, and its files that the feed names."""
        self.is_absent = False
        self.seen = NOTHING_SEEN
        """The parts of the collection, when they were compared last."""


class Publisher:
    """Publishes the state of a runtime to a folder, until it is closed."""

    def __init__(self, runtime: Runtime, folder: Path, cells: Cells) -> None:
        """folder: empty; it is deleted at the end."""
        self._runtime, self._folder, self._cells = runtime, folder, cells
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._failures = RepeatedFailures("workers_not_informed")
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._failed_at: float | None = None
        self._journal: Journal | None = None
        self._collections: dict[int, _Published] = {}
        self._registry: dict[str, Any] | None = None
        self._keys: object = None
        self._key_changes = 0
        self._forgotten = runtime.forgotten
        self._thread = threading.Thread(target=self._watch, name="publisher", daemon=True)

    def start(self) -> None:
        """Publish everything, and follow changes from now on."""
        self.publish()
        self._thread.start()

    def close(self) -> None:
        """End the thread and tell the workers to pass every request on."""
        self._closed.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._cells.position = NO_POSITION
            shutil.rmtree(self._folder, ignore_errors=True)

    def publish(self) -> None:
        """Publish all changes. After an error the workers pass every request on, until a later attempt succeeds.

        Requests may still end after `close`: nothing is published then.
        """
        with self._lock:
            if self._closed.is_set() or self._pauses:
                return
            try:
                self._publish()
                self._failed_at = None
            except Exception as error:
                self._fail(error)

    @property
    def _pauses(self) -> bool:
        return self._failed_at is not None and time.monotonic() < self._failed_at + PAUSE_SECONDS

    def _fail(self, error: Exception) -> None:
        self._cells.position = NO_POSITION
        self._failed_at = time.monotonic()
        self._failures.failed(error)
        self._discard()

    def _discard(self) -> None:
        """Forget what was published, and delete its files."""
        if self._journal is not None:
            self._journal.remove()
        self._journal, self._registry = None, None
        for published in self._collections.values():
            self._drop(published)
        self._collections = {}

    def _drop(self, published: _Published) -> None:
        feed, published.feed = published.feed, None
        if feed is not None:
            shutil.rmtree(feed.folder, ignore_errors=True)

    def _publish(self) -> None:
        runtime = self._runtime
        if self._journal is None or self._forgotten != runtime.forgotten or self._journal.is_outdated:
            self._forgotten = runtime.forgotten
            self._discard()
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._journal = Journal(self._folder, next(self._numbers))
        states = list(runtime.collections.values())
        parts: list[bytes] = []
        for state in states:
            published = self._collections.setdefault(state.id, _Published())
            seen = _parts_of(state)
            if not all(map(is_, seen, published.seen)):  # most of many collections have not changed
                parts += self._changed_facts(state, published)
                parts += self._changed_documents(state, published)
                published.seen = seen
        parts += self._changed_registry(states)
        if parts:
            self._journal.append(b"".join(parts))
        self._cells.position = self._journal.position

    def _changed_registry(self, states: list[CollectionState]) -> list[bytes]:
        keys = self._runtime.keyring.known
        if keys is not self._keys:
            self._keys, self._key_changes = keys, self._key_changes + 1
        ids = {state.name: state.id for state in states}
        registry: dict[str, Any] = {
            "collections": ids,
            "aliases": dict(self._runtime.aliases),
            "keys": self._key_changes,
        }
        if registry == self._registry:
            return []
        self._registry = registry
        for gone in self._collections.keys() - ids.values():
            self._drop(self._collections.pop(gone))
        return [frame({"kind": "registry", **registry})]

    def _changed_facts(self, state: CollectionState, published: _Published) -> list[bytes]:
        """Return a frame if the settings, the model, the rules or a sign of trouble of a collection changed."""
        if state.serving is not published.serving or state.rules is not published.rules:
            published.serving, published.rules = state.serving, state.rules
            change = next(published.changes)
        else:
            change = 0 if published.facts is None else published.facts["change"]
        facts = {
            "id": state.id,
            "name": state.name,
            "settings": {one.name: getattr(state.settings, one.name) for one in fields(state.settings)},
            "fingerprint": state.fingerprint,
            "dim": state.dim,
            "version": state.serving.version,
            "is_damaged": bool(state.serving.degraded),
            "change": change,
            "behind": state.behind,
            "missing_changes": state.missing_changes,
            "awaits_vectors": state.awaits_vectors,
        }
        if facts == published.facts:
            return []
        published.facts = facts
        return [frame({"kind": "facts", **facts})]

    def _changed_documents(self, state: CollectionState, published: _Published) -> list[bytes]:
        """Return the frames that make the new generation of a collection out of the one before."""
        files, generation = _current(state)
        if published.feed is not None and published.files == files:
            if _is_published(published.feed, generation):
                return []
            return [_documents(state.id, published.feed.change(generation))]
        if len(generation.keys) <= INLINE_KEYS:
            self._adopt(published, self._new_feed(files, generation, state.id), files)
            assert published.feed is not None
            return [_documents(state.id, published.feed.base())]
        self._wake.set()
        if published.is_absent:
            return []
        published.is_absent = True
        return [frame({"kind": "absent", "id": state.id})]

    def _adopt(self, published: _Published, feed: GenerationFeed, files: _Files) -> None:
        self._drop(published)
        published.feed, published.files, published.is_absent = feed, files, False
        published.seen = NOTHING_SEEN  # the feed may begin with an earlier generation

    def _new_feed(self, files: _Files, generation: Generation, collection_id: int) -> GenerationFeed:
        store, vectors = files
        keys, values = (None, None) if vectors is None else vectors
        described = Files(keys, values, store.words_folder, store.language)
        return GenerationFeed(self._folder / f"{collection_id}-{next(self._numbers)}", described, generation)

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            self.publish()
            try:
                self._publish_large()
            except Exception as error:
                with self._lock:
                    self._fail(error)

    def _publish_large(self) -> None:
        """Copy large collections and candidate indexes, which takes long, and publish them."""
        for state in list(self._runtime.collections.values()):
            published = self._collections.get(state.id)
            if published is None or self._journal is None:
                continue
            files, generation = _current(state)
            feed = published.feed
            if published.is_absent:
                made = self._new_feed(files, generation, state.id)
                with self._lock:
                    if self._collections.get(state.id) is not published or _current(state)[0] != files:
                        shutil.rmtree(made.folder, ignore_errors=True)
                        continue
                    self._adopt(published, made, files)
                    self._journal.append(_documents(state.id, made.base()))
                    self.publish()
            elif feed is not None and published.files == files and not feed.has_sealed(generation.sealed):
                try:
                    feed.write_sealed(generation.sealed)
                except Exception:
                    if published.feed is feed:
                        raise
                    continue  # another thread began another feed, and deleted the folder of this one
                with self._lock:
                    files, generation = _current(state)
                    if published.feed is feed and published.files == files:
                        self._journal.append(_documents(state.id, feed.change(generation)))
                        self._cells.position = self._journal.position


def _parts_of(state: CollectionState) -> tuple[object, ...]:
    """Return the objects that tell whether anything of a collection changed: all are replaced, and none is changed."""
    signs = state.behind, state.missing_changes, state.awaits_vectors
    return state.name, state.store, state.store.current, state.settings, state.serving, state.rules, *signs


def _current(state: CollectionState) -> tuple[_Files, Generation]:
    """Return the generation of a collection, with its store and the files of its vectors."""
    store = state.store
    generation = store.current
    return (store, generation.files), generation


def _is_published(feed: GenerationFeed, generation: Generation) -> bool:
    """Return whether the workers have this generation, but for a candidate index that is yet to be written."""
    known = feed.published
    return (
        known is not None
        and all(getattr(known, name) is getattr(generation, name) for name in ("columns", "alive", "memory", "words"))
        and known.watermark == generation.watermark
    )


def _documents(collection_id: int, change: Change) -> bytes:
    head, arrays = change
    return frame({"kind": "documents", "id": collection_id, **head}, arrays)
