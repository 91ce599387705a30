"""A collection in memory: its current generation, the model that serves, its memory, and the lock of its writers.

All of it is derived from the tables; `service.runtime.loader` builds it from them.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

import structlog
from sqlalchemy import RowMapping

from index.encoding.encoder import Encoder
from index.generation.generation import Generation, IndexedDocument
from index.generation.store import GenerationStore
from index.memory.aggregation import Confirmations, TenantClicks, TenantRows
from index.memory.bounded_memory import BoundedMemory, ReadLog
from index.memory.click_worth import ClickWorth
from index.memory.confirmation import Confirmation
from index.memory.grades import Bounds, DecayClock
from index.ranking.attention import AttentionHead
from service.runtime.collection_settings import CollectionSettings
from service.runtime.replacements import Replacements
from service.runtime.rules import Rulebook
from service.runtime.served_collection import OTHER_ENCODER, ServedCollection, Serving

BOUNDS = Bounds()
HEAL_SECONDS = 30.0
"""Least time between two attempts of writes to heal an index; a rebuild takes longer than a write should."""
WEIGHED = 2000
"""Past queries that are merged again at once after another model became the champion. Clicks wait in the meantime."""

Shelter = tempfile.TemporaryDirectory[str]
log = structlog.get_logger()
ClickCounter = Callable[[TenantRows], TenantClicks]
"""The documents whose clicks are wanted, to the counts of their clicks. It sees what is committed."""


class CollectionState(ServedCollection):
    """One collection of a running service."""

    def __init__(self, row: RowMapping, directory: Path, store: GenerationStore, serving: Serving) -> None:
        self.id: int = row["id"]
        self.name: str = row["name"]
        self.settings = CollectionSettings(**row["settings"])
        self.fingerprint: str = row["fingerprint"]
        self.dim: int = row["dim"]
        self.documents_watermark: int = row["documents_watermark"]
        self.directory = directory
        self.store = store
        self.serving = serving
        self.memory = empty_memory(self.settings, serving.worth)
        """The confirmations of the past queries that searches use."""
        self.bounded_memory = BoundedMemory(
            self.memory, self.dim, self.settings.memory_max_bytes, BOUNDS, lambda query_keys: self.read_log(query_keys)
        )
        """Keeps `memory` within the limit of the settings."""
        self.read_log: ReadLog = empty_log
        """Reads stored confirmations; `service.runtime.loader` sets it."""
        self.without_vectors: set[int] = set()
        """The rows of documents that are searchable by words, and whose vectors are still being made."""
        self.replacements = Replacements()
        """Accepted documents that newer accepted ones replaced, before they were searchable."""
        self.is_interrupted = False
        """Whether a lost database or a full disk kept accepted documents from being made searchable."""
        self.rules = Rulebook()
        self.count_clicks: ClickCounter = no_clicks
        """Counts the clicks in logged impressions; `service.runtime.loader` sets it."""
        self.lacks_memory = True
        """Whether feedback may be stored without its key in memory: since a deletion, or one of before the start."""
        self.remembered_since = ""
        """RFC 3339: events of an earlier time may have lost their keys to `memory_retention_days`."""
        self.is_removed = False
        """Whether the collection was deleted, replaced or loaded anew: this object writes its index no more."""
        self.lock = threading.RLock()
        """Every writer holds it from its first changed row until its generation is published."""
        self.has_deleted_feedback = True
        """Whether an unfinished training run may still have feedback that was deleted since it began."""
        self.training_lock = threading.Lock()
        """A training run holds it from its start to its end."""
        self.saved_watermark = -1
        self.mark: Callable[[int], None] = lambda _: None
        """Writes the watermark of a committed change beside the database; `service.runtime.runtime` sets it."""
        self.shelter: Shelter | None = None
        """The temporary folder of an index that the full disk of the data directory had no place for."""
        self.rebuild: Callable[[Generation], None] = lambda _: None
        """Rebuilds a damaged index from the database; `service.runtime.loader` sets it."""
        self.reindex: Callable[[bool], None] = lambda _: None
        """Brings the index up to the database, or makes it again as a whole; `service.runtime.loader` sets it."""
        self._healed_at = 0.0
        """The moment of the last attempt to heal the index, by `time.monotonic`."""

    @property
    def generation(self) -> Generation:
        return self.store.current

    @property
    def awaits_vectors(self) -> bool:
        return bool(self.without_vectors)

    def changes_after(self, generation: Generation) -> AbstractContextManager[object]:
        return self.lock  # writers hold it from their commit until their generation is published

    def complete(self) -> AbstractContextManager[object]:
        return self.lock  # as above

    def mend(self, damaged: Generation) -> None:
        self.rebuild(damaged)

    def configure(self, settings: CollectionSettings) -> None:
        """Use new settings. Where version 0 serves, it gets the new initial head. The caller holds the lock."""
        self.settings = settings
        self.store.configure(self.reading)
        if self.serving.version == 0 and self.serving.head.config != self.initial:
            self.serving = replace(self.serving, head=AttentionHead(self.initial))

    def use_encoder(self, encoder: Encoder) -> None:
        """Leave the words that the encoder knows uncorrected. Another encoder than the collection's is logged.

        A collection that never had documents is not: its searches would find nothing.
        """
        self.known_words = encoder.words
        self.store.configure(self.reading)
        if encoder.fingerprint != self.fingerprint and self.documents_watermark:
            reason = "its vectors are of another encoder than SOFTSEEK_ENCODER: all its searches are refused"
            log.warning(OTHER_ENCODER, collection=self.name, reason=reason)

    def publish(
        self,
        watermark: int,
        added: Sequence[IndexedDocument],
        removed: Sequence[int],
        remembered: Iterable[Confirmation] = (),
        forgotten: Iterable[int] = (),
    ) -> None:
        """Publish a generation with committed changes of documents and memory. The caller holds the lock.

        The change is committed, so an index that cannot be written is no error of the request: the collection is
        `behind` until `heal` has succeeded, removed documents are hidden at once, and the index is not saved.
        """
        self.mark(watermark)
        if self.behind or not self._applied(watermark, added, removed):
            self.behind = True
            self.store.hide(removed)
            self.heal(HEAL_SECONDS)
        self.lacks_memory = self.lacks_memory or bool(forgotten)
        self.remember(watermark, remembered, forgotten)
        self.without_vectors.difference_update(removed)
        self.without_vectors.update(document.row for document in added if document.value is None)
        self.documents_watermark = watermark

    def _applied(self, watermark: int, added: Sequence[IndexedDocument], removed: Sequence[int]) -> bool:
        """Publish the documents; return False where the index cannot be written."""
        try:
            self.store.apply(watermark, added, removed)
        except Exception as error:
            log.warning("index_behind", collection=self.name, reason=str(error))
            return False
        except BaseException:
            self.behind = True
            raise
        return True

    def heal(self, pause_seconds: float = 0.0, rebuild: bool = False) -> bool:
        """Bring an index that lacks committed changes, or lost its files, up to the database; False if that fails.

        rebuild: whether the index is made again as a whole. pause_seconds: the least time since the last attempt that
        failed; before that, nothing is tried.
        """
        with self.lock:
            if self.is_removed:
                return True
            if not self.store.is_on_disk:
                self.behind = True
            if not self.behind:
                return True
            if pause_seconds and time.monotonic() < self._healed_at + pause_seconds:
                return False
            try:
                self.reindex(rebuild)
            except Exception as error:
                self._healed_at = time.monotonic()
                log.warning("index_not_healed", collection=self.name, reason=str(error))
                return False
            self.behind, self._healed_at = False, 0.0
            log.warning("index_healed", collection=self.name)
            return True

    def remember(self, watermark: int, added: Iterable[Confirmation], removed: Iterable[int] = ()) -> None:
        """Publish a generation with confirmations added and removed. The caller holds the lock.

        The day of the memory stays the same, so that a click does not wait until all confirmations are aged:
        `service.operations.housekeeping` ages them.
        """
        self.mark(watermark)
        self._revise_memory(watermark, self.bounded_memory.change(added, removed))

    def limit_memory(self, watermark: int) -> None:
        """Publish a generation whose memory is within the limit of the settings. The caller holds the lock."""
        self._revise_memory(watermark, self.bounded_memory.limit(self.settings.memory_max_bytes))

    def forget(self, watermark: int, removed: Iterable[int], added: Iterable[Confirmation], searched: set[str]) -> None:
        """Publish a generation after feedback was deleted. The caller holds the lock.

        removed, added: ids and confirmations that left and entered memory. searched: query keys of deleted impressions,
        whose clicks are counted again.
        """
        self.mark(watermark)
        changed = self.bounded_memory.change(added, removed)
        self.memory.discard_clicks(searched)
        self._revise_memory(watermark, changed | searched)

    def age(self, watermark: int, clock: DecayClock) -> None:
        """Publish a generation with the same confirmations at another day or half-life. The caller holds the lock."""
        self.memory.age(clock)
        moved = self.bounded_memory.use_half_life(clock.half_life_days)
        keys = self.memory.keys(self._use_clicks(moved)) | self.memory.keys()
        self.store.revise(watermark, keys)  # the vectors stay, and so does their index

    def serve(self, serving: Serving) -> None:
        """Let a model answer searches, and clicks count in memory by its worth. The caller holds the lock.

        A large memory follows in the background: `weigh_memory` is called until nothing is left.
        """
        self.serving = serving
        self.memory.use_worth(serving.worth)
        self.weigh_memory()

    def weigh_memory(self) -> bool:
        """Publish a generation in which WEIGHED more past queries have the champion's worth; False if all have it."""
        with self.lock:
            touched = self.memory.weigh_outdated(WEIGHED)
            if touched:
                self.store.revise(self.generation.watermark, self.memory.keys(touched))
        return bool(touched)

    def load_memory(self, unread: Iterable[Confirmation], watermark: int) -> None:
        """Publish a generation with the stored confirmations, while the collection is being loaded.

        unread: all confirmations without their vectors, grouped by query.
        """
        self._use_clicks(self.bounded_memory.load(unread))
        self.store.remember(watermark, chain.from_iterable(self.memory.keys().values()))

    def _revise_memory(self, watermark: int, touched: set[str]) -> None:
        """Publish a generation in which these past queries are as in memory."""
        self.store.revise(watermark, self.memory.keys(self._use_clicks(touched)))

    def _use_clicks(self, query_keys: set[str]) -> set[str]:
        """Count the clicks of these queries where enough clients like a document for their clicks to qualify it.

        Returns the affected query keys.
        """
        wanted = self.memory.clicked_by_several(query_keys)
        return self.memory.use_clicks(query_keys, self.count_clicks(wanted) if wanted else {})

    def reset_index(self) -> None:
        """Replace the index with an empty index in the language of the settings. There are no documents.

        The watermark stays: clients require the states that they know.
        """
        watermark = max(self.generation.watermark, self.documents_watermark)
        self.behind = True
        try:
            store = self.discard_index()
            store.revise(watermark, {})
            self.store = store
        except Exception as error:
            log.warning("index_behind", collection=self.name, reason=str(error))
        else:
            self.behind = False

    def discard_index(self) -> GenerationStore:
        """Close the index, delete its files and return an empty index; the caller replaces `store` with it."""
        self.forget_rows()
        with suppress(Exception):  # a store whose files are gone cannot end its merges
            self.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.saved_watermark = -1
        return GenerationStore(self.directory, self.dim, self.settings.language, self.reading)

    def save(self) -> None:
        """Write the index to the directory if it changed since the last save."""
        self.store.seal_tail()  # before the lock is taken, so that no writer waits for it
        with self.lock:
            if self.is_removed or self.behind or self.saved_watermark == self.documents_watermark:
                return
            self.store.save(self.settings.language, self.documents_watermark)
            self.saved_watermark = self.documents_watermark

    def end(self) -> None:
        """Close the index, whose folder may get another one. Work that waits for the lock writes nothing afterwards."""
        with self.lock:
            self.is_removed = True
            self.store.close()

    def remove_index(self) -> None:
        """Close the index and delete its files (`end`)."""
        with self.lock:
            self.end()
            shutil.rmtree(self.directory, ignore_errors=True)


def empty_memory(settings: CollectionSettings, worth: ClickWorth) -> Confirmations:
    """Return a memory without confirmations, with the decay of these settings as of today."""
    return Confirmations(settings.decay_clock(), BOUNDS, worth)


def no_clicks(wanted: TenantRows) -> TenantClicks:
    """Return no count of clicks."""
    return {}


def empty_log(query_keys: Sequence[str] | None) -> list[Confirmation]:
    """Return no confirmations."""
    return []
