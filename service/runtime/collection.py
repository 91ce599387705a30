"""A collection in memory: its current generation, the model that serves, and the one lock that its writers take.

Everything here is derived from the tables and can be made again from them (`load_state`).
"""

import shutil
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, RowMapping, Select, select, update

from index.encoding.documents import words_of
from index.encoding.encoder import Encoder
from index.errors import DamagedFile, EncoderMismatch
from index.generation.generation import Generation, IndexedDocument
from index.generation.store import GenerationStore
from index.memory.aggregation import DAY, Bounds, Confirmation, Confirmations, DecayClock, grade_of
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import load_head
from index.records import Document as DocumentRecord
from index.records import Floats, Key, KeyKind, MemoryKey
from service.storage.database import Database
from service.storage.tables import Alias, Collection, Document, Event, Judgment
from service.storage.tables import Key as KeyRow
from service.storage.vector_codec import as_vector

BOUNDS = Bounds()
log = structlog.get_logger()


@dataclass(frozen=True)
class CollectionSettings:
    """The settings of a collection, as stored; `service.collections.schemas` describes and checks them."""

    filterable: list[str] = field(default_factory=list)
    language: str = "english"
    retention_days: int | None = None
    keys: list[str] = field(default_factory=lambda: ["title", "passage"])
    attention: dict[str, Any] = field(default_factory=lambda: {"form": "bilinear", "heads": 1, "normaliser": "softmax"})
    memory_half_life_days: int | None = 365

    @property
    def kinds(self) -> set[KeyKind]:
        """The kinds of keys that documents get."""
        return {KeyKind[name.upper()] for name in self.keys}

    def initial(self, dim: int) -> HeadConfig:
        """Return what an untrained model of keys of this width is."""
        return HeadConfig(dim, **self.attention)

    def changed(self, changes: dict[str, Any]) -> "CollectionSettings":
        """Return the settings with these changes; what they leave out, also of `attention`, keeps its value."""
        return replace(self, **{**changes, "attention": self.attention | changes.get("attention", {})})

    def clock(self, day: int | None = None) -> DecayClock:
        """Return what memory is to be aged by on this day, or today."""
        if self.memory_half_life_days is None:
            return DecayClock(0)
        return DecayClock(today() if day is None else day, self.memory_half_life_days)


@dataclass(frozen=True)
class Serving:
    """The model that answers searches: swapped whole, so that a search sees one or the other."""

    version: int
    head: AttentionHead
    degraded: tuple[str, ...] = ()


class CollectionState:
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
        self.memory = Confirmations(self.settings.clock(), BOUNDS)
        self.lock = threading.RLock()
        """Held by whoever changes the collection, from the first row written to the generation published."""
        self.training = threading.Lock()
        self.saved_watermark = -1
        self.behind = False

    @property
    def initial(self) -> HeadConfig:
        """What an untrained model of this collection is: version 0, and where training starts."""
        return self.settings.initial(self.dim)

    @property
    def generation(self) -> Generation:
        """What searches run against now."""
        return self.store.current

    def configure(self, settings: CollectionSettings) -> None:
        """Take over stored settings; where birth serves, searches see what it is now. The caller holds the lock."""
        self.settings = settings
        if self.serving.version == 0 and self.serving.head.config != self.initial:
            self.serving = replace(self.serving, head=initial_head(self.initial))

    def require_encoder(self, encoder: Encoder) -> None:
        """Raise EncoderMismatch unless the collection's keys were made by this encoder."""
        if encoder.fingerprint != self.fingerprint:
            raise EncoderMismatch(
                f"the collection {self.name!r} was made with another encoder (fingerprint {self.fingerprint[:12]}, "
                f"now {encoder.fingerprint[:12]}): set SOFTSEEK_ENCODER to the one it was made with"
            )

    def bump(self, connection: Connection, documents: bool) -> int:
        """Count one more visible change inside the caller's transaction; return the new watermark."""
        watermark = Collection.watermark + 1
        values: dict[str, Any] = {"watermark": watermark}
        if documents:
            values["documents_watermark"] = watermark
        row = connection.execute(
            update(Collection).where(Collection.id == self.id).values(values).returning(Collection.watermark)
        ).scalar_one()
        return int(row)

    def publish(
        self,
        watermark: int,
        added: Sequence[IndexedDocument],
        removed: Sequence[int],
        remembered: Iterable[Confirmation] = (),
        forgotten: Iterable[int] = (),
    ) -> None:
        """Publish a generation with committed changes of documents and memory; the caller holds the lock.

        Should it fail, the index is behind the database: it is never saved again, so the next start rebuilds it.
        """
        try:
            self.store.apply(watermark, added, removed)
            self.remember(watermark, remembered, forgotten)
        except BaseException:
            self.behind = True
            raise
        self.documents_watermark = watermark

    def remember(self, watermark: int, added: Iterable[Confirmation], removed: Iterable[int] = ()) -> None:
        """Publish a generation that remembers these confirmations more and those fewer; the caller holds the lock.

        The day stays what it was, so that nobody's click waits for all others to be aged: see `service.operations.housekeeping`.
        """
        touched = self.memory.change(added, removed)
        self.store.revise(watermark, self.memory.keys(touched))

    def age(self, watermark: int, clock: DecayClock) -> None:
        """Publish a generation with the same confirmations at another day or half-life; the caller holds the lock."""
        self.memory.age(clock)
        self._publish_memory(watermark)

    def recall(self, confirmed: Iterable[Confirmation], watermark: int) -> None:
        """Publish a generation that remembers what is stored; for a collection that is being loaded."""
        self.memory.change(confirmed)
        self._publish_memory(watermark)

    def _publish_memory(self, watermark: int) -> None:
        self.store.remember(watermark, chain.from_iterable(self.memory.keys().values()))

    def reset_index(self) -> None:
        """Start again with an empty index, for another language; there are no documents."""
        self.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.store = GenerationStore(self.directory, self.dim, self.settings.language)
        self.saved_watermark = -1

    def mend(self, database: Database, damaged: Generation) -> None:
        """Rebuild the index from the database, unless somebody did since this generation was found damaged."""
        with self.lock:
            before = self.generation
            if before.key_guard is not damaged.key_guard:
                return
            log.warning("index_rebuilt", collection=self.name, reason="a key differs from its checksum")
            self.store.close()
            shutil.rmtree(self.directory, ignore_errors=True)
            self.saved_watermark = -1
            store = GenerationStore(self.directory, self.dim, self.settings.language)
            with database.read() as connection:
                store.apply(before.watermark, indexed_documents(connection, self.id))
            store.remember(before.watermark, before.memory.keys)
            self.store = store

    def save(self) -> None:
        """Write the index to the directory, if it changed since it was last saved."""
        self.store.seal_tail()  # before the lock is taken: nobody who writes waits for it
        with self.lock:
            if self.behind or self.saved_watermark == self.documents_watermark:
                return
            self.store.save(self.settings.language, self.documents_watermark)
            self.saved_watermark = self.documents_watermark


def load_state(database: Database, row: RowMapping, data: Path) -> CollectionState:
    """Return the state of a stored collection; an index missing, older or damaged is rebuilt."""
    directory = data / "indexes" / str(row["id"])
    language, watermark = row["settings"]["language"], row["documents_watermark"]
    with database.read() as connection:
        try:
            store = GenerationStore.open(directory, row["dim"], language, watermark)
            saved = watermark
        except DamagedFile as damage:
            if watermark:
                log.warning("index_rebuilt", collection=row["name"], reason=str(damage))
            shutil.rmtree(directory, ignore_errors=True)
            store, saved = GenerationStore(directory, row["dim"], language), -1
            store.apply(watermark, indexed_documents(connection, row["id"]))
        state = CollectionState(row, directory, store, load_serving(connection, row, data))
        state.saved_watermark = saved
        state.recall(confirmations(connection, row["id"]), row["watermark"])
    return state


def load_serving(connection: Connection, row: RowMapping, data: Path) -> Serving:
    """Return the champion; when its file is damaged, birth serves in its place and every answer says so."""
    initial = CollectionSettings(**row["settings"]).initial(row["dim"])
    wanted = connection.execute(
        select(Alias.version).where(Alias.collection_id == row["id"], Alias.name == "champion")
    ).scalar()
    try:
        return Serving(wanted or 0, load_version(row["id"], initial, wanted or 0, data))
    except DamagedFile as damage:
        log.error("champion_damaged", collection=row["name"], version=wanted, reason=str(damage))
        return Serving(0, initial_head(initial), ("champion_damaged",))


def initial_head(initial: HeadConfig) -> AttentionHead:
    """Return the untrained head: exactly the zero-shot hybrid search."""
    return AttentionHead(initial)


def load_version(collection_id: int, initial: HeadConfig, version: int, data: Path) -> AttentionHead:
    """Return the head of a version, 0 being birth as the settings have it now; raises DamagedFile.

    A trained version is what it was trained as, whatever the settings have become.
    """
    return initial_head(initial) if version == 0 else load_head(model_directory(data, collection_id, version))


def model_directory(data: Path, collection_id: int, version: int) -> Path:
    """Return the folder of a version's files."""
    return data / "models" / str(collection_id) / f"{version:06d}"


def indexed_documents(connection: Connection, collection_id: int) -> list[IndexedDocument]:
    """Return every document of a collection with its own keys, by row."""
    keys: dict[int, list[Key]] = {}
    wanted = select(KeyRow.document_row, KeyRow.kind, KeyRow.vector, KeyRow.span_start, KeyRow.span_end)
    own = wanted.where(KeyRow.collection_id == collection_id, KeyRow.kind != KeyKind.QUERY).order_by(KeyRow.id)
    for row, kind, vector, start, end in connection.execute(own):
        keys.setdefault(row, []).append(Key(KeyKind(kind), as_vector(vector), start, end))
    texts = select(Document.row, Document.id, Document.title, Document.text)
    found = connection.execute(texts.where(Document.collection_id == collection_id).order_by(Document.row))
    return [
        IndexedDocument(row, words_of(DocumentRecord(id, text, title)), keys.get(row, []))
        for row, id, title, text in found
    ]


def confirmations(
    connection: Connection, collection_id: int, ids: Iterable[int] | None = None, rows: Iterable[int] | None = None
) -> list[Confirmation]:
    """Return what is confirmed in a collection, or by the keys of these ids, or of the documents of these rows."""
    wanted = _confirmed().where(KeyRow.kind == KeyKind.QUERY)
    if ids is not None:
        wanted = wanted.where(KeyRow.id.in_(list(ids)))
    elif rows is not None:  # the collection stays unsaid: its index would have all its memory looked through
        wanted = wanted.where(KeyRow.document_row.in_(list(rows)))
    else:
        wanted = wanted.where(KeyRow.collection_id == collection_id)
    vectors: dict[bytes, Floats] = {}  # the same query is confirmed again and again: one vector is enough
    return [_confirmation(row, vectors) for row in connection.execute(wanted)]


def memory_keys(connection: Connection, row: RowMapping) -> list[MemoryKey]:
    """Return the merged memory of a stored collection, as it is today."""
    memory = Confirmations(CollectionSettings(**row["settings"]).clock(), BOUNDS)
    memory.change(confirmations(connection, row["id"]))
    return list(chain.from_iterable(memory.keys().values()))


def today() -> int:
    """Return the day, UTC, counted from 1970."""
    return int(1000 * time.time()) // DAY


def _confirmed() -> Select[*tuple[Any, ...]]:
    event, judgment = Event.__table__.c, Judgment.__table__.c
    key = (KeyRow.id, KeyRow.document_row, KeyRow.vector, KeyRow.weight, KeyRow.query_key)
    return (
        select(
            *key,
            event.client_id,
            event.timestamp,
            event.created_at,
            judgment.rater,
            judgment.created_at.label("judged"),
        )
        .join(Event, Event.id == KeyRow.event_id, isouter=True)
        .join(Judgment, Judgment.id == KeyRow.judgment_id, isouter=True)
    )


def _confirmation(row: Any, vectors: dict[bytes, Floats]) -> Confirmation:
    """Return the confirmation of a stored key. Raters and clients are people of their own, also by the same name."""
    judged = row.judged is not None
    client = None if row.client_id is None else f"client {row.client_id}"
    moment = row.judged if judged else min(row.timestamp, row.created_at)  # a clock that is ahead is put right
    return Confirmation(
        row.id,
        row.document_row,
        row.query_key or "",
        vectors.setdefault(row.vector, as_vector(row.vector)),
        grade_of(row.weight),
        f"rater {row.rater}" if judged else client,
        round(1000 * datetime.fromisoformat(moment).timestamp()),
        judged,
    )
