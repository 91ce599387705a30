"""A collection in memory: its current generation, the model that serves, and the one lock that its writers take.

Everything here is derived from the tables and can be made again from them (`load_state`).
"""

import shutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from sqlalchemy import Connection, RowMapping, Select, select, update

from index.attention import AttentionHead, HeadConfig
from index.encoder import Encoder
from index.errors import DamagedFile, EncoderMismatch
from index.generation import Generation, GenerationStore, IndexedDocument
from index.indexing import words_of
from index.models import load_head
from index.records import Document as DocumentRecord
from index.records import Floats, Key, KeyKind, MemoryKey
from service.database import Database
from service.tables import Alias, Collection, Document
from service.tables import Key as KeyRow

log = structlog.get_logger()


@dataclass(frozen=True)
class CollectionSettings:
    """The settings of a collection, as stored; `service.collections.schemas` describes and checks them."""

    filterable: list[str] = field(default_factory=list)
    language: str = "english"
    retention_days: int | None = None
    keys: list[str] = field(default_factory=lambda: ["title", "passage"])

    @property
    def kinds(self) -> set[KeyKind]:
        """The kinds of keys that documents get."""
        return {KeyKind[name.upper()] for name in self.keys}


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
        self.memory: dict[int, MemoryKey] = {}
        self.lock = threading.RLock()
        """Held by whoever changes the collection, from the first row written to the generation published."""
        self.training = threading.Lock()
        self.saved_watermark = -1
        self.behind = False

    @property
    def generation(self) -> Generation:
        """What searches run against now."""
        return self.store.current

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
        remembered: Iterable[MemoryKey] = (),
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

    def remember(self, watermark: int, added: Iterable[MemoryKey], removed: Iterable[int] = ()) -> None:
        """Publish a generation whose memory has these keys more and those fewer; the caller holds the lock."""
        memory = dict(self.memory)
        for key_id in removed:
            memory.pop(key_id, None)
        memory |= {key.id: key for key in added}
        self.memory = memory
        self.store.remember(watermark, memory.values())

    def reset_index(self) -> None:
        """Start again with an empty index, for another language; there are no documents."""
        self.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.store = GenerationStore(self.directory, self.dim, self.settings.language)
        self.saved_watermark = -1

    def save(self) -> None:
        """Write the index to the directory, if it changed since it was last saved."""
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
        state.remember(row["watermark"], memory_keys(connection, row["id"]))
    return state


def load_serving(connection: Connection, row: RowMapping, data: Path) -> Serving:
    """Return the champion; when its file is damaged, birth serves in its place and every answer says so."""
    wanted = connection.execute(
        select(Alias.version).where(Alias.collection_id == row["id"], Alias.name == "champion")
    ).scalar()
    try:
        return Serving(wanted or 0, load_version(row["id"], row["dim"], wanted or 0, data))
    except DamagedFile as damage:
        log.error("champion_damaged", collection=row["name"], version=wanted, reason=str(damage))
        return Serving(0, birth(row["dim"]), ("champion_damaged",))


def birth(dim: int) -> AttentionHead:
    """Return the untrained head: exactly the zero-shot hybrid search."""
    return AttentionHead(HeadConfig(dim)).eval().requires_grad_(False)


def load_version(collection_id: int, dim: int, version: int, data: Path) -> AttentionHead:
    """Return the head of a version, 0 being birth; raises DamagedFile."""
    return birth(dim) if version == 0 else load_head(model_directory(data, collection_id, version))


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


def memory_keys(
    connection: Connection, collection_id: int, ids: Iterable[int] | None = None, rows: Iterable[int] | None = None
) -> list[MemoryKey]:
    """Return the query keys of a collection, or those of these ids, or of the documents of these rows."""
    wanted = memory_selection().where(KeyRow.collection_id == collection_id, KeyRow.kind == KeyKind.QUERY)
    if ids is not None:
        wanted = wanted.where(KeyRow.id.in_(list(ids)))
    if rows is not None:
        wanted = wanted.where(KeyRow.document_row.in_(list(rows)))
    return [
        MemoryKey(row.id, row.document_row, as_vector(row.vector), row.weight, row.source or "")
        for row in connection.execute(wanted)
    ]


def memory_selection() -> Select[*tuple[Any, ...]]:
    """Return the columns that a memory key is made from."""
    return select(KeyRow.id, KeyRow.document_row, KeyRow.vector, KeyRow.weight, KeyRow.source)


def as_vector(blob: bytes) -> Floats:
    """Return the vector of a BLOB."""
    return np.frombuffer(blob, "<f4")


def as_blob(vector: Floats) -> bytes:
    """Return the BLOB of a vector."""
    return vector.astype("<f4").tobytes()
